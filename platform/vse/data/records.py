"""Images and captions as records. An image has any number of captions; a caption points to its image."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vse.config import fingerprint
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.storage.node_cache import read_committed
from vse.storage.parquet import parquet_bytes

_COLUMNS = {"images.parquet": ("id", "uri", "split"), "captions.parquet": ("id", "image", "text")}
_BOXES = "boxes.parquet"
_BOX_SCHEMA = pa.schema(
    [("image", pa.string()), ("label", pa.string())]
    + [(side, pa.float64()) for side in ("left", "top", "right", "bottom")]
    + [("caption", pa.string()), ("attributes", pa.list_(pa.string()))]
)
_POOL = ("train", "val")


@dataclass(frozen=True, slots=True)
class Image:
    """One image of a data set.

    Attributes:
        id: Unique in the data set.
        uri: A path below the source's root, a file:// or s3:// address, or `scene:<parameters>`.
        split: The name of its split.
    """

    id: str
    uri: str
    split: str


@dataclass(frozen=True, slots=True)
class Caption:
    """One caption of a data set.

    Attributes:
        id: Unique in the data set.
        image: The id of the image that it describes.
        text: The caption as it is tokenised and parsed.
        raw: The text of the source, if `text` lacks parts of it (links, user names) or shows them otherwise (entities).
    """

    id: str
    image: str
    text: str
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """A region of an image that is annotated with what it shows.

    Args:
        label: A category, such as "dining table", or a phrase of a caption, such as "a pink dress".
        left: Its left side as a fraction of the image's width.
        top: Its upper side as a fraction of the image's height.
        right: Its right side, likewise, exclusive.
        bottom: Its lower side, likewise, exclusive.
        caption: The id of the caption that holds the phrase; empty for a category.
        attributes: What else is known of the object, such as its colour.
    """

    label: str
    left: float
    top: float
    right: float
    bottom: float
    caption: str = ""
    attributes: tuple[str, ...] = ()

    @property
    def area(self) -> float:
        """Its share of the image."""
        return (self.right - self.left) * (self.bottom - self.top)


class StoredBoxes(Mapping[str, tuple[Box, ...]]):
    """Boxes by image id in a folder of records, read at the first access, because training needs none.

    Args:
        folder: Folder of the records.
        manifest: Manifest of that folder.
    """

    def __init__(self, folder: Folder, manifest: Mapping[str, Any]) -> None:
        self._folder, self._manifest = folder, manifest

    @cached_property
    def _by_image(self) -> dict[str, tuple[Box, ...]]:
        try:
            data = read_committed(self._folder, self._manifest, _BOXES)
        except FileNotFoundError:
            raise InputError(f"{self._folder}: holds no complete records") from None
        boxes = dict[str, list[Box]]()
        for row in pq.read_table(pa.BufferReader(data)).to_pylist():
            box: dict[str, Any] = {**row, "attributes": tuple(row["attributes"])}
            boxes.setdefault(box.pop("image"), []).append(Box(**box))
        return {image: tuple(each) for image, each in boxes.items()}

    def __getitem__(self, image: str) -> tuple[Box, ...]:
        return self._by_image[image]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_image)

    def __len__(self) -> int:
        return len(self._by_image)


@dataclass(frozen=True, eq=False)
class Split:
    """The images of one split and their captions, grouped in the order of the images.

    Attributes:
        name: Name of the split, such as `train` or `test`.
        images: Its images, in the order of the data set.
        captions: Their captions; those of one image are next to each other.
        caption_to_image: int64 array (captions,): `caption_to_image[c]` is the position in `images` of the image that
            caption `c` describes.
    """

    name: str
    images: tuple[Image, ...]
    captions: tuple[Caption, ...]
    caption_to_image: np.ndarray

    def first(self, images: int | None) -> "Split":
        """Its first so many images with all of their captions, in the rows that they have in the whole; the split
        itself if that is all of it, or if `images` is None."""
        if images is None or images >= len(self.images):
            return self
        number = int(np.searchsorted(self.caption_to_image, images))
        return Split(self.name, self.images[:images], self.captions[:number], self.caption_to_image[:number])


@dataclass(frozen=True, eq=False)
class Records:
    """All images and captions of a data set.

    Args:
        name: Name of the data set.
        images: Images of all splits.
        captions: Captions, in the order of their images.
        source: What made the records, as plain data; part of the fingerprint.
        boxes: Annotated regions by image id, of the images that have some.
        left_out: By image id, the places of captions that are left out, from 0, among all that the data set gives the
            image. What others wrote about captions by their number needs them.
        sizes: By image id, the width and height that the source states with boxes; for checks when it is first read.
    """

    name: str
    images: tuple[Image, ...]
    captions: tuple[Caption, ...]
    source: dict[str, Any] = field(default_factory=dict)
    boxes: Mapping[str, tuple[Box, ...]] = field(default_factory=dict)
    left_out: Mapping[str, Sequence[int]] = field(default_factory=dict)
    sizes: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, ids in (("image", [i.id for i in self.images]), ("caption", [c.id for c in self.captions])):
            twice = [k for k, n in Counter(ids).items() if n > 1]
            if twice:
                raise InputError(f"{self.name}: {what} id {twice[0]!r} appears more than once; ids must be unique")
        position = {image.id: k for k, image in enumerate(self.images)}
        for caption in self.captions:
            if caption.image not in position:
                raise InputError(f"{self.name}: caption {caption.id!r} points to unknown image {caption.image!r}")
        if not isinstance(self.boxes, StoredBoxes):  # which were checked when they were saved
            unknown = next((image for image in self.boxes if image not in position), None)
            assert unknown is None, f"boxes of an unknown image {unknown!r}"
        order = [position[c.image] for c in self.captions]
        assert order == sorted(order), "captions must be grouped in the order of their images"

    @cached_property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits over every record and the description of the source."""
        rows = [[i.id, i.uri, i.split] for i in self.images], [[c.id, c.image, c.text] for c in self.captions]
        boxes = [dict(self.boxes)] if self.boxes else []
        return fingerprint([self.name, *rows, self.source, *boxes])

    @cached_property
    def content_fingerprint(self) -> str:
        """Eight digits over images and captions without splits and boxes, for features and parses.

        Folds of one data set share it, so cross-validation extracts and parses once. A source that changes how it
        renders its images changes its revision.
        """
        rows = sorted([i.id, i.uri] for i in self.images), sorted([c.id, c.image, c.text] for c in self.captions)
        return fingerprint([self.name, self.source.get("revision"), *rows])

    def save(self, folder: Folder) -> None:
        """Write `images.parquet`, `captions.parquet`, `boxes.parquet` if there are boxes, and the manifest."""
        raw = ("raw",) if any(caption.raw for caption in self.captions) else ()
        for file, rows, more in (("images.parquet", self.images, ()), ("captions.parquet", self.captions, raw)):
            columns = {name: [getattr(row, name) for row in rows] for name in (*_COLUMNS[file], *more)}
            table = pa.table(columns, schema=pa.schema([(name, pa.string()) for name in columns]))
            folder.write_bytes(file, parquet_bytes(table))
        if self.boxes:
            boxes = [{"image": image, **asdict(box)} for image, each in self.boxes.items() for box in each]
            folder.write_bytes(_BOXES, parquet_bytes(pa.Table.from_pylist(boxes, schema=_BOX_SCHEMA)))
        folder.commit_manifest(
            (*_COLUMNS, *((_BOXES,) if self.boxes else ())),
            {"kind": "records", "name": self.name, "fingerprint": self.fingerprint, "source": self.source}
            | ({"left_out": dict(self.left_out)} if self.left_out else {}),
        )

    @classmethod
    def load(cls, folder: Folder) -> "Records":
        """The records that `save` wrote. Raises InputError if the folder holds no complete records."""
        manifest = folder.manifest_alone()
        if manifest is None or manifest.get("kind") != "records":
            raise InputError(f"{folder}: holds no complete records")
        try:
            files = {file: read_committed(folder, manifest, file) for file in _COLUMNS}
        except FileNotFoundError:
            raise InputError(f"{folder}: holds no complete records") from None
        tables = {file: pq.read_table(pa.BufferReader(data)).to_pylist() for file, data in files.items()}
        images = tuple(Image(**row) for row in tables["images.parquet"])
        captions = tuple(Caption(**row) for row in tables["captions.parquet"])
        boxes = StoredBoxes(folder, manifest) if _BOXES in manifest["files"] else {}
        records = cls(manifest["name"], images, captions, manifest["source"], boxes, manifest.get("left_out", {}))
        vars(records)["fingerprint"] = manifest["fingerprint"]  # computed from boxes, which would be read for it
        return records

    def of_images(self, images: tuple[Image, ...], source: dict[str, Any]) -> "Records":
        """Records of some of the images, with their captions and boxes."""
        ids = {image.id for image in images}
        captions = tuple(caption for caption in self.captions if caption.image in ids)
        boxes = {image: each for image, each in self.boxes.items() if image in ids}
        return replace(self, images=images, captions=captions, source=source, boxes=boxes)

    @property
    def split_names(self) -> tuple[str, ...]:
        """Names of the splits in order of first appearance."""
        return tuple(dict.fromkeys(image.split for image in self.images))

    def split(self, name: str) -> Split:
        """The images of a split with their captions; raises InputError that lists the splits there are."""
        if name not in self.split_names:
            rejected = len(self.source.get("rejected", ()))  # as `pipeline.without` notes them
            note = f", after {rejected} images were rejected because they have no features" if rejected else ""
            raise InputError(f"{self.name}: no split {name!r}; it has {', '.join(self.split_names)}{note}")
        images = tuple(image for image in self.images if image.split == name)
        position = {image.id: k for k, image in enumerate(images)}
        captions = tuple(c for c in self.captions if c.image in position)
        caption_to_image = np.array([position[c.image] for c in captions], dtype=np.int64)
        return Split(name, images, captions, caption_to_image)


def cross_validated(records: Records, folds: int, fold: int, held_out: str = "val") -> Records:
    """Records whose images are split again for cross-validation.

    Images are dealt to folds in the order of a hash of their ids. Folds differ by at most one image in size, and the
    order of the records does not matter. Captions, the order of images and all other splits stay as they are.

    Args:
        records: records of the whole data set.
        folds: number of folds, at least 2, or 3 for `held_out="test"`.
        fold: which of them is held out, from 0. The others become `train`.
        held_out: what the fold becomes. `val`: training and validation images are split again. `test`: test images too,
            and the next fold becomes `val`; over all folds, every image is a test image once.

    Raises:
        InputError: the numbers are out of range, or there are fewer images than folds.
    """
    is_test = held_out == "test"
    if folds < (least := 3 if is_test else 2):
        raise InputError(f"data.folds={folds}: cross-validation needs at least {least} folds")
    if not 0 <= fold < folds:
        raise InputError(f"data.fold={fold}: must be between 0 and {folds - 1}")
    splits = (*_POOL, "test") if is_test else _POOL
    pool = sorted((hashlib.sha256(i.id.encode()).hexdigest(), i.id) for i in records.images if i.split in splits)
    if len(pool) < folds:
        which = "training, validation and test" if is_test else "training and validation"
        raise InputError(f"data.folds={folds}: only {len(pool)} {which} images")
    roles = {fold: "test", (fold + 1) % folds: "val"} if is_test else {fold: "val"}
    split_of = {name: roles.get(rank % folds, "train") for rank, (_, name) in enumerate(pool)}
    images = tuple(replace(i, split=split_of.get(i.id, i.split)) for i in records.images)
    tested = {"held_out": held_out} if is_test else {}
    return replace(records, images=images, source={**records.source, "folds": folds, "fold": fold, **tested})


def limited(records: Records, number: int) -> Records:
    """The first `number` images of every split, with their captions."""
    taken: dict[str, int] = {}
    images = []
    for image in records.images:
        taken[image.split] = taken.get(image.split, 0) + 1
        if taken[image.split] <= number:
            images.append(image)
    return records.of_images(tuple(images), {**records.source, "limit": number})
