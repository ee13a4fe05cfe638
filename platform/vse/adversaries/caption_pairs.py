"""Captions with hard negatives that others made: SugarCrepe, and any file of (image, caption, negative caption).

SugarCrepe (Hsieh et al., NeurIPS 2023) has one JSON object a file, numbered entries of `filename`, `caption` and
`negative_caption`; the file's name says how the negative was made: add, replace or swap an object, attribute, relation.
VALSE (Parcalabescu et al., ACL 2022) has `image_file`, `caption` and `foil`, and the votes of three annotators. The
finer captions of MSCOCO-FG and Flickr30K-FG are one JSON object: an image's name and its captions, rewritten in the
order of the data set's own.
"""

import functools
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vse.data.annotated_captions import AnnotatedCaption
from vse.data.reading import optional_id
from vse.errors import InputError
from vse.storage import columns
from vse.storage.user_files import file_name, local, refuse_placeholder
from vse.text.tokens import bare_words, nfc, without_web
from vse.workspace.tracking_keys import clean_key

_COLUMNS = ("filename", "caption", "negative_caption")
_OTHER_NAMES = {"image": "filename", "negative": "negative_caption"}
_OTHER_NAMES |= {"image_file": "filename", "foil": "negative_caption"}  # VALSE
_VOTES = 2  # of three that a pair of VALSE needs (section 4)
_TWINS = ("image_0", "image_1", "caption_0", "caption_1")
_COCO = re.compile(r"(?:COCO_[a-z]+\d{4}_)?(\d{12})$")


@dataclass(frozen=True, slots=True)
class CaptionPair:
    """A caption of the image `filename` and a negative that must score lower; `category` is how it was made."""

    filename: str
    caption: str
    negative: str
    category: str


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A finer wording of the caption of the image `filename` that has this number, from 0."""

    filename: str
    number: int
    caption: str
    category: str

    def pair(self, captions: Sequence[str | None]) -> CaptionPair | None:
        """The pair of this caption and the one that it rewrites, given all captions of the image.

        None if that caption is None, or if both have the same words, whatever their punctuation.

        Raises InputError if the image has no such caption.
        """
        if self.number >= len(captions):
            raise InputError(
                f"{self.category}, {self.filename}: rewrites caption {self.number + 1}, and the data set has "
                f"{len(captions)} of this image"
            )
        original = captions[self.number]
        if original is None or bare_words(original) == bare_words(self.caption):
            return None
        return CaptionPair(self.filename, self.caption, original, self.category)


def read_files(paths: Sequence[str]) -> tuple[CaptionPair | Rewrite, ...]:
    """Pairs and rewritten captions of several files. Their categories become names of metrics.

    Raises InputError naming the files if one cannot be read, if two have one name as the category of their pairs, or if
    trackers would show two categories under one name.
    """
    pairs = [(path, read_rewrites(path) or read_pairs(path)) for path in paths]
    file_of = dict[str, str]()
    for path, own in pairs:
        stem = file_name(path).stem
        if all(pair.category != stem for pair in own):
            continue
        if stem in file_of:
            raise InputError(
                f"{file_of[stem]}, {path}: the pairs of both have the category {stem}, which is the name of the files; "
                "rename one of them, or add a column category"
            )
        file_of[stem] = path
    _refuse_equal_keys(pairs)
    return tuple(pair for _, own in pairs for pair in own)


def _refuse_equal_keys(pairs: Iterable[tuple[str, Sequence[CaptionPair | Rewrite]]]) -> None:
    first = dict[str, tuple[str, str]]()
    for path, own in pairs:
        for category in dict.fromkeys(pair.category for pair in own):
            key = clean_key(category)
            file, other = first.setdefault(key, (path, category))
            if category != other:
                raise InputError(
                    f"{path}: MLflow shows category {category!r} as {key!r}, like {other!r} of {file}; rename one"
                )


def read_rewrites(path: str) -> tuple[Rewrite, ...]:
    """Rewritten captions of a JSON object of names of images and lists of captions; empty for a file of other form.

    The category is the file's name. Raises InputError naming file and entry.
    """
    try:
        data = json.loads(_read(path))
    except (ValueError, RecursionError):
        return ()
    if not isinstance(data, Mapping) or not data or not all(isinstance(each, list) for each in data.values()):
        return ()
    if _is_row(data):
        return ()  # columns of pairs
    for image, captions in data.items():
        if not all(isinstance(each, str) and each.strip() for each in captions):
            raise InputError(f"{path}, entry {image}: expected a list of captions")
    category = file_name(path).stem
    return tuple(
        Rewrite(image, number, nfc(without_web(caption)), category)
        for image, captions in data.items()
        for number, caption in enumerate(captions)
    )


def read_pairs(path: str) -> tuple[CaptionPair, ...]:
    """Pairs of a file: JSON as SugarCrepe has it or as columns, JSON lines, or .tsv / .csv with a head line.

    Columns are filename (or image), caption, negative_caption (or negative) and, where there is one, category; without
    it the category is the file's name. Of VALSE's pairs those are read that its numbers are of: with `mturk`, at least
    two votes for the caption alone. Raises InputError naming file and entry.
    """
    text, file = _read(path), file_name(path)
    ending = file.suffix.lower()
    rows = _tabular(text, path, tabs=ending == ".tsv") if ending in (".tsv", ".csv") else _json(text, path)
    pairs = tuple(_pair(row, where, path, file.stem) for where, row in rows if _voted(row, where, path))
    if not pairs:
        raise InputError(f"{path}: holds no pairs of captions")
    return pairs


def read_twins(path: str) -> tuple[tuple[CaptionPair, CaptionPair], ...]:
    """Examples of two images and two captions of a JSON file or JSON lines, as Winoground has them: image_0, caption_0,
    image_1, caption_1. Each image comes with its own caption and the other one.

    Raises InputError naming file and entry.
    """
    examples = []
    for where, row in _json(_read(path), path):
        first, second, *captions = _values(row, _TWINS, f"{path}, {where}")
        one, other = (nfc(without_web(caption)) for caption in captions)
        stem = file_name(path).stem
        examples.append((CaptionPair(first, one, other, stem), CaptionPair(second, other, one, stem)))
    if not examples:
        raise InputError(f"{path}: holds no examples of two images and two captions")
    return tuple(examples)


def _read(path: str) -> str:
    refuse_placeholder(path)
    try:
        return local(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text ({error})") from None


def _voted(row: Any, where: str, path: str) -> bool:
    """Whether a pair has no votes, or enough of them."""
    if not isinstance(row, Mapping) or "mturk" not in row:
        return True
    votes = row["mturk"].get("caption") if isinstance(row["mturk"], Mapping) else None
    if not isinstance(votes, int):
        raise InputError(f"{path}, {where}: expected a number of votes for mturk.caption, got {votes!r:.40}")
    return votes >= _VOTES


def _json(text: str, path: str) -> Iterator[tuple[str, Any]]:
    if not text.strip():
        return
    try:
        data = json.loads(text)
    except RecursionError:
        raise InputError(f"{path}: nested too deeply to be pairs of captions") from None
    except ValueError:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                try:
                    yield f"line {number}", json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise InputError(f"{path}, line {number}: neither JSON nor JSON lines ({error})") from None
        return
    if isinstance(data, Mapping) and _is_row(data) and all(isinstance(each, list) for each in data.values()):
        if len({len(each) for each in data.values()}) > 1:
            listed = ", ".join(f"{name} {len(each)}" for name, each in data.items())
            raise InputError(f"{path}: its columns differ in length ({listed}); expected one cell each for every row")
        data = [dict(zip(data, cells, strict=True)) for cells in zip(*data.values(), strict=True)]
    if isinstance(data, Mapping) and not _is_row(data):
        yield from ((f"entry {key}", row) for key, row in data.items())
    else:
        rows = data if isinstance(data, list) else [data]
        yield from ((f"entry {number}", row) for number, row in enumerate(rows))


def _tabular(text: str, path: str, *, tabs: bool) -> Iterator[tuple[str, Any]]:
    """Rows by column."""
    lines = io.StringIO(text, newline="")
    for number, row in columns.named(lines, path, _check_header, delimiter="\t" if tabs else ","):
        yield f"line {number}", row


def _check_header(header: list[str], where: str) -> None:
    meant = [_OTHER_NAMES.get(name, name) for name in header]
    if twice := [name for name in _COLUMNS if meant.count(name) > 1]:
        raise InputError(f"{where}: the column {twice[0]} occurs {meant.count(twice[0])} times")


def _is_row(data: Mapping[str, Any]) -> bool:
    return set(_renamed(data)) >= set(_COLUMNS) or data.keys() >= set(_TWINS)


def _renamed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the project's own names, which come before others for the same."""
    return {meant: row[name] for name, meant in reversed(_OTHER_NAMES.items()) if name in row} | dict(row)


def _values(row: Any, names: Sequence[str], where: str) -> list[str]:
    """Texts of these fields of a row. Whole numbers are ids too, as COCO has them, but no captions."""
    if not isinstance(row, Mapping):
        raise InputError(f"{where}: expected an object with {', '.join(names)}, got {type(row).__name__}")
    values, named = [], _renamed(row)
    for name in names:
        value = named.get(name) if "caption" in name else optional_id(named, name, where)
        if value is None:
            others = "".join(f" or {other}" for other, meant in _OTHER_NAMES.items() if meant == name)
            raise InputError(f"{where}: lacks {name}{others}; its fields are {', '.join(map(str, row))[:200]}")
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{where}: {name} must be one text, got {value!r:.60}")
        values.append(value)
    return values


def _pair(row: Any, where: str, path: str, stem: str) -> CaptionPair:
    filename, caption, negative = _values(row, _COLUMNS, f"{path}, {where}")
    category = optional_id(row, "category", f"{path}, {where}") or stem
    return CaptionPair(filename, nfc(without_web(caption)), nfc(without_web(negative)), category)


NamesImage = CaptionPair | Rewrite | AnnotatedCaption
"""What names an image by its `filename`."""


@dataclass(frozen=True, slots=True)
class MatchedImages:
    """`ids`: file name -> image id. `ambiguous`: names that several images share, which match none of them."""

    ids: Mapping[str, str]
    ambiguous: frozenset[str]

    def warning(self, items: Sequence[NamesImage], what: str, data: str) -> str:
        """How many of some pairs or captions, as `what` says, give an ambiguous name; empty if none does."""
        unclear = [each.filename for each in items if each.filename in self.ambiguous]
        if not unclear:
            return ""
        return (
            f"{len(unclear)} of {len(items)} {what} give a name that several images share, such as {unclear[0]!r}; "
            f"write an image's id, or its path as {data} has it"
        )


def match_images(pairs: Iterable[NamesImage], images: Sequence[tuple[str, str]]) -> MatchedImages:
    """The images, given as (id, uri), that the pairs' file names mean.

    By id; by path, where one of file name and uri (or id) is the end of the other; by path without the file's ending;
    or, for COCO, by the twelve digits that its releases share (`COCO_val2014_000000000042.jpg` is
    `000000000042.jpg`), in whatever folder. A name is looked for in that order and ends where it finds images: several
    make it ambiguous, for `001.jpg` may be of every folder. Names that match no image are in neither result.
    """
    ids = {image for image, _ in images}
    paths = functools.cache(functools.partial(_Paths, images))  # the first form mostly finds all
    image_of: dict[str, str] = {}
    ambiguous: set[str] = set()
    for name in {pair.filename for pair in pairs}:
        every = (paths(form).find(name) for form in (_parts, _without_ending, _coco))
        image = name if name in ids else next(filter(None, every), None)
        if isinstance(image, _Several):
            ambiguous.add(name)
        elif image is not None:
            image_of[name] = image
    return MatchedImages(image_of, frozenset(ambiguous))


class _Several:
    """Stands for images that share a name."""


class _Paths:
    """Images by their paths, in one form of these."""

    def __init__(self, images: Iterable[tuple[str, str]], form: Callable[[str], tuple[str, ...]]) -> None:
        self._form = form
        self._whole: dict[tuple[str, ...], str | _Several] = {}
        self._ends: dict[tuple[str, ...], str | _Several] = {}
        for image, uri in images:
            for name in {image, uri, uri.partition("?")[0]}:
                parts = form(name)
                _note(self._whole, parts, image)
                for k in range(1, len(parts)):
                    _note(self._ends, parts[k:], image)

    def find(self, name: str) -> str | _Several | None:
        """The image of this very path; else whose path ends in it; else whose path is the longest end of it."""
        parts = self._form(name)
        ends = (self._whole.get(parts[k:]) for k in range(1, len(parts)))
        matches = filter(None, (self._whole.get(parts), self._ends.get(parts), *ends))
        return next(matches, None) if parts else None


def _note(images: dict[tuple[str, ...], str | _Several], parts: tuple[str, ...], image: str) -> None:
    if images.setdefault(parts, image) != image:
        images[parts] = _Several()


def _parts(name: str) -> tuple[str, ...]:
    return tuple([part for part in name.split("/") if part not in ("", ".")])


def _without_ending(name: str) -> tuple[str, ...]:
    *folders, file = _parts(name) or ("",)
    return (*folders, stem) if (stem := _stem(file)) else ()


def _coco(name: str) -> tuple[str, ...]:
    digits = _COCO.match(_stem(name.rpartition("/")[2]))
    return (digits.group(1),) if digits else ()


def _stem(file: str) -> str:
    return file.rpartition(".")[0] or file
