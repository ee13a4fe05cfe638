"""Files that a user names, such as annotations, weights and word vectors: by path, or as s3://bucket/prefix/name.

A file on S3 is copied once to each node that needs it as a file, for all processes there, and again when it has
changed. Its SHA-256 is computed during the download, and again by every process that reads the copy.

A placeholder lies where a binary file was never fetched: a pointer of Git LFS or git-annex, a web page, an empty file.
Decoders call all of these damaged, so they are recognised here, with the way to fetch the file.
"""

import contextlib
import functools
import hashlib
import io
import os
import re
from pathlib import Path, PurePosixPath
from typing import IO, Any

from vse.errors import InputError
from vse.storage.files import local_path, sha256_of_file
from vse.storage.folder import Folder
from vse.storage.node_cache import copied_file, read_note, write_note
from vse.storage.object_store import ObjectStore

PART = 1 << 26  # bytes of one request
_TRIES = 3
_HOP = 1 << 16  # bytes fetched around each place of a file that is read in parts


def is_remote(address: str) -> bool:
    """Whether it is an s3:// address; everything else is a path of this machine."""
    return address.startswith("s3://")


def file_name(address: str) -> PurePosixPath:
    """The name of a file, for its stem and suffix: without folders, and without the options of an S3 address."""
    return PurePosixPath(Folder.of_file(address)[1])


def is_file(address: str) -> bool:
    """Whether the file exists."""
    if not is_remote(address):
        return local_path(address).is_file()
    store, name = _object(address)
    return bool(name) and store.info(name) is not None


def local(address: str) -> Path:
    """A path of this node for the file; one on S3 is copied first. Raises InputError if an address leads to no file.

    A local path is not checked.
    """
    return _copy(address)[0] if is_remote(address) else local_path(address)


def read(address: str) -> bytes:
    """The whole file. Raises InputError if it cannot be read."""
    try:
        return local(address).read_bytes()
    except OSError as error:
        raise InputError(f"{address}: cannot be read: {error.strerror}") from None


def digest(address: str) -> str:
    """SHA-256 of a file, computed once per process while its size and time of change stay the same.

    Raises InputError if there is no such file.
    """
    if is_remote(address):
        return _copy(address)[1]
    path = local_path(address)
    try:
        stat = path.stat()
        return _sha256(str(path.resolve()), stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise InputError(f"{address}: cannot be read: {error.strerror}") from None


def version(address: str) -> tuple[int, str]:
    """(size in bytes, what changes whenever the file is written). Raises InputError if there is no such file."""
    if is_remote(address):
        return _size_and_tag(*_object(address), address)
    try:
        stat = local_path(address).stat()
    except OSError as error:
        raise InputError(f"{address}: cannot be read: {error.strerror}") from None
    return stat.st_size, str(stat.st_mtime_ns)


def open_file(address: str) -> IO[bytes]:
    """The file, opened to read parts of it; from S3 only those are fetched. Raises InputError if it cannot be read."""
    try:
        return io.BufferedReader(_ObjectStream(address), _HOP) if is_remote(address) else local_path(address).open("rb")
    except OSError as error:
        raise InputError(f"{address}: cannot be read: {error.strerror}") from None


def read_range(address: str, start: int, stop: int) -> bytes:
    """Bytes `start` up to `stop`, exclusive; fewer if the file ends before.

    Args:
        address: a path, or s3://bucket/prefix/name.
        start: position of the first byte.
        stop: position after the last byte.

    Raises:
        OSError: the file cannot be read.
        InputError: an object on S3 is rewritten again and again while it is read.
    """
    if not is_remote(address):
        with local_path(address).open("rb") as stream:
            stream.seek(start)
            return stream.read(stop - start)
    store, name = _object(address)
    for _ in range(_TRIES):
        size, tag = _size_and_tag_once(store, name, address)
        with contextlib.suppress(FileExistsError):  # the object was rewritten
            return store.read_range(name, start, min(stop, size), tag) if start < min(stop, size) else b""
        _size_and_tag_once.cache_clear()
    raise InputError(f"{address}: changes while it is read; name a file that nobody writes to")


class _ObjectStream(io.RawIOBase):
    """An object on S3 as a file that is read in parts; all parts are of one version."""

    def __init__(self, address: str) -> None:
        self._address, (self._store, self._name) = address, _object(address)
        self._size, self._tag = _size_and_tag(self._store, self._name, address)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        stop = min(self._at + len(buffer), self._size)
        if self._at >= stop:
            return 0
        try:
            data = self._store.read_range(self._name, self._at, stop, self._tag)
        except FileExistsError:
            raise InputError(f"{self._address}: changes while it is read; name a file that nobody writes to") from None
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def ends(address: str, span: int) -> tuple[int, bytes, bytes]:
    """(size of the file in bytes, its first `span` bytes, its last `span` bytes). Raises InputError."""
    if is_remote(address):
        store, name = _object(address)
        size, tag = _size_and_tag(store, name, address)
        if not size:
            return 0, b"", b""
        head = store.read_range(name, 0, min(span, size), tag)
        return size, head, store.read_range(name, max(0, size - span), size, tag)
    try:
        with local_path(address).open("rb") as stream:
            head, size = stream.read(span), stream.seek(0, 2)
            stream.seek(max(0, size - span))
            return size, head, stream.read(span)
    except OSError as error:
        raise InputError(f"{address}: cannot be read: {error.strerror}") from None


def digest_of_ends(address: str, span: int) -> str:
    """Size of a file and digest of its first and last `span` bytes, by which most changes of it are seen without
    reading all of it. Raises InputError if it cannot be read."""
    size, head, tail = ends(address, span)
    return f"{size}-{hashlib.sha256(head + tail).hexdigest()[:16]}"


@functools.lru_cache(maxsize=256)
def _sha256(path: str, size: int, changed: int) -> str:
    return sha256_of_file(Path(path))


def _object(address: str) -> tuple[ObjectStore, str]:
    """The store of an object and its name there."""
    folder, name = Folder.of_file(address)
    return ObjectStore.open(folder.uri), name


def _size_and_tag(store: ObjectStore, name: str, address: str) -> tuple[int, str]:
    """Raises InputError if there is no such object."""
    info = store.info(name) if name else None
    if info is None:
        raise InputError(f"{address}: no such file")
    return info.size, info.tag


@functools.lru_cache(maxsize=64)
def _size_and_tag_once(store: ObjectStore, name: str, address: str) -> tuple[int, str]:
    """Raises FileNotFoundError if there is no such object."""
    info = store.info(name)
    if info is None:
        raise FileNotFoundError(address)
    return info.size, info.tag


def _copy(address: str) -> tuple[Path, str]:
    """(path of the copy on this node, its SHA-256). A copy that was damaged on its disk is made again."""
    store, name = _object(address)
    for _ in range(_TRIES):
        size, tag = _size_and_tag(store, name, address)
        place = hashlib.sha256(f"{store.endpoint}\n{store.uri}/{name}\n{tag}".encode()).hexdigest()[:24]
        fetch = functools.partial(_fetch, store, name, size, tag, place)
        try:
            path = copied_file(place, name, size, fetch)
            checksum = _copy_sha256(str(path), path.stat().st_mtime_ns)
        except (FileExistsError, FileNotFoundError):  # the object was rewritten, or the copy was removed to make room
            continue
        if checksum == read_note(place):
            return path, checksum
        path.unlink(missing_ok=True)
    raise InputError(f"{address}: changes while it is read; name a file that nobody writes to")


def _fetch(store: ObjectStore, name: str, size: int, tag: str, place: str, stream: IO[bytes]) -> None:
    checksum = hashlib.sha256()
    for start in range(0, size, PART):
        data = store.read_range(name, start, min(start + PART, size), tag)
        checksum.update(data)
        stream.write(data)
    write_note(place, checksum.hexdigest())


@functools.lru_cache(maxsize=64)
def _copy_sha256(path: str, changed: int) -> str:
    """SHA-256 of a copy, computed once per process and time of writing.

    The inode would not do as a key: a new file may get the inode of a removed one.
    """
    return sha256_of_file(Path(path))


SPAN = 1024  # bytes at the start of a file that are looked at; pointers are shorter
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype html|html|head|error)\b")
_ANNEX = b"annex/objects/"
EMPTY = "file is empty; copy or download it again"
_LFS_POINTER = "is a Git LFS pointer, not the file itself; run `git lfs pull` in its repository"
_ANNEX_POINTER = "is a git-annex pointer, not the file itself; run `git annex get` in its repository"
_WEB_PAGE = "is an HTML or XML page left by a failed download; download the file again"


def placeholder(head: bytes) -> str:
    """What is wrong with a file whose first `SPAN` bytes show a placeholder, and how to fetch the file itself.

    Empty for any other file.
    """
    head = head[:SPAN]
    if not head:
        return EMPTY
    if head.startswith(b"version https://git-lfs.github.com/spec/"):
        return _LFS_POINTER
    if _ANNEX in head.partition(b"\n")[0] and head.lstrip(b"./").startswith((b"annex/", b"git/annex/")):
        return _ANNEX_POINTER
    return _WEB_PAGE if _PAGE.match(head.lower()) else ""


def unfetched_link(path: str | os.PathLike[str]) -> str:
    """The same for a local path that is a link to missing content of git-annex; empty for any other path."""
    try:
        target = os.fsencode(os.readlink(path))
    except (OSError, ValueError):  # no link, or no path
        return ""
    return _ANNEX_POINTER if _ANNEX in target and not os.path.exists(path) else ""


def refuse_placeholder(address: str, where: str = "") -> None:
    """Raise InputError, which begins with `where` or else the address, if a placeholder is at a path or s3:// address.

    A missing file passes: the error of opening it says more.
    """
    message = ""
    if is_file(address):
        message = placeholder(ends(address, SPAN)[1])
    elif not is_remote(address):
        message = unfetched_link(local(address))
    if message:
        raise InputError(f"{where or address}: {message}")
