"""Order, look-ahead and errors of batches made in the background."""

import threading

import pytest

from tests.unit.training.test_loop import Run
from vse.storage.prefetch import prefetched


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
