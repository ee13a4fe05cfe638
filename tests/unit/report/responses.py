"""Made-up results of sweeps of trainings: one key at a time, a full grid, and points drawn together."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from vse.report.response import Point, ResponseResults, choose

BASE = {"objective.eta_c": 0.5, "objective.eta_r": 1.0, "objective.hinge": "hardest"}


def truth(values: dict[str, Any]) -> float:
    """Falls with the distance of log η_c from log 2; η_r does not matter; the sum costs ten points."""
    off = 6 * (np.log(values["objective.eta_c"]) - np.log(2.0)) ** 2
    return float(300 - off - (10 if values["objective.hinge"] == "sum" else 0))


def point(changes: dict[str, Any], seeds: int = 2, stopped: bool = False, noise: float = 0.0, seed: int = 0) -> Point:
    values = {**BASE, **changes}
    rng = np.random.default_rng(seed)
    found = [truth(values) + s + noise * float(rng.normal()) for s in range(seeds)]
    return Point(
        label=" ".join(f"{k.rpartition('.')[2]}={v}" for k, v in changes.items()),
        changes=changes,
        values=values,
        seeds=list(range(seeds)),
        metrics={"objective": found, "val/rsum": found, "test/rsum": [v - 7 for v in found]},
        epochs=[2] * seeds,
        seconds=3.0 * seeds,
        stopped=stopped,
        runs={str(s): f"run-{s}" for s in range(seeds)},
    )


def results(points: list[Point], method: str = "grid", seeds: int = 2, **more: Any) -> ResponseResults:
    keys = [key for key in BASE if len({str(p.values[key]) for p in points}) > 1]
    return ResponseResults(
        name="eta-univse_scenes-0123abcd",
        label="UniVSE",
        data="scenes",
        preset="univse_scenes",
        method=method,
        objective="rsum",
        rule="The best point has the highest mean over seeds.",
        seeds=list(range(seeds)),
        keys=keys,
        base=BASE,
        points=points,
        best=choose(points, seeds),
        seconds=120.0,
        gpu_hours=0.0,
        **more,
    )


def one_at_a_time() -> ResponseResults:
    changes: list[dict[str, Any]] = [{"objective.eta_c": v} for v in (0.1, 1.0, 2.0, 8.0)]
    changes += [{"objective.eta_r": v} for v in (0.1, 1.0, 8.0)] + [{"objective.hinge": "sum"}]
    return results([point(each) for each in changes])


def full_grid() -> ResponseResults:
    values = itertools.product((0.1, 1.0, 8.0), (0.5, 2.0), ("hardest", "sum"))
    return results([point(dict(zip(BASE, each, strict=True))) for each in values])


def drawn(count: int = 40, noise: float = 0.0) -> ResponseResults:
    rng = np.random.default_rng(3)
    points = []
    for k in range(count):
        etas = {f"objective.eta_{n}": float(np.exp(rng.uniform(np.log(0.1), np.log(8)))) for n in "cr"}
        changes = {**etas, "objective.hinge": ("hardest", "sum")[int(rng.integers(2))]}
        points.append(point(changes, stopped=k % 7 == 6, noise=noise, seed=k))
    return results(points, "hyperopt")


def many_keys() -> ResponseResults:
    """More keys, with longer names, than stand beside each other."""
    names = [f"objective.margin_of_attention_{k}" for k in range(6)]
    base = dict.fromkeys(names, 0.2)
    changes = [{name: value} for name in names for value in (0.1, 0.2, 0.4)]
    points = [replace(point({}), changes=each, values={**base, **each}) for each in changes]
    return replace(one_at_a_time(), keys=names, base=base, points=points)


def wide_ranges() -> ResponseResults:
    """Values far beyond the powers of ten between them, in each of four narrow panels."""
    names = [f"objective.weight_{k}" for k in range(4)]
    base = dict.fromkeys(names, 0.2)
    changes = [{name: value} for name in names for value in (0.0105, 0.0107, 1.3, 60123.5)]
    points = [replace(point({}), changes=each, values={**base, **each}) for each in changes]
    return replace(one_at_a_time(), keys=names, base=base, points=points)


def conditional(count: int = 40) -> ResponseResults:
    """Two objectives with a key each of its own, beside a rate that both have."""
    rng = np.random.default_rng(5)
    points = []
    for k in range(count):
        own: dict[str, Any] = {"objective": "ranking", "objective.margin": 0.1 + 0.01 * k}
        if k % 2:
            own = {"objective": "infonce", "objective.temperature": 0.02 * (k + 1)}
        rate = float(10 ** rng.uniform(-4, -2))
        changes = {**own, "optim.lr": rate}
        points.append(replace(point({"objective.eta_c": 1000 * rate}), changes=changes, values=changes))
    keys = ["objective", "objective.margin", "objective.temperature", "optim.lr"]
    base = {"objective": "ranking", "objective.margin": 0.2, "optim.lr": 0.002}
    return replace(one_at_a_time(), keys=keys, base=base, points=points, best=choose(points, 2))
