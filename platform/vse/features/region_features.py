"""Features of regions: of each region cut out, or pooled from the map of its photograph; with their geometry."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from vse.data.regions import geometry, sides_of, split_uri
from vse.errors import InputError
from vse.features.store import StoredFeatures

NUMBERS = 5
MAP = "map"
_AT_ONCE = 64  # photographs whose maps are in memory
_WHOLE = (0.0, 0.0, 1.0, 1.0)


def cell_shares(sides: Float[np.ndarray, "boxes 4"], rows: int, columns: int) -> Float[np.ndarray, "boxes cells"]:
    """How much of each box lies in each cell of a grid over the picture, in row-major order; 1 in all.

    Args:
        sides: Left, top, right and bottom in fractions.
        rows: Of the grid.
        columns: Of the grid.
    """
    across, down = (
        np.minimum.outer(sides[:, side + 2] * number, np.arange(number) + 1.0)
        - np.maximum.outer(sides[:, side] * number, np.arange(number) + 0.0)
        for side, number in enumerate((columns, rows))
    )
    shares = (down.clip(min=0)[:, :, None] * across.clip(min=0)[:, None, :]).reshape(len(sides), -1)
    return shares / shares.sum(axis=1, keepdims=True)


@dataclass(eq=False)
class RegionFeatures(StoredFeatures):
    """Features of regions from a store.

    Args:
        pooled: Whether the store has maps of whole photographs, whose mean over a region is its feature; otherwise it
            has the feature of every region.
        with_geometry: Whether left, top, right, bottom and area of the region follow.
    """

    pooled: bool = False
    with_geometry: bool = True

    def channels(self, output: str) -> int:
        """Size of the last dimension of an output, with the geometry."""
        if self.pooled:
            return super().channels(MAP) + NUMBERS * self.with_geometry
        if len(self.store.shape(output)) != 1:
            raise InputError(f"data.geometry=true: needs an output with one vector per region, not {output!r}")
        return super().channels(output) + NUMBERS

    def array(self, output: str, ids: tuple[str, ...], *, mapped: bool = True) -> np.ndarray:
        """Features of regions, half floats in memory.

        Args:
            output: the backbone's output; not read if features are pooled, because they come from `map`.
            ids: ids of the regions, or of photographs for the whole of them.
            mapped: as of `StoredFeatures.array`; not read if features are pooled.

        Returns:
            Features (len(ids), channels), with the geometry as last channels.
        """
        sides = np.array([sides_of(id_) or _WHOLE for id_ in ids]).reshape(-1, 4)
        features = self._means(ids, sides) if self.pooled else super().array(output, ids, mapped=mapped)
        if not self.with_geometry:
            return features
        return np.concatenate([features, geometry(sides).astype(features.dtype)], axis=1)

    def _means(self, ids: tuple[str, ...], sides: np.ndarray) -> np.ndarray:
        """The mean of the map over each region, in which a cell counts by the part of it that the region covers."""
        rows_of = dict[str, list[int]]()
        for row, id_ in enumerate(ids):
            rows_of.setdefault(split_uri(id_)[0], []).append(row)
        cells, channels = self.store.shape(MAP)
        side = round(cells**0.5)
        means = np.empty((len(ids), channels), np.float16)
        photographs = list(rows_of)
        for start in range(0, len(photographs), _AT_ONCE):
            some = photographs[start : start + _AT_ONCE]
            for photograph, map_ in zip(some, super().array(MAP, tuple(some), mapped=False), strict=True):
                rows = rows_of[photograph]
                means[rows] = cell_shares(sides[rows], side, side).astype(np.float32) @ map_.astype(np.float32)
        return means
