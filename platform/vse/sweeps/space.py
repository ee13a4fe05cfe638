"""Search spaces: one Python module each, a flat `SPACE` of dotted configuration keys in Tune's own vocabulary.

A key that is not in the configuration may name alternatives: `choice` or `grid_search` of dicts, each a space of its
own. A trial has the keys of the alternative that it takes. A module may list points to begin with as `INITIAL`.

A space is checked on the run configuration before any Ray process starts. Its trials are listed here and not by Tune's
generator: the same space gives the same trials in the same order on every machine, and more samples extend the list.
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
PROBES = 16  # seeded draws of a continuous domain that are tried on the configuration, besides its two ends


@dataclass(frozen=True, slots=True)
class Space:
    """A search space: dotted key -> Tune domain, grid (`tune.grid_search`), constant, or alternatives of these.

    `where` is the name or path of its module. `initial` are points to begin with.
    """

    where: str
    domains: Mapping[str, Any]
    initial: tuple[Mapping[str, Any], ...] = ()

    def describe(self) -> dict[str, Any]:
        """The space as plain data, equal for equal spaces."""
        return {key: describe_domain(domain, f"{self.where}: {key}") for key, domain in self.domains.items()}

    @property
    def is_grid(self) -> bool:
        """Whether every trial is listed, so that drawing more than one sample would repeat them."""
        return all(_is_listed(domain) for domain in self.domains.values())

    @property
    def keys(self) -> tuple[str, ...]:
        """Every configuration key that some trial sets, in order. Names of alternatives are not among them."""
        return tuple(dict.fromkeys(key for key, _ in leaves(self.domains)))

    @property
    def varied(self) -> tuple[str, ...]:
        """The keys that have more than one value."""
        values: dict[str, set[str]] = {}
        for key, domain in leaves(self.domains):
            listed = choices(domain)
            values.setdefault(key, set()).update(("from", "to") if listed is None else map(str, listed))
        return tuple(key for key, each in values.items() if len(each) > 1)


def alternatives(domain: Any) -> list[Mapping[str, Any]] | None:
    """The spaces among which a conditional domain chooses; None for a domain of values."""
    values = domain.get("grid_search") if isinstance(domain, dict) else getattr(domain, "categories", None)
    nested = isinstance(values, list) and bool(values) and all(isinstance(value, dict) for value in values)
    return list(values) if nested and values is not None else None


def leaves(domains: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(key, domain) of every configuration key, those of all alternatives included. A key may occur more than once."""
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

    Raises:
        InputError: There is no such module, its SPACE is not a flat dict of dotted keys, or a domain cannot be used.
    """
    module = _file_module(local_path(where)) if where.endswith(".py") else _named_module(where)
    space = getattr(module, "SPACE", None)
    if not isinstance(space, dict) or not space:
        raise InputError(f"{where}: expected a dict named SPACE of dotted keys and domains")
    _check_form(space, where)
    initial = getattr(module, "INITIAL", [])
    if not isinstance(initial, list) or not all(isinstance(point, dict) for point in initial):
        raise InputError(f"{where}: expected INITIAL to be a list of dicts, key -> value")
    for point in initial:
        if labels_of(space, point) is None:
            raise InputError(
                f"{where}: INITIAL: {label(point)} is not a point of SPACE; name all keys that a trial sets"
            )
    return Space(where, dict(space), tuple(dict(point) for point in initial))


def _check_form(space: Mapping[Any, Any], where: str, *, drawn: bool = False) -> None:
    """Raise InputError for a key or domain that cannot be used. `drawn`: below alternatives that are drawn from."""
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
            raise InputError(f"{where}: {both[0]}: appears twice in a point, once from {key}; keep one of them")
        taken |= own


def _named_module(name: str) -> ModuleType:
    import search_spaces

    names = sorted(module.name for module in pkgutil.iter_modules(search_spaces.__path__))
    if name not in names:
        hints = [Hint(near, {KEY: near}) for near in difflib.get_close_matches(name, names)]
        listed = f"expected one of {', '.join(names)}, or a path that ends in .py"
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
    """A domain as plain data, such as {"uniform": [0.0, 1.0]}. Raises InputError if its draws cannot be repeated."""
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
        raise InputError(f"{where}: sample_from cannot be read as data; use choice, uniform, randint or a grid")
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
        raise InputError(f"{where}: expected two rising numbers as bounds, got {bounds[0]!r} and {bounds[1]!r}")
    kind = "integer " if isinstance(domain, sample.Integer) else ""
    name = f"{kind}{type(sampler).__name__.lstrip('_').lower()}"
    return {name: bounds} if step is None else {name: bounds, "step": step}


def check_space(space: Space, config: Any, changed: Iterable[str] = ()) -> None:
    """Try every key of a space on a run configuration: existence, type and range.

    Of a range, both ends and some draws are tried.

    Args:
        space: What is searched.
        config: The run configuration.
        changed: Keys that the user set; the space may not search them.

    Raises:
        InputError: A key or value cannot be used. The message names the module and the key.
    """
    for key in space.keys:
        for own in sorted(changed):
            if own == key or own.startswith(f"{key}."):
                raise InputError(f"{own}: is set by you and searched by {space.where} ({key}); drop one of the two")
    _check_domains(space.domains, config, space.where)


def _check_domains(domains: Mapping[str, Any], config: Any, where: str) -> None:
    """Try the keys of a space, or of one alternative, on the configuration with its constants."""
    settings = flatten(config)
    constants = {
        key: plain(domain)
        for key, domain in domains.items()
        if alternatives(domain) is None and not isinstance(domain, dict) and not _is_domain(domain)
    }
    try:
        config = override(config, constants)
        for key, domain in domains.items():
            for value in [] if alternatives(domain) is not None else _probes(domain, key):
                stored = canonical_point(config, {key: value})[key]
                if stored != canonical(value):  # a ledger would have another value than the space
                    raise InputError(f"{key}={value!r}: write it as {stored!r}")
    except InputError as error:
        unknown = "no such key" in str(error) and MEANT not in str(error)
        other = "; take a --preset that has it" if unknown else ""
        raise InputError(f"search space {where}: {error}{other}") from None
    for key, domain in domains.items():
        inner = alternatives(domain)
        if inner is not None and key in settings:
            raise InputError(f"search space {where}: {key}: names alternatives but is also a setting; rename it")
        for each in inner or ():
            _check_domains(each, config, where)


def _probes(domain: Any, key: str) -> list[Any]:
    """Values of a domain that are tried on the configuration: all of a list, otherwise the ends and some draws."""
    values = choices(domain)
    if values is not None:
        return values
    if hasattr(domain, "categories"):
        return plain(domain.categories)
    ends = [bound for bound in (plain(domain.lower), upper_end(domain)) if np.isfinite(bound)]
    return ends + [_drawn(domain, f"probe {key} {index}") for index in range(PROBES)]


def _drawn(domain: Any, keyed_by: str) -> Any:
    """One value of a domain, decided by the text alone."""
    return _within(domain, plain(domain.sample(random_state=np.random.default_rng(int(fingerprint(keyed_by), 16)))))


def _within(domain: Any, value: Any) -> Any:
    """A value moved into the range of its domain: Tune and HyperOpt round to multiples of q, and 3 * 0.1 > 0.3."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not hasattr(domain, "lower"):
        return value
    return type(value)(min(max(value, domain.lower), upper_end(domain)))


def upper_end(domain: Any) -> Any:
    """The largest value of a range. Integers end before Tune's upper bound, unless they are multiples of a step."""
    from ray.tune.search import sample

    below = isinstance(domain, sample.Integer) and not isinstance(domain.get_sampler(), sample.Quantized)
    return plain(domain.upper) - below


def plain(value: Any) -> Any:
    """A sampled value as Python data: numpy scalars unwrapped, tuples as lists (HyperOpt turns lists into tuples)."""
    if isinstance(value, np.generic):
        value = value.item()
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def expand(space: Space, samples: int = 1, seed: int = 0) -> list[dict[str, Any]]:
    """All points, as changes of the configuration: the product of the grids, the last key fastest, for each sample.

    Sample i of a key depends on (seed, i, key) alone: 20 samples begin with the first 10, and every point of a grid
    has the same draws.
    """
    points: dict[str, dict[str, Any]] = {}
    for index in range(1 if space.is_grid else samples):
        for point in _points(space.domains, f"{seed} {index}"):
            points.setdefault(fingerprint(point), point)
    return list(points.values())


def _points(domains: Mapping[str, Any], keyed_by: str) -> Iterator[dict[str, Any]]:
    """The product over all keys of a grid, a draw, or the points of alternatives."""
    parts: list[list[dict[str, Any]]] = []
    for key, domain in domains.items():
        inner, values = alternatives(domain), choices(domain)
        if inner is not None:
            taken = inner if values is not None else [_drawn(domain, f"{keyed_by} {key}")]
            parts.append([point for each in taken for point in _points(each, keyed_by)])
        elif values is not None:
            parts.append([{key: value} for value in values])
        else:
            parts.append([{key: _drawn(domain, f"{keyed_by} {key}")}])
    for combination in itertools.product(*parts):
        yield {key: value for part in combination for key, value in part.items()}


def labels_of(domains: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Changes as label -> position in a list, or value in a range; None if they are not a point of these domains.

    The label of a key is the key. Below alternative 1 of `a`, it is `a/1/<key>`.
    """
    placed = _placed(domains, changes, "")
    return placed[0] if placed is not None and placed[1] == changes.keys() else None


def _placed(
    domains: Mapping[str, Any], changes: Mapping[str, Any], prefix: str
) -> tuple[dict[str, Any], frozenset[str]] | None:
    """The labels of what changes set of these domains, and the keys that have one; None if a domain has no value."""
    labels, keys = dict[str, Any](), frozenset[str]()
    for key, domain in domains.items():
        name, inner = f"{prefix}{key}", alternatives(domain)
        if inner is None:
            labels[name], more = _position(domain, changes.get(key)) if key in changes else None, {key}
            if labels[name] is None:
                return None
        else:  # no key is in two domains: the alternative that explains most keys is the one that was taken
            ways = [(k, way) for k, each in enumerate(inner) if (way := _placed(each, changes, f"{name}/{k}/"))]
            if not ways:
                return None
            labels[name], (below, more) = max(ways, key=lambda way: len(way[1][1]))
            labels |= below
        keys |= more
    return labels, keys


def _position(domain: Any, value: Any) -> Any:
    """The position of a value in a list, or the value itself if it is in a range; None if it is in neither.

    A value outside a range by a rounding error counts as inside.
    """
    listed = choices(domain) or [plain(each) for each in getattr(domain, "categories", [])]
    if listed:
        return listed.index(value) if value in listed else None
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        return None
    inside = _within(domain, value)
    return inside if math.isclose(value, inside, rel_tol=1e-9) else None


def at_labels(domains: Mapping[str, Any], labels: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The changes that labels stand for: the inverse of `labels_of`."""
    from ray.tune.search import sample

    changes: dict[str, Any] = {}
    for key, domain in domains.items():
        name, inner, values = f"{prefix}{key}", alternatives(domain), choices(domain)
        if inner is not None:
            taken = int(labels[name])
            changes |= at_labels(inner[taken], labels, f"{name}/{taken}/")
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
