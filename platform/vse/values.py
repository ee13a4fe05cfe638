"""Values of configuration keys: read as the type of their field, and held to its range."""

import dataclasses
import json
import math
import re
import types
import typing
from typing import Any, get_args, get_origin

from vse.errors import InputError


def coerce(value: Any, hint: Any, key: str) -> Any:
    """`value` as the type `hint`; strings are read as JSON where the type is not a string."""
    origin = get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        options = get_args(hint)
        if type(None) in options and (value is None or value in ("null", "none", "None")):
            return None
        for option in options:
            if option is not type(None):
                try:
                    return coerce(value, option, key)
                except InputError:
                    continue
        raise InputError(f"{key}={value}: expected {type_name(hint)}")
    if hint is str:
        if isinstance(value, str):
            return value
    elif hint is bool:
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if isinstance(value, bool):
            return value
    elif hint in (int, float):
        number = _number(value)
        if number is not None and hint is float:
            return float(number) + 0.0  # no negative zero: it would be another fingerprint
        if number is not None and float(number).is_integer():
            return int(number)
    elif origin is tuple:
        if isinstance(value, str):
            value = _items(value)
        if isinstance(value, list | tuple):
            inner = get_args(hint)
            kinds = [inner[0]] * len(value) if len(inner) == 2 and inner[1] is Ellipsis else list(inner)
            if len(kinds) == len(value):
                return tuple(coerce(v, k, key) for v, k in zip(value, kinds, strict=True))
    elif origin is typing.Literal:
        if value in get_args(hint):
            return value
    else:
        raise AssertionError(f"{key}: configuration fields of type {hint} are not supported")
    raise InputError(f"{key}={value}: expected {type_name(hint)}")


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool):
        return None
    if not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    if isinstance(value, str):
        return int(value) if value.lstrip("+-").isdigit() else number
    return value


def _items(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        bare = re.sub(r"^\s*\[([^\[\]]*)\]\s*$", r"\1", text)  # words in brackets need no quotation marks
        value = [part.strip() for part in bare.split(",") if part.strip()]
    return value if isinstance(value, list) else [value]


def type_name(hint: Any) -> str:
    """A type as users read it."""
    if get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join("none" if a is type(None) else type_name(a) for a in get_args(hint))
    if get_origin(hint) is typing.Literal:
        return " or ".join(str(a) for a in get_args(hint))
    if get_origin(hint) is tuple:
        plurals, item = {int: "integers", float: "numbers", str: "strings"}, get_args(hint)[0]
        return f"a list of {plurals.get(item, item)}"
    return {int: "an integer", float: "a number", bool: "true or false", str: "a string"}.get(hint, str(hint))


def check_range(value: Any, spec: dataclasses.Field[Any], key: str) -> None:
    """Raises InputError for a value outside the range that its field declares."""
    low, high, above, choices = (spec.metadata.get(k) for k in ("low", "high", "above", "choices"))
    for item in value if isinstance(value, tuple) else (value,):
        if item is None:
            continue
        if choices is not None and item not in choices:
            raise InputError(f"{key}={item}: expected one of {', '.join(map(str, choices))}")
        if (low is not None and item < low) or (high is not None and item > high):
            bounds = f">= {low}" if high is None else f"<= {high}" if low is None else f"between {low} and {high}"
            raise InputError(f"{key}={item}: must be {bounds}")
        if above is not None and not item > above:
            raise InputError(f"{key}={item}: must be greater than {above}")
