"""A table of captions that anybody can write: CSV, TSV or JSON with the columns image and caption."""

import hashlib
import io
import json
import posixpath
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vse import named_files
from vse.columns import named
from vse.config import knob
from vse.data.records import Caption, Image, Records
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
    readable_name,
)
from vse.errors import InputError
from vse.registry import register
from vse.storage import Folder

_SPLITS = ("train", "val", "test")


@dataclass(frozen=True, slots=True)
class _Row:
    """One caption; `place` is the line in which it begins. Empty are an id and a split that the file does not give."""

    place: str
    image: str
    caption: str
    id: str
    split: str


@register("source", "table")
class Table(Source):
    """A line for each caption; captions of one image need not stand together. An image's id is its path, in one
    spelling: `./a.jpg` and `b/../a.jpg` are `a.jpg`. Where accented letters are composed in one line and decomposed in
    another, the first has its name.

    Without a column `split`, an image is in the split that a hash of its path says: its captions lie together, and
    images that are added move no others.
    """

    image_keys = ("data.root", "data.file")

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SourceConfig):
        file: str = knob(
            "", "CSV, TSV or JSON with image and caption, optionally id and split; below root, or any path or address"
        )
        root: str = knob("", "folder of the images, a path or an s3:// address; default: that of the file")
        val: float = knob(0.1, "share of the images for validation, where the file has no column split", low=0, high=1)
        test: float = knob(0.1, "share of the images for the test, where the file has no column split", low=0, high=1)
        seed: int = knob(0, "which images go to these splits", low=0)

    def __init__(self, config: Config) -> None:
        self.config = config

    @property
    def image_root(self) -> str:
        """Folder of the images."""
        if self.config.root:
            return image_folder(folder(self.config.root, "the images").uri, self.config)
        return image_folder(Folder.holding(self._file())[0].uri, self.config)

    def describe(self) -> Records:
        """Records of the file; raises InputError naming the line for a damaged or contradictory one."""
        path = self._file()
        gathered, first, number = Gathered(path), dict[str, _Row](), Counter[str]()
        for row in _rows(path):
            where = f"{path}: {row.place}"
            before = first.setdefault(unicodedata.normalize("NFC", row.image), row)
            if row is before:
                self._agree(row, next(iter(first.values())), where)
                gathered.image(Image(row.image, row.image, row.split or self._drawn(row.image)), where)
            elif row.split != before.split:
                raise InputError(
                    f"{where}: image {row.image!r} has split {row.split!r} here and {before.split!r} in "
                    f"{before.place}; all captions of an image share one"
                )
            image = before.image
            caption = row.id or f"{image}#{number[image]}"
            number[image] += 1
            gathered.caption(Caption(caption, image, row.caption), where)
        return arranged(gathered.records(readable_name(name_of(path), "table"), {"source": "table"}), self.config)

    def _file(self) -> str:
        config = self.config
        if not config.file:
            raise InputError("data.file: name the table of captions, with the columns image and caption")
        below = inside(folder(config.root, "the images"), config.file) if config.root else config.file
        path = below if named_files.is_file(below) else config.file
        if not named_files.is_file(path):
            also = f" in {config.root} or" if config.root else ""
            where = "" if named_files.is_remote(path) else f"{also} in {Path.cwd()}"
            raise InputError(f"data.file={config.file}: no such file{where}")
        return path

    def _agree(self, row: _Row, first: _Row, where: str) -> None:
        """Either every line has a split or none has, and then the shares leave something to train on."""
        if row.split and row.split not in _SPLITS:
            raise InputError(f"{where}: unknown split {row.split!r}; known are {', '.join(_SPLITS)}")
        if bool(row.split) != bool(first.split):
            one, other = ("a", "none") if row.split else ("no", "one")
            raise InputError(f"{where}: has {one} split, and {first.place} has {other}; give every line one, or none")
        if not row.split and self.config.val + self.config.test >= 1:
            raise InputError(
                f"data.val={self.config.val:g}, data.test={self.config.test:g}: must leave images to train on"
            )

    def _drawn(self, image: str) -> str:
        digest = hashlib.sha256(f"{self.config.seed} {image}".encode("utf-8", "surrogatepass")).digest()
        share = int.from_bytes(digest[:8], "big") / 2**64
        if share < self.config.val:
            return "val"
        return "test" if share < self.config.val + self.config.test else "train"


def _rows(path: str) -> Iterator[_Row]:
    """The captions of a file, whose form is told from its content."""
    try:
        text = named_files.read(path).decode("utf-8-sig")  # spreadsheets begin a file with a byte order mark
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}: line {line}: is not UTF-8 text; save the table as UTF-8") from None
    begins = text.lstrip()[:1]
    if begins == "[":
        return _of_list(path, text)
    return _of_lines(path, text) if begins == "{" else _of_columns(path, text)


def _of_list(path: str, text: str) -> Iterator[_Row]:
    """The objects of one JSON list, as programs write a table; they need not begin on lines of their own."""
    try:
        items = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}: line {error.lineno}: is not JSON ({error.msg}); expected a list of objects, or one per line"
        ) from None
    except ValueError:  # Python makes no integer of more than 4,300 digits
        raise InputError(f"{path}: holds an integer of thousands of digits; no caption has one") from None
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply to be a table of captions") from None
    for number, item in enumerate(items, start=1):
        yield from _of_object(f"entry {number}", item, path)


def _of_lines(path: str, text: str) -> Iterator[_Row]:
    """One object a line. Lines end at line feeds alone: JSON may hold U+2028 and the like inside a text."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        try:
            item = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{where}: is not JSON ({error.msg}); expected one object per line") from None
        except ValueError:  # Python makes no integer of more than 4,300 digits
            raise InputError(f"{where}: holds an integer of thousands of digits; no caption has one") from None
        except RecursionError:
            raise InputError(f"{where}: is nested too deeply to be a caption") from None
        yield from _of_object(f"line {number}", item, path)


def _of_object(place: str, item: Any, path: str) -> Iterator[_Row]:
    """Its caption, or those of its list `captions`, each with its number behind the id if there is one. A null is an
    empty cell, as in what pandas writes."""
    where = f"{path}: {place}"
    found: dict[str, Any] = {"image": field(item, "image", str, where)}
    for key, kinds in (("id", (int, str)), ("split", (str,))):
        found[key] = str(field(item, key, kinds, where)) if item.get(key) is not None else ""
    listed = found["id"] and item.get("captions") is not None
    for number, text in enumerate(_texts(item, where)):
        own = {"caption": text, "id": f"{found['id']}#{number}" if listed else found["id"]}
        yield _row(place, found | own, where)


def _texts(item: Mapping[str, Any], where: str) -> list[str]:
    """What an object says of its image; an empty list is an empty text, and its image is told to have no caption."""
    one, several = item.get("caption"), item.get("captions")
    if "caption" not in item and "captions" not in item:
        raise InputError(f"{where}: lacks the key 'caption' (str), or 'captions' (a list of them)")
    if one is not None and several is not None:
        raise InputError(f"{where}: has 'caption' and 'captions'; give it one of them")
    texts = [one] if several is None else field(item, "captions", list, where) or [None]
    for text in texts:
        if text is not None and not isinstance(text, str):
            key = "'caption'" if several is None else "each of 'captions'"
            raise InputError(f"{where}: {key} must be str, got {type(text).__name__}")
    return [text or "" for text in texts]


def _of_columns(path: str, text: str) -> Iterator[_Row]:
    """Fields between commas, or between tabs where the first line has one; those with either in them are quoted."""
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    for number, found in named(io.StringIO(text, newline=""), path, _check_header, delimiter=delimiter):
        yield _row(f"line {number}", found, f"{path}: line {number}")


def _check_header(header: list[str], where: str) -> None:
    if not header:
        raise InputError(f"{where}: is empty; expected a header with the columns image and caption")
    for name in ("image", "caption", "id", "split"):
        if header.count(name) > 1:
            raise InputError(f"{where}: the column {name} occurs {header.count(name)} times")
    if "image" not in header or "caption" not in header:
        raise InputError(
            f"{where}: expected JSON, or a header with the columns image and caption between commas or tabs; "
            f"found {', '.join(header)[:200]}"
        )


def _row(place: str, found: Mapping[str, str], where: str) -> _Row:
    image, name, split = found["image"].strip(), found.get("id", "").strip(), found.get("split", "").strip()
    if not image:
        raise InputError(f"{where}: image is empty; expected a path below the folder of the images")
    return _Row(place, _one_spelling(image), found["caption"], name, split)


def _one_spelling(image: str) -> str:
    """A relative path without the detours that lead to the same file, as `below` follows it; others stay as they are.

    One image under two names would be two, perhaps in two splits. What leads out of the root still does, to be refused.
    """
    return image if image.startswith(("/", "scene:")) or "://" in image else posixpath.normpath(image)
