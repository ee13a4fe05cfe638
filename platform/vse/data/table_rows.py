"""The columns of a table that hold images and captions, and the captions of each row."""

import ast
import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vse.data.image_files import ENDINGS
from vse.errors import InputError

IMAGE_KEY, CAPTION_KEY = "data.image_column", "data.caption_column"
_IMAGES = ("image", "imagefile", "imagefilename", "imagename", "imagepath", "imageurl", "img", "imgname", "imgpath")
_IMAGES += ("file", "filename", "filepath", "path", "url")
_CAPTIONS = ("caption", "text", "title", "sentence", "raw", "comment", "description", "captiontext")


@dataclass(frozen=True, slots=True)
class Listing:
    """The content of a file: rows as (line or entry, cells by column), and `form`, how it was read."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, Mapping[str, Any]]]
    form: str


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that are read; `id` and `split` are empty if there is no such column.

    Attributes:
        wide: whether every column of `captions` holds one caption. Otherwise one of them holds all captions of a row.
    """

    image: str
    captions: tuple[str, ...]
    wide: bool
    id: str
    split: str

    def __str__(self) -> str:
        parts = [f"images in {self.image!r}", f"captions in {', '.join(map(repr, self.captions))}"]
        parts += [f"{what} in {name!r}" for what, name in (("ids", self.id), ("splits", self.split)) if name]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses columns by well-known names, or by the names that the keys give (`caption`: several between commas).

    The project's own names, image and caption, come before all others.
    """

    image: str = ""
    caption: str = ""

    def recognises(self, names: Sequence[str]) -> bool:
        """Whether some column can hold images and another captions, perhaps more than one."""
        return bool(self.images(names) and self._captions(names))

    def images(self, names: Sequence[str]) -> list[str]:
        """The columns that can hold images."""
        if self.image:
            return _called(self.image, names)
        return _called("image", names) or [name for name in names if plain(name) in _IMAGES]

    def choose(self, names: Sequence[str], where: str) -> Columns:
        """The columns to read.

        Args:
            names: all columns, as the file spells them.
            where: the file and perhaps the line of its header, for messages.

        Raises:
            InputError: no column, or several columns, can be meant. The message has the key that names one.
        """
        listed = ", ".join(names)[:200]
        for key, value in ((IMAGE_KEY, self.image), (CAPTION_KEY, self.caption)):
            for name in _parts(value) if key == CAPTION_KEY else [value]:
                if name and not _called(name, names):
                    raise InputError(f"{key}={value}: {where} has no column {name!r}; it has {listed}")
        images, captions = self.images(names), self._captions(names)
        for there, what, key in ((images, "image", IMAGE_KEY), (captions, "caption", CAPTION_KEY)):
            if not there:
                raise InputError(f"{where}: lacks {what!r}; found {listed}; {key} names a column of another name")
        _refuse_several([(name,) for name in images], "image", IMAGE_KEY, where)
        _refuse_several(captions, "caption", CAPTION_KEY, where)
        chosen = Columns(images[0], captions[0], self._wide(captions[0]), _own("id", names), _own("split", names))
        if chosen.image in chosen.captions:
            raise InputError(f"{IMAGE_KEY}, {CAPTION_KEY}: both name {chosen.image!r}; expected two columns")
        for name in (chosen.image, *chosen.captions, chosen.id, chosen.split):
            if name and len(_called(name, names)) > 1:
                raise InputError(f"{where}: the column {name} occurs {len(_called(name, names))} times")
        return chosen

    def _captions(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """Groups of columns that can hold captions: `caption` and `captions`, or `caption_0`, `caption_1`, ..."""
        if self.caption:
            columns = [_called(part, names) for part in _parts(self.caption)]
            return [tuple(name for name, *_ in columns)] if all(columns) else []
        groups: dict[tuple[str, bool], list[str]] = {}
        for name in names:
            match = re.fullmatch(r"(.*?)(\d*)", plain(name))
            assert match is not None
            stem, number = match.groups()
            base = stem if stem in _CAPTIONS else stem.removesuffix("s")
            if base in _CAPTIONS and not (number and base != stem):
                groups.setdefault((base, bool(number)), []).append(name)
        own = {key: group for key, group in groups.items() if key[0] == "caption"}
        return [tuple(dict.fromkeys(group)) for group in (own or groups).values()]

    def _wide(self, group: tuple[str, ...]) -> bool:
        return len(group) > 1 if self.caption else group[0][-1:].isdigit()


def _refuse_several(candidates: Sequence[tuple[str, ...]], what: str, key: str, where: str) -> None:
    several = [",".join(group) for group in dict.fromkeys(candidates)]
    if len(several) > 1:
        ways = " or ".join(f"{key}={each}" for each in several)
        raise InputError(f"{where}: {len(several)} columns may hold the {what}; choose with {ways}")


def _own(name: str, names: Sequence[str]) -> str:
    return next(iter(_called(name, names)), "")


def _called(name: str, names: Sequence[str]) -> list[str]:
    """The columns of this name, in whatever case if none has its own."""
    return [each for each in names if each == name] or [each for each in names if each.lower() == name.lower()]


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def plain(name: str) -> str:
    """The name of a column in small letters without separators: `File Name` and `file_name` are `filename`."""
    return re.sub(r"[\s_.-]+", "", name.lower())


_NUMBERED = re.compile(rf"(.*(?:{'|'.join(map(re.escape, ENDINGS))})(?:\.\d+)?|[^.#]+)#\d+", re.IGNORECASE | re.DOTALL)
_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_LIST = re.compile(rf"\[\s*(?:{_TEXT}(?:\s*,\s*|\s+))*{_TEXT}?\s*\]", re.DOTALL)  # NumPy writes no commas


@dataclass(frozen=True, slots=True)
class Row:
    """One caption; `place` is the line or entry. `id` and `split` are empty if the file does not give them."""

    place: str
    image: str
    caption: str
    id: str
    split: str


def rows_of(
    place: str, cells: Mapping[str, Any], columns: Columns, path: str, is_file: Callable[[str], bool]
) -> Iterator[Row]:
    """The captions of one row of a table.

    Args:
        place: the line or entry, for messages.
        cells: text, or what JSON has: null (an empty cell), a list of captions, numbers as ids.
        columns: which cells to read.
        path: the file, for messages.
        is_file: whether a name such as `dog#1`, without an ending, is the name of an image file.

    Raises:
        InputError: a cell is missing or of another type.
    """
    where = f"{path}: {place}"
    image = _name(cells, columns.image, where)
    if not image:
        raise InputError(f"{where}: {columns.image} is empty; expected a path below the folder of the images")
    own, split = (_name(cells, name, where) if name and name in cells else "" for name in (columns.id, columns.split))
    texts, listed = _texts(cells, columns, where)
    for number, text in enumerate(texts):
        yield Row(place, _one_spelling(image, is_file), text, f"{own}#{number}" if own and listed else own, split)


def _name(cells: Mapping[str, Any], column: str, where: str) -> str:
    if column not in cells:
        raise InputError(f"{where}: lacks the key {column!r} (str)")
    value = cells[column]
    if isinstance(value, float) and value.is_integer():  # a column of integers that lacks some, as pandas writes it
        value = int(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
        raise InputError(f"{where}: {column!r} must be str, got {type(value).__name__}")
    return "" if value is None else str(value).strip()


def _texts(cells: Mapping[str, Any], columns: Columns, where: str) -> tuple[list[str], bool]:
    """The captions of a row, one empty text if there is none, and whether they come from a list or several columns."""
    there = [name for name in columns.captions if name in cells]
    if not there:
        names = " or ".join(map(repr, columns.captions))
        raise InputError(f"{where}: lacks the key {names} (str, or a list of them)")
    filled = [name for name in there if cells[name] not in (None, "")]
    if len(filled) > 1 and not columns.wide:
        raise InputError(f"{where}: has {' and '.join(map(repr, filled))}; give it one of them")
    texts, listed = [], columns.wide
    for name in filled:
        value = _as_list(cells[name], f"{where}: {name!r}")
        listed = listed or isinstance(value, list)
        for text in value if isinstance(value, list) else [value]:
            if text is not None and not isinstance(text, str):
                each = "each of " if isinstance(value, list) else ""
                raise InputError(f"{where}: {each}{name!r} must be str, got {type(text).__name__}")
            texts.append(text or "")
    return texts or [""], listed


def _as_list(value: Any, where: str) -> Any:
    """The list in a cell such as `['A dog', "A dog's nose"]`; other values unchanged."""
    if not isinstance(value, str) or not re.match(r"\s*\[\s*['\"\]]", value):
        return value
    text = value.strip()
    try:
        return json.loads(text)
    except ValueError:
        if _LIST.fullmatch(text):
            return [ast.literal_eval(each) for each in re.findall(_TEXT, text, re.DOTALL)]
        raise InputError(f"{where}: begins like a list of captions but is not one: {text[:60]!r}") from None


def _one_spelling(image: str, is_file: Callable[[str], bool]) -> str:
    """A relative path in normal form, so that one image has one name; other addresses unchanged.

    A path that leaves the root still leaves it and is refused by `below`.
    `a.jpg#0` is how Flickr8k names a caption of a.jpg (and `a.jpg.1#0` of `a.jpg.1`, which nobody has); `feats.npy#17`
    is a row of an array. `dog#1` is a caption of `dog` unless there is a file `dog#1` or `dog#1.jpg`.
    """
    numbered = _NUMBERED.fullmatch(image)
    if numbered and ("." in numbered[1] or not is_file(image)):
        image = numbered[1]
    return image if image.startswith(("/", "scene:")) or "://" in image else posixpath.normpath(image)
