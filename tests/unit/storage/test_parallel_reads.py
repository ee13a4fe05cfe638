"""Files are asked for side by side on a store, one after another on a disk."""

import threading
import time

import pytest

from tests.unit.training.test_loop import Run
from vse.errors import StorageError
from vse.storage.folder import Folder
from vse.storage.parallel_reads import AHEAD, AHEAD_ON_DISK, AT_ONCE, prefetched, read_ahead, read_each

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


@pytest.mark.parametrize("num", [0, 1, 2, 3, 10])
def test_everything_comes_in_order(num):
    assert list(prefetched(lambda k: k * k, range(num))) == [k * k for k in range(num)]


def test_it_runs_ahead_by_the_depth_and_in_another_thread():
    made, names = [], set()
    ahead = threading.Semaphore(0)

    def make(k):
        made.append(k)
        names.add(threading.current_thread().name)
        ahead.release()
        return k

    items = prefetched(make, range(10), depth=2)
    assert next(items) == 0
    for _ in range(3):  # the one that was asked for and two more
        assert ahead.acquire(timeout=10)
    assert made == [0, 1, 2]
    assert threading.current_thread().name not in names
    items.close()
    assert len(made) <= 4


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_comes_at_its_turn(threads):
    def make(k):
        if k == 2:
            raise ValueError("two")
        return k

    items = prefetched(make, range(5), threads=threads)
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(items)


def test_several_threads_keep_the_order():
    passed = [threading.Event() for _ in range(9)]
    passed[8].set()

    def make(k):
        assert k % 2 or passed[k + 1].wait(timeout=10)  # even ones end after the odd one behind them
        passed[k].set()
        return k

    assert list(prefetched(make, range(8), depth=1, threads=2)) == list(range(8))


def test_a_stop_while_batches_are_put_away_is_not_lost(tmp_path, monkeypatch):
    """The collector would swallow it, with an epoch to train on; a signal comes at any moment."""

    def stopped(make, items):
        try:
            yield from map(make, items)
        finally:
            raise KeyboardInterrupt

    monkeypatch.setattr("vse.training.loop.prefetched", stopped)
    with pytest.raises(KeyboardInterrupt):
        Run(tmp_path, train__epochs=2).loop().run()
