"""Ready-made features of VSE++ and SCAN: `{split}_ims.npy` with `{split}_caps.txt`.

Rows of features come once for each image or repeated for each of its captions; both give the same records.
"""

from dataclasses import dataclass

import numpy as np

from vse import named_files
from vse.config import knob
from vse.data.places import below
from vse.data.records import Caption, Image, Records
from vse.data.sources import Gathered, SourceConfig, arranged, folder, readable_name
from vse.errors import InputError
from vse.registry import register
from vse.storage import Folder

_CHECKED_GROUPS = 64


@dataclass(frozen=True, slots=True)
class PrecompSplit:
    """One split on disk: memory-mapped features (rows, ...), the caption lines, and how they belong together."""

    features: np.ndarray
    lines: tuple[str, ...]
    num_images: int
    rows_per_image: int

    @property
    def captions_per_image(self) -> int:
        return len(self.lines) // self.num_images


@register("source", "precomp")
class Precomp:
    """Records whose images exist only as features. A URI is `{split}_ims.npy#{row}`; the dev split is called val."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SourceConfig):
        root: str = knob("", "folder of the files, a path or an s3:// address")
        test: str = knob("test", "which files are the test split", choices=("test", "testall"))

    def __init__(self, config: Config) -> None:
        self.config = config

    @property
    def image_root(self) -> str:
        """Folder of the feature files."""
        return folder(self.config.root, "precomputed features").uri

    def describe(self) -> Records:
        """Records of the splits that are there; raises InputError where rows and captions do not fit together."""
        root = folder(self.config.root, "precomputed features")
        gathered = Gathered(root.uri)
        found = False
        for stem, split in (("train", "train"), ("dev", "val"), (self.config.test, "test")):
            if root.size(f"{stem}_ims.npy") is None and root.size(f"{stem}_caps.txt") is None:
                continue
            found = True
            part = read_split(root.uri, stem)
            per_image = part.captions_per_image
            for k in range(part.num_images):
                image = Image(f"{split}_{k:06d}", f"{stem}_ims.npy#{k * part.rows_per_image}", split)
                gathered.image(image, f"{root}/{stem}_ims.npy")
                for j in range(k * per_image, (k + 1) * per_image):
                    caption = Caption(f"{split}_caption_{j:06d}", image.id, part.lines[j])
                    gathered.caption(caption, f"{root}/{stem}_caps.txt line {j + 1}")
        if not found:
            raise InputError(f"data.root={root}: no train_ims.npy, dev_ims.npy or {self.config.test}_ims.npy there")
        records = gathered.records(
            readable_name(_last(root), "precomp"), {"source": "precomp", "test": self.config.test}
        )
        return arranged(records, self.config)

    def features(self, image: Image) -> np.ndarray:
        """The row of an image, a view into the memory-mapped file."""
        file, _, row = image.uri.partition("#")
        return load_features(below(self.image_root, file))[int(row)]


def _last(root: Folder) -> str:
    """The folder's own name, whichever links lead to it."""
    return root.local().resolve().name if root.is_local else root.name


def load_features(path: str) -> np.ndarray:
    """A memory-mapped array (rows, ..., dim), nothing read yet; raises InputError for a missing or damaged file.

    path: an s3:// address too, of which this node then keeps a copy.
    """
    file = named_files.local(path)
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: is no array file that can be read: {error}") from None
    if not isinstance(array, np.ndarray) or array.ndim < 2 or not np.issubdtype(array.dtype, np.floating):
        raise InputError(f"{path}: expected floats of shape (rows, ..., dim)")
    if not len(array):
        raise InputError(f"{path}: has no rows")
    return array


def read_split(root: str, stem: str) -> PrecompSplit:
    """One split; raises InputError if the captions are no whole multiple of the images."""
    features = load_features(below(root, f"{stem}_ims.npy"))
    path = below(root, f"{stem}_caps.txt")
    # Not splitlines: a stray line separator inside a caption would shift every caption behind it.
    parts = named_files.read(path).split(b"\n")
    if not parts[-1]:
        parts.pop()
    lines = tuple(part.decode(errors="replace").strip() for part in parts)
    rows = len(features)
    repeated = _repeated(features) if rows == len(lines) else 1
    if not lines or len(lines) % rows or rows % repeated:
        raise InputError(
            f"{path}: {len(lines)} captions do not belong to {rows} rows of {stem}_ims.npy: "
            f"captions must be the same whole number for each image"
        )
    return PrecompSplit(features, lines, rows // repeated, repeated)


def _repeated(features: np.ndarray) -> int:
    """How often each image's row is repeated; 1 unless groups of that size are equal inside and differ outside."""
    rows = len(features)
    size = 1
    while size < rows and np.array_equal(features[size], features[0]):
        size += 1
    if size == 1 or rows % size:
        return 1
    for start in np.linspace(0, rows // size - 1, min(_CHECKED_GROUPS, rows // size)).astype(np.int64) * size:
        group = features[start : start + size]
        if not all(np.array_equal(row, group[0]) for row in group):
            return 1
    return size
