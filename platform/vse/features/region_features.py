"""Features of regions with their geometry."""

from dataclasses import dataclass

import numpy as np

from vse.data.regions import geometry, sides_of
from vse.errors import InputError
from vse.features.store import StoredFeatures

NUMBERS = 5
_WHOLE = (0.0, 0.0, 1.0, 1.0)


@dataclass(eq=False)
class RegionFeatures(StoredFeatures):
    """Features of a store, each followed by left, top, right, bottom and area of the region that its image is."""

    def channels(self, output: str) -> int:
        """Size of the last dimension of an output, with the geometry."""
        if len(self.store.shape(output)) != 1:
            raise InputError(f"data.geometry: goes with one vector of a region, not with the output {output!r}")
        return super().channels(output) + NUMBERS

    def array(self, output: str, ids: tuple[str, ...], *, mapped: bool = True) -> np.ndarray:
        """(len(ids), channels) half floats in memory."""
        features = super().array(output, ids, mapped=mapped)
        sides = np.array([sides_of(id_) or _WHOLE for id_ in ids]).reshape(-1, 4)
        return np.concatenate([features, geometry(sides).astype(features.dtype)], axis=1)
