"""Ready-made features: arrays of any grid or number of tokens, with or without a mask, copied into a feature store.

The URI of an image names its row: `train_ims.npy#17` (see the source `precomp`), or `feats.npz:name#17` in a file of
several arrays. The output `mask` is true where a token counts. It comes from a file with one row for each row of
features, or from numbers of regions (`vse.data.array_files`). Tokens that do not count become zeros, so families can
recognise them by the features alone.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vse.config import knob
from vse.data.array_files import read_array, split_name
from vse.data.places import below
from vse.data.ragged import Ragged
from vse.data.records import Image, Records
from vse.display.progress import Progress
from vse.errors import InputError
from vse.features.backbone import REVISION, Backbone
from vse.features.forward import shard_rows
from vse.features.rejects import RejectCounter
from vse.features.shards import Output, Receipt, half, out_of_range, read_receipts, write_shard
from vse.features.store import FeatureStore, commit
from vse.registry import ComponentConfig, register
from vse.storage import user_files as named_files
from vse.storage.folder import Folder

log = logging.getLogger(__name__)
_SAMPLE = 1 << 20
_AXES = {1: "channels", 2: "regions, channels", 3: "height, width, channels"}
Arrays = dict[str, np.ndarray | Ragged]


@register("backbone", "arrays")
class ReadyMade(Backbone):
    """A backbone for ready-made features. It copies rows: vectors to `pooled`, several tokens to `map`."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """The expected arrays."""

        width: int = knob(0, "features per token that the arrays must have; 0: any", low=0)
        mask: str = knob(
            "", "suffix of mask files, as `_mask` for train_ims_mask.npy next to train_ims.npy; empty: none"
        )

    def __init__(self, config: Config) -> None:
        self.config = config

    def check(self, outputs: Sequence[str]) -> None:
        """Raises InputError for an output that arrays never have."""
        for name in outputs:
            if name not in ("map", "pooled", "mask"):
                raise InputError(f"output {name!r}: ready-made arrays give pooled (vectors) or map (tokens), and mask")

    def check_rows(self, outputs: Sequence[str], records: Records, root: str) -> None:
        """Check the first file before any is copied, unless it lies on S3.

        Args:
            outputs: outputs that the family reads: `map`, `pooled`, `mask`.
            records: their first image names the file.
            root: folder or address that the URIs of the images are relative to.

        Raises:
            InputError: rows are single vectors and a map is wanted, or the other way round, or the array cannot hold
                features.
        """
        path, array_name = _located(root, _file_and_row(records.images[0])[0])
        if named_files.is_remote(path):
            return
        array = _checked(path, read_array(path, array_name), self.config.width)
        output, shape = _output(array), "x".join(map(str, _row_shape(array)))
        for name in {"map", "pooled"} & set(outputs) - {output}:
            kinds = {"map": "several vectors per image (map)", "pooled": "one vector per image (pooled)"}
            raise InputError(
                f"{path}: has {kinds[output]}, rows of {shape}, but this family reads {kinds[name]}; use "
                "--preset vsepp_flickr8k for one vector, univse_flickr8k for several"
            )

    def identity(self) -> dict[str, Any]:
        """The identity of the settings alone; `files_identity` adds the files, whose folder is no setting here."""
        absent = {"absent": "zero"} if self.config.mask else {}
        return {"backbone": "arrays", **asdict(self.config), **absent, "revision": REVISION}

    def files_identity(self, records: Records, root: str) -> dict[str, Any]:
        """Settings, and size and sampled content (first and last megabyte) of every file the records point to."""
        files = dict.fromkeys(split_name(_file_and_row(image)[0])[0] for image in records.images)
        paths = [below(root, f) for f in files]
        paths += [_mask_path(p, self.config.mask) for p in paths] if self.config.mask else []
        return {**self.identity(), "files": [named_files.digest_of_ends(path, _SAMPLE) for path in paths]}


def _file_and_row(image: Image) -> tuple[str, int]:
    file, mark, row = image.uri.partition("#")
    if not mark or not row.isdigit():
        raise InputError(
            f"image {image.id!r}: {image.uri} is not a row of an array; expected a URI like train_ims.npy#17"
        )
    return file, int(row)


def _mask_path(path: str, suffix: str) -> str:
    folder, name = Folder.of_file(path)
    return folder.address(f"{Path(name).stem}{suffix}{Path(name).suffix}")


def _located(root: str, file: str) -> tuple[str, str]:
    """(path or address, name of the array in it or empty) of the file in a URI."""
    path, array_name = split_name(file)
    return below(root, path), array_name


def import_arrays(
    records: Records, config: ReadyMade.Config, folder: Folder, root: str, max_rejected: float
) -> FeatureStore:
    """A store of the rows that the records point to.

    Grids (rows, height, width, channels) become tokens in row-major order, regions of unequal number a map with a mask.
    Rows that are not finite, that half precision cannot hold, or that have no region are rejected.

    Args:
        records: images whose URIs are rows of arrays.
        config: width of the features and names of mask files.
        folder: of the store.
        root: folder of the arrays.
        max_rejected: share of the images that may be without features.

    Raises:
        InputError: if a file is missing, has too few rows or another shape than those before, or if features have
            another width than `config.width`.
        TooManyRejects: if more than `max_rejected` are rejects; what is committed stays.
    """
    folder.check_writable()
    done = {image for receipt in read_receipts(folder) for image in receipt.ids}
    by_file: dict[str, list[tuple[str, int]]] = {}
    for image in records.images:
        file, row = _file_and_row(image)
        by_file.setdefault(file, []).append((image.id, row))
    loaded = {file: _loaded(root, file, config, max(row for _, row in rows)) for file, rows in by_file.items()}
    unequal = [array for _, arrays in loaded.values() for array in arrays.values() if isinstance(array, Ragged)]
    longest = max((int(regions.lengths.max()) for regions in unequal), default=0)
    outputs: dict[str, Output] = {}
    todo: list[tuple[list[tuple[str, int]], Arrays]] = []
    for file, (path, arrays) in loaded.items():
        shapes = {n: Output(values.shape[1:], _dtype(n)) for n, values in _rows(arrays, np.arange(1), longest).items()}
        if outputs and shapes != outputs:
            raise InputError(f"{path}: rows of {_listed(shapes)}, but the files before have {_listed(outputs)}")
        outputs = shapes
        todo.append(([(image, row) for image, row in by_file[file] if image not in done], arrays))
    missing, images = sum(len(rows) for rows, _ in todo), len(records.images)
    if missing:
        with Progress("features", total=missing, unit="images") as bar:
            counter = RejectCounter(bar, images, max_rejected, folder, done=images - missing)
            for rows, arrays in todo:
                for receipt in _copy(rows, arrays, outputs, folder, longest):
                    counter.committed(len(receipt.ids), receipt.rejects)
    made_by = {"backbone": ReadyMade(config).identity(), "records": records.content_fingerprint}
    return commit(folder, [image.id for image in records.images], outputs, made_by)


def _loaded(root: str, file: str, config: ReadyMade.Config, last: int) -> tuple[str, Arrays]:
    """(path, its checked arrays by output)."""
    path, name = _located(root, file)
    features = _checked(path, read_array(path, name), config.width)
    if last >= len(features):
        raise InputError(f"{path}: has {len(features)} rows, but an image asks for row {last}")
    shape = _row_shape(features)
    axes = _AXES.get(len(shape), "..., channels")
    log.info("%s: %d images of (%s) = (%s)", path, len(features), axes, ", ".join(map(str, shape)))
    arrays: Arrays = {_output(features): features}
    if config.mask:
        if isinstance(features, Ragged):
            raise InputError(f"{path}: holds the number of regions of each image; leave out features.backbone.mask")
        mask_path = _mask_path(path, config.mask)
        arrays["mask"] = _checked_mask(mask_path, read_array(mask_path), features)
    return path, arrays


def _copy(
    images: list[tuple[str, int]], arrays: Arrays, outputs: dict[str, Output], folder: Folder, longest: int
) -> Iterator[Receipt]:
    """Copy the rows of `images` (id, row) and yield the receipt of every committed shard."""
    size = shard_rows(sum(output.row_bytes for output in outputs.values()))
    for start in range(0, len(images), size):
        part = images[start : start + size]
        rows = _rows(arrays, np.array([row for _, row in part]), longest)
        reasons = out_of_range({name: values for name, values in rows.items() if name != "mask"})
        if isinstance(arrays.get("map"), Ragged):
            reasons |= dict.fromkeys(np.flatnonzero(~rows["mask"].any(axis=1)).tolist(), "has no region")
        keep = [row for row in range(len(part)) if row not in reasons]
        values = {
            n: half(v[keep]) if outputs[n].dtype == "float16" else v[keep].astype(np.uint8) for n, v in rows.items()
        }
        rejects = [(part[row][0], reason) for row, reason in reasons.items()]
        yield write_shard(folder, [part[row][0] for row in keep], values, rejects)


def _rows(arrays: Arrays, rows: np.ndarray, longest: int) -> dict[str, np.ndarray]:
    """Output name -> (rows, tokens, channels) of a map, (rows, channels) of vectors, (rows, tokens) bool of a mask.

    longest: the largest number of regions of an image, if it varies.
    """
    features = arrays.get("map")
    if isinstance(features, Ragged):
        padded, mask = features.pad(rows, at_least=longest)
        return {"map": padded, "mask": mask}
    values = {name: _tokens(array[rows]) for name, array in arrays.items() if isinstance(array, np.ndarray)}
    if "mask" in values:
        values["mask"] = values["mask"].astype(bool)
        if "map" in values:
            values["map"] = np.where(values["mask"][..., None], values["map"], 0)
    return values


def _output(array: np.ndarray | Ragged) -> str:
    return "map" if isinstance(array, Ragged) or array.ndim > 2 else "pooled"


def _row_shape(array: np.ndarray | Ragged) -> tuple[object, ...]:
    """The shape of one row, for messages."""
    if isinstance(array, Ragged):
        return f"{array.lengths.min()} to {array.lengths.max()}", *array.values.shape[1:]
    return array.shape[1:]


def _tokens(array: np.ndarray) -> np.ndarray:
    """(rows, ..., channels) as (rows, tokens, channels); vectors and masks stay as they are."""
    return array.reshape(len(array), -1, array.shape[-1]) if array.ndim > 3 else array


def _dtype(name: str) -> str:
    return "uint8" if name == "mask" else "float16"


def _listed(outputs: dict[str, Output]) -> str:
    return ", ".join(f"{name} {output.shape}" for name, output in outputs.items())


def _checked(path: str, array: np.ndarray | Ragged, width: int) -> np.ndarray | Ragged:
    """The array. Raises InputError unless it is (images, ..., channels) of the expected width (0: any)."""
    features = array.values if isinstance(array, Ragged) else array
    if features.ndim < 2 or not np.issubdtype(features.dtype, np.floating):
        raise InputError(
            f"{path}: expected floats of shape (images, ..., channels), got {features.dtype} {features.shape}"
        )
    if width and features.shape[-1] != width:
        raise InputError(f"{path}: features are {features.shape[-1]} wide, expected {width} (features.backbone.width)")
    if not width and features.ndim == 4 and features.shape[1] > max(features.shape[2:]):
        raise InputError(
            f"{path}: {features.shape} reads as (images, channels, height, width); expected (images, height, width, "
            "channels): save numpy.moveaxis(features, 1, -1), or confirm the shape with "
            f"features.backbone.width={features.shape[-1]}"
        )
    return array


def _checked_mask(path: str, mask: np.ndarray | Ragged, features: np.ndarray) -> np.ndarray:
    tokens = features.shape[:-1]
    if isinstance(mask, Ragged) or mask.shape != tokens or mask.dtype.kind not in "bui":
        got = "rows of unequal length" if isinstance(mask, Ragged) else f"{mask.dtype} {mask.shape}"
        raise InputError(f"{path}: expected a mask (true or false) of shape {tokens}, got {got}")
    return mask.reshape(len(mask), -1)
