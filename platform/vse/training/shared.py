"""What trainings of one process share: made of the same captions, it is the same for every trial of a sweep."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from vse.data.records import Records

T = TypeVar("T")

MOST = 8  # things of one data set: a few vocabularies and what is encoded by them, as of two kinds of family
_made: "WeakKeyDictionary[Records, dict[Hashable, Any]]" = WeakKeyDictionary()


def shared(records: Records, key: Hashable, make: Callable[[], T]) -> T:
    """What `make` gives, made once for these records, as long as they live. `key`: all else that decides it.

    Nobody may change what is given. Processes that were told of the records by name have them but once
    (`pipeline.describe`).
    """
    known = _made.setdefault(records, {})
    if key in known:
        known[key] = known.pop(key)  # the latest is the last
    else:
        while len(known) >= MOST:
            del known[next(iter(known))]
        known[key] = make()
    return known[key]
