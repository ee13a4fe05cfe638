"""What every source of records shares: its configuration, how files are read, and what is left out."""

import json
import os
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from vse import registry
from vse.config import knob
from vse.data.folds import cross_validated, limited
from vse.data.places import Root
from vse.data.records import Caption, Image, Records
from vse.errors import InputError
from vse.registry import ComponentConfig
from vse.storage import user_files as named_files
from vse.storage.files import local_path
from vse.storage.folder import Folder
from vse.text.tokens import as_caption, composed, revision_of, words

Truth = Callable[[str, str], bool | None]
"""(image id, text) -> whether the text is true of the image; None where that is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceConfig(ComponentConfig):
    """Base of the `Config` of every source."""

    folds: int = knob(0, "cross-validation inside train and val: number of folds; 0: none", low=0)
    fold: int = knob(0, "which fold is the validation split, from 0", low=0)
    limit: int = knob(0, "at most this many images per split; 0: all", low=0)
    links: tuple[str, ...] = knob(
        (), "folders that symbolic links among the images may lead to, as the blobs of a hub's cache", later=True
    )


class Source(ABC):
    """Base of the components of kind "source", made from their `Config`.

    A source that knows what its images show says so (`knows_truth`) and has `truth` and `true_pairs`.
    """

    knows_truth: ClassVar[bool] = False
    image_keys: ClassVar[tuple[str, ...]] = ()  # keys that say where image files are

    @property
    @abstractmethod
    def image_root(self) -> str:
        """The folder, a path or an s3:// address, that the URIs of its images are relative to, for `open_image`.

        It is no part of the records, which stay the same when a data set moves.
        """

    @abstractmethod
    def describe(self) -> Records:
        """All images and captions; raises InputError where the data set is missing or broken."""

    def larger(self, split: str) -> str:
        """The setting `data.KEY=VALUE` that gives a split more images; empty where there is none."""
        return ""

    @staticmethod
    def truth(records: Records) -> Truth:
        """A judge of any text about the images of these records, where the source knows the truth."""
        raise TypeError("this source does not know what is true of its images")

    @staticmethod
    def true_pairs(records: Records, split: str) -> np.ndarray:
        """(images, captions) of a split, bool: which captions are true of which images, described or not; where the
        source knows the truth."""
        raise TypeError("this source does not know what is true of its images")


def of_config(config: ComponentConfig) -> type[Source]:
    """The source that a configuration belongs to."""
    return registry.component("source", registry.name_of("source", config))


def arranged(records: Records, config: SourceConfig) -> Records:
    """The records with the configured limit and fold applied."""
    if config.limit:
        records = limited(records, config.limit)
    if config.folds or config.fold:
        records = cross_validated(records, config.folds, config.fold)
    return records


def true_pairs(config: ComponentConfig, records: Records, split: str, key: str) -> np.ndarray:
    """(images, captions) of a split, bool: which captions are true of which images, described or not.

    Raises InputError that names `key` where the configured source does not know.
    """
    source = of_config(config)
    if not source.knows_truth:
        raise InputError(f"{key}: needs a source that knows what is true of its images, such as data=scenes")
    return source.true_pairs(records, split)


@dataclass(frozen=True, slots=True)
class Reject:
    """An image or caption that was left out, and why."""

    id: str
    reason: str


def rejects(records: Records) -> tuple[Reject, ...]:
    """What the source of these records left out."""
    return tuple(Reject(*pair) for pair in records.source.get("rejects", []))


class Gathered:
    """Images and captions as a source finds them, checked; `records` closes the collection.

    Captions are kept as `as_caption` reads them, with the raw text where that is more. Those without a word are left
    out, and images left without a caption; both are kept as rejects. A word has a letter or number of any script:
    "...", "-" and pictographs are none.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._images: dict[str, Image] = {}
        self._captions: dict[str, list[Caption]] = {}
        self._caption_ids: set[str] = set()
        self._rejects: list[list[str]] = []

    def image(self, image: Image, where: str) -> None:
        """Take in an image; raises InputError if its id was there before."""
        if not _is_text(image.id + image.uri):
            raise InputError(f"{where}: image id {image.id!r} is not valid text; expected whole Unicode characters")
        if image.id in self._images:
            raise InputError(f"{where}: image id {image.id!r} appears twice; ids must be unique")
        self._images[image.id] = image
        self._captions[image.id] = []

    def caption(self, caption: Caption, where: str) -> None:
        """Take in a caption of a known image; raises InputError if its id was there before or its image was not."""
        if not _is_text(caption.id):
            raise InputError(f"{where}: caption id {caption.id!r} is not valid text; expected whole Unicode characters")
        if caption.id in self._caption_ids:
            raise InputError(f"{where}: caption id {caption.id!r} appears twice; ids must be unique")
        if caption.image not in self._images:
            raise InputError(f"{where}: caption {caption.id!r} points to image {caption.image!r}, which is not listed")
        self._caption_ids.add(caption.id)
        text = as_caption(caption.text)
        if not _is_text(text):
            self._rejects.append([caption.id, "caption with half a character (a lone surrogate)"])
        elif not has_word(text):
            self._rejects.append([caption.id, "caption without a word"])
        else:
            raw = "" if text == composed(caption.text) else caption.text
            self._captions[caption.image].append(Caption(caption.id, caption.image, text, raw))

    def reject(self, name: str, reason: str) -> None:
        """Leave out a caption of that id, for a reason."""
        self._rejects.append([name, reason])

    def records(self, name: str, source: dict[str, Any]) -> Records:
        """Everything taken in, grouped; raises InputError if nothing is left."""
        images = []
        for image in self._images.values():
            if self._captions[image.id]:
                images.append(image)
            else:
                self._rejects.append([image.id, "image without a caption"])
        if not images:
            raise InputError(f"{self._where}: holds no image with a caption")
        captions = [c for image in images for c in self._captions[image.id]]
        revision = revision_of(c.text for c in captions)
        tokens = {"tokens": revision} if revision > 1 else {}  # what is made of the captions depends on it
        return Records(name, tuple(images), tuple(captions), {**source, **tokens, "rejects": self._rejects})


def _is_text(text: str) -> bool:
    """Whether it can be written as UTF-8: JSON may hold halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def has_word(text: str) -> bool:
    """Whether a text has a word: one with a letter or number of any script. A pictograph is none."""
    return any(unicodedata.category(sign)[0] in "LN" for word in words(text) for sign in word)


def readable_name(name: str, otherwise: str) -> str:
    """The name of a file or folder as the name of a data set, which becomes part of folders and addresses.

    Letters beyond ASCII, spaces and signs become hyphens; `otherwise` where nothing is left. Names need not be unique:
    a fingerprint follows them.
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or otherwise


def read_json(address: str) -> Any:
    """The content of a JSON file; raises InputError naming the file if it is missing or broken."""
    data = named_files.read(address)
    try:
        return json.loads(data)
    except UnicodeDecodeError:
        raise InputError(f"{address}: is not UTF-8 text; expected JSON") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{address}: is not whole JSON (line {error.lineno}: {error.msg}); was it cut off?") from None
    except ValueError:  # Python makes no integer of more than 4,300 digits
        raise InputError(f"{address}: holds an integer of thousands of digits; no data set has one") from None
    except RecursionError:
        raise InputError(f"{address}: is nested too deeply to be a data set") from None


def field(item: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """`item[key]`; raises InputError naming the place if `item` is no object, lacks the key or holds another type."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    expected = " or ".join(k.__name__ for k in kinds)
    if not isinstance(item, dict):
        raise InputError(f"{where}: expected an object with {key!r}, got {type(item).__name__}")
    if key not in item:
        raise InputError(f"{where}: lacks the key {key!r} ({expected})")
    if not isinstance(item[key], kinds) or isinstance(item[key], bool):
        raise InputError(f"{where}: {key!r} must be {expected}, got {type(item[key]).__name__}")
    return item[key]


def folder(root: str, what: str) -> Folder:
    """A folder that must exist, by path or s3:// address; raises InputError naming the key."""
    if not root:
        raise InputError(f"data.root: name the folder of {what}, a path or s3://bucket/prefix")
    if not (Folder.open(root).exists() if named_files.is_remote(root) else local_path(root).is_dir()):
        raise InputError(f"data.root={root}: no such folder; expected the folder of {what}")
    return Folder.open(root)


def image_folder(uri: str, config: SourceConfig, *named: str) -> Root:
    """The folder of a data set's images. They may also lie in the folders that are `named`, and be links into those of
    `data.links`; raises InputError if one of the latter does not exist."""
    links = []
    for each in config.links:
        if not Folder.open(each).exists():
            raise InputError(f"data.links={each}: no such folder; expected one that links among the images lead to")
        links.append(Folder.open(each).uri)
    return Root(uri, (*named, *links))


def inside(root: Folder, file: str) -> str:
    """Path or address of the file that a key names: below the root, unless it is a whole path or address itself."""
    path = os.path.expanduser(file)
    return path if named_files.is_remote(path) or os.path.isabs(path) else root.address(file)


def name_of(address: str) -> str:
    """The name of the file at a path or address, without its ending."""
    return Path(Folder.of_file(address)[1]).stem
