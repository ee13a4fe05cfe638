"""Images and captions as records. An image has any number of captions; a caption points to its image."""

import hashlib
import io
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vse.config import fingerprint
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.storage.node_cache import read_committed

_COLUMNS = {"images.parquet": ("id", "uri", "split"), "captions.parquet": ("id", "image", "text")}
_POOL = ("train", "val")


@dataclass(frozen=True, slots=True)
class Image:
    """One image: `uri` is a path below the source's root, a file:// or s3:// address, or `scene:<parameters>`."""

    id: str
    uri: str
    split: str


@dataclass(frozen=True, slots=True)
class Caption:
    """One caption and the id of the image it describes.

    raw: what the source has, where `text` lacks some of it (links, user names) or shows it otherwise (entities).
    """

    id: str
    image: str
    text: str
    raw: str = ""


@dataclass(frozen=True, eq=False)
class Split:
    """The images of one split and their captions, grouped in the order of the images.

    `caption_to_image[c]` is the position in `images` of the image that caption `c` describes.
    """

    name: str
    images: tuple[Image, ...]
    captions: tuple[Caption, ...]
    caption_to_image: np.ndarray

    def first(self, images: int | None) -> "Split":
        """Its first so many images with all of their captions, in the rows that they have in the whole; the split
        itself if that is all of it, or where None is asked for."""
        if images is None or images >= len(self.images):
            return self
        number = int(np.searchsorted(self.caption_to_image, images))
        return Split(self.name, self.images[:images], self.captions[:number], self.caption_to_image[:number])


@dataclass(frozen=True, eq=False)
class Records:
    """All images and captions of a data set, with what made them (`source`, plain data, enters the fingerprint)."""

    name: str
    images: tuple[Image, ...]
    captions: tuple[Caption, ...]
    source: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, ids in (("image", [i.id for i in self.images]), ("caption", [c.id for c in self.captions])):
            twice = [k for k, n in Counter(ids).items() if n > 1]
            if twice:
                raise InputError(f"{self.name}: {what} id {twice[0]!r} appears more than once; ids must be unique")
        position = {image.id: k for k, image in enumerate(self.images)}
        for caption in self.captions:
            if caption.image not in position:
                raise InputError(f"{self.name}: caption {caption.id!r} points to unknown image {caption.image!r}")
        order = [position[c.image] for c in self.captions]
        assert order == sorted(order), "captions must be grouped in the order of their images"

    @cached_property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits over every record and the description of the source."""
        rows = [[i.id, i.uri, i.split] for i in self.images], [[c.id, c.image, c.text] for c in self.captions]
        return fingerprint([self.name, *rows, self.source])

    @cached_property
    def content_fingerprint(self) -> str:
        """Eight digits over images and captions whatever split they are in: what features and parses depend on.

        Folds of one data set share it, so cross-validation extracts and parses once; a source that draws its images
        differently than before says so by its revision.
        """
        rows = sorted([i.id, i.uri] for i in self.images), sorted([c.id, c.image, c.text] for c in self.captions)
        return fingerprint([self.name, self.source.get("revision"), *rows])

    def save(self, folder: Folder) -> None:
        """Write `images.parquet`, `captions.parquet` and the manifest; what plain pyarrow can read."""
        raw = ("raw",) if any(caption.raw for caption in self.captions) else ()
        for file, rows, more in (("images.parquet", self.images, ()), ("captions.parquet", self.captions, raw)):
            columns = {name: [getattr(row, name) for row in rows] for name in (*_COLUMNS[file], *more)}
            sink = io.BytesIO()
            pq.write_table(pa.table(columns, schema=pa.schema([(name, pa.string()) for name in columns])), sink)
            folder.write_bytes(file, sink.getvalue())
        folder.commit_manifest(
            _COLUMNS, {"kind": "records", "name": self.name, "fingerprint": self.fingerprint, "source": self.source}
        )

    @classmethod
    def load(cls, folder: Folder) -> "Records":
        """What `save` wrote; raises InputError where the folder holds no complete records."""
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
        return cls(manifest["name"], images, captions, manifest["source"])

    @property
    def split_names(self) -> tuple[str, ...]:
        """Names of the splits in order of first appearance."""
        return tuple(dict.fromkeys(image.split for image in self.images))

    def split(self, name: str) -> Split:
        """The images of a split with their captions; raises InputError that lists the splits there are."""
        if name not in self.split_names:
            gone = len(self.source.get("rejected", ()))  # as `pipeline.without` notes them
            told = f", after {gone} images were rejected for want of features" if gone else ""
            raise InputError(f"{self.name}: no split {name!r}; it has {', '.join(self.split_names)}{told}")
        images = tuple(image for image in self.images if image.split == name)
        position = {image.id: k for k, image in enumerate(images)}
        captions = tuple(c for c in self.captions if c.image in position)
        caption_to_image = np.array([position[c.image] for c in captions], dtype=np.int64)
        return Split(name, images, captions, caption_to_image)


def cross_validated(records: Records, folds: int, fold: int) -> Records:
    """Records whose training and validation images are split again for cross-validation.

    Images are dealt to folds in the order of a hash of their ids. Folds differ by at most one image in size, and the
    order of the records does not matter. Captions, the order of images and all other splits stay as they are.

    Args:
        records: of the whole data set.
        folds: number of folds, at least 2.
        fold: which of them becomes the split `val`, from 0. The others become `train`.

    Raises:
        InputError: the numbers are out of range, or there are fewer images than folds.
    """
    if folds < 2:
        raise InputError(f"data.folds={folds}: cross-validation needs at least 2 folds")
    if not 0 <= fold < folds:
        raise InputError(f"data.fold={fold}: must be between 0 and {folds - 1}")
    pool = sorted((hashlib.sha256(i.id.encode()).hexdigest(), i.id) for i in records.images if i.split in _POOL)
    if len(pool) < folds:
        raise InputError(f"data.folds={folds}: only {len(pool)} training and validation images")
    held_out = {name for rank, (_, name) in enumerate(pool) if rank % folds == fold}
    images = tuple(
        replace(i, split="val" if i.id in held_out else "train") if i.split in _POOL else i for i in records.images
    )
    return replace(records, images=images, source={**records.source, "folds": folds, "fold": fold})


def limited(records: Records, number: int) -> Records:
    """The first `number` images of every split, with their captions."""
    taken: dict[str, int] = {}
    images = []
    for image in records.images:
        taken[image.split] = taken.get(image.split, 0) + 1
        if taken[image.split] <= number:
            images.append(image)
    kept = {image.id for image in images}
    captions = tuple(c for c in records.captions if c.image in kept)
    return replace(records, images=tuple(images), captions=captions, source={**records.source, "limit": number})
