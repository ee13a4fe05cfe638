"""Items made in threads of their own while those before them are used: batches of a step, shards of a store."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")
DEPTH = 2  # batches that wait: one would do, two even out batches of different sizes


def prefetched(
    make: Callable[[T], U], items: Iterable[T], depth: int = DEPTH, threads: int = 1
) -> Generator[U, None, None]:
    """make(item) of every item, in order, at most `depth` ahead of the caller, who should close this when it stops.

    `make` must depend on its item alone, since it runs earlier than it is asked for, and beside itself where there are
    several `threads`. What it raises is raised here, at the item's turn; what has not begun by then is not made.
    """
    waiting: deque[Future[U]] = deque()
    rest = iter(items)
    with ThreadPoolExecutor(threads, thread_name_prefix="prefetch") as pool:
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
