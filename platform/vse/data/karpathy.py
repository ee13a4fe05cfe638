"""Karpathy's splits: `dataset_flickr8k.json`, `dataset_flickr30k.json`, `dataset_coco.json` and files like them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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
from vse.data.split_names import SplitNames
from vse.errors import InputError
from vse.registry import register


@register("source", "karpathy")
class Karpathy(Source):
    """Images and raw sentences of one Karpathy JSON file.

    An image's id is its COCO id, else its file name, or its path if a file name occurs in several folders. Sentences
    are called after their image if `sentid` is absent or not unique.
    """

    image_keys = ("data.root", "data.file", "data.images")

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SourceConfig):
        root: str = knob("", "folder of the data set, a path or an s3:// address")
        file: str = knob("", "JSON file below root; default: the only dataset_*.json there")
        images: str = knob("", "folder of the images below root; default: images if there is one, else root")
        restval: bool = knob(True, "COCO: train on the images of the split restval; false leaves them out")

    def __init__(self, config: Config) -> None:
        self.config = config

    @property
    def image_root(self) -> str:
        """Folder of the images."""
        root = folder(self.config.root, "a Karpathy data set")
        below = self.config.images or ("images" if root.exists("images") else "")
        return image_folder(inside(root, below) if below else root.uri, self.config)

    def describe(self) -> Records:
        """Records of the file; raises InputError naming the entry for a damaged or incomplete one."""
        path = self._file()
        entries = field(read_json(path), "images", list, path)
        gathered, splits = Gathered(path), SplitNames(path, "restval")
        kept = list[_Entry]()
        for number, entry in enumerate(entries):
            where = f"{path}: images[{number}]"
            split = splits.split(field(entry, "split", str, where), where)
            if split != "restval" or self.config.restval:
                kept.append(_entry(entry, "train" if split == "restval" else split, where))
        splits.log()
        unnamed = [entry for entry in kept if entry.id is None]
        several = len({entry.uri for entry in unnamed}) > len({entry.name for entry in unnamed})
        if several:
            notice(f"{path}: file names occur in several folders; images without cocoid are called by their paths")
        captions = list[GivenCaption]()
        for entry in kept:
            image = entry.id or (entry.uri if several else entry.name)
            gathered.image(Image(image, entry.uri, entry.split), entry.place)
            captions += _captions(image, entry)
        gather_captions(gathered, captions, path)
        name = readable_name(name_of(path).removeprefix("dataset_"), "karpathy")
        return arranged(gathered.records(name, {"source": "karpathy", "restval": self.config.restval}), self.config)

    def _file(self) -> str:
        root = folder(self.config.root, "a Karpathy data set")
        if self.config.file:
            return inside(root, self.config.file)
        found = [name for name in root.names() if name.startswith("dataset_") and name.endswith(".json")]
        if len(found) != 1:
            names = ", ".join(found) or "none"
            raise InputError(f"data.root={root}: expected one dataset_*.json, found {names}; name it with data.file")
        return root.address(found[0])


@dataclass(frozen=True, slots=True)
class _Entry:
    """One image of the file; `id` is its COCO id, None if it has none."""

    place: str
    id: str | None
    name: str
    uri: str
    split: str
    sentences: list[Any]


def _entry(entry: Mapping[str, Any], split: str, where: str) -> _Entry:
    name = field(entry, "filename", str, where)
    folder_of_image = "" if entry.get("filepath") is None else field(entry, "filepath", str, where)
    uri = f"{folder_of_image}/{name}" if folder_of_image else name
    return _Entry(where, given_id(entry, "cocoid", where), name, uri, split, field(entry, "sentences", list, where))


def _captions(image: str, entry: _Entry) -> Iterator[GivenCaption]:
    for number, sentence in enumerate(entry.sentences):
        here = f"{entry.place}.sentences[{number}]"
        text = _text(sentence, here)
        yield GivenCaption(image, given_id(sentence, "sentid", here), text, here)


def _text(sentence: Any, where: str) -> str | None:
    """The raw sentence, or its tokens between spaces; None if both are null."""
    if not isinstance(sentence, dict) or ("raw" not in sentence and "tokens" not in sentence):
        field(sentence, "raw", str, where)
    if sentence.get("raw") is not None:
        return field(sentence, "raw", str, where)
    if sentence.get("tokens") is None:
        return None
    tokens = field(sentence, "tokens", list, where)
    if odd := [token for token in tokens if not isinstance(token, str)]:
        raise InputError(f"{where}: 'tokens' must be str, got {type(odd[0]).__name__}")
    return " ".join(tokens)
