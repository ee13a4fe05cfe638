"""Work done in threads ahead of its use: batches of a step, shards of a store, files of a workspace on S3."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from vse.storage.folder import Folder

T = TypeVar("T")
U = TypeVar("U")
DEPTH = 2  # batches that wait; one would do, but two even out batches of different sizes


def prefetched(
    make: Callable[[T], U], items: Iterable[T], depth: int = DEPTH, threads: int = 1
) -> Generator[U, None, None]:
    """make(item) of every item, in order, computed at most `depth` items ahead in threads.

    `make` must depend on its item only. Its exceptions are raised here, at the item's turn, and items that have not
    begun by then are dropped. A caller that stops early closes the generator.

    Args:
        make: called once for each item.
        items: consumed as they are needed.
        depth: how many results may wait for the caller.
        threads: how many calls run at the same time.
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
# Files of about 48 MB read at the same time. One connection to S3 yields 85 to 90 MB/s, and the network of a node
# several times as much. Files on a disk take a core each to check and decode.
AHEAD, AHEAD_ON_DISK = 6, 2
R = TypeVar("R")


def read_each(root: Folder, read: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """read(item) of each item, in order, for results that fit in memory together.

    Args:
        root: the folder above all that is read. If it is on S3, `AT_ONCE` items are read at the same time.
        read: called once for each item, in threads if `root` is on S3.
        items: what is read, such as names of files.
    """
    if root.is_local:
        return [read(each) for each in items]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="reading") as pool:
        return list(pool.map(read, items))


def read_ahead(root: Folder, read: Callable[[T], R], items: Iterable[T]) -> Generator[R, None, None]:
    """read(item) one by one, for files that do not fit in memory together; a caller that stops early closes it.

    `AHEAD` files are read at the same time, `AHEAD_ON_DISK` on a disk. Up to two more results are in memory: the
    current one and the one before it.

    Args:
        root: the folder above all that is read; it decides how many are read at the same time.
        read: called once for each item, in threads.
        items: what is read, such as names of files.
    """
    ahead = AHEAD_ON_DISK if root.is_local else AHEAD
    return prefetched(read, items, depth=ahead, threads=ahead)
