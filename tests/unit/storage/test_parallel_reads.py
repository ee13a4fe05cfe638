"""Files are asked for side by side on a store, one after another on a disk."""

import threading
import time

import pytest

from vse.errors import StorageError
from vse.storage.folder import Folder
from vse.storage.parallel_reads import AHEAD, AHEAD_ON_DISK, AT_ONCE, read_ahead, read_each

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


@pytest.mark.parametrize(("root", "ahead"), [(STORE, AHEAD), (DISK, AHEAD_ON_DISK)])
def test_large_files_are_read_side_by_side_in_order_and_some_of_them_only(root: Folder, ahead: int) -> None:
    together, begun = threading.Barrier(ahead), []

    def read(number: int) -> int:
        begun.append(number)
        together.wait(timeout=20)
        time.sleep(0.01 * (number % 3))
        return -number

    found = read_ahead(root, read, range(20 * ahead))
    assert [next(found) for _ in range(ahead)] == [-number for number in range(ahead)]
    assert len(begun) <= 2 * ahead
    together.abort()
    found.close()
    assert len(begun) <= 2 * ahead


@pytest.mark.parametrize(("root", "ahead"), [(STORE, AHEAD), (DISK, AHEAD_ON_DISK)])
def test_a_large_file_that_cannot_be_read_ends_the_reading_at_its_turn(root: Folder, ahead: int) -> None:
    begun = []

    def read(number: int) -> int:
        begun.append(number)
        if number == 3:
            raise StorageError("it is away")
        return number

    found = read_ahead(root, read, range(100))
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(StorageError, match="it is away"):
        next(found)
    assert len(begun) <= 4 + ahead
