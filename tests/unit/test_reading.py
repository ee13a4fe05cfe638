"""Small files are asked for side by side on a store, one after another on a disk."""

import threading
import time

import pytest

from vse.errors import StorageError
from vse.reading import AT_ONCE, read_each
from vse.storage import Folder

STORE, DISK = Folder.open("s3://bucket/lab"), Folder.open("/lab")


def test_a_store_is_asked_for_many_at_once() -> None:
    together = threading.Barrier(AT_ONCE)

    def read(number: int) -> int:
        together.wait(timeout=20)
        time.sleep(0.01 * (number % 3))
        return -number

    assert read_each(STORE, read, range(2 * AT_ONCE)) == [-number for number in range(2 * AT_ONCE)]


def test_a_disk_is_read_in_turn() -> None:
    assert read_each(DISK, lambda number: (number, threading.current_thread()), (2, 1)) == [
        (2, threading.main_thread()),
        (1, threading.main_thread()),
    ]


def test_what_cannot_be_read_is_said() -> None:
    def read(number: int) -> int:
        if number == 3:
            raise StorageError("it is away")
        return number

    for root in (STORE, DISK):
        with pytest.raises(StorageError, match="it is away"):
            read_each(root, read, range(40))
