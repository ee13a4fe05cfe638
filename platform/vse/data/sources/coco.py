"""COCO's own caption files, `captions_*.json`, one for each split."""

import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from vse.config import knob
from vse.data.boxes import NO_BOXES, of_files
from vse.data.reading import SPLITS, field, notice, optional_id, read_json, required_id
from vse.data.records import Image, Records
from vse.data.source import (
    DataLocation,
    GivenCaption,
    RecordsBuilder,
    Source,
    SourceConfig,
    inside,
    readable_name,
    stem,
)
from vse.errors import InputError
from vse.registry import register
from vse.storage import user_files
from vse.storage.files import local_path
from vse.storage.folder import Folder


@register("source", "coco")
class Coco(Source):
    """Images and captions of COCO annotation files; ids are COCO's.

    If the ids of images start again in each file, they get the split as a prefix: `train/7`. Captions are named after
    their image if their own ids are not unique.
    """

    title = "a COCO data set"
    layout = "captions_*.json there or in annotations"
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
        boxes: tuple[str, ...] = knob((), "files instances_*.json with the boxes of objects, one for each split")

    config: Config

    @property
    def image_root(self) -> str:
        """The data set's folder. URIs start with the folder of their split."""
        root = self.folder()
        images = (self._images(split) for split in SPLITS if self._captions(split) and self._images(split))
        return self.root_of_images(root.uri, *dict.fromkeys(inside(root, folder) for folder in images))

    def read(self) -> Records:
        """Records of all named files. Raises InputError naming the entry that is damaged or incomplete."""
        root, files = self.folder(), {split: file for split in SPLITS if (file := self._captions(split))}
        if not files:
            raise InputError("data.train, data.val, data.test: all are empty; name at least one captions_*.json")
        parts = [_read(inside(root, file), split, self._images(split)) for split, file in files.items()]
        builder, captions = RecordsBuilder(", ".join(part.path for part in parts)), list[GivenCaption]()
        prefixes = _prefixes(parts)
        if self.config.boxes and any(prefixes):
            raise InputError(
                "data.boxes: the caption files use the same image ids, so the split of a file of boxes is ambiguous"
            )
        named = [inside(root, file) for file in self.config.boxes]
        annotated = of_files(named, (image for part in parts for image in part.images))
        for part, prefix in zip(parts, prefixes, strict=True):
            for number, (image, uri) in enumerate(part.images.items()):
                where = f"{part.path}: images[{number}]"
                builder.image(Image(prefix + image, uri, part.split), where, annotated.get(image, NO_BOXES))
            captions += [GivenCaption(prefix + c.image, c.id, c.text, c.where) for c in part.captions]
        builder.given_captions(captions)
        name = readable_name(stem(next(iter(files.values()))).removeprefix("captions_"), "captions")
        return builder.records(f"coco_{name}", {"source": "coco"})

    @classmethod
    def recognises(cls, location: DataLocation) -> bool:
        """Recognises the names of files, or a JSON file with lists of `images` and `annotations`."""
        lists = all(isinstance(location.json.get(key), list) for key in ("images", "annotations"))
        return lists or bool(_caption_files(location))

    @classmethod
    def keys_for(cls, location: DataLocation) -> dict[str, str]:
        """A folder's files by split, if there is one for a split. A file alone is a test split."""
        folder, file = location.folder, location.file
        if file:
            root = Folder.of_file(folder.uri)[0].uri if folder.name == "annotations" else folder.uri
            return {"root": root, "train": "", "val": "", "test": str(location), "test_images": _usual_images(file)}
        keys, files = {"root": folder.uri}, _caption_files(location)
        for split in ("train", "val"):
            of_split = [each for each in files if PurePosixPath(each).name.startswith(f"captions_{split}")]
            if len(of_split) < 2:
                keys[split] = of_split[0] if of_split else ""
            if len(of_split) == 1:
                keys[f"{split}_images"] = _usual_images(of_split[0])
        return keys

    def _captions(self, split: str) -> str:
        return getattr(self.config, split)

    def _images(self, split: str) -> str:
        return getattr(self.config, f"{split}_images")


def _caption_files(location: DataLocation) -> list[str]:
    """The files of captions below a folder, or the one file."""
    files, below = location.named("captions_*.json"), location.folder.child("annotations")
    if location.file or not (location.folder.exists("annotations") or below.exists()):
        return files
    return [f"annotations/{name}" for name in DataLocation(below).named("captions_*.json")] + files


def _usual_images(file: str) -> str:
    """The folder of images as COCO names it: train2014 for captions_train2014.json."""
    return PurePosixPath(file).stem.removeprefix("captions_")


@dataclass(frozen=True, slots=True)
class _Part:
    """One file: the URI of each image by its id, and the captions."""

    path: str
    split: str
    images: dict[str, str]
    captions: list[GivenCaption]


def _read(path: str, split: str, images: str) -> _Part:
    data, part, num_by_url = read_json(path), _Part(path, split, {}, []), 0
    base = images.partition("?")[0] if user_files.is_remote(images) else images
    base = str(local_path(base)) if base.startswith("~") else base
    for number, entry in enumerate(field(data, "images", list, path)):
        where = f"{path}: images[{number}]"
        image = required_id(entry, "id", where)
        if image in part.images:
            raise InputError(f"{where}: image id {image!r} appears twice; ids must be unique")
        name = _name_in_url(entry, where)
        num_by_url += bool(name)
        name = name or field(entry, "file_name", str, where)
        part.images[image] = f"{base}/{name}" if base else name
    if num_by_url:
        notice(f"{path}: {num_by_url} images have no file_name; they are named by the end of their coco_url")
    counts = Counter(map(_number, part.images))
    by_number = {digits: image for image in part.images if (digits := _number(image)) and counts[digits] == 1}
    for number, entry in enumerate(field(data, "annotations", list, path)):
        where = f"{path}: annotations[{number}]"
        image_id = required_id(entry, "image_id", where)
        image = (
            image_id
            if image_id in part.images or (digits := _number(image_id)) is None or counts[digits] > 1
            else by_number.get(digits, "")
        )
        if image not in part.images:
            raise InputError(f"{where}: points to image {image_id!r}, which is not in this file")
        text = None if entry.get("caption", "") is None else field(entry, "caption", str, where)
        part.captions.append(GivenCaption(image, optional_id(entry, "id", where), text, where))
    return part


def _name_in_url(entry: Mapping[str, Any], where: str) -> str:
    """The file's name by the image's address, for an image without `file_name`; else empty."""
    if entry.get("file_name") is not None or entry.get("coco_url") is None:
        return ""
    name = posixpath.basename(unquote(urlsplit(field(entry, "coco_url", str, where)).path))
    if not name:
        raise InputError(f"{where}: lacks the key 'file_name' (str), and 'coco_url' ends in no name of a file")
    return name


def _number(image: str) -> str:
    """The number that an id is, without leading zeros; empty for other ids."""
    return (image.lstrip("0") or "0") if image.isascii() and image.isdigit() else ""


def _prefixes(parts: Sequence[_Part]) -> list[str]:
    """The prefix of the image ids of each part: its split if images of several files have the same id, else empty.

    Raises InputError if one image is in two files: it would be in two splits.
    """
    first, repeated = dict[str, _Part](), False
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
            repeated = True
    if repeated:
        notice(f"{parts[0].path}: image ids start again in other files; naming images {parts[0].split}/ID")
    return [f"{part.split}/" if repeated else "" for part in parts]
