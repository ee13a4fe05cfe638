"""Files of a workspace read side by side where each is a request to a store: small ones at once, large ones in turn."""

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from vse.storage.folder import Folder
from vse.storage.prefetch import prefetched

AT_ONCE = 16
# Files of some 48 MB read side by side. One connection to S3 brings 85 to 90 MB/s, and the network of a node several
# times that; those of a disk take a core each to check and decode.
AHEAD, AHEAD_ON_DISK = 6, 2
T = TypeVar("T")
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
