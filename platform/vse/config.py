"""Run configurations: frozen dataclasses, changed by dotted keys, written as plain data.

A configuration is never mutated; `override` returns a new one. `--help`, validation and search-space checks read the
documentation and range that a field carries (`knob`, `part`, `group`).
"""

import contextlib
import difflib
import functools
import hashlib
import json
import math
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, is_dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from vse import registry
from vse.errors import Hint, InputError, UnknownError
from vse.registry import ComponentConfig

T = TypeVar("T")

NO_KEY = "{}: no such key"
A_KEY_OF = "it is a key of"  # before the component or job that has it

_hints = functools.cache(get_type_hints)  # which compiles every annotation again
_is_group = functools.cache(is_dataclass)


def knob(
    default: Any = MISSING,
    doc: str = "",
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: tuple[Any, ...] | None = None,
    repeated: bool = False,
    reads: str = "",
    writes: str = "",
    only: str = "",
) -> Any:
    """A dataclass field that is a key of a configuration, with its documentation and range.

    Args:
        default: the value if the key is not set; without a default, the key must be set.
        doc: its meaning, in a line of `--help` and of the reference.
        low: the smallest value.
        high: the largest value.
        above: a number below every value.
        choices: all values.
        repeated: whether the key may be given several times, for a list of texts that may contain commas.
        reads: `file` or `folder` if the value names one that must exist before a job starts.
        writes: `file` or `folder` if the value names one that the job makes.
        only: settings without which the value has no effect, such as `schedule=step|halving` (`vse.training.effects`).
    """
    ranges = {"low": low, "high": high, "above": above, "choices": choices}
    texts = {"doc": doc, "repeated": repeated, "reads": reads, "writes": writes, "only": only}
    return field(default=default, metadata={**texts, **ranges})


def below(name: str, doc: str = "") -> Any:
    """A field for settings that are checked later: `KEY=x` is stored as `name=x`, `KEY.a.b=x` as `a.b=x`."""
    return field(default=(), metadata={"doc": doc, "below": name})


def part(kind: str, default: Any = MISSING, doc: str = "") -> Any:
    """A dataclass field that holds the Config of a registered component of `kind`; its name stands for its defaults."""
    return field(default=default, metadata={"doc": doc, "kind": kind})


def group(default: Any, named: Mapping[str, Any], doc: str = "") -> Any:
    """A dataclass field that groups keys, with named sets of values for all of them (see `spelled_out`)."""
    return field(default=default, metadata={"doc": doc, "named": named})


def spelled_out(config: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the name of a whole group (`text.contrast=published`) by the keys that it stands for.

    Keys below a group come after its name. Raises InputError for an unknown name.
    """
    leaves: dict[str, Any] = {}
    for key, value in changes.items():
        named = names_of(config, key.split("."))
        if not named:
            continue
        if not isinstance(value, str) or value not in named:
            raise InputError(f"{key}={value}: expected {' or '.join(named)}, or a key below it, as {key}.<key>")
        leaves |= {f"{key}.{name}": leaf for name, leaf in flatten(named[value]).items()}
    return leaves | {key: value for key, value in changes.items() if not names_of(config, key.split("."))}


def names_of(config: Any, path: list[str]) -> Mapping[str, Any]:
    """Named values of the group at `path`; empty if it is not such a group or does not exist."""
    spec = {f.name: f for f in fields(config)}.get(path[0]) if is_dataclass(config) else None
    if spec is None:
        return {}
    return names_of(getattr(config, path[0]), path[1:]) if len(path) > 1 else spec.metadata.get("named", {})


def override(config: T, changes: Mapping[str, Any]) -> T:
    """A copy of `config` with dotted keys set; values may be strings as typed on a command line.

    Component names (`objective=infonce`) apply before keys below them.

    Raises:
        UnknownError: a key or component does not exist; its hints were tried on this configuration.
        InputError: a value is of the wrong type or out of range.
    """
    for key in _in_order(changes):
        try:
            config = _set(config, key.split("."), changes[key], key)
        except UnknownError as error:
            meant = error if error.hints else error.keeping(lambda _: True, _meant(config, key, changes[key]))
            raise meant.keeping(functools.partial(_takes, config)) from None
    return config


def _in_order(changes: Mapping[str, Any]) -> list[str]:
    return sorted(changes, key=lambda key: key.count("."))


def _takes(config: Any, changes: Mapping[str, Any]) -> bool:
    """Whether `override` would accept the changes."""
    try:
        for key in _in_order(changes):
            config = _set(config, key.split("."), changes[key], key)
    except InputError:
        return False
    return True


def _set(config: Any, path: list[str], value: Any, key: str) -> Any:
    by_name = {f.name: f for f in fields(config)}
    above = "".join(f"{part}." for part in key.split(".")[: -len(path)])
    if path[0] not in by_name:
        raise UnknownError(key, NO_KEY.format(key), (), f"expected {', '.join(above + name for name in by_name)}")
    spec, current = by_name[path[0]], getattr(config, path[0])
    if spec.metadata.get("below") and isinstance(value, str):
        name = ".".join(path[1:]) or spec.metadata["below"]
        kept = (item for item in current if item.partition("=")[0] != name)
        return replace(config, **{path[0]: tuple(sorted([*kept, f"{name}={value}"]))})
    if len(path) > 1:
        if not is_dataclass(current):
            raise InputError(f"{key}: {above}{path[0]} is a value and has no keys below it")
        return replace(config, **{path[0]: _set(current, path[1:], value, key)})
    if "kind" in spec.metadata:
        if isinstance(value, str):
            if registry.name_of(spec.metadata["kind"], current) == value:
                return config  # naming the component already there keeps its settings
            value = registry.component(spec.metadata["kind"], value, key).Config()
        elif not isinstance(value, ComponentConfig):
            raise InputError(f"{key}: expected the name of a {spec.metadata['kind']}, got {value!r}")
        return replace(config, **{path[0]: value})
    if is_dataclass(current):
        raise InputError(f"{key}: is a group; its keys are {', '.join(f'{key}.{f.name}' for f in fields(current))}")
    if spec.metadata.get("repeated") and isinstance(value, str):
        value = [value]
    value = coerce(value, _hints(type(config))[path[0]], key)
    check_range(value, spec, key)
    return replace(config, **{path[0]: value})


def _meant(config: Any, key: str, value: Any) -> Iterator[Hint]:
    """What an unknown key may mean (untried): a similar key, the same name elsewhere, a key of another component."""
    keys = [*flatten(config), *groups(config)]
    path = key.split(".")
    near = [".".join([*path[:k], name, *path[k + 1 :]]) for k in range(len(path)) for name in _alike(path, k, keys)]
    near += difflib.get_close_matches(key, keys, cutoff=0.8)
    near += [other for other in keys if other.rpartition(".")[2] == path[-1]]
    yield from (Hint(other, {other: value}) for other in dict.fromkeys(near))
    for chosen, spec, _, current in walk(config):
        if "kind" in spec.metadata and key.startswith(f"{chosen}."):
            others = (name for name in registry.names(spec.metadata["kind"]) if name != current)
            yield from (Hint(f"{chosen}={name}", {chosen: name, key: value}, A_KEY_OF) for name in others)


def _alike(path: list[str], place: int, keys: Sequence[str]) -> list[str]:
    """Names similar to the one at index `place` of a path, with the same names above them."""
    split = (key.split(".") for key in keys)
    here = dict.fromkeys(each[place] for each in split if len(each) > place and each[:place] == path[:place])
    return difflib.get_close_matches(path[place], list(here))


def groups(config: Any, above: str = "") -> Iterator[str]:
    """Dotted keys of the groups that have named values."""
    for spec in fields(config):
        if is_dataclass(value := getattr(config, spec.name)):
            yield from (f"{above}{spec.name}",) if spec.metadata.get("named") else ()
            yield from groups(value, f"{above}{spec.name}.")


def walk(config: Any, prefix: str = "") -> list[tuple[str, Field[Any], Any, Any]]:
    """(dotted key, field, type, value) of every leaf. The name of a component is a leaf before its own fields."""
    leaves: list[tuple[str, Field[Any], Any, Any]] = []
    for name, spec, kind, hint in _specs(type(config)):
        value, key = getattr(config, name), prefix + name
        if kind is not None:
            leaves.append((key, spec, str, registry.name_of(kind, value)))
        leaves += walk(value, f"{key}.") if _is_group(type(value)) else [(key, spec, hint, value)]
    return leaves


@functools.cache  # commands walk thousands of configurations
def _specs(kind: type) -> tuple[tuple[str, Field[Any], str | None, Any], ...]:
    """(name, field, kind of component or None, type) of the fields of a configuration."""
    hints = _hints(kind)
    return tuple((spec.name, spec, spec.metadata.get("kind"), hints[spec.name]) for spec in fields(kind))


def flatten(config: Any) -> dict[str, Any]:
    """Dotted key -> value for every leaf, component names included."""
    return {key: value for key, _, _, value in walk(config)}


def typed(value: Any) -> str:
    """A value as it is written on a command line after `key=`; a list as JSON if commas would divide its texts."""
    if isinstance(value, tuple | list) and _items(bare := ",".join(map(str, value)), text=True) == [*map(str, value)]:
        return bare
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def dotted(data: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key -> value for every leaf of nested plain data, such as `to_dict` gives."""
    leaves: dict[str, Any] = {}
    for name, value in data.items():
        below = dotted(value) if isinstance(value, Mapping) else None
        leaves |= {name: value} if below is None else {f"{name}.{key}": leaf for key, leaf in below.items()}
    return leaves


def validate(config: T) -> T:
    """Check every leaf against its declared range; returns `config` for chaining. Raises InputError."""
    for key, spec, hint, value in walk(config):
        if "kind" not in spec.metadata:
            check_range(coerce(value, hint, key), spec, key)
    return config


def to_dict(config: Any) -> dict[str, Any]:
    """Nested plain data; a component becomes {"name": ..., its fields}."""
    data: dict[str, Any] = {}
    hints = _hints(type(config))
    for spec in fields(config):
        value = _exact(getattr(config, spec.name), hints[spec.name])
        if "kind" in spec.metadata:
            data[spec.name] = {"name": registry.name_of(spec.metadata["kind"], value), **to_dict(value)}
        elif is_dataclass(value):
            data[spec.name] = to_dict(value)
        else:
            data[spec.name] = list(value) if isinstance(value, tuple) else value
    return data


def _exact(value: Any, hint: Any) -> Any:
    """A whole number in a float field as a float, so that `lr=1` and `lr=1.0` are one configuration."""
    kinds = get_args(hint) or (hint,)
    if isinstance(value, tuple):
        return tuple(_exact(item, kinds[0]) for item in value) if float in kinds else value
    return float(value) if type(value) is int and float in kinds and int not in kinds else value


def from_dict(default: T, data: Mapping[str, Any], where: str = "configuration") -> T:
    """`default` with the fields in `data`, as `to_dict` wrote them. Raises InputError with `where` and the key."""
    try:
        return override(default, spelled_out(default, dict(_leaves(default, data, ""))))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _leaves(config: Any, data: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    kinds = {f.name: f.metadata["kind"] for f in fields(config) if "kind" in f.metadata} if is_dataclass(config) else {}
    for name, value in data.items():
        key = f"{prefix}{name}"
        if name in kinds and isinstance(value, Mapping):
            rest = dict(value)
            chosen = rest.pop("name", registry.name_of(kinds[name], getattr(config, name)))
            yield key, chosen
            yield from _leaves(registry.component(kinds[name], chosen, key).Config(), rest, f"{key}.")
        elif isinstance(value, Mapping):
            yield from _leaves(getattr(config, name, None), value, f"{key}.")
        else:
            yield key, value


def canonical(value: Any) -> Any:
    """Plain data in one form only: floats that are whole numbers stay floats, tuples become lists, keys are sorted."""
    if value is None or isinstance(value, str | int | float):  # first, since nearly all are
        return 0.0 if value == 0 and isinstance(value, float) else value  # -0.0 == 0.0, but their JSON differs
    if is_dataclass(value) and not isinstance(value, type):
        return canonical(to_dict(value))
    if isinstance(value, Mapping):
        return {str(k): canonical(value[k]) for k in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [canonical(v) for v in value]
    if isinstance(value, frozenset | set):
        return sorted(canonical(v) for v in value)
    raise AssertionError(f"{value!r} is not plain data")


def fingerprint(value: Any) -> str:
    """Eight hexadecimal digits of SHA-256 over the canonical JSON of plain data or a configuration."""
    text = json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def coerce(value: Any, hint: Any, key: str) -> Any:
    """`value` as the type `hint`; strings are parsed unless the type is a string. Raises InputError with the key."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
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
            return float(number) + 0.0  # no negative zero, which would change the fingerprint
        if number is not None and float(number).is_integer():
            return int(number)
    elif origin is tuple:
        value = _items(value, text=get_args(hint)[0] is str) if isinstance(value, str) else value
        if isinstance(value, list | tuple):
            inner = get_args(hint)
            kinds = [inner[0]] * len(value) if len(inner) == 2 and inner[1] is Ellipsis else list(inner)
            if len(kinds) == len(value):
                return tuple(coerce(v, k, key) for v, k in zip(value, kinds, strict=True))
    elif origin is Literal:
        if value in get_args(hint):
            return value
    else:
        raise AssertionError(f"{key}: configuration fields of type {hint} are not supported")
    raise InputError(f"{key}={value}: expected {type_name(hint)}")


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, Real | str):  # also numbers of NumPy
        return None
    number = math.nan
    with contextlib.suppress(ValueError, OverflowError):
        number = float(value)
    if not math.isfinite(number):
        return None
    if isinstance(value, str):
        return int(value) if value.lstrip("+-").isdigit() else number
    return int(value) if isinstance(value, Integral) else number


def _items(given: str, *, text: bool) -> list[Any]:
    """The items of a list as it is typed; with `text`, numbers are strings too."""
    with contextlib.suppress(json.JSONDecodeError):
        items = value if isinstance(value := json.loads(given), list) else [value]
        if not text or all(isinstance(each, str) for each in items):
            return items
    bare = re.sub(r"^\s*\[([^\[\]]*)\]\s*$", r"\1", given)  # words in brackets need no quotation marks
    return [part.strip() for part in bare.split(",") if part.strip()]


def type_name(hint: Any) -> str:
    """A type in words, for messages and `--help`."""
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join("none" if a is type(None) else type_name(a) for a in get_args(hint))
    if get_origin(hint) is Literal:
        return " or ".join(str(a) for a in get_args(hint))
    if get_origin(hint) is tuple:
        plurals, item = {int: "integers", float: "numbers", str: "strings"}, get_args(hint)[0]
        return f"a list of {plurals.get(item, item)}"
    return {int: "an integer", float: "a number", bool: "true or false", str: "a string"}.get(hint, str(hint))


def check_range(value: Any, spec: Field[Any], key: str) -> None:
    """Raise InputError for a value outside the range that its field declares."""
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
