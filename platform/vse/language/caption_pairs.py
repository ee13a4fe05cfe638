"""Captions with hard negatives that others made: SugarCrepe, and any file of (image, caption, negative caption).

SugarCrepe (Hsieh et al., NeurIPS 2023) has one JSON object a file, numbered entries of `filename`, `caption` and
`negative_caption`; the file's name says how the negative was made: add, replace or swap an object, attribute, relation.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vse.errors import InputError
from vse.language.tokens import nfc

_COLUMNS = ("filename", "caption", "negative_caption")
_OTHER_NAMES = {"image": "filename", "negative": "negative_caption"}
_COCO = re.compile(r"(?:.*_)?(\d{12})$")


@dataclass(frozen=True, slots=True)
class CaptionPair:
    """A caption of the image `filename` and a negative that must score lower; `category` is how it was made."""

    filename: str
    caption: str
    negative: str
    category: str


def read_pairs(path: str) -> tuple[CaptionPair, ...]:
    """Pairs of a file: JSON as SugarCrepe has it, JSON lines, or .tsv / .csv with a head line.

    Columns are filename (or image), caption, negative_caption (or negative) and, where there is one, category; without
    it the category is the file's name. Raises InputError naming file and entry.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text ({error})") from None
    rows = _tabular(text, file) if file.suffix in (".tsv", ".csv") else _json(text, path)
    pairs = tuple(_pair(row, where, path, file.stem) for where, row in rows)
    if not pairs:
        raise InputError(f"{path}: holds no pairs of captions")
    return pairs


def _json(text: str, path: str) -> Iterator[tuple[str, Any]]:
    if not text.strip():
        return
    try:
        data = json.loads(text)
    except ValueError:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                try:
                    yield f"line {number}", json.loads(line)
                except ValueError as error:
                    raise InputError(f"{path}, line {number}: neither JSON nor JSON lines ({error})") from None
        return
    if isinstance(data, Mapping) and not set(_renamed(data)) >= set(_COLUMNS):
        yield from ((f"entry {key}", row) for key, row in data.items())
    else:
        rows = data if isinstance(data, list) else [data]
        yield from ((f"entry {number}", row) for number, row in enumerate(rows))


def _tabular(text: str, file: Path) -> Iterator[tuple[str, Any]]:
    tabs = file.suffix == ".tsv"
    quoting = csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if tabs else ",", quoting=quoting)
    yield from ((f"line {reader.line_num}", row) for row in reader)


def _renamed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {_OTHER_NAMES.get(name, name): value for name, value in row.items()}


def _pair(row: Any, where: str, path: str, stem: str) -> CaptionPair:
    named = _renamed(row) if isinstance(row, Mapping) else {}
    values = [named.get(column) for column in _COLUMNS]
    if not all(isinstance(value, str) and value.strip() for value in values):
        raise InputError(f"{path}, {where}: expected texts for {', '.join(_COLUMNS)}")
    filename, caption, negative = map(str, values)
    return CaptionPair(filename, nfc(caption), nfc(negative), str(named.get("category") or stem))


def match_images(pairs: Iterable[CaptionPair], images: Sequence[tuple[str, str]]) -> dict[str, str]:
    """File name -> image id, for images given as (id, uri).

    By the last part of the uri, by the id, or, for COCO, by the twelve digits that its releases share
    (`COCO_val2014_000000000042.jpg` is `000000000042.jpg`). Names that match no image are left out.
    """
    known: dict[str, str] = {}
    for image, uri in images:
        for name in (image, Path(uri.partition("?")[0]).name):
            for key in _keys(name):
                known.setdefault(key, image)
    found = {}
    for filename in {pair.filename for pair in pairs}:
        image = next((known[key] for key in _keys(filename) if key in known), None)
        if image is not None:
            found[filename] = image
    return found


def _keys(name: str) -> list[str]:
    """What a file may be found by, the plainest first."""
    base = Path(name).name
    stem = base.rsplit(".", 1)[0] if "." in base else base
    digits = _COCO.match(stem)
    return [base, stem, *([digits.group(1)] if digits else [])]
