"""COCO's own caption files, `captions_*.json`, one for each split."""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from vse.config import knob
from vse.data.caption_ids import GivenCaption, gather_captions, given_id
from vse.data.notices import notice
from vse.data.records import Image, Records
from vse.data.sources import (
    Gathered,
    Source,
    SourceConfig,
    arranged,
    field,
    folder,
    image_folder,
    inside,
    name_of,
    read_json,
    readable_name,
)
from vse.errors import InputError
from vse.registry import register
from vse.storage import user_files as named_files
from vse.storage.files import local_path


@register("source", "coco")
class Coco(Source):
    """Images and captions of COCO annotation files; ids are COCO's.

    If the ids of images begin anew in each file, they follow the split: `train/7`. Captions are called after their
    image if their own ids are not unique.
    """

    image_keys = ("data.root", "data.train_images", "data.val_images", "data.test_images")

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SourceConfig):
        root: str = knob("", "folder of the data set, a path or an s3:// address")
        train: str = knob("annotations/captions_train2017.json", "captions of the training split; empty for none")
        val: str = knob("annotations/captions_val2017.json", "captions of the validation split; empty for none")
        test: str = knob("", "captions of the test split; empty for none")
        train_images: str = knob("train2017", "folder of the training images, below root or elsewhere")
        val_images: str = knob("val2017", "folder of the validation images, below root or elsewhere")
        test_images: str = knob("val2017", "folder of the test images, below root or elsewhere")

    def __init__(self, config: Config) -> None:
        self.config = config

    @property
    def image_root(self) -> str:
        """The data set's folder; URIs start with the folder of their split."""
        root = folder(self.config.root, "a COCO data set")
        named = dict.fromkeys(inside(root, images) for _, file, images in self._files() if file and images)
        return image_folder(root.uri, self.config, *named)

    def _files(self) -> tuple[tuple[str, str, str], ...]:
        """(split, file of its captions, folder of its images)."""
        c = self.config
        return ("train", c.train, c.train_images), ("val", c.val, c.val_images), ("test", c.test, c.test_images)

    def describe(self) -> Records:
        """Records of all named files; raises InputError naming the entry for a damaged or incomplete one."""
        c = self.config
        root = folder(c.root, "a COCO data set")
        if not any(file for _, file, _ in self._files()):
            raise InputError("data.train, data.val, data.test: all are empty; name at least one captions_*.json")
        parts = [_read(inside(root, file), split, images) for split, file, images in self._files() if file]
        gathered, captions = Gathered(str(root)), list[GivenCaption]()
        prefixes = _prefixes(parts)
        for part, prefix in zip(parts, prefixes, strict=True):
            for number, (image, uri) in enumerate(part.images.items()):
                gathered.image(Image(prefix + image, uri, part.split), f"{part.path}: images[{number}]")
            captions += [GivenCaption(prefix + c.image, c.id, c.text, c.place) for c in part.captions]
        gather_captions(gathered, captions, ", ".join(part.path for part in parts))
        name = readable_name(name_of(c.train or c.val or c.test).removeprefix("captions_"), "captions")
        return arranged(gathered.records(f"coco_{name}", {"source": "coco"}), c)


@dataclass(frozen=True, slots=True)
class _Part:
    """One file: the URI of each image by its id, and the captions."""

    path: str
    split: str
    images: dict[str, str]
    captions: list[GivenCaption]


def _read(path: str, split: str, images: str) -> _Part:
    data, part, by_url = read_json(path), _Part(path, split, {}, []), 0
    base = images.partition("?")[0] if named_files.is_remote(images) else images
    base = str(local_path(base)) if base.startswith("~") else base
    for number, entry in enumerate(field(data, "images", list, path)):
        where = f"{path}: images[{number}]"
        image = _required_id(entry, "id", where)
        if image in part.images:
            raise InputError(f"{where}: image id {image!r} appears twice; ids must be unique")
        name = _name_in_url(entry, where)
        by_url += bool(name)
        name = name or field(entry, "file_name", str, where)
        part.images[image] = f"{base}/{name}" if base else name
    if by_url:
        notice(f"{path}: {by_url} images have no file_name; they are named by the end of their coco_url")
    same_number = _numbers(part.images)
    for number, entry in enumerate(field(data, "annotations", list, path)):
        where = f"{path}: annotations[{number}]"
        given = _required_id(entry, "image_id", where)
        image = given if given in part.images else same_number.get(_number(given), "")
        if not image:
            raise InputError(f"{where}: points to image {given!r}, which is not in this file")
        text = None if entry.get("caption", "") is None else field(entry, "caption", str, where)
        part.captions.append(GivenCaption(image, given_id(entry, "id", where), text, where))
    return part


def _required_id(entry: Any, key: str, where: str) -> str:
    given = given_id(entry, key, where) if isinstance(entry, dict) else None
    return str(field(entry, key, (int, str), where)) if given is None else given


def _name_in_url(entry: Mapping[str, Any], where: str) -> str:
    """The file's name by the image's address, for an image without `file_name`; else empty."""
    if entry.get("file_name") is not None or entry.get("coco_url") is None:
        return ""
    name = posixpath.basename(unquote(urlsplit(field(entry, "coco_url", str, where)).path))
    if not name:
        raise InputError(f"{where}: lacks the key 'file_name' (str), and 'coco_url' ends in no name of a file")
    return name


def _number(image: str) -> int | None:
    """The number that an id is, with or without leading zeros; None for other ids."""
    return int(image) if image.isascii() and image.isdigit() and len(image) < 100 else None


def _numbers(images: Mapping[str, str]) -> dict[int | None, str]:
    """The id of the image by its number; none for numbers that several ids are."""
    found = dict[int | None, str]()
    for image in images:
        number = _number(image)
        found[number] = "" if number in found or number is None else image
    return found


def _prefixes(parts: Sequence[_Part]) -> list[str]:
    """What ids of each part's images begin with: its split if different images of several files have the same id.

    Raises InputError if one image is in two files: it would be in two splits.
    """
    first, begins_anew = dict[str, _Part](), False
    for part in parts:
        for number, (image, uri) in enumerate(part.images.items()):
            other = first.setdefault(image, part)
            if other is part:
                continue
            if posixpath.normpath(other.images[image]) == posixpath.normpath(uri):
                raise InputError(
                    f"{part.path}: images[{number}]: image {image!r} ({uri}) appears twice, in the split "
                    f"{other.split} as well; an image belongs to one split"
                )
            begins_anew = True
    if begins_anew:
        notice(
            f"{parts[0].path}: image ids begin anew in other files; they follow the split, as in {parts[0].split}/ID"
        )
    return [f"{part.split}/" if begins_anew else "" for part in parts]
