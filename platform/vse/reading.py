"""Many small files of a workspace, read side by side where each is a request to a store."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from vse.storage import Folder

AT_ONCE = 16
T = TypeVar("T")
R = TypeVar("R")


def read_each(root: Folder, read: Callable[[T], R], asked: Iterable[T]) -> list[R]:
    """What `read` gives for each, in their order; on a store in threads, all below `root`. Raises what it raises."""
    if root.is_local:
        return [read(each) for each in asked]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="reading") as pool:
        return list(pool.map(read, asked))
