"""The feature store: frozen features of a data set by image id, in shards, under one manifest.

Plain pyarrow reads every file: shards hold `arrow.fixed_shape_tensor` columns of half floats, `index.parquet` says in
which shard and row an image is, `rejects.parquet` which images have no features and why. For training, an output is
copied once to a memory-mapped array on the local disk, in the order training asks for.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vse.config import fingerprint
from vse.errors import DamagedError, InputError
from vse.features.shards import Output, Receipt, images_without_file, read_receipts, read_shard
from vse.storage.damage import remove_damaged
from vse.storage.folder import Folder
from vse.storage.node_cache import mapped_array, read_checked
from vse.storage.parallel_reads import read_ahead
from vse.storage.parquet import parquet_bytes

REVISION = 1
INDEX, REJECTS = "index.parquet", "rejects.parquet"


def commit(
    folder: Folder, ids: Sequence[str], outputs: Mapping[str, Output], made_by: Mapping[str, Any]
) -> "FeatureStore":
    """Write index, rejects and manifest over the committed shards, and open the store.

    Args:
        folder: of the store.
        ids: all images of the request, in the order of the records; each must be in a shard.
        outputs: shape and number type by name.
        made_by: plain data for the manifest.

    Raises:
        InputError: if images that had features were rejected when damaged shards were extracted again.
    """
    reasons: dict[str, str] = {}
    used: dict[str, Receipt] = {}
    place = {image: k for k, image in enumerate(ids)}
    shards, rows = np.full(len(ids), -1, np.int32), np.zeros(len(ids), np.int64)  # of each image; shards as in `used`
    for receipt in read_receipts(folder, checksums=False):  # `extract` has verified the existing ones
        own = np.array([place.get(image, -1) for image in receipt.ids], np.int64)
        new = np.flatnonzero(own >= 0)
        new = new[shards[own[new]] < 0]
        if len(new) and receipt.file is not None:
            shards[own[new]], rows[own[new]] = len(used), new
            used[receipt.file] = receipt
        reasons.update(receipt.rejects)
    rejected = [ids[k] for k in np.flatnonzero(shards < 0).tolist()]
    if rejected and (lost := images_without_file(folder).intersection(rejected)):
        image = next(image for image in rejected if image in lost)
        raise InputError(
            f"{folder}: the features of {len(lost)} images were damaged and cannot be extracted again, for example "
            f"{image!r}: {reasons.get(image, 'not in this request')}; restore the images, or remove the folder to "
            "continue without them"
        )
    missing = [image for image in rejected if image not in reasons]
    assert not missing, f"{folder.uri}: {len(missing)} images are in no shard, {missing[0]!r} first"
    kept = np.flatnonzero(shards >= 0)
    names = pa.DictionaryArray.from_arrays(shards[kept], pa.array([*used], pa.string()))
    index = {"image": [ids[k] for k in kept.tolist()], "shard": names.cast(pa.string()), "row": rows[kept]}
    folder.write_bytes(INDEX, parquet_bytes(pa.table(index, schema=_INDEX_SCHEMA)))
    write_rejects(folder, [(image, reasons[image]) for image in rejected])
    content = {
        "kind": "features",
        "revision": REVISION,
        "rows": len(kept),
        "rejected": len(rejected),
        "outputs": {name: {"shape": list(o.shape), "dtype": o.dtype} for name, o in outputs.items()},
        "made_by": dict(made_by),
        "files": {name: receipt.entry for name, receipt in used.items()},
    }
    folder.commit_manifest([*used, INDEX, REJECTS], content)
    _cached.pop(folder, None)  # of fewer images
    return FeatureStore.open(folder)


_INDEX_SCHEMA = pa.schema([("image", pa.string()), ("shard", pa.string()), ("row", pa.int64())])
_REJECTS_SCHEMA = pa.schema([("image", pa.string()), ("reason", pa.string())])


def write_rejects(folder: Folder, rejects: Sequence[tuple[str, str]]) -> None:
    """Write the list of images without features, each with its reason, for users; only the manifest commits a store."""
    images, reasons = [image for image, _ in rejects], [reason for _, reason in rejects]
    table = pa.table({"image": images, "reason": reasons}, schema=_REJECTS_SCHEMA)
    folder.write_bytes(REJECTS, parquet_bytes(table))


@dataclass(frozen=True, eq=False)
class FeatureStore:
    """A committed store as it was opened. Images that were missing may be added to its folder later."""

    folder: Folder
    manifest: dict[str, Any]

    @classmethod
    def open(cls, folder: Folder) -> "FeatureStore":
        """The store in a folder. Raises InputError if there is none that is committed."""
        store = cls.find(folder)
        if store is None:
            raise InputError(f"{folder.uri}: no complete feature store; run jobs/extract_features.py")
        return store

    @classmethod
    def find(cls, folder: Folder) -> "FeatureStore | None":
        """The committed store in a folder, None if there is none. A process checks a folder on S3 once."""
        store = _cached.get(folder)
        if store is None:
            manifest = folder.read_manifest(checksums=False)
            if manifest is None or manifest.get("kind") != "features":
                return None
            store = cls(folder, manifest)
            try:
                _ = store.rejects, store._index  # read by everyone
            except (FileNotFoundError, DamagedError):
                return None
            if not folder.is_local:
                _cached[folder] = store
        return store

    @classmethod
    def remove_damaged(cls, folder: Folder) -> None:
        """Remove the damaged files of a store; `stages.extract` restores them."""
        with folder.locked():
            remove_damaged(folder)
            _cached.pop(folder, None)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return tuple(self.manifest["outputs"])

    def output(self, name: str) -> Output:
        """Shape and number type of an output. Raises InputError, which lists all outputs, for another name."""
        try:
            spec = self.manifest["outputs"][name]
        except KeyError:
            raise InputError(f"{self.folder.uri}: no output {name!r}; it has {', '.join(self.outputs)}") from None
        return Output(tuple(spec["shape"]), spec["dtype"])

    @property
    def backbone_weights(self) -> str:
        """The weights of the backbone as its `identity` names them; empty for ready-made features."""
        return str(self.manifest["made_by"]["backbone"].get("weights", ""))

    def shape(self, output: str) -> tuple[int, ...]:
        """Shape of one row of an output."""
        return self.output(output).shape

    @cached_property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits over the checksums of all files: the key of caches."""
        return fingerprint([self.manifest["files"][name]["sha256"] for name in sorted(self.manifest["files"])])

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Ids of the images with features, in the order of the records."""
        return tuple(self._index.images.to_pylist())

    @cached_property
    def rejects(self) -> dict[str, str]:
        """Image id -> why it has no features."""
        table = self._table(REJECTS)
        return dict(zip(table.column("image").to_pylist(), table.column("reason").to_pylist(), strict=True))

    @cached_property
    def _index(self) -> "_Index":
        table = self._table(INDEX, dictionaries=["shard"]).unify_dictionaries().combine_chunks()
        shard = table.column("shard").combine_chunks()
        return _Index(
            images=table.column("image").combine_chunks(),
            names=shard.dictionary.to_pylist(),
            shards=shard.indices.to_numpy(),
            rows=table.column("row").to_numpy(),
        )

    def _table(self, name: str, dictionaries: Sequence[str] = ()) -> pa.Table:
        data = read_checked(self.folder, self.manifest, name)
        return pq.read_table(pa.BufferReader(data), read_dictionary=[*dictionaries])

    def array(self, output: str, ids: Sequence[str], cache: str | os.PathLike[str] | None = None) -> np.ndarray:
        """Features of images: (len(ids), *shape), half floats (masks: bytes), in the order of `ids`.

        Args:
            output: name of an output of the backbone.
            ids: images; one may appear several times.
            cache: local folder, shared by all processes of a node. The result is then a read-only memory-mapped file,
                which the first process writes; with None it is an array in memory.

        Raises:
            InputError: naming the first image that the store lacks, and why it was rejected.
            DamagedError: if a shard is damaged.
        """
        spec, places = self.output(output), self._find(ids)
        shape = (len(ids), *spec.shape)
        if cache is None:
            values = np.empty(shape, spec.dtype)
            self._fill(values, output, places)
            return values
        name = f"{self.fingerprint}/{output}-{fingerprint(list(ids))}"
        return mapped_array(Path(cache), name, shape, spec.dtype, lambda values: self._fill(values, output, places))

    def _find(self, ids: Sequence[str]) -> np.ndarray:
        """The place of each image in the index."""
        # pyrefly: ignore[missing-attribute]  # made at import
        found = pc.index_in(pa.array(ids, pa.string()), value_set=self._index.images)
        if found.null_count:
            image = ids[int(found.is_null().index(True).as_py())]
            reason = f"was rejected ({self.rejects[image]})" if image in self.rejects else "is not in the store"
            raise InputError(f"{self.folder.uri}: image {image!r} {reason}")
        return found.to_numpy()

    def _fill(self, values: np.ndarray, output: str, places: np.ndarray) -> None:
        """Fill `values` shard by shard.

        Memory holds the shards that `read_ahead` reads in parallel, each as its file, all its rows and the wanted ones,
        and the wanted rows of two more: for shards of 48 MB, 1 GB on S3 and 0.4 GB on a disk.
        """
        parts = list(self._index.by_shard(places))

        def rows_of(part: tuple[str, np.ndarray, np.ndarray]) -> np.ndarray:
            return self._read(part[0], output)[part[2]]

        with contextlib.closing(read_ahead(self.folder, rows_of, parts)) as arrays:
            for (_, targets, _), array in zip(parts, arrays, strict=True):
                values[targets] = array

    def _read(self, shard: str, output: str) -> np.ndarray:
        return read_shard(self.folder, shard, [output], self.manifest["files"][shard])[output]


@dataclass(frozen=True, eq=False)
class _Index:
    """Where the images are, as columns: ten million take 0.5 GB. Their ids alone take 0.9 GB as Python objects.

    Args:
        images: Their ids.
        names: Of the shards.
        shards: The place of the shard of each image in `names`.
        rows: The row of each image in its shard.
    """

    images: pa.StringArray
    names: list[str]
    shards: np.ndarray
    rows: np.ndarray

    def by_shard(self, places: np.ndarray) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """(shard, positions in `places`, rows in the shard) for every shard, shards in order of first use."""
        shards = self.shards[places]
        each, first = np.unique(shards, return_index=True)
        order = np.argsort(shards, kind="stable")
        groups = np.split(order, np.searchsorted(shards[order], each[1:]))
        for k in np.argsort(first):
            yield self.names[each[k]], groups[k], self.rows[places[groups[k]]]


_cached: dict[Folder, FeatureStore] = {}  # the few stores on S3 that one process trains and measures on


@dataclass(eq=False)
class StoredFeatures:
    """Features of a store for training and measuring, memory-mapped on this node in `cache`.

    If a file of the store turns out to be damaged, `restore` makes the store complete and the read is repeated.
    """

    store: FeatureStore
    cache: str
    restore: Callable[[], FeatureStore]

    def channels(self, output: str) -> int:
        """Size of the last dimension of an output."""
        return self.store.shape(output)[-1]

    def array(self, output: str, ids: tuple[str, ...], *, mapped: bool = True) -> np.ndarray:
        """Features of images, (len(ids), ...) half floats, in the order of `ids`.

        Args:
            output: name of an output of the backbone.
            ids: images.
            mapped: whether the result is the file in `cache` that processes of this node share; otherwise it is in
                memory.
        """
        cache = self.cache if mapped else None
        try:
            return self.store.array(output, ids, cache)
        except (FileNotFoundError, DamagedError):
            FeatureStore.remove_damaged(self.store.folder)
            self.store = self.restore()
            return self.store.array(output, ids, cache)
