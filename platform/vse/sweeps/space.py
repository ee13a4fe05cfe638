"""Search spaces: one Python module each, a flat `SPACE` of dotted configuration keys in Tune's own vocabulary.

A key that is not in the configuration may name alternatives: `choice` or `grid_search` of dicts, each a space of its
own whose keys a trial has only if that alternative was taken. A module may list points to begin with as `INITIAL`.

A space is checked against the run configuration before any Ray process starts. Trials are made here and not by Tune's
generator, so that the same space gives the same trials in the same order on every machine, and more samples extend
what is there instead of replacing it.
"""

import difflib
import importlib
import importlib.util
import itertools
import math
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from vse.config import canonical, fingerprint, flatten, override
from vse.errors import MEANT, Hint, InputError, UnknownError
from vse.storage.files import local_path

KEY = "sweep.space"  # which names one
PROBES = 16  # seeded draws of a continuous domain that are tried on the configuration, beside its two ends


@dataclass(frozen=True, slots=True)
class Space:
    """A search space: dotted key -> Tune domain, grid (`tune.grid_search`), constant, or alternatives of these.

    `where` names its module; `initial` are points of it to begin with.
    """

    where: str
    domains: Mapping[str, Any]
    initial: tuple[Mapping[str, Any], ...] = ()

    def describe(self) -> dict[str, Any]:
        """Plain data that says what is searched; equal for equal spaces, so it can be fingerprinted."""
        return {key: describe_domain(domain, f"{self.where}: {key}") for key, domain in self.domains.items()}

    @property
    def is_grid(self) -> bool:
        """Whether every trial is listed, so that drawing more than one sample would repeat them."""
        return all(_is_listed(domain) for domain in self.domains.values())

    @property
    def keys(self) -> tuple[str, ...]:
        """Every configuration key that some trial sets, in order; names of alternatives are none."""
        return tuple(dict.fromkeys(key for key, _ in leaves(self.domains)))

    @property
    def varied(self) -> tuple[str, ...]:
        """Those keys that more than one value is tried of."""
        values: dict[str, list[Any]] = {}
        for key, domain in leaves(self.domains):
            values.setdefault(key, []).append(choices(domain))
        return tuple(k for k, found in values.items() if None in found or len({str(v) for f in found for v in f}) > 1)


def alternatives(domain: Any) -> list[Mapping[str, Any]] | None:
    """The spaces among which a conditional domain chooses; None for a domain of values."""
    values = domain.get("grid_search") if isinstance(domain, dict) else getattr(domain, "categories", None)
    nested = isinstance(values, list) and bool(values) and all(isinstance(value, dict) for value in values)
    return list(values) if nested and values is not None else None


def leaves(domains: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(key, domain) of every configuration key, of all alternatives too; a key may come more than once."""
    for key, domain in domains.items():
        inner = alternatives(domain)
        if inner is None:
            yield key, domain
        else:
            for each in inner:
                yield from leaves(each)


def _is_listed(domain: Any) -> bool:
    inner = alternatives(domain)
    if inner is None:
        return choices(domain) is not None
    return isinstance(domain, dict) and all(_is_listed(each) for one in inner for each in one.values())


def load_space(where: str) -> Space:
    """The space of a module of `search_spaces` by its name, or of a Python file by its path.

    Raises InputError where there is none, its SPACE is not a flat dict of dotted keys, or a domain cannot be used.
    """
    module = _file_module(local_path(where)) if where.endswith(".py") else _named_module(where)
    space = getattr(module, "SPACE", None)
    if not isinstance(space, dict) or not space:
        raise InputError(f"{where}: expected a dict named SPACE of dotted keys and domains")
    _check_form(space, where)
    initial = getattr(module, "INITIAL", [])
    if not isinstance(initial, list) or not all(isinstance(point, dict) for point in initial):
        raise InputError(f"{where}: expected INITIAL to be a list of dicts, key -> value")
    found = Space(where, dict(space), tuple(dict(point) for point in initial))
    for point in found.initial:
        if not list(placements(found.domains, point)):
            raise InputError(
                f"{where}: INITIAL: {label(point)} is not a point of SPACE; name all keys that a trial sets"
            )
    return found


def _check_form(space: Mapping[Any, Any], where: str, *, drawn: bool = False) -> None:
    """Whether keys and domains can be used at all. `drawn`: below alternatives that are drawn from."""
    taken = set[str]()
    for key, domain in space.items():
        if not isinstance(key, str):
            raise InputError(f"{where}: key {key!r} of SPACE: expected a dotted key of the run configuration")
        if isinstance(domain, dict) and set(domain) != {"grid_search"}:
            raise InputError(f"{where}: {key}: nested spaces are unsupported; write {key}.<field> as a key of its own")
        values = domain["grid_search"] if isinstance(domain, dict) else getattr(domain, "categories", [None])
        if not isinstance(values, list | tuple | range) or not values:
            kind = "grid_search" if isinstance(domain, dict) else "choice"
            raise InputError(f"{where}: {key}: {kind} takes a list of one or more values")
        if drawn and isinstance(domain, dict):
            raise InputError(f"{where}: {key}: a grid inside drawn alternatives; use choice, or a grid of them")
        inner = alternatives(domain)
        if inner is None:
            describe_domain(domain, f"{where}: {key}")
        for each in inner or ():
            _check_form(each, f"{where}: {key}", drawn=drawn or not isinstance(domain, dict))
        own = {key} if inner is None else {name for each in inner for name, _ in leaves(each)}
        if both := sorted(own & taken):
            raise InputError(f"{where}: {both[0]}: comes twice in a point, once from {key}; each would undo the other")
        taken |= own


def _named_module(name: str) -> ModuleType:
    import search_spaces

    known = sorted(module.name for module in pkgutil.iter_modules(search_spaces.__path__))
    if name not in known:
        hints = [Hint(near, {KEY: near}) for near in difflib.get_close_matches(name, known)]
        listed = f"known are {', '.join(known)}, or a path that ends in .py"
        raise UnknownError(KEY, f"search space {name}: unknown", hints, listed)
    return importlib.import_module(f"search_spaces.{name}")


def _file_module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"search_space_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"search space {path}: no such file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever a user's file may raise
        raise InputError(f"search space {path}: {type(error).__name__}: {error}") from None
    return module


def choices(domain: Any) -> list[Any] | None:
    """The values of a grid, the one value of a constant; None for a domain that is drawn from."""
    if isinstance(domain, dict):
        return [plain(value) for value in domain["grid_search"]]
    return None if _is_domain(domain) else [plain(domain)]


def _is_domain(domain: Any) -> bool:
    return hasattr(domain, "get_sampler")


def describe_domain(domain: Any, where: str) -> Any:
    """A domain as plain data, such as {"uniform": [0.0, 1.0]}. Raises InputError for one that is not repeatable."""
    from ray.tune.search import sample

    inner = alternatives(domain)
    if inner is not None:
        kind = "grid" if isinstance(domain, dict) else "choice"
        return {kind: [{key: describe_domain(each, f"{where}: {key}") for key, each in one.items()} for one in inner]}
    values = choices(domain)
    if values is not None:
        try:
            listed = canonical(values)
        except AssertionError as error:
            raise InputError(f"{where}: {error}") from None
        return {"grid": listed} if isinstance(domain, dict) else listed[0]
    if isinstance(domain, sample.Function):
        raise InputError(f"{where}: sample_from hides what is searched; use choice, uniform, randint or a grid")
    sampler, step = domain.get_sampler(), None
    if isinstance(sampler, sample.Quantized):
        sampler, step = sampler.sampler, sampler.q
    if isinstance(domain, sample.Categorical):
        if isinstance(sampler, sample.Grid):
            raise InputError(f"{where}: write grid_search, not choice(...).grid()")
        if any(isinstance(value, dict) or _is_domain(value) for value in domain.categories):
            raise InputError(f"{where}: choices must be plain values, or alternatives that are all dicts")
        return {"choice": canonical(plain(domain.categories))}
    normal = isinstance(sampler, sample.Normal)
    bounds = plain([sampler.mean, sampler.sd] if normal else [domain.lower, domain.upper])
    if not all(isinstance(bound, int | float) for bound in bounds) or (not normal and bounds[0] >= bounds[1]):
        raise InputError(f"{where}: nothing can be drawn with {bounds[0]!r} and {bounds[1]!r}; give two rising numbers")
    kind = "integer " if isinstance(domain, sample.Integer) else ""
    name = f"{kind}{type(sampler).__name__.lstrip('_').lower()}"
    return {name: bounds} if step is None else {name: bounds, "step": step}


def check_space(space: Space, config: Any, changed: Iterable[str] = ()) -> None:
    """Try every key of the space on a run configuration: existence, type, range; and no key that the user set.

    Ends of ranges and some draws are tried for domains that are not lists. Raises InputError naming module and key.
    """
    taken = sorted(set(changed))
    for key in space.keys:
        for own in taken:
            if own == key or own.startswith(f"{key}."):
                raise InputError(f"{own}: is set by you and searched by {space.where} ({key}); drop one of the two")
    _check_domains(space.domains, config, space.where)


def _check_domains(domains: Mapping[str, Any], config: Any, where: str) -> None:
    """Keys of a space, or of one alternative, on the configuration that its constants make."""
    known = flatten(config)
    constants = {
        key: plain(domain)
        for key, domain in domains.items()
        if alternatives(domain) is None and not isinstance(domain, dict) and not _is_domain(domain)
    }
    try:
        config = override(config, constants)
        for key, domain in domains.items():
            for value in [] if alternatives(domain) is not None else _probes(domain, key):
                held = canonical_point(config, {key: value})[key]
                if held != canonical(value):  # a ledger would have another value than the space
                    raise InputError(f"{key}={value!r}: write it as {held!r}")
    except InputError as error:
        unknown = "no such key" in str(error) and MEANT not in str(error)
        other = "; take a --preset that has it" if unknown else ""
        raise InputError(f"search space {where}: {error}{other}") from None
    for key, domain in domains.items():
        inner = alternatives(domain)
        if inner is not None and key in known:
            raise InputError(f"search space {where}: {key}: names alternatives but is also a setting; rename it")
        for each in inner or ():
            _check_domains(each, config, where)


def _probes(domain: Any, key: str) -> list[Any]:
    values = choices(domain)
    if values is not None:
        return values
    if hasattr(domain, "categories"):
        return plain(domain.categories)
    return _ends(domain) + [_drawn(domain, f"probe {key} {index}") for index in range(PROBES)]


def _ends(domain: Any) -> list[Any]:
    from ray.tune.search import sample

    lower, upper = plain(domain.lower), plain(domain.upper)
    if isinstance(domain, sample.Integer):
        step = isinstance(domain.get_sampler(), sample.Quantized)
        return [lower, upper if step else upper - 1]
    return [bound for bound in (lower, upper) if np.isfinite(bound)]


def draw(domain: Any, keyed_by: str) -> Any:
    """One value of a domain, decided by the text alone."""
    return domain.sample(random_state=np.random.default_rng(int(fingerprint(keyed_by), 16)))


def _drawn(domain: Any, keyed_by: str) -> Any:
    return _within(domain, plain(draw(domain, keyed_by)))


def _within(domain: Any, value: Any) -> Any:
    """A value of a domain, moved into its range: Tune and HyperOpt round to multiples of q, and 3 * 0.1 > 0.3."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not hasattr(domain, "lower"):
        return value
    return type(value)(min(max(value, domain.lower), domain.upper))


def plain(value: Any) -> Any:
    """A sampled value as Python data: numpy scalars unwrapped, tuples as lists (HyperOpt turns lists into tuples)."""
    if isinstance(value, np.generic):
        value = value.item()
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def expand(space: Space, samples: int = 1, seed: int = 0) -> list[dict[str, Any]]:
    """All trials, as changes of the configuration: the product of the grids, the last key fastest, per sample.

    Sample i of a key depends on (seed, i, key) alone, so 20 samples begin with the 10 that were asked for before, and
    every point of a grid meets the same draws.
    """
    trials: dict[str, dict[str, Any]] = {}
    for index in range(1 if space.is_grid else samples):
        for changes in _points(space.domains, f"{seed} {index}"):
            trials.setdefault(fingerprint(changes), changes)
    return list(trials.values())


def _points(domains: Mapping[str, Any], keyed_by: str) -> Iterator[dict[str, Any]]:
    """The product of what each key contributes: its grid, its draw, or the points of its alternatives."""
    parts: list[list[dict[str, Any]]] = []
    for key, domain in domains.items():
        inner, values = alternatives(domain), choices(domain)
        if inner is not None:
            taken = inner if values is not None else [draw(domain, f"{keyed_by} {key}")]
            parts.append([point for each in taken for point in _points(each, keyed_by)])
        elif values is not None:
            parts.append([{key: value} for value in values])
        else:
            parts.append([{key: _drawn(domain, f"{keyed_by} {key}")}])
    for combination in itertools.product(*parts):
        yield {key: value for part in combination for key, value in part.items()}


def placements(domains: Mapping[str, Any], changes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every way in which changes are a point of a space, as label -> position or value.

    The label of a key is the key; below alternative 1 of `a` it is `a/1/<key>`. Choices have positions.
    """
    for labels, used in _placed(domains, changes, ""):
        if used == changes.keys():
            yield labels


def _placed(
    domains: Mapping[str, Any], changes: Mapping[str, Any], prefix: str
) -> list[tuple[dict[str, Any], frozenset[str]]]:
    ways: list[tuple[dict[str, Any], frozenset[str]]] = [({}, frozenset())]
    for key, domain in domains.items():
        name, inner = f"{prefix}{key}", alternatives(domain)
        if inner is None:
            value = _position(domain, changes[key]) if key in changes else None
            here = [] if value is None else [({name: value}, frozenset({key}))]
        else:
            here = [
                ({name: place, **labels}, used)
                for place, each in enumerate(inner)
                for labels, used in _placed(each, changes, f"{name}/{place}/")
            ]
        ways = [({**a, **b}, used | more) for a, used in ways for b, more in here]
    return ways


def _position(domain: Any, value: Any) -> Any:
    """The place of a value in a list, the value itself where it lies in a range; None for one that is neither.

    A rounding error outside a range is inside: older ledgers hold quantised values as they were drawn.
    """
    listed = choices(domain) or [plain(each) for each in getattr(domain, "categories", [])]
    if listed:
        return listed.index(value) if value in listed else None
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        return None
    inside = _within(domain, value)
    return inside if math.isclose(value, inside, rel_tol=1e-9) else None


def at_labels(domains: Mapping[str, Any], labels: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The changes that labels stand for: the way back from `placements`."""
    from ray.tune.search import sample

    changes: dict[str, Any] = {}
    for key, domain in domains.items():
        name, inner, values = f"{prefix}{key}", alternatives(domain), choices(domain)
        if inner is not None:
            place = int(labels[name])
            changes |= at_labels(inner[place], labels, f"{name}/{place}/")
        elif values is not None:
            changes[key] = values[int(labels.get(name, 0))]
        elif hasattr(domain, "categories"):
            changes[key] = plain(domain.categories[int(labels[name])])
        else:
            value = _within(domain, plain(labels[name]))
            changes[key] = round(value) if isinstance(domain, sample.Integer) else value
    return changes


def canonical_point(config: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes as the configuration holds them (1 becomes 1.0 for a number), so that equal trials have equal ids."""
    leaves = flatten(override(config, changes))
    return {key: canonical(leaves[key]) for key in changes}


def label(changes: Mapping[str, Any]) -> str:
    """A short readable name of a trial: `alpha=0.75 lr=0.0002`."""
    return " ".join(f"{key.rpartition('.')[2]}={_short(value)}" for key, value in changes.items())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else re.sub(r"\s+", "", str(value))
