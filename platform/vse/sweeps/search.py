"""Searching a space by HyperOpt's tree of Parzen estimators (Bergstra et al., NIPS 2011), on top of the ledger.

HyperOpt's own state is never kept. A search that goes on tells it the finished trials again, and each is answered from
the ledger at once. Choices are given to it by their position: it would turn lists into tuples and cannot take a dict.
"""

import functools
from collections.abc import Mapping
from typing import Any

import ray
from ray import tune

from vse.errors import InputError
from vse.progress import Progress
from vse.sweeps.experiment import Function, Listener, Need, Recorder, tuned
from vse.sweeps.ledger import Entry, Ledger, trial_id
from vse.sweeps.space import Space, canonical_point, choices, plain


def check_searchable(space: Space) -> None:
    """Raise InputError for what HyperOpt cannot search: grids, and a space of constants."""
    for key, domain in space.domains.items():
        if isinstance(domain, dict):
            raise InputError(f"search space {space.where}: {key}: a grid cannot be searched by HyperOpt; use choice")
    if all(choices(domain) is not None for domain in space.domains.values()):
        raise InputError(f"search space {space.where}: nothing in it varies")


def run_search(
    ledger: Ledger,
    space: Space,
    config: Any,
    function: Function,
    *,
    metric: str,
    samples: int,
    maximize: bool = True,
    seed: int = 0,
    num_initial: int | None = None,
    need: Need | None = None,
    concurrency: int = 0,
    label: str = "search",
    on_end: Listener | None = None,
) -> list[Entry]:
    """Search until the ledger holds `samples` finished points of the space; returns the entries of the points.

    metric: key of `function`'s result that is optimised. num_initial: random points before the first informed one, by
    default a third of the samples and at most 20 (HyperOpt's own default is always 20, which makes a short search
    random). With several trials at once their order of completion decides what is suggested next; the ledger says what
    was tried. Failed points are not tried again. Raises InputError for a space that cannot be searched.
    """
    check_searchable(space)
    known = [e for e in ledger if e.state == "finished" and _is_point(e.changes, space) and metric in e.result]
    if len(known) < samples:
        from ray.tune.search.hyperopt import HyperOptSearch

        wanted = need or Need()
        searcher = HyperOptSearch(
            metric="objective",
            mode="max" if maximize else "min",
            points_to_evaluate=[_encode(space, entry.changes) for entry in known] or None,
            n_initial_points=num_initial or max(1, min(20, samples // 3)),
            random_state_seed=(seed * 100_003 + len(known)) % 2**31,  # going on must not draw the first points again
        )
        settings = tune.TuneConfig(
            search_alg=searcher,
            num_samples=samples,
            max_concurrent_trials=wanted.at_once(ray.cluster_resources(), concurrency),
            reuse_actors=True,
            metric="objective",
            mode="max" if maximize else "min",
        )
        replay = functools.partial(
            _answer,
            function=function,
            space=space,
            config=config,
            known={entry.id: entry.result for entry in known},
        )
        with Progress(label, total=samples, unit="trials", every=20.0) as bar:
            recorder = Recorder(ledger, bar, on_end, changes_of=lambda trial: decode(space, config, trial.config))
            tuned(replay, _indexed(space), wanted, recorder, settings, functools.partial(_value, metric=metric))
        recorder.conclude()
    return [entry for entry in ledger if _is_point(entry.changes, space)]


def _is_point(changes: Mapping[str, Any], space: Space) -> bool:
    return changes.keys() == space.domains.keys()


def _answer(
    point: dict[str, Any], function: Function, space: Space, config: Any, known: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any]:
    changes = decode(space, config, point)
    return known.get(trial_id(changes)) or function(changes)


def _value(result: Mapping[str, Any], metric: str) -> float:
    if metric not in result:
        raise InputError(f"metric {metric}: a trial's result has no such number; it has {', '.join(sorted(result))}")
    return float(result[metric])


def _indexed(space: Space) -> dict[str, Any]:
    """The space as HyperOpt gets it: choices by position, constants as they are."""
    return {
        key: tune.choice(list(range(len(domain.categories)))) if hasattr(domain, "categories") else domain
        for key, domain in space.domains.items()
    }


def decode(space: Space, config: Any, point: Mapping[str, Any]) -> dict[str, Any]:
    """HyperOpt's point as changes of the configuration, in their one form."""
    changes = {}
    for key, domain in space.domains.items():
        value = plain(point[key])
        changes[key] = domain.categories[value] if hasattr(domain, "categories") else value
    return canonical_point(config, changes)


def _encode(space: Space, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The way back, for points that HyperOpt is told; constants are not part of them."""
    point = {}
    for key, domain in space.domains.items():
        if hasattr(domain, "categories"):
            point[key] = [plain(value) for value in domain.categories].index(changes[key])
        elif choices(domain) is None:
            point[key] = changes[key]
    return point
