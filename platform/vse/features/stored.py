"""Features of a store as training and measuring read them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vse.errors import DamagedError
from vse.features.store import FeatureStore


@dataclass(eq=False)
class StoredFeatures:
    """Features of a store, memory-mapped on this node in `cache`. A store in which damage shows is made whole by
    `again`."""

    store: FeatureStore
    cache: str
    again: Callable[[], FeatureStore]

    def channels(self, output: str) -> int:
        """Size of the last dimension of an output."""
        return self.store.shape(output)[-1]

    def array(self, output: str, ids: tuple[str, ...], *, mapped: bool = True) -> np.ndarray:
        """(len(ids), ...) half floats. mapped: from the file that processes of this node share."""
        cache = self.cache if mapped else None
        try:
            return self.store.array(output, ids, cache)
        except (FileNotFoundError, DamagedError):
            FeatureStore.remove_damaged(self.store.folder)
            self.store = self.again()
            return self.store.array(output, ids, cache)
