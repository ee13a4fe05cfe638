"""Folders on local disks or S3, with atomic writes, locks, and manifests that commit the files of a stage.

A stage writes its data files first and then `manifest.json`, which names each file with its size and SHA-256. A folder
without a manifest, or with files that differ from it, counts as missing. On S3 the manifest is written on the condition
that no other job wrote one meanwhile.
"""

import contextlib
import errno
import json
import math
import os
import shutil
import time
import uuid
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from filelock import FileLock, Timeout, lock_descriptor

from vse.errors import DamagedError, InputError, StorageError, first_line, storage_failure
from vse.storage.files import (
    UNFINISHED,
    as_json,
    entry_of,
    local_path,
    sha256_of_file,
    with_checksum,
    without_checksum,
    write_atomically,
)
from vse.storage.lease import DEAD_AFTER, LEASE_SECONDS, LeaseHandle, lease
from vse.storage.object_store import Info, ObjectStore

MANIFEST = "manifest.json"
_REFUSALS = {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG}
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP}
_remote = lru_cache(maxsize=1024)(ObjectStore.open)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder by URI: an absolute local path, or `s3://bucket/prefix` (see `ObjectStore.open` for its options).

    It holds no open file or connection, so it can be pickled. It need not exist: the first write creates it.
    """

    uri: str

    @classmethod
    def open(cls, uri: str | os.PathLike[str]) -> "Folder":
        """The folder at a path (relative ones from the working directory), file:// or s3:// URI."""
        text = os.fspath(uri)
        if text == "":
            raise InputError("a folder needs a path or a URI, got an empty one")
        parts = urlsplit(text)
        if parts.scheme == "file":
            text = unquote(parts.path)
        elif "://" in text:
            address, mark, options = text.partition("?")
            folder = cls(f"{address.rstrip('/')}{mark}{options}")
            _remote(folder.uri)
            return folder
        return cls(str(local_path(text).absolute()))

    @property
    def is_local(self) -> bool:
        """Whether the folder lies on a file system of this machine."""
        return "://" not in self.uri

    def __str__(self) -> str:
        return self.uri

    @property
    def name(self) -> str:
        """The last component of the path, without the options of an S3 address."""
        return self.uri.partition("?")[0].rstrip("/").rsplit("/", 1)[-1]

    @classmethod
    def of_file(cls, address: str) -> tuple["Folder", str]:
        """The folder and the name of the file at a path or address, the inverse of `address`."""
        text, mark, query = address.partition("?") if "://" in address else (address, "", "")
        head, slash, name = text.rpartition("/")
        return cls.open(f"{head or slash or '.'}{mark}{query}"), name

    def address(self, name: str) -> str:
        """Path or S3 address (with its options) of a file in this folder."""
        base, mark, query = self.uri.partition("?") if not self.is_local else (self.uri, "", "")
        return f"{base.rstrip('/')}/{name}{mark}{query}"

    def child(self, *names: str) -> "Folder":
        """The folder below this one. Raises InputError for a name that is empty or would leave the folder."""
        for name in names:
            if name in ("", ".", "..") or "/" in name or "\\" in name:
                raise InputError(f"{name!r}: cannot be the name of a folder in {self.uri}")
        base, _, query = self.uri.partition("?")  # S3 addresses may carry options such as endpoint_override
        return Folder("/".join((base, *names)) + (f"?{query}" if query else ""))

    def local(self, name: str = "") -> Path:
        """The path of the folder, or of a file in it. Raises InputError if the folder is on S3."""
        if not self.is_local:
            raise InputError(f"{self.uri}: a local folder is needed here")
        return Path(self.uri, name) if name else Path(self.uri)

    def exists(self, name: str = "") -> bool:
        """Whether the file or folder `name` exists, or this folder itself if no name is given."""
        if self.is_local:
            return self.local(name).exists()
        return _remote(self.uri).holds(name)

    def names(self) -> tuple[str, ...]:
        """Sorted names of the files and folders in it, without unfinished writes; empty if it does not exist."""
        if self.is_local:
            names = os.listdir(self.uri) if os.path.isdir(self.uri) else []
        else:
            names = _remote(self.uri).children()
        return tuple(sorted(name for name in names if not name.startswith(UNFINISHED)))

    def info(self, name: str) -> Info | None:
        """Size of a file and a tag that changes with every write; None if there is no such file."""
        if not self.is_local:
            return _remote(self.uri).info(name)
        if not self.local(name).is_file():
            return None
        status = self.local(name).stat()
        return Info(status.st_size, f"{status.st_size}-{status.st_mtime_ns}", status.st_mtime)

    def size(self, name: str) -> int | None:
        """Bytes of a file; None if there is no such file."""
        info = self.info(name)
        return None if info is None else info.size

    def sizes(self, names: Sequence[str]) -> dict[str, int | None]:
        """Bytes of each file, None for missing ones. On S3 this is one listing instead of one request a file."""
        several = len(names) > 2 and not self.is_local
        return _remote(self.uri).sizes(names) if several else {name: self.size(name) for name in names}

    def last_written(self) -> float:
        """Time of the last write below it, in seconds since 1970; 0 if there is nothing. Renewed leases count."""
        if self.is_local:
            latest = 0.0
            for path in (self.local(), *self.local().rglob("*")):
                with contextlib.suppress(OSError):  # renamed meanwhile
                    latest = max(latest, path.lstat().st_mtime)
            return latest
        return max((info.written for _, info in _remote(self.uri).walk()), default=0.0)

    def folders_with(self, name: str) -> Iterator[tuple["Folder", Info]]:
        """Every folder at or below this one that has a file `name`, with the file's `info`; on S3 by one listing."""
        if self.is_local:
            for file in sorted(self.local().rglob(name)):
                folder = Folder(str(file.parent))
                if (info := folder.info(name)) is not None:
                    yield folder, info
            return
        for key, info in _remote(self.uri).walk():
            *steps, last = key.split("/")
            if last == name:
                yield self.child(*steps), info

    def read_bytes(self, name: str) -> bytes:
        """The whole file. Raises FileNotFoundError, or StorageError if it may not be read."""
        if self.is_local:
            try:
                return self.local(name).read_bytes()
            except PermissionError as error:
                raise StorageError(f"{self.local(name)}: cannot be read ({error.strerror})") from None
        return _remote(self.uri).read(name)

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a file atomically: readers see the old content or the new one.

        Raises:
            InputError: if this machine or the bucket refuses the write.
            StorageError: if the disk is full or read-only, credentials have expired, or the network stays down.
        """
        if not self.is_local:
            _remote(self.uri).write(name, data)
            return
        try:
            write_atomically(self.local(name), data)
        except OSError as error:
            raise self.refusal(name, error) from None

    @property
    def store(self) -> ObjectStore:
        """On S3: the objects of this folder."""
        return _remote(self.uri)

    def write_over(self, name: str, data: bytes, tag: str) -> str:
        """On S3: replace a file; returns its new tag. Raises StorageError if another job has changed the file since.

        Args:
            name: of the file.
            data: its new content.
            tag: of the content that is replaced; "" if the file must not exist yet.
        """
        store = _remote(self.uri)
        try:
            return store.replace(name, data, tag) if tag else store.create(name, data)
        except FileExistsError:
            raise StorageError(f"{self.address(name)}: another job works on this; this one ends here") from None

    def refusal(self, name: str, error: OSError) -> OSError | InputError:
        """What to raise if `name` could not be written: one line if the reason is the user's or the disk's."""
        if error.errno in _NO_LOCKS:
            return InputError(
                f"{self.uri}: its file system has no locks ({error.strerror}); mount it with them (NFS: lockd) "
                "or use another folder"
            )
        if error.errno in _REFUSALS:
            return InputError(f"{self.uri}: cannot write {name} ({error.strerror})")
        if storage_failure(error):
            return StorageError(f"{self.uri}: cannot write {name} ({error.strerror or error})")
        return error

    def read_text(self, name: str) -> str:
        """The whole file as UTF-8."""
        return self.read_bytes(name).decode()

    def write_text(self, name: str, text: str) -> None:
        """Like `write_bytes`, in UTF-8."""
        self.write_bytes(name, text.encode())

    def read_json(self, name: str) -> Any:
        """The parsed file, without the checksum of `write_checked`.

        Raises FileNotFoundError, or DamagedError if it is not JSON or does not match its checksum.
        """
        try:
            return without_checksum(json.loads(self.read_bytes(name)))
        except ValueError as error:
            raise DamagedError(f"{self.address(name)}: damaged or not JSON ({first_line(error)})") from None

    def write_json(self, name: str, value: Any) -> None:
        """Like `write_bytes`. Raises ValueError for NaN and infinities, which are not JSON."""
        self.write_bytes(name, as_json(value))

    def write_checked(self, name: str, value: dict[str, Any]) -> None:
        """Like `write_json`, with a checksum that `read_json` compares."""
        self.write_json(name, with_checksum(value))

    def delete(self, name: str) -> None:
        """Remove a file or a folder with its content, if it exists."""
        if self.is_local:
            path = self.local(name)
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            return
        _remote(self.uri).delete(name)

    @contextlib.contextmanager
    def locked(self, wait: float = math.inf) -> Generator[LeaseHandle]:
        """Run the body in one process at a time: of this machine, or of any machine for a folder on S3.

        Two jobs that lack the same stage therefore make it once. The lock of a process that died is free.

        Args:
            wait: seconds to wait for the process that holds the lock.

        Yields:
            A handle whose `check` raises if another job has taken the lock over, which happens on S3 only.

        Raises:
            TimeoutError: if another process holds the lock for `wait` seconds.
            InputError: if this user may not write here, or the file system has no locks.
        """
        if not self.is_local:
            with lease(_remote(self.uri), f"{UNFINISHED}lock", wait=wait) as handle:
                yield handle
            return
        lock = FileLock(self.local(f"{UNFINISHED}lock"), fallback_to_soft=False)
        try:
            self.local().mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=wait)
        except Timeout:
            raise TimeoutError(f"{self.uri}: another process holds its lock") from None
        except OSError as error:
            raise self.refusal("its lock", error) from None
        try:
            yield LeaseHandle()
        finally:
            lock.release()

    @contextlib.contextmanager
    def taken(self, wait: float = 0.0) -> Generator[LeaseHandle | None]:
        """Like `locked`, but the body runs in any case, with None if another process holds the lock.

        On S3 the lock of a process that died is free after the term of its lease, whatever `wait` says.
        """
        with contextlib.ExitStack() as stack:
            handle = None
            with contextlib.suppress(TimeoutError):
                handle = stack.enter_context(self.locked(wait if self.is_local else max(wait, DEAD_AFTER)))
            yield handle

    def is_locked(self) -> bool:
        """Whether a living process works here under `locked`. Writes nothing.

        On S3 a lease counts for two of its terms, by the clocks of S3 and of this machine.
        """
        if not self.is_local:
            info = _remote(self.uri).info(f"{UNFINISHED}lock")
            return info is not None and time.time() - info.written < 2 * LEASE_SECONDS
        try:
            with self.local(f"{UNFINISHED}lock").open("r+b") as stream:
                return not lock_descriptor(stream.fileno(), blocking=False)
        except OSError:
            return False

    def check_writable(self) -> "Folder":
        """Write and remove a probe file; returns the folder. Raises InputError if that fails."""
        probe = f"probe-{uuid.uuid4().hex}"
        try:
            if not self.is_local:
                self.store.check_conditional_writes(probe)
            self.write_bytes(probe, b"")
            self.delete(probe)
        except OSError as error:
            reason = error.strerror or first_line(error)
            raise InputError(f"{self.uri}: cannot be written to ({reason})") from None
        return self

    def entry(self, name: str) -> dict[str, Any]:
        """The manifest's entry for a file: its bytes and its SHA-256."""
        if self.is_local:
            return {"bytes": self.local(name).stat().st_size, "sha256": sha256_of_file(self.local(name))}
        return entry_of(self.read_bytes(name))

    def commit_manifest(self, files: Iterable[str], content: dict[str, Any] | None = None) -> dict[str, Any]:
        """Write `manifest.json` for data files that are already there; returns it.

        Args:
            files: names of the data files.
            content: other keys of the manifest; entries that are known already may be in `content["files"]`.
        """
        content = dict(content or {})
        known_entries = content.pop("files", {})
        entries = {name: known_entries.get(name) or self.entry(name) for name in sorted(set(files))}
        manifest = {**content, "files": entries}
        if self.is_local:
            self.write_checked(MANIFEST, manifest)
            return manifest
        store, data = _remote(self.uri), as_json(with_checksum(manifest))
        there = store.info(MANIFEST)
        try:
            store.create(MANIFEST, data) if there is None else store.replace(MANIFEST, data, there.tag)
        except FileExistsError:  # another job made the same folder: its manifest stands
            if (other := self.read_manifest(checksums=False)) is None:
                raise StorageError(f"{self.uri}: another job is writing here; start again when it is done") from None
            return other
        return manifest

    def read_manifest(self, *, checksums: bool = True) -> dict[str, Any] | None:
        """The manifest if every file exists with the size and checksum it names, else None.

        `checksums=False` compares sizes only, for large folders whose readers verify each file anyway.
        """
        manifest = self.manifest_alone()
        if manifest is None:
            return None
        files = manifest["files"]
        with contextlib.suppress(FileNotFoundError):
            if self.is_local or not checksums:  # on S3 the checksum needs the whole file, which shows its size
                sizes = self.sizes(list(files))
                if any(sizes[name] != entry["bytes"] for name, entry in files.items()):
                    return None
            if not checksums or all(self.entry(name)["sha256"] == entry["sha256"] for name, entry in files.items()):
                return manifest
        return None

    def manifest_alone(self) -> dict[str, Any] | None:
        """The manifest without a look at its files; None if it is missing or damaged."""
        try:
            manifest = self.read_json(MANIFEST)
            for entry in manifest["files"].values():
                _ = int(entry["bytes"]), str(entry["sha256"])
        except (FileNotFoundError, NotADirectoryError, DamagedError, KeyError, TypeError, ValueError, AttributeError):
            return None
        return manifest

    def is_committed(self) -> bool:
        """Whether every file of the manifest exists with its size."""
        return self.read_manifest(checksums=False) is not None
