"""Karpathy's splits: `dataset_flickr8k.json`, `dataset_flickr30k.json`, `dataset_coco.json` and files like them."""

from dataclasses import dataclass

from vse.config import knob
from vse.data.records import Caption, Image, Records
from vse.data.sources import (
    Gathered,
    Source,
    SourceConfig,
    arranged,
    field,
    folder,
    inside,
    name_of,
    read_json,
    readable_name,
)
from vse.errors import InputError
from vse.registry import register

_SPLITS = ("train", "val", "test", "restval")


@register("source", "karpathy")
class Karpathy(Source):
    """Images and raw sentences of one Karpathy JSON file. An image's id is its COCO id, else its file name.

    A sentence without a `sentid` is called after its image.
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
        return inside(root, below) if below else root.uri

    def describe(self) -> Records:
        """Records of the file; raises InputError naming the entry for a damaged or incomplete one."""
        path = self._file()
        entries = field(read_json(path), "images", list, path)
        gathered = Gathered(path)
        for number, entry in enumerate(entries):
            where = f"{path}: images[{number}]"
            split = field(entry, "split", str, where)
            if split not in _SPLITS:
                raise InputError(f"{where}: unknown split {split!r}; known are {', '.join(_SPLITS)}")
            if split == "restval" and not self.config.restval:
                continue
            name = field(entry, "filename", str, where)
            place = f"{entry['filepath']}/{name}" if isinstance(entry.get("filepath"), str) else name
            coco = entry.get("cocoid")
            image = Image(name if coco is None else str(coco), place, "train" if split == "restval" else split)
            gathered.image(image, where)
            for k, sentence in enumerate(field(entry, "sentences", list, where)):
                here = f"{where}.sentences[{k}]"
                text = field(sentence, "raw", str, here)
                known = "sentid" in sentence
                caption = str(field(sentence, "sentid", (int, str), here)) if known else f"{image.id}#{k}"
                gathered.caption(Caption(caption, image.id, text), here)
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
