"""Karpathy's splits: `dataset_flickr8k.json`, `dataset_flickr30k.json`, `dataset_coco.json` and files like them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vse.config import knob
from vse.data import boxes
from vse.data.reading import SplitNames, field, notice, optional_id, read_json
from vse.data.records import Image, Records
from vse.data.source import (
    DataLocation,
    GivenCaption,
    RecordsBuilder,
    Source,
    SourceConfig,
    inside,
    readable_name,
    recognise,
    stem,
)
from vse.errors import InputError
from vse.registry import register
from vse.storage.folder import Folder


@register("source", "karpathy")
class Karpathy(Source):
    """Images and raw sentences of one Karpathy JSON file.

    An image's id is its COCO id, else its file name, or its path if a file name occurs in several folders. Captions
    are named after their image if `sentid` is absent or not unique. An image may list `objects`: a `category` and a
    `box` each, in pixels of its `width` and `height`. COCO's own files of objects can be named instead.
    """

    title = "a Karpathy data set"
    layout = "dataset_*.json"
    precedence = 1  # dataset_coco.json is often in the folder of COCO's own files
    image_keys = ("data.root", "data.file", "data.images")

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SourceConfig):
        root: str = knob("", "folder of the data set, a path or an s3:// address")
        file: str = knob("", "JSON file below root; default: the only dataset_*.json there")
        images: str = knob("", "folder of the images below root; default: images if there is one, else root")
        restval: bool = knob(True, "COCO: train on the images of the split restval; false leaves them out")
        boxes: tuple[str, ...] = knob((), "COCO: files instances_*.json with the boxes of objects, below root")

    config: Config

    @property
    def image_root(self) -> str:
        """Folder of the images."""
        root = self.folder()
        below = self.config.images or ("images" if root.exists("images") else "")
        return self.root_of_images(inside(root, below) if below else root.uri)

    def read(self) -> Records:
        """Records of the file. Raises InputError naming the entry that is damaged or incomplete."""
        path = self._file()
        builder, splits, entries = RecordsBuilder(path), SplitNames(path, "restval"), list[_Entry]()
        for number, item in enumerate(field(self._content(path), "images", list, path)):
            where = f"{path}: images[{number}]"
            split = splits.split(field(item, "split", str, where), where)
            if split != "restval" or self.config.restval:
                entries.append(_entry(item, "train" if split == "restval" else split, where))
        splits.log()
        unnamed = [entry for entry in entries if entry.id is None]
        by_path = len({entry.uri for entry in unnamed}) > len({entry.name for entry in unnamed})
        if by_path:
            notice(f"{path}: file names occur in several folders; images without cocoid are named by their paths")
        captions, named = list[GivenCaption](), [inside(self.folder(), file) for file in self.config.boxes]
        instances = boxes.of_files(named, (entry.id for entry in entries if entry.id is not None))
        for entry in entries:
            image = entry.id or (entry.uri if by_path else entry.name)
            annotated = entry.annotated or instances.get(image, boxes.NO_BOXES)
            builder.image(Image(image, entry.uri, entry.split), entry.where, annotated)
            captions += _captions(image, entry)
        builder.given_captions(captions)
        name = readable_name(stem(path).removeprefix("dataset_"), "karpathy")
        return builder.records(name, {"source": "karpathy", "restval": self.config.restval})

    def with_all_captions(self) -> "Karpathy.Config":
        """With the images of the split restval."""
        return replace(self.config, restval=True)

    @classmethod
    def recognises(cls, location: DataLocation) -> bool:
        """Recognises the name of a file, or a JSON file with `images` and without COCO's `annotations`."""
        images = isinstance(location.json.get("images"), list) and "annotations" not in location.json
        return bool(location.named("dataset_*.json")) or images

    def _content(self, path: str) -> Any:
        try:
            return read_json(path)
        except InputError:
            if not path.partition("?")[0].lower().endswith(".json") and (other := _other_source(path)):
                name = f"data.file={self.config.file}"
                raise InputError(f"{name}: is no JSON file of Karpathy's splits; add data={other[0]}") from None
            raise

    def _file(self) -> str:
        root = self.folder()
        if self.config.file:
            return inside(root, self.config.file)
        names = DataLocation(root).named("dataset_*.json")
        if len(names) != 1:
            if not names and (other := _other_source(root.uri)):
                name, keys = other
                table = Folder.of_file(keys["file"])[1] if "file" in keys else ""
                holds = f"{table}; add data={name} data.file={table}" if table else f"another format; add data={name}"
                raise InputError(f"data.root={root}: this folder holds {holds}")
            listed = ", ".join(names) or "none"
            raise InputError(f"data.root={root}: expected one dataset_*.json, found {listed}; name it with data.file")
        return root.address(names[0])


def _other_source(address: str) -> tuple[str, dict[str, str]] | None:
    """The source that reads a folder or file, and its keys; None if it is this one or nothing is recognised."""
    try:
        name, keys = recognise(address)
    except InputError:
        return None
    return None if name == "karpathy" else (name, keys)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One image of the file. `id` is its COCO id, None if it has none."""

    where: str
    id: str | None
    name: str
    uri: str
    split: str
    sentences: list[Any]
    annotated: boxes.Annotated | None


def _entry(item: Mapping[str, Any], split: str, where: str) -> _Entry:
    name = field(item, "filename", str, where)
    folder = "" if item.get("filepath") is None else field(item, "filepath", str, where)
    uri = f"{folder}/{name}" if folder else name
    sentences = field(item, "sentences", list, where)
    own = boxes.of_entry(item, where)
    annotated = (own, boxes.size_of(item, where)) if own else None
    return _Entry(where, optional_id(item, "cocoid", where), name, uri, split, sentences, annotated)


def _captions(image: str, entry: _Entry) -> Iterator[GivenCaption]:
    for number, sentence in enumerate(entry.sentences):
        where = f"{entry.where}.sentences[{number}]"
        text = _text(sentence, where)
        yield GivenCaption(image, optional_id(sentence, "sentid", where), text, where)


def _text(sentence: Any, where: str) -> str | None:
    """The raw sentence, or its tokens joined by spaces. None if both are null."""
    if not isinstance(sentence, dict) or ("raw" not in sentence and "tokens" not in sentence):
        field(sentence, "raw", str, where)
    if sentence.get("raw") is not None:
        return field(sentence, "raw", str, where)
    if sentence.get("tokens") is None:
        return None
    tokens = field(sentence, "tokens", list, where)
    if wrong := [token for token in tokens if not isinstance(token, str)]:
        raise InputError(f"{where}: 'tokens' must be str, got {type(wrong[0]).__name__}")
    return " ".join(tokens)
