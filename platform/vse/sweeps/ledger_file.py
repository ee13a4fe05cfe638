"""The lines of a ledger, on a disk or on S3."""

import errno
import itertools
import os
from collections.abc import Iterator

from vse.errors import StorageError
from vse.storage.folder import Folder
from vse.storage.owned_object import OwnedObject

FILE_NAME = "ledger.jsonl"
PART_BYTES = 256_000  # on S3, from which the next line begins another file


class LedgerFile:
    """The lines of `ledger.jsonl` in a folder.

    On S3, objects cannot grow, so each line writes its file anew. The ledger therefore continues in `ledger-1.jsonl`,
    `ledger-2.jsonl` and so on: the cost of a line does not grow with the number of trials.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._part, self._data = 0, b""  # number and content of the last file
        self._own: OwnedObject | None = None  # the last file on S3
        self._new = b""  # lines after `_data` that the server may lack
        self._failed: list[bytes] = []  # lines whose write failed or had no answer

    def read(self) -> Iterator[bytes]:
        """All lines. It must be exhausted once before `append` is called."""
        for part in itertools.count():
            data, own = stored(self.folder, _part_name(part))
            if data or part == 0:
                self._part, self._data, self._own = part, data, own
            if not data:
                return
            yield from data.split(b"\n")

    def append(self, line: bytes = b"") -> list[bytes]:
        """Write a line, and on S3 also the lines of earlier calls that failed, unless the server has them by now.

        Args:
            line: It ends in a line break. Empty: only lines of earlier calls are written, if any failed.

        Returns:
            Lines of earlier calls that failed and are recorded now.

        Raises:
            InputError: This machine or the bucket refuses the write.
            StorageError: The disk or the network fails, or another job has written the ledger on S3.
        """
        if not line and not self._failed:
            return []
        if self._own is None:
            self._append_local(line)
            return []
        self._new += line
        self._failed += [line] if line else []
        while True:
            if len(self._data) >= PART_BYTES:  # decided before the line, so that two jobs agree on the file to write
                self._part, self._data = self._part + 1, b""
                self._own = OwnedObject(self.folder.store, _part_name(self._part))
            try:
                self._own.write_once(self._data + self._new)
                break
            except FileExistsError:
                if (content := self._own.adopt()) is None:
                    address = self.folder.address(_part_name(self._part))
                    raise StorageError(f"{address}: another job works on this; this one ends here") from None
                self._data, self._new = content, self._new.removeprefix(content[len(self._data) :])
        self._data, self._new = self._data + self._new, b""
        earlier, self._failed = [each for each in self._failed if each is not line], []
        return earlier

    def _append_local(self, line: bytes) -> None:
        path = self.folder.local(_part_name(self._part))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab+", buffering=0) as stream:
                if stream.tell() > 0:
                    stream.seek(-1, os.SEEK_END)
                    if stream.read(1) != b"\n":  # the last writer was stopped inside a line
                        line = b"\n" + line
                if stream.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(stream.fileno())
        except OSError as error:
            raise self.folder.refusal(path.name, error) from None


def stored(folder: Folder, name: str) -> tuple[bytes, OwnedObject | None]:
    """The content of a file of a sweep, empty if there is none, and on S3 the object that later writes replace."""
    if not folder.is_local:
        own = OwnedObject(folder.store, name)
        return own.read(), own
    try:
        return folder.read_bytes(name), None
    except (FileNotFoundError, NotADirectoryError):
        return b"", None


def _part_name(number: int) -> str:
    """The name of a file of the ledger."""
    return FILE_NAME.replace(".", f"-{number}.") if number else FILE_NAME
