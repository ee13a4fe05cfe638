"""Work done in threads ahead of its use: batches of a step, shards of a store, files of a workspace on S3."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from vse.storage.folder import Folder

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


AT_ONCE = 16
# Files of some 48 MB read side by side. One connection to S3 brings 85 to 90 MB/s, and the network of a node several
# times that; those of a disk take a core each to check and decode.
AHEAD, AHEAD_ON_DISK = 6, 2
R = TypeVar("R")


def read_each(root: Folder, read: Callable[[T], R], asked: Iterable[T]) -> list[R]:
    """What `read` gives for each, in their order; on a store in threads, all below `root`. Raises what it raises."""
    if root.is_local:
        return [read(each) for each in asked]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="reading") as pool:
        return list(pool.map(read, asked))


def read_ahead(root: Folder, read: Callable[[T], R], asked: Iterable[T]) -> Generator[R, None, None]:
    """The same one by one, for files of which memory holds some only; whoever stops early closes it.

    `AHEAD` of them are read side by side, `AHEAD_ON_DISK` on a disk. Of two more there may be what `read` gave: the one
    that is used and the one before it.
    """
    ahead = AHEAD_ON_DISK if root.is_local else AHEAD
    return prefetched(read, asked, depth=ahead, threads=ahead)
