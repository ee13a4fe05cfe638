"""Search spaces: one Python module each, a flat `SPACE` of dotted configuration keys in Tune's own vocabulary.

A space is checked against the run configuration before any Ray process starts. Trials are made here and not by Tune's
generator, so that the same space gives the same trials in the same order on every machine, and more samples extend
what is there instead of replacing it.
"""

import difflib
import importlib
import importlib.util
import itertools
import pkgutil
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from vse.config import canonical, fingerprint, flatten, override
from vse.errors import InputError

PROBES = 16  # seeded draws of a continuous domain that are tried on the configuration, beside its two ends


@dataclass(frozen=True, slots=True)
class Space:
    """A search space: dotted key -> Tune domain, grid (`tune.grid_search`) or constant. `where` names its module."""

    where: str
    domains: Mapping[str, Any]

    def describe(self) -> dict[str, Any]:
        """Plain data that says what is searched; equal for equal spaces, so it can be fingerprinted."""
        return {key: describe_domain(domain, f"{self.where}: {key}") for key, domain in self.domains.items()}

    @property
    def is_grid(self) -> bool:
        """Whether every trial is listed, so that drawing more than one sample would repeat them."""
        return all(choices(domain) is not None for domain in self.domains.values())


def load_space(where: str) -> Space:
    """The space of a module of `search_spaces` by its name, or of a Python file by its path.

    Raises InputError where there is none, its SPACE is not a flat dict of dotted keys, or a domain cannot be used.
    """
    module = _file_module(Path(where)) if where.endswith(".py") else _named_module(where)
    space = getattr(module, "SPACE", None)
    if not isinstance(space, dict) or not space:
        raise InputError(f"{where}: expected a dict named SPACE of dotted keys and domains")
    for key, domain in space.items():
        if not isinstance(key, str):
            raise InputError(f"{where}: key {key!r} of SPACE: expected a dotted key of the run configuration")
        if isinstance(domain, dict) and set(domain) != {"grid_search"}:
            raise InputError(f"{where}: {key}: nested spaces are not served; write {key}.<field> as a key of its own")
        describe_domain(domain, f"{where}: {key}")
    return Space(where, dict(space))


def _named_module(name: str) -> ModuleType:
    import search_spaces

    known = sorted(module.name for module in pkgutil.iter_modules(search_spaces.__path__))
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}, or a path that ends in .py"
        raise InputError(f"search space {name}: unknown; {hint}")
    return importlib.import_module(f"search_spaces.{name}")


def _file_module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"search_space_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"search space {path}: no such file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's file may raise
        raise InputError(f"search space {path}: {type(error).__name__}: {error}") from None
    return module


def choices(domain: Any) -> list[Any] | None:
    """The values of a grid, the one value of a constant; None for a domain that is drawn from."""
    if isinstance(domain, dict):
        return list(domain["grid_search"])
    return None if _is_domain(domain) else [domain]


def _is_domain(domain: Any) -> bool:
    return hasattr(domain, "get_sampler")


def describe_domain(domain: Any, where: str) -> Any:
    """A domain as plain data, such as {"uniform": [0.0, 1.0]}. Raises InputError for one that is not repeatable."""
    from ray.tune.search import sample

    values = choices(domain)
    if values is not None:
        try:
            plain = canonical(values)
        except AssertionError as error:
            raise InputError(f"{where}: {error}") from None
        if not plain:
            raise InputError(f"{where}: the grid is empty")
        return {"grid": plain} if isinstance(domain, dict) else plain[0]
    if isinstance(domain, sample.Function):
        raise InputError(f"{where}: sample_from hides what is searched; use choice, uniform, randint or a grid")
    sampler, step = domain.get_sampler(), None
    if isinstance(sampler, sample.Quantized):
        sampler, step = sampler.sampler, sampler.q
    if isinstance(domain, sample.Categorical):
        if isinstance(sampler, sample.Grid):
            raise InputError(f"{where}: write grid_search, not choice(...).grid()")
        if any(isinstance(value, dict) or _is_domain(value) for value in domain.categories):
            raise InputError(f"{where}: choices must be plain values, not spaces (conditional spaces are not served)")
        return {"choice": canonical(domain.categories)}
    bounds = [sampler.mean, sampler.sd] if isinstance(sampler, sample.Normal) else [domain.lower, domain.upper]
    kind = "integer " if isinstance(domain, sample.Integer) else ""
    name = f"{kind}{type(sampler).__name__.lstrip('_').lower()}"
    return {name: bounds} if step is None else {name: bounds, "step": step}


def check_space(space: Space, config: Any, changed: Iterable[str] = ()) -> None:
    """Try every key of the space on a run configuration: existence, type, range; and no key that the user set.

    Ends of ranges and some draws are tried for domains that are not lists. Raises InputError naming module and key.
    """
    taken = set(changed)
    for key, domain in space.domains.items():
        for own in sorted(taken):
            if own == key or own.startswith(f"{key}."):
                raise InputError(f"{own}: is set by you and searched by {space.where} ({key}); drop one of the two")
        for value in _probes(domain, key):
            try:
                override(config, {key: value})
            except InputError as error:
                raise InputError(f"search space {space.where}: {error}") from None


def _probes(domain: Any, key: str) -> list[Any]:
    values = choices(domain)
    if values is not None:
        return values
    if hasattr(domain, "categories"):
        return list(domain.categories)
    return _ends(domain) + [plain(draw(domain, f"probe {key} {index}")) for index in range(PROBES)]


def _ends(domain: Any) -> list[Any]:
    from ray.tune.search import sample

    lower, upper = domain.lower, domain.upper
    if isinstance(domain, sample.Integer):
        step = isinstance(domain.get_sampler(), sample.Quantized)
        return [lower, upper if step else upper - 1]
    return [bound for bound in (lower, upper) if np.isfinite(bound)]


def draw(domain: Any, keyed_by: str) -> Any:
    """One value of a domain, decided by the text alone."""
    return domain.sample(random_state=np.random.default_rng(int(fingerprint(keyed_by), 16)))


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
    listed = {key: values for key, domain in space.domains.items() if (values := choices(domain)) is not None}
    trials: dict[str, dict[str, Any]] = {}
    for index in range(1 if space.is_grid else samples):
        drawn = {
            key: plain(draw(domain, f"{seed} {index} {key}"))
            for key, domain in space.domains.items()
            if key not in listed
        }
        for point in itertools.product(*listed.values()):
            fixed = dict(zip(listed, point, strict=True))
            changes = {key: fixed[key] if key in fixed else drawn[key] for key in space.domains}
            trials.setdefault(fingerprint(changes), changes)
    return list(trials.values())


def canonical_point(config: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes as the configuration holds them (1 becomes 1.0 for a number), so that equal trials have equal ids."""
    leaves = flatten(override(config, changes))
    return {key: canonical(leaves[key]) for key in changes}


def label(changes: Mapping[str, Any]) -> str:
    """A short readable name of a trial: `alpha=0.75 lr=0.0002`."""
    return " ".join(f"{key.rpartition('.')[2]}={_short(value)}" for key, value in changes.items())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else re.sub(r"\s+", "", str(value))
