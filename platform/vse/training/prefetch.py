"""Batches made in a thread of their own while the step before them runs."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")
DEPTH = 2  # batches that wait: one would do, two even out batches of different sizes


def prefetched(make: Callable[[T], U], items: Iterable[T], depth: int = DEPTH) -> Generator[U, None, None]:
    """make(item) of every item, in order, at most `depth` ahead of the caller.

    `make` must depend on its item alone, since it runs earlier than it is asked for. What it raises is raised here, at
    the item's turn.
    """
    waiting: deque[Future[U]] = deque()
    rest = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="batches") as pool:
        try:
            for item in rest:
                waiting.append(pool.submit(make, item))
                if len(waiting) > depth:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
