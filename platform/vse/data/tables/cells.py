"""What a row says: its image, and one caption or several, which a cell may hold as a list."""

import ast
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vse.data.picture_files import ENDINGS
from vse.data.tables.columns import Columns
from vse.errors import InputError

_NUMBERED = re.compile(rf"(.*(?:{'|'.join(map(re.escape, ENDINGS))})|[^.#]+)#\d+", re.IGNORECASE | re.DOTALL)
_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_LIST = re.compile(rf"\[\s*(?:{_TEXT}(?:\s*,\s*|\s+))*{_TEXT}?\s*\]", re.DOTALL)  # NumPy writes no commas


@dataclass(frozen=True, slots=True)
class Row:
    """One caption; `place` is where it begins. Empty are an id and a split that the file does not give."""

    place: str
    image: str
    caption: str
    id: str
    split: str


def rows_of(place: str, cells: Mapping[str, Any], columns: Columns, path: str) -> Iterator[Row]:
    """The captions of one row of a table.

    Args:
        place: the line or entry, for messages.
        cells: text, or what JSON has: null (an empty cell), a list of captions, numbers as ids.
        columns: which cells to read.
        path: the file, for messages.

    Raises:
        InputError: for a cell that is missing or of another kind.
    """
    where = f"{path}: {place}"
    image = _name(cells, columns.image, where)
    if not image:
        raise InputError(f"{where}: {columns.image} is empty; expected a path below the folder of the images")
    own, split = (_name(cells, name, where) if name and name in cells else "" for name in (columns.id, columns.split))
    texts, listed = _texts(cells, columns, where)
    for number, text in enumerate(texts):
        yield Row(place, _one_spelling(image), text, f"{own}#{number}" if own and listed else own, split)


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
    """(captions, whether they stand in a list or in several columns); an empty text where there is none."""
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
    """The captions of a cell such as `['A dog', "A dog's nose"]`, which programs write; other values as they are."""
    if not isinstance(value, str) or not re.match(r"\s*\[\s*['\"\]]", value):
        return value
    text = value.strip()
    try:
        return json.loads(text)
    except ValueError:
        if _LIST.fullmatch(text):
            return [ast.literal_eval(each) for each in re.findall(_TEXT, text, re.DOTALL)]
        raise InputError(f"{where}: begins like a list of captions and is none: {text[:60]!r}") from None


def _one_spelling(image: str) -> str:
    """A relative path without the detours that lead to the same file, as `below` follows it; others stay as they are.

    One image under two names would be two, perhaps in two splits. What leads out of the root still does, to be refused.
    `a.jpg#0` is how Flickr8k names a caption of a.jpg; `feats.npy#17` is a row of an array.
    """
    if numbered := _NUMBERED.fullmatch(image):
        image = numbered[1]
    return image if image.startswith(("/", "scene:")) or "://" in image else posixpath.normpath(image)
