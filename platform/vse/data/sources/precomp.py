"""Ready-made features of VSE++ and SCAN: `{split}_ims.npy` (or .npz, .pt) with `{split}_caps.txt`.

Rows of features come once for each image or repeated for each of its captions; both give the same records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vse.config import knob
from vse.data.array_files import ENDINGS, read_array, split_name
from vse.data.places import below
from vse.data.ragged import Ragged
from vse.data.reading import decode
from vse.data.records import Caption, Image, Records
from vse.data.source import DataLocation, RecordsBuilder, Source, SourceConfig, readable_name
from vse.errors import InputError
from vse.registry import register
from vse.storage import user_files
from vse.storage.folder import Folder

_CHECKED_GROUPS = 64


@dataclass(frozen=True, slots=True)
class PrecompSplit:
    """One split on disk: the caption lines, and how they and the rows of features belong together."""

    lines: tuple[str, ...]
    num_images: int
    rows_per_image: int

    @property
    def captions_per_image(self) -> int:
        return len(self.lines) // self.num_images


@register("source", "precomp")
class Precomp(Source):
    """Records whose images exist only as features.

    A URI is `{split}_ims.npy#{row}`, or `{split}_ims.npz:{array}#{row}` if `data.array` names one. The split dev is
    called val.
    """

    title = "precomputed features"
    layout = "*_ims.npy"
    image_keys = ()
    has_images = False

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SourceConfig):
        root: str = knob("", "folder of the files, a path or an s3:// address")
        test: str = knob("test", "which files are the test split", choices=("test", "testall"))
        array: str = knob("", "name of the features in .npz or .pt files that hold several arrays")
        encoding: str = knob("", "encoding of the captions, such as latin-1; default: UTF-8")

    config: Config

    @property
    def image_root(self) -> str:
        """Folder of the feature files."""
        return self.root_of_images(self.folder().uri)

    def read(self) -> Records:
        """Records of the splits that are there. Raises InputError if rows and captions do not fit together."""
        root = self.folder()
        builder, is_empty = RecordsBuilder(root.uri), True
        for stem, split in (("train", "train"), ("dev", "val"), (self.config.test, "test")):
            names = [f"{stem}_ims{ending}" for ending in ENDINGS]
            file = next((name for name in names if root.size(name) is not None), None)
            if file is None and root.size(f"{stem}_caps.txt") is None:
                continue
            is_empty, file = False, self._array(file or names[0])
            part = read_split(self.image_root, stem, file, self.config.encoding)
            per_image = part.captions_per_image
            for k in range(part.num_images):
                image = Image(f"{split}_{k:06d}", f"{file}#{k * part.rows_per_image}", split)
                builder.image(image, f"{root}/{file}")
                for j in range(k * per_image, (k + 1) * per_image):
                    caption = Caption(f"{split}_caption_{j:06d}", image.id, part.lines[j])
                    builder.caption(caption, f"{root}/{stem}_caps.txt line {j + 1}")
        if is_empty:
            raise InputError(f"data.root={root}: no train_ims.npy, dev_ims.npy or {self.config.test}_ims.npy there")
        folder = root.local().resolve().name if root.is_local else root.name  # its own name, whichever link leads to it
        return builder.records(readable_name(folder, "precomp"), {"source": "precomp", "test": self.config.test})

    @classmethod
    def recognises(cls, location: DataLocation) -> bool:
        """Recognises a folder by its arrays."""
        return not location.file and bool(location.named("*_ims.npy"))

    @classmethod
    def keys_for(cls, location: DataLocation) -> dict[str, str]:
        """Raises InputError for a file, because the captions are in another one."""
        if location.file:
            raise InputError(f"{location}: is a file; name the folder of train_ims.npy, dev_ims.npy or test_ims.npy")
        return {"root": location.folder.uri}

    def setting_for_more(self, split: str) -> str:
        """COCO's releases hold 1,000 test images and all 5,000, which COCO 5K and five times 1K measure."""
        root = Folder.open(self.image_root)
        larger = split == "test" == self.config.test and any(root.exists(f"testall_ims{end}") for end in ENDINGS)
        return "data.test=testall" if larger else ""

    def _array(self, file: str) -> str:
        return f"{file}:{self.config.array}" if self.config.array and not file.endswith(".npy") else file


def _rows_of(path: str, name: str) -> Sequence[np.ndarray] | np.ndarray:
    """The rows of an array file, mapped if possible. Raises InputError if the file is missing or damaged."""
    array = read_array(path, name)
    values = array.values if isinstance(array, Ragged) else array
    if values.ndim < 2 or not np.issubdtype(values.dtype, np.floating):
        raise InputError(f"{path}: expected floats of shape (rows, ..., dim)")
    if not len(array):
        raise InputError(f"{path}: has no rows")
    return [array.row(k) for k in range(len(array))] if isinstance(array, Ragged) else array


def read_split(root: str, stem: str, file: str, encoding: str) -> PrecompSplit:
    """One split of ready-made features with its captions.

    Args:
        root: folder of the files.
        stem: name of the split in the file of captions, `{stem}_caps.txt`.
        file: file of features in the folder, perhaps with `:name` of one of its arrays.
        encoding: encoding of the captions; empty for UTF-8.

    Raises:
        InputError: the captions are no whole multiple of the images, only some rows are repeated, or the captions are
            not text in this encoding.
    """
    name = split_name(file)
    array = below(root, name[0])
    features = _rows_of(array, name[1])
    path = below(root, f"{stem}_caps.txt")
    # Not splitlines: a stray line separator inside a caption would shift every caption behind it.
    parts = decode(user_files.read(path), path, encoding)[0].split("\n")
    if not parts[-1]:
        parts.pop()
    lines = tuple(part.strip() for part in parts)
    rows = len(features)
    repeated = _repeated(features, array) if rows == len(lines) else 1
    if not lines or len(lines) % rows:
        raise InputError(
            f"{path}: {len(lines)} captions do not match {rows} rows of {file}: "
            "every image must have the same number of captions; if numbers differ, write a table of captions whose "
            f"image is a row, {file}#17, and use data=table data.file=captions.csv instead of data=precomp"
        )
    return PrecompSplit(lines, rows // repeated, repeated)


def _repeated(features: Sequence[np.ndarray] | np.ndarray, path: str) -> int:
    """How often each image's row is repeated: the largest size of groups that are equal inside, or 1.

    Neighbours may be equal by chance, so the run of equal rows with which the array begins or ends has whole groups,
    and sampled groups must agree. Raises InputError if most of them agree and others do not, or if all rows are the
    same and each is one repeated number.
    """
    rows = len(features)
    run = max(_first_run(features), _first_run(features[::-1]))
    if run == rows > 1 and not _says_something(features[0]):
        raise InputError(
            f"{path}: each of its {rows} rows repeats a single number or is not finite; check the program that wrote it"
        )
    starts = np.linspace(0, (rows - 1) // run, min(_CHECKED_GROUPS, -(-rows // run))).astype(np.int64) * run
    blocks = [_same_as_next(features[start : start + run]) for start in starts]
    sizes = {size: _constant(blocks, size) for size in range(run, 1, -1) if run % size == 0}
    for size, share in sizes.items():
        if share == 1:
            return size
    for size, share in sizes.items():
        if share > 0.5:  # one row an image would make an image's own captions negatives of each other
            raise InputError(
                f"{path}: most of its rows, but not all, occur {size} times in succession; repeat each image's "
                "row once for each of its captions, or give it once"
            )
    return 1


def _constant(blocks: list[list[bool]], size: int) -> float:
    """Share of the groups of `size` rows that are whole and equal inside; blocks say which rows equal the next."""
    groups = [block[at : at + size - 1] for block in blocks for at in range(0, len(block) + 1, size)]
    return sum(len(group) == size - 1 and all(group) for group in groups) / len(groups)


def _first_run(features: Sequence[np.ndarray] | np.ndarray) -> int:
    """How many rows from the first on are equal to it."""
    size = 1
    while size < len(features) and _same(features[size], features[0]):
        size += 1
    return size


def _same_as_next(rows: Sequence[np.ndarray] | np.ndarray) -> list[bool]:
    return [_same(one, other) for one, other in pairwise(rows)]


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether rows are copies, damaged ones too: a NaN equals a NaN at the same place."""
    return np.array_equal(one, other, equal_nan=True)


def _says_something(row: np.ndarray) -> bool:
    return bool(np.isfinite(row).all()) and len(np.unique(row)) > 1
