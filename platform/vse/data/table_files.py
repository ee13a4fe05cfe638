"""The forms of tables: fields between separators with or without a header, and JSON in several layouts."""

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from vse.data.image_files import ENDINGS
from vse.data.source import DataLocation, name_of_source
from vse.data.table_rows import CAPTION_KEY, IMAGE_KEY, Chooser, Listing
from vse.errors import InputError
from vse.storage.columns import Row, quoted_or_literal, rows
from vse.storage.folder import Folder

_NAMES = {",": "comma-separated", "\t": "tab-separated", "|": "|-separated", ";": ";-separated"}
_FIRST = re.compile(rf".*(?:{'|'.join(map(re.escape, ENDINGS))})(?:#\d+)?", re.IGNORECASE)
_NUMBER = re.compile(r"(number|index|id)$")  # a column that counts captions
_NUMBERED = re.compile(r"\s*(\d+)\s+(\S.*)", re.DOTALL)


def delimited(text: str, path: str, chooser: Chooser) -> Listing:
    """The rows of a text with separated fields. The header, or the first row, decides the separator.

    Blank lines, lines of comments, which begin with `# `, and a line `sep=` before it are skipped.

    Args:
        text: the content of the file.
        path: the file, for messages.
        chooser: recognises the header by its columns. If it names a column, the file must have a header.

    Raises:
        InputError: no separator gives the columns image and caption.
    """
    start, lines, separators, comments = _beginning(text)
    if not lines:
        raise InputError(f"{path}: is empty; expected a header with the columns image and caption")
    heads = {each: _header(lines, each) for each in separators}
    for separator, head in heads.items():
        if chooser.recognises(head):
            form, (_, *body) = _read(lines, path, start, separator, head)
            header = tuple(head)
            break
    else:
        separators = [each for each, head in heads.items() if len(head) == 2 and _FIRST.fullmatch(head[0])]
        if chooser.image or chooser.caption or not separators:
            _refuse(max(heads.values(), key=len), f"{path}: line {start}", chooser)
        form, body = _read(lines, path, start, separators[0], [])
        form, header = f"{form} without a header", ("image", "caption")
    if comments:
        form += f", after {comments} comment {'line' if comments == 1 else 'lines'}"
    return Listing(header, [(f"line {number}", dict(zip(header, cells, strict=True))) for number, cells in body], form)


def _refuse(header: list[str], where: str, chooser: Chooser) -> NoReturn:
    if chooser.image or chooser.caption:
        chooser.choose(header, where)
    raise InputError(
        f"{where}: expected JSON, or a header with the columns image and caption between commas, tabs, semicolons "
        f"or |; found {', '.join(header)[:200]}; name columns of other names with {IMAGE_KEY} and {CAPTION_KEY}"
    )


def _beginning(text: str) -> tuple[int, list[str], Sequence[str], int]:
    """(number of the first line of the table, lines from it on, separators that are possible, number of comments)."""
    lines, separators, comments = list(io.StringIO(text, newline="")), list(_NAMES), 0
    for number, line in enumerate(lines):
        declared = re.fullmatch(r'"?sep=(.)"?', line.rstrip("\r\n"), re.IGNORECASE)
        if declared:
            separators = [declared[1]]
        elif line.startswith("# "):
            comments += 1
        elif line.strip():
            return number + 1, lines[number:], separators, comments
    return 1, [], separators, comments


def _header(lines: list[str], separator: str) -> list[str]:
    try:
        _, fields = next(rows(lines, "", delimiter=separator, quoted='"' in lines[0]))
    except InputError:  # quotation marks that are no quotes
        fields = lines[0].split(separator)
    return [name.strip() for name in fields]


def _read(lines: list[str], path: str, start: int, separator: str, head: list[str]) -> tuple[str, list[Row]]:
    """The form of a table, and its rows."""
    mended: dict[bool, int] = {}

    def read(quoted: bool) -> Iterator[Row]:
        mended[quoted] = 0

        def mend(fields: list[str]) -> list[str] | None:
            """Split a last field that lacks the separator after the number of the caption, such as `4   A dog runs .`.

            Flickr30k's results.csv has one such row.
            """
            match = _NUMBERED.fullmatch(fields[-1])
            if not match or len(fields) != len(head) - 1 or not _NUMBER.search(head[-2].lower()):
                return None
            mended[quoted] += 1
            return [*fields[:-1], *match.groups()]

        return rows(lines, path, delimiter=separator, quoted=quoted, first=start, mend=mend)

    quoted, table = quoted_or_literal(read, separator)
    how = "" if quoted else " with literal quotation marks"
    lacking = f", {number} of them without a separator after {head[-2]!r}" if (number := mended[quoted]) else ""
    return f"{_NAMES.get(separator, f'{separator}-separated')}{how}{lacking}", table


_CAPTIONS = "captions"


def json_table(text: str, path: str, chooser: Chooser) -> Listing:
    """The rows of a text that begins like JSON: one object per line, a list of objects, or one object around them.

    Args:
        text: the content of the file.
        path: the file, for messages.
        chooser: recognises the columns of an object that holds the whole table.

    Raises:
        InputError: naming the line or entry that is no row.
    """
    if text.lstrip().startswith("{"):
        whole = _object(text, path)
        return _lines(text, path) if whole is None else _of_object(whole, path, chooser)
    return _entries(_loads(text, path, "a list of objects, or one per line"), path, "JSON list")


def _object(text: str, path: str) -> dict[str, Any] | None:
    """The text as one JSON object; None if every line is an object."""
    first, _, rest = text.strip().partition("\n")
    try:
        return _loads(text, path, "a list of objects, or one per line")
    except InputError:
        if not rest or first.rstrip().endswith("}"):
            return None
        raise


def _lines(text: str, path: str) -> Listing:
    """One object a line. Lines end at line feeds alone: JSON may hold U+2028 and the like inside a text."""
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            item = _loads(line, f"{path}: line {number}", "one object per line", lines=False)
            rows.append((f"line {number}", item))
    return _listing(rows, path, "JSON lines")


def _entries(items: Sequence[Any], path: str, form: str) -> Listing:
    return _listing([(f"entry {number}", item) for number, item in enumerate(items, start=1)], path, form)


def _listing(rows: Sequence[tuple[str, Any]], path: str, form: str) -> Listing:
    columns: dict[str, None] = {}
    for place, item in rows:
        if not isinstance(item, dict):
            raise InputError(f"{path}: {place}: expected an object with 'image', got {type(item).__name__}")
        columns.update(dict.fromkeys(item))
    return Listing(tuple(columns), rows, form)


def _of_object(data: dict[str, Any], path: str, chooser: Chooser) -> Listing:
    """The rows of a table that is one JSON object: columns, rows by key, or captions by image."""
    names, values = list(data), list(data.values())
    if isinstance(data.get("columns"), list) and isinstance(data.get("data"), list):  # pandas: orient="split"
        return _split(data["columns"], data["data"], path)
    if _all(data.get("data"), dict) and set(data) <= {"data", "schema"}:  # pandas: orient="table"
        return _entries(data["data"], path, "JSON table")
    images = chooser.images(names)
    by_column = [data[name] for name in images]
    if images and all(isinstance(value, list) for value in by_column):
        return _columns({k: v for k, v in data.items() if isinstance(v, list)}, path)
    if images and all(isinstance(value, dict) for value in by_column):  # pandas: orient="columns"
        index = dict.fromkeys(key for value in values if isinstance(value, dict) for key in value)
        cells = {name: [value.get(key) for key in index] for name, value in data.items() if isinstance(value, dict)}
        return _columns(cells, path)
    if images or not data:
        return _listing([("line 1", data)], path, "JSON lines")
    if _all(values, dict):
        rows = [(f"entry {name!r}", item) for name, item in data.items()]
        listing = _listing(rows, path, "JSON object of rows")
        if chooser.images(listing.columns):  # pandas: orient="index"
            return listing
        if chooser.recognises([*listing.columns, "image"]):
            rows = [(place, {**item, "image": name}) for name, (place, item) in zip(data, rows, strict=True)]
            return _listing(rows, path, "JSON object of rows by image")
    if all(value is None or isinstance(value, str) or _all(value, str, type(None)) for value in values):
        rows = [(f"entry {name!r}", {"image": name, _CAPTIONS: value}) for name, value in data.items()]
        return _listing(rows, path, "JSON object of captions by image")
    raise InputError(f"{path}: {_other(data, path)}")


def _split(columns: list[Any], data: list[Any], path: str) -> Listing:
    names = [str(name) for name in columns]
    for number, row in enumerate(data, start=1):
        if not isinstance(row, list) or len(row) != len(names):
            raise InputError(f"{path}: entry {number} of data: expected a list of {len(names)} cells, one for a column")
    return _columns({name: [row[k] for row in data] for k, name in enumerate(names)}, path)


def _columns(cells: Mapping[str, Sequence[Any]], path: str) -> Listing:
    lengths = {name: len(values) for name, values in cells.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(f"{path}: its columns differ in length ({listed}); expected one cell each for every row")
    rows = (dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True))
    return _entries(list(rows), path, "JSON columns")


def _other(data: Mapping[str, Any], path: str) -> str:
    """The message for an object that is no table."""
    location = DataLocation(*Folder.of_file(path))
    location.json = dict(data)  # the file may have another ending
    if (source := name_of_source(location)) != "table":
        return f"looks like a file for data={source}; expected a table of images and captions"
    keys = ", ".join(map(repr, list(data)[:4]))
    return (
        "expected a list of objects, columns as lists, or captions by image, each a text or a list of texts; "
        f"found an object with {keys}"
    )


def _all(values: Any, *kinds: type) -> bool:
    return isinstance(values, list) and all(isinstance(value, kinds) for value in values)


def _loads(text: str, where: str, expected: str, *, lines: bool = True) -> Any:
    """JSON in which no object has a key twice; NaN, which Python and pandas write for an empty cell, is null."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_constant)
    except json.JSONDecodeError as error:
        line = f" line {error.lineno}:" if lines else ""
        raise InputError(f"{where}:{line} is not JSON ({error.msg}); expected {expected}") from None
    except _Twice as error:
        raise InputError(f"{where}: an object has the key {str(error)!r} twice; give it one list of captions") from None
    except ValueError:  # Python makes no integer of more than 4,300 digits
        raise InputError(f"{where}: holds an integer of thousands of digits; no caption has one") from None
    except RecursionError:
        raise InputError(f"{where}: is nested too deeply to be a table of captions") from None


class _Twice(Exception):  # noqa: N818  (JSON would silently keep the last value)
    """A key that an object has twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(next(name for name in names if names.count(name) > 1))
    return unique


def _constant(name: str) -> float | None:
    return None if name == "NaN" else float(name)
