"""COCO's own caption files, `captions_*.json`, one for each split."""

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


@register("source", "coco")
class Coco(Source):
    """Images and captions of COCO annotation files; ids are COCO's."""

    image_keys = ("data.root", "data.train_images", "data.val_images", "data.test_images")

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SourceConfig):
        root: str = knob("", "folder of the data set, a path or an s3:// address")
        train: str = knob("annotations/captions_train2017.json", "captions of the training split; empty for none")
        val: str = knob("annotations/captions_val2017.json", "captions of the validation split; empty for none")
        test: str = knob("", "captions of the test split; empty for none")
        train_images: str = knob("train2017", "folder of the training images below root")
        val_images: str = knob("val2017", "folder of the validation images below root")
        test_images: str = knob("val2017", "folder of the test images below root")

    def __init__(self, config: Config) -> None:
        self.config = config

    @property
    def image_root(self) -> str:
        """The data set's folder: URIs start with the folder of their split."""
        return folder(self.config.root, "a COCO data set").uri

    def describe(self) -> Records:
        """Records of all named files; raises InputError naming the entry for a damaged or incomplete one."""
        c = self.config
        root = folder(c.root, "a COCO data set")
        gathered = Gathered(str(root))
        files = (("train", c.train, c.train_images), ("val", c.val, c.val_images), ("test", c.test, c.test_images))
        if not any(file for _, file, _ in files):
            raise InputError("data.train, data.val, data.test: all are empty; name at least one captions_*.json")
        for split, file, images in files:
            if file:
                _read(gathered, inside(root, file), split, images)
        name = readable_name(name_of(c.train or c.val or c.test).removeprefix("captions_"), "captions")
        return arranged(gathered.records(f"coco_{name}", {"source": "coco"}), c)


def _read(gathered: Gathered, path: str, split: str, images: str) -> None:
    data = read_json(path)
    here: set[str] = set()
    for number, entry in enumerate(field(data, "images", list, path)):
        where = f"{path}: images[{number}]"
        image = str(field(entry, "id", (int, str), where))
        name = field(entry, "file_name", str, where)
        gathered.image(Image(image, f"{images}/{name}" if images else name, split), where)
        here.add(image)
    for number, entry in enumerate(field(data, "annotations", list, path)):
        where = f"{path}: annotations[{number}]"
        image = str(field(entry, "image_id", (int, str), where))
        caption = str(field(entry, "id", (int, str), where))
        if image not in here:
            raise InputError(f"{where}: caption {caption!r} points to image {image!r}, which is not in this file")
        gathered.caption(Caption(caption, image, field(entry, "caption", str, where)), where)
