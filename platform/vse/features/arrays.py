"""Features that others made: arrays of any grid or number of tokens, with or without a mask, into the same store.

An image's URI says where its row is: `train_ims.npy#17` (see the source `precomp`). A mask lies in a file of its own
with one row for each row of features, true where a token counts; it becomes the output `mask`. Tokens that do not count
are kept as zeros, so that families tell them from the features alone.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vse import named_files
from vse.config import knob
from vse.data.places import below
from vse.data.records import Image, Records
from vse.errors import InputError, first_line
from vse.features.backbone import REVISION, Backbone
from vse.features.forward import shard_rows
from vse.features.shards import Output, Receipt, half, read_receipts, write_shard
from vse.features.store import FeatureStore, commit
from vse.features.watch import Watch
from vse.progress import Progress
from vse.registry import ComponentConfig, register
from vse.storage import Folder

_SAMPLE = 1 << 20


@register("backbone", "arrays")
class ReadyMade(Backbone):
    """Stands where a backbone would, and copies rows: vectors become `pooled`, several tokens become `map`."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """What the arrays should look like."""

        width: int = knob(0, "features per token that the arrays must have; 0: any", low=0)
        mask: str = knob(
            "", "suffix of mask files: `_mask` is that of train_ims_mask.npy for train_ims.npy; empty: none"
        )

    def __init__(self, config: Config) -> None:
        self.config = config

    def check(self, outputs: Sequence[str]) -> None:
        """Raises InputError for an output that arrays never give."""
        for name in outputs:
            if name not in ("map", "pooled", "mask"):
                raise InputError(f"output {name!r}: ready-made arrays give pooled (vectors) or map (tokens), and mask")

    def check_rows(self, outputs: Sequence[str], records: Records, root: str) -> None:
        """Raises InputError where rows are one vector and tokens are wanted, or the other way round; by the first file,
        before any is copied, unless it lies on S3."""
        path = below(root, _place(records.images[0])[0])
        if named_files.is_remote(path):
            return
        there, shape = ("map" if (array := _load(path)).ndim > 2 else "pooled"), "x".join(map(str, array.shape[1:]))
        for name in {"map", "pooled"} & set(outputs) - {there}:
            kinds = {"map": "several vectors per image (map)", "pooled": "one vector per image (pooled)"}
            raise InputError(
                f"{path}: has {kinds[there]}, rows of {shape}, but this family reads {kinds[name]}; use "
                "--preset vsepp_flickr8k for one vector, univse_flickr8k for several"
            )

    def identity(self) -> dict[str, Any]:
        """Of the settings; `files_identity` adds the files, whose folder is no setting of the backbone."""
        absent = {"absent": "zero"} if self.config.mask else {}
        return {"backbone": "arrays", **asdict(self.config), **absent, "revision": REVISION}

    def files_identity(self, records: Records, root: str) -> dict[str, Any]:
        """Settings, and size and sampled content (first and last megabyte) of every file the records point to."""
        files = dict.fromkeys(_place(image)[0] for image in records.images)
        paths = [below(root, f) for f in files]
        paths += [_mask_path(p, self.config.mask) for p in paths] if self.config.mask else []
        return {**self.identity(), "files": [_sampled(path) for path in paths]}


def _sampled(path: str) -> str:
    size, head, tail = named_files.ends(path, _SAMPLE)
    return f"{size}-{hashlib.sha256(head + tail).hexdigest()[:16]}"


def _place(image: Image) -> tuple[str, int]:
    file, mark, row = image.uri.partition("#")
    if not mark or not row.isdigit():
        raise InputError(
            f"image {image.id!r}: {image.uri} is not a row of an array; expected a URI like train_ims.npy#17"
        )
    return file, int(row)


def _mask_path(path: str, ending: str) -> str:
    folder, name = Folder.holding(path)
    return folder.address(f"{Path(name).stem}{ending}{Path(name).suffix}")


def _load(path: str) -> np.ndarray:
    file = named_files.local(path)
    try:
        return np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: not a readable array file ({first_line(error)})") from None


def import_arrays(
    records: Records, config: ReadyMade.Config, folder: Folder, root: str, max_rejected: float
) -> FeatureStore:
    """A store of the rows that the records point to; rows that are not finite are rejects.

    Grids (rows, height, width, channels) become tokens in row-major order. Raises InputError where a file is missing,
    rows are too few, files differ in shape, or features have another width than `config.width`, TooManyRejects where
    more than a share of `max_rejected` of the images have no finite row; what is committed stays.
    """
    folder.check_writable()
    found = list(read_receipts(folder))
    done = {image for receipt in found for image in receipt.ids}
    by_file: dict[str, list[tuple[str, int]]] = {}
    for image in records.images:
        file, row = _place(image)
        by_file.setdefault(file, []).append((image.id, row))
    outputs: dict[str, Output] = {}
    todo: list[tuple[list[tuple[str, int]], dict[str, np.ndarray]]] = []
    for file, places in by_file.items():
        path = below(root, file)
        features = _checked(path, _load(path), config.width, max(row for _, row in places))
        arrays = {"map" if features.ndim > 2 else "pooled": features}
        if config.mask:
            mask_path = _mask_path(path, config.mask)
            arrays["mask"] = _checked_mask(mask_path, _load(mask_path), features)
        shapes = {name: Output(_tokens(array).shape[1:], _dtype(name)) for name, array in arrays.items()}
        if outputs and shapes != outputs:
            raise InputError(f"{path}: rows of {_listed(shapes)}, but the files before have {_listed(outputs)}")
        outputs = shapes
        todo.append(([(image, row) for image, row in places if image not in done], arrays))
    total = sum(len(places) for places, _ in todo)
    if total:
        with Progress("features", total=total, unit="images") as bar:
            images = len(records.images)
            watch = Watch(bar, images, max_rejected, folder, made=images - total)
            for places, arrays in todo:
                for receipt in _copy(places, arrays, outputs, folder):
                    watch.committed(len(receipt.ids), receipt.rejects)
    made_by = {"backbone": ReadyMade(config).identity(), "records": records.content_fingerprint}
    return commit(folder, [image.id for image in records.images], outputs, made_by)


def _copy(
    places: list[tuple[str, int]], arrays: dict[str, np.ndarray], outputs: dict[str, Output], folder: Folder
) -> Iterator[Receipt]:
    """Shard by shard, as they are committed."""
    size = shard_rows(sum(output.row_bytes for output in outputs.values()))
    for start in range(0, len(places), size):
        part = places[start : start + size]
        rows = np.array([row for _, row in part])
        taken = {name: _tokens(array[rows]) for name, array in arrays.items()}
        if "mask" in taken and "map" in taken:
            taken["map"] = np.where(taken["mask"][..., None], taken["map"], 0)
        values = {
            n: half(v) if outputs[n].dtype == "float16" else v.astype(bool).astype(np.uint8) for n, v in taken.items()
        }
        yield write_shard(folder, [image for image, _ in part], values)


def _tokens(array: np.ndarray) -> np.ndarray:
    """(rows, ..., channels) as (rows, tokens, channels); vectors and masks stay as they are."""
    return array.reshape(len(array), -1, array.shape[-1]) if array.ndim > 3 else array


def _dtype(name: str) -> str:
    return "uint8" if name == "mask" else "float16"


def _listed(outputs: dict[str, Output]) -> str:
    return ", ".join(f"{name} {output.shape}" for name, output in outputs.items())


def _checked(path: str, features: np.ndarray, width: int, last: int) -> np.ndarray:
    if features.ndim < 2 or not np.issubdtype(features.dtype, np.floating):
        raise InputError(
            f"{path}: expected floats of shape (images, ..., channels), got {features.dtype} {features.shape}"
        )
    if width and features.shape[-1] != width:
        raise InputError(f"{path}: features are {features.shape[-1]} wide, expected {width} (features.backbone.width)")
    if last >= len(features):
        raise InputError(f"{path}: has {len(features)} rows, but an image asks for row {last}")
    return features


def _checked_mask(path: str, mask: np.ndarray, features: np.ndarray) -> np.ndarray:
    tokens = features.shape[:-1]
    if mask.shape != tokens or mask.dtype.kind not in "bui":
        raise InputError(f"{path}: expected a mask (true or false) of shape {tokens}, got {mask.dtype} {mask.shape}")
    return mask.reshape(len(mask), -1)
