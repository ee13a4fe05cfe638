"""The base of all sources: their common keys, the records they build, and how a folder's source is recognised.

A source is one file in `vse.data.sources` and one name in the import line there.
"""

import os
import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from vse import registry
from vse.config import knob
from vse.data.boxes import NO_BOXES, Annotated
from vse.data.places import Root
from vse.data.reading import is_json_lines, is_text, notice, read_json
from vse.data.records import Caption, Image, Records, cross_validated, limited
from vse.errors import InputError
from vse.registry import ComponentConfig
from vse.storage import user_files
from vse.storage.files import local_path
from vse.storage.folder import Folder
from vse.text.tokens import as_caption, composed, revision_of, words

Truth = Callable[[str, str], bool | None]
"""(image id, text) -> whether the text is true of the image; None if that is not known."""
SceneGraphs = Callable[[str], frozenset[tuple[str, ...]]]
"""Image id -> what is in the image: (noun,), (attribute, noun) and (subject, relation, object)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceConfig(ComponentConfig):
    """Base of the `Config` of every source: the keys that all sources have."""

    folds: int = knob(0, "cross-validation: number of folds; 0: none", low=0)
    fold: int = knob(0, "which fold is held out, from 0", low=0)
    held_out: str = knob(
        "val",
        "val: folds of the training and validation images; test: folds of all images, and the next fold is val",
        choices=("val", "test"),
    )
    limit: int = knob(0, "at most this many images per split; 0: all", low=0)
    links: tuple[str, ...] = knob(
        (), "folders that symbolic links among the images may lead to, such as the blobs of a hub's cache"
    )


class DataLocation:
    """A folder, or one file in it, whose source is to be recognised."""

    def __init__(self, folder: Folder, file: str = "") -> None:
        self.folder, self.file = folder, file

    def named(self, pattern: str) -> list[str]:
        """The files whose name matches a pattern such as `dataset_*.json`: the one file, or all in the folder."""
        names = [self.file] if self.file else self.folder.names()
        return [name for name in names if fnmatch(name, pattern)]

    @cached_property
    def json(self) -> dict[str, Any]:
        """The object in the file, if the file is JSON and holds one; otherwise empty."""
        address = self.folder.address(self.file)
        try:
            content = read_json(address) if fnmatch(self.file.lower(), "*.json") else None
        except InputError:
            if is_json_lines(address):  # a table
                return {}
            raise
        return content if isinstance(content, dict) else {}

    def __str__(self) -> str:
        return self.folder.address(self.file) if self.file else str(self.folder)


class Source(ABC):
    """Base of the components of kind "source".

    Class attributes:
        title: what `data.root` is the folder of, for messages: "a COCO data set".
        layout: which files show that a folder holds this format, for messages: "dataset_*.json". Empty if the source
            is never recognised.
        precedence: sources are asked whether they recognise a folder in falling order of this number.
        image_keys: the keys that say where image files are.
        has_images: whether the source has image files. Otherwise it brings features alone.
        knows_truth: whether the source implements `truth`, `true_pairs` and `scene_graphs`.
    """

    title: ClassVar[str] = "the data set"
    layout: ClassVar[str] = ""
    precedence: ClassVar[int] = 0
    image_keys: ClassVar[tuple[str, ...]] = ("data.root",)
    has_images: ClassVar[bool] = True
    knows_truth: ClassVar[bool] = False

    def __init__(self, config: Any) -> None:
        self.config = config

    @property
    @abstractmethod
    def image_root(self) -> str:
        """The folder (a path or an s3:// address) that the URIs of the images are relative to.

        It is no part of the records. They stay the same when a data set moves.
        """

    @abstractmethod
    def read(self) -> Records:
        """All images and captions. Raises InputError if the data set is missing or broken."""

    def describe(self) -> Records:
        """The records that `read` returns, with `data.limit` and the keys of cross-validation applied."""
        records, config = self.read(), self.config
        if config.limit:
            records = limited(records, config.limit)
        if config.folds or config.fold or config.held_out == "test":
            records = cross_validated(records, config.folds, config.fold, config.held_out)
        return records

    def with_all_captions(self) -> Any:
        """The configuration without keys that keep images from training: words of adversaries are counted there, so
        that runs that differ in them meet the same ones."""
        return self.config

    @classmethod
    def recognises(cls, location: DataLocation) -> bool:
        """Whether a folder or file has the format of this source."""
        return False

    @classmethod
    def keys_for(cls, location: DataLocation) -> dict[str, str]:
        """The keys, without `data.`, with which this source reads a folder or file. Raises InputError if none do."""
        file = {"file": str(location)} if location.file else {}
        return {"root": location.folder.uri, **file}

    def setting_for_more(self, split: str) -> str:
        """The setting `data.KEY=VALUE` that gives a split more images; empty if there is none."""
        return ""

    @staticmethod
    def truth(records: Records) -> Truth:
        """Judges whether any text is true of an image of these records."""
        raise TypeError("this source does not know what is true of its images")

    @staticmethod
    def true_pairs(records: Records, split: str) -> np.ndarray:
        """bool (images, captions): whether each caption of a split is true of each image, not only of its own."""
        raise TypeError("this source does not know what is true of its images")

    @staticmethod
    def scene_graphs(records: Records) -> SceneGraphs:
        """What is in every image of these records, whatever its captions say."""
        raise TypeError("this source does not know what is in its images")

    def folder(self) -> Folder:
        """The folder `data.root`. Raises InputError if the key is empty or there is no such folder."""
        root = self.config.root
        if not root:
            raise InputError(f"data.root: name the folder of {self.title}, a path or s3://bucket/prefix")
        if not (Folder.open(root).exists() if user_files.is_remote(root) else local_path(root).is_dir()):
            raise InputError(f"data.root={root}: no such folder; expected the folder of {self.title}")
        return Folder.open(root)

    def root_of_images(self, uri: str, *others: str) -> Root:
        """A folder of images, as `image_root` returns it.

        Args:
            uri: the folder.
            others: further folders in which images may be.

        Raises:
            InputError: a folder of `data.links` does not exist.
        """
        links = []
        for each in self.config.links:
            if not Folder.open(each).exists():
                raise InputError(f"data.links={each}: no such folder; expected the target of links in the image folder")
            links.append(Folder.open(each).uri)
        return Root(uri, (*others, *links))


def source_of(config: ComponentConfig) -> type[Source]:
    """The source that a configuration belongs to."""
    return registry.component("source", registry.name_of("source", config))


def recognise(address: str, name: str = "") -> tuple[str, dict[str, str]]:
    """Find the source that reads a folder or file.

    Args:
        address: a folder or a file, as a path or an s3:// address.
        name: the name of the source; empty to recognise it from the files.

    Returns:
        (name of the source, its configuration keys without the prefix `data.`).

    Raises:
        InputError: there is no such file or folder, or no source recognises it.
    """
    address = address if user_files.is_remote(address) else str(local_path(address).absolute())
    folder, file = Folder.of_file(address) if user_files.is_file(address) else (Folder.open(address), "")
    location = DataLocation(folder, file)
    if not file and not folder.exists():
        raise InputError(f"{address}: no such file or folder")
    if not name and not (name := name_of_source(location)):
        layouts = ", ".join(f"{source.layout} ({each})" for each, source in _by_precedence() if source.layout)
        raise InputError(f"{address}: no source recognises it; expected one of {layouts}")
    source: type[Source] = registry.component("source", name)
    return name, source.keys_for(location)


def name_of_source(location: DataLocation) -> str:
    """The name of the source that recognises a folder or file; empty if none does."""
    return next((name for name, source in _by_precedence() if source.recognises(location)), "")


def _by_precedence() -> list[tuple[str, type[Source]]]:
    sources = [(name, registry.component("source", name)) for name in registry.names("source")]
    return sorted(sources, key=lambda item: -item[1].precedence)


def true_pairs(config: ComponentConfig, records: Records, split: str, key: str) -> np.ndarray:
    """For each image and caption of a split, whether the caption is true of the image, whichever image it describes.

    Args:
        config: configuration of the source.
        records: what the source described.
        split: name of the split.
        key: the key that asks for the truth, for the message.

    Returns:
        bool array (images, captions).

    Raises:
        InputError: the source does not know which captions are true of which images.
    """
    source = source_of(config)
    if not source.knows_truth:
        raise InputError(f"{key}: needs a source that knows which captions are true, such as data=scenes")
    return source.true_pairs(records, split)


@dataclass(frozen=True, slots=True)
class Reject:
    """An image or caption that was left out, and the reason."""

    id: str
    reason: str


def rejects(records: Records) -> tuple[Reject, ...]:
    """What the source of these records left out."""
    return tuple(Reject(*pair) for pair in records.source.get("rejects", []))


@dataclass(frozen=True, slots=True)
class GivenCaption:
    """A caption as its file gives it: `id` and `text` may be None. `where` is file and entry, for messages."""

    image: str
    id: str | None
    text: str | None
    where: str


class RecordsBuilder:
    """Collects images and captions, checks them, and makes records of them.

    Captions are kept as `as_caption` reads them, with the raw text if that holds more. Captions without a word and
    images without a caption become rejects. A word has a letter or number of any script: "..." and emoji have none.

    Args:
        path: the file or folder that is read, for messages.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._images: dict[str, Image] = {}
        self._captions: dict[str, list[Caption | None]] = {}  # None: one that is left out
        self._caption_ids: set[str] = set()
        self._rejects: list[list[str]] = []
        self._annotated: dict[str, Annotated] = {}

    def image(self, image: Image, where: str, annotated: Annotated = NO_BOXES) -> None:
        """Add an image with its annotated regions; `where` is file and entry, for messages.

        Raises InputError if its id is not unique.
        """
        if not is_text(image.id + image.uri):
            raise InputError(f"{where}: image id {image.id!r} is not valid text; expected whole Unicode characters")
        if image.id in self._images:
            raise InputError(f"{where}: image id {image.id!r} appears twice; ids must be unique")
        self._images[image.id] = image
        self._captions[image.id] = []
        self._annotated[image.id] = annotated

    def caption(self, caption: Caption, where: str) -> None:
        """Add a caption, with the text of its file, of an image that was added before; `where` is as for `image`.

        Raises InputError if its id is not unique.
        """
        if not is_text(caption.id):
            raise InputError(f"{where}: caption id {caption.id!r} is not valid text; expected whole Unicode characters")
        if caption.id in self._caption_ids:
            raise InputError(f"{where}: caption id {caption.id!r} appears twice; ids must be unique")
        if caption.image not in self._images:
            raise InputError(f"{where}: caption {caption.id!r} points to image {caption.image!r}, which is not listed")
        self._caption_ids.add(caption.id)
        text, kept = as_caption(caption.text), None
        if not is_text(text):
            self.reject(caption.id, "caption with half a character (a lone surrogate)")
        elif not has_word(text):
            self.reject(caption.id, "caption without a word")
        else:
            raw = "" if text == composed(caption.text) else caption.text
            kept = Caption(caption.id, caption.image, text, raw)
        self._captions[caption.image].append(kept)

    def given_captions(self, captions: Sequence[GivenCaption]) -> None:
        """Add captions under the ids of their file if these are unique, otherwise as `image#k`.

        k counts the captions of the image from 0. Null captions become rejects. Raises InputError as `caption` does.
        """
        counts = Counter(caption.id for caption in captions if caption.id is not None)
        repeated = next((id_ for id_, count in counts.items() if count > 1), None)
        if repeated is not None:
            notice(f"{self._path}: the caption id {repeated!r} is not unique; naming captions IMAGE#0, IMAGE#1, ...")
        number = Counter[str]()
        for caption in captions:
            numbered = f"{caption.image}#{number[caption.image]}"
            number[caption.image] += 1
            name = caption.id if caption.id is not None and repeated is None else numbered
            if caption.text is None:
                self.reject(name, "caption is null")
                self._captions.get(caption.image, []).append(None)
            else:
                self.caption(Caption(name, caption.image, caption.text), caption.where)

    def reject(self, id_: str, reason: str) -> None:
        """Leave out the image or caption with this id, for a reason."""
        self._rejects.append([id_, reason])

    def records(self, name: str, source: dict[str, Any]) -> Records:
        """The records of everything added.

        Args:
            name: name of the data set.
            source: plain data that is part of the fingerprint: the source's name and the keys that change its records.

        Raises:
            InputError: no image has a caption.
        """
        images = []
        for image in self._images.values():
            if any(self._captions[image.id]):
                images.append(image)
            else:
                self.reject(image.id, "image without a caption")
        if not images:
            raise InputError(f"{self._path}: holds no image with a caption")
        captions = [c for image in images for c in self._captions[image.id] if c]
        gaps = {image.id: [k for k, c in enumerate(self._captions[image.id]) if c is None] for image in images}
        revision = revision_of(c.text for c in captions)  # what is made of the captions depends on it
        source = {**source, **({"tokens": revision} if revision > 1 else {}), "rejects": self._rejects}
        boxes = {image.id: each for image in images if (each := self._annotated[image.id][0])}
        sizes = {image.id: each for image in images if (each := self._annotated[image.id][1])}
        left_out = {image: places for image, places in gaps.items() if places}
        return Records(name, tuple(images), tuple(captions), source, boxes, left_out, sizes)


def has_word(text: str) -> bool:
    """Whether a text has a word: one with a letter or number of any script."""
    return any(unicodedata.category(sign)[0] in "LN" for word in words(text) for sign in word)


def readable_name(name: str, default: str) -> str:
    """The name of a file or folder as the name of a data set, which becomes part of folders and addresses.

    Other characters than ASCII letters, digits, `.`, `_` and `-` become hyphens; `default` if nothing is left. Names
    need not be unique, because a fingerprint follows them.
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or default


def inside(root: Folder, file: str) -> str:
    """The path or address of a file that a key names: in the folder, unless it is an absolute path or an address."""
    path = os.path.expanduser(file)
    return path if user_files.is_remote(path) or os.path.isabs(path) else root.address(file)


def stem(address: str) -> str:
    """The name of the file at a path or address, without its ending."""
    return Path(Folder.of_file(address)[1]).stem
