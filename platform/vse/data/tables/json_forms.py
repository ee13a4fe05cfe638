"""JSON tables: a list of objects, one object a line, columns, what pandas writes, or captions by image."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vse.data.tables.columns import Chooser, Listing
from vse.errors import InputError

_CAPTIONS = "captions"


def json_table(text: str, path: str, chooser: Chooser) -> Listing:
    """The rows of a text that begins like JSON. Raises InputError naming the line or entry that is none."""
    if text.lstrip().startswith("{"):
        whole = _object(text, path)
        return _lines(text, path) if whole is None else _of_object(whole, path, chooser)
    return _entries(_loads(text, path, "a list of objects, or one per line"), path, "JSON list")


def _object(text: str, path: str) -> dict[str, Any] | None:
    """The one object that the whole text is; None where every line is one."""
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
    """A table that is one object, whichever way it is turned."""
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
    raise InputError(f"{path}: {_other(data)}")


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


def _other(data: Mapping[str, Any]) -> str:
    """What an object is that is no table."""
    if _all(data.get("images"), dict):
        source = "coco" if "annotations" in data else "karpathy"
        return f"looks like a file for data={source}; expected a table of images and captions"
    found = ", ".join(map(repr, list(data)[:4]))
    return (
        "expected a list of objects, columns as lists, or captions by image, each a text or a list of texts; "
        f"found an object with {found}"
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
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(next(name for name in names if names.count(name) > 1))
    return found


def _constant(name: str) -> float | None:
    return None if name == "NaN" else float(name)
