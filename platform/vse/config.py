"""Run configurations: frozen dataclasses, changed by dotted keys, written as plain data.

A configuration is never mutated; `override` returns a new one. A field made with `knob` carries its documentation and
its range, so that `--help`, validation and search-space checks read the same source. A field made with `part` holds the
`Config` of a registered component; setting it to a name swaps in that component's registered default. One made with
`group` holds keys of its own and knows names for values of all of them.
"""

import dataclasses
import difflib
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, field, fields, is_dataclass, replace
from typing import Any, TypeVar, get_args, get_type_hints

from vse import registry
from vse.errors import Hint, InputError, UnknownError
from vse.registry import ComponentConfig
from vse.values import check_range, coerce, type_name

T = TypeVar("T")

NO_KEY = "{}: no such key"
A_KEY_OF = "it is a key of"  # before the component or job that has it

_hints = functools.cache(get_type_hints)  # which compiles every annotation anew


def knob(
    default: Any = MISSING,
    doc: str = "",
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: tuple[Any, ...] | None = None,
    later: bool = False,
    repeated: bool = False,
    reads: str = "",
    writes: str = "",
) -> Any:
    """A dataclass field with documentation and a range: low <= value <= high, value > above, value in choices.

    later: it joined a configuration of which runs were made. Its default, which must be what they did, is not written,
    so that they keep their fingerprints. repeated: a list of texts, such as sentences, whose key is given once for each
    on a command line; each is taken as it stands, commas included. reads, writes: `file` or `folder`, for what must be
    there, or must be possible to make, before a job starts.
    """
    ranges = {"low": low, "high": high, "above": above, "choices": choices}
    return field(
        default=default,
        metadata={"doc": doc, "later": later, "repeated": repeated, "reads": reads, "writes": writes, **ranges},
    )


def below(name: str, doc: str = "", *, later: bool = False) -> Any:
    """A field of settings whose keys are known later: `KEY=x` is kept as `name=x`, `KEY.a.b=x` as `a.b=x`."""
    return field(default=(), metadata={"doc": doc, "later": later, "below": name})


def part(kind: str, default: Any = MISSING, doc: str = "") -> Any:
    """A dataclass field that holds the Config of a registered component of `kind`."""
    return field(default=default, metadata={"doc": doc, "kind": kind})


def group(default: Any, named: Mapping[str, Any], doc: str = "") -> Any:
    """A dataclass field that holds keys of its own, with values of all of them by name (see `spelled_out`)."""
    return field(default=default, metadata={"doc": doc, "named": named})


def spelled_out(config: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """`changes` as a user writes them, a name of a whole group (`text.contrast=published`) as the keys it stands for.

    Keys below a group come after its name. Raises InputError for a name that the group does not know.
    """
    found: dict[str, Any] = {}
    for key, value in changes.items():
        named = _names_of(config, key.split("."))
        if not named:
            continue
        if not isinstance(value, str) or value not in named:
            raise InputError(f"{key}={value}: expected {' or '.join(named)}, or a key below it, as {key}.<key>")
        found |= {f"{key}.{name}": leaf for name, leaf in flatten(named[value]).items()}
    return found | {key: value for key, value in changes.items() if not _names_of(config, key.split("."))}


def _names_of(config: Any, path: list[str]) -> Mapping[str, Any]:
    """Names of the group at `path`; none where that is no group with names, or not there."""
    spec = {f.name: f for f in fields(config)}.get(path[0]) if is_dataclass(config) else None
    if spec is None:
        return {}
    return _names_of(getattr(config, path[0]), path[1:]) if len(path) > 1 else spec.metadata.get("named", {})


def override(config: T, changes: Mapping[str, Any]) -> T:
    """A copy of `config` with dotted keys set; values may be strings as typed on a command line.

    Component names (`objective=infonce`) apply before keys below them. Raises InputError naming the key for an unknown
    key, a value of the wrong type, or one out of range; UnknownError with hints that were tried for the first.
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
        raise UnknownError(key, NO_KEY.format(key), (), f"known are {', '.join(above + name for name in by_name)}")
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
    """What an unknown key may mean: one of nearly the same letters, one of the same name elsewhere, or the same key of
    another component than the configured one. None of them was tried."""
    keys = [*flatten(config), *_groups(config)]
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
    """Names like the one at `place` of a path, among those that have the same names above them."""
    split = (key.split(".") for key in keys)
    here = dict.fromkeys(each[place] for each in split if len(each) > place and each[:place] == path[:place])
    return difflib.get_close_matches(path[place], list(here))


def _groups(config: Any, above: str = "") -> Iterator[str]:
    """Dotted keys of the groups whose values have names."""
    for spec in fields(config):
        if is_dataclass(value := getattr(config, spec.name)):
            yield from (f"{above}{spec.name}",) if spec.metadata.get("named") else ()
            yield from _groups(value, f"{above}{spec.name}.")


def has_key(config: Any, key: str) -> bool:
    """Whether a configuration has a key, with the components that are configured or with others."""
    if key in flatten(config) or key in _groups(config):
        return True
    for chosen, spec, _, _ in walk(config):
        rest = key.removeprefix(f"{chosen}.")
        if "kind" in spec.metadata and rest != key:
            kind = spec.metadata["kind"]
            return any(has_key(registry.component(kind, name).Config(), rest) for name in registry.names(kind))
    return False


def joined(*configs: Any) -> Any:
    """One configuration with the fields of several, which have none in common."""
    every = [(config, spec, _hints(type(config))[spec.name]) for config in configs for spec in fields(config)]
    made = dataclasses.make_dataclass(
        "Joined",
        [(spec.name, hint, field(metadata=spec.metadata)) for _, spec, hint in every],
        frozen=True,
        kw_only=True,
    )
    return made(**{spec.name: getattr(config, spec.name) for config, spec, _ in every})


def walk(config: Any, prefix: str = "") -> Iterator[tuple[str, dataclasses.Field[Any], Any, Any]]:
    """(dotted key, field, type, value) of every leaf; a component's name comes as a leaf before its own fields."""
    hints = _hints(type(config))
    for spec in fields(config):
        value, key = getattr(config, spec.name), f"{prefix}{spec.name}"
        if "kind" in spec.metadata:
            yield key, spec, str, registry.name_of(spec.metadata["kind"], value)
        if is_dataclass(value):
            yield from walk(value, f"{key}.")
        else:
            yield key, spec, hints[spec.name], value


def repeated_keys(config: Any) -> frozenset[str]:
    """The dotted keys that may be given several times."""
    return frozenset(key for key, spec, _, _ in walk(config) if spec.metadata.get("repeated"))


def flatten(config: Any) -> dict[str, Any]:
    """Dotted key -> value for every leaf, component names included."""
    return {key: value for key, _, _, value in walk(config)}


def typed(value: Any) -> str:
    """A value as a command line has it behind `key=`."""
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, bool) or value is None else str(value)


def dotted(data: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key -> value for every leaf of nested plain data, such as `to_dict` gives."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": leaf for key, leaf in dotted(value).items()}
        else:
            found[name] = value
    return found


def validate(config: T) -> T:
    """Check every leaf against its declared range; returns `config` for chaining. Raises InputError."""
    for key, spec, hint, value in walk(config):
        if "kind" not in spec.metadata:
            check_range(coerce(value, hint, key), spec, key)
    return config


def to_dict(config: Any, *, whole: bool = False) -> dict[str, Any]:
    """Nested plain data; a component becomes {"name": ..., its fields}. Later fields are left out at their default,
    unless it is wanted whole."""
    data: dict[str, Any] = {}
    hints = _hints(type(config))
    for spec in fields(config):
        value = _exact(getattr(config, spec.name), hints[spec.name])
        if spec.metadata.get("later") and value == spec.default and not whole:
            continue
        if "kind" in spec.metadata:
            data[spec.name] = {"name": registry.name_of(spec.metadata["kind"], value), **to_dict(value, whole=whole)}
        elif is_dataclass(value):
            data[spec.name] = to_dict(value, whole=whole)
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
    """`default` with every field that `data` (as `to_dict` wrote it) names. Raises InputError naming file and key."""
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
    if is_dataclass(value) and not isinstance(value, type):
        return canonical(to_dict(value))
    if isinstance(value, Mapping):
        return {str(k): canonical(value[k]) for k in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [canonical(v) for v in value]
    if isinstance(value, frozenset | set):
        return sorted(canonical(v) for v in value)
    assert value is None or isinstance(value, str | int | float | bool), f"{value!r} is not plain data"
    return 0.0 if isinstance(value, float) and value == 0 else value  # minus zero is equal and would be told apart


def fingerprint(value: Any) -> str:
    """Eight hexadecimal digits of SHA-256 over the canonical JSON of plain data or a configuration."""
    text = json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def help_lines(config: Any) -> list[str]:
    """One line per key: name, type, default, documentation; what `--help` prints. Groups with names have one too."""
    lines, told = list[str](), set[str]()
    for key, spec, hint, value in walk(config):
        above = key.rpartition(".")[0]
        if above not in told and (named := _names_of(config, above.split("."))):
            lines.append(f"  {above}  [{' or '.join(named)}] a named set of the keys below, which may follow it")
        told.add(above)
        choices = spec.metadata.get("choices")
        kind = " or ".join(map(str, choices)) if choices else type_name(hint)
        if "kind" in spec.metadata:
            kind = " or ".join(registry.names(spec.metadata["kind"]))
        if spec.metadata.get("below"):
            kind = "a string, and keys below"
        if spec.metadata.get("repeated"):
            kind = "a string; may be given several times"
        lines.append(f"  {key}={json.dumps(_six_digits(value))}  [{kind}] {spec.metadata.get('doc', '')}".rstrip())
    return lines


def _six_digits(value: Any) -> Any:
    """Floats as people read them, in a tuple too; files keep every digit."""
    if isinstance(value, tuple):
        return tuple(map(_six_digits, value))
    return float(f"{value:.6g}") if isinstance(value, float) else value
