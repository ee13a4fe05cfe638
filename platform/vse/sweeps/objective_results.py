"""From the ledger of an objective sweep to its results, the verdicts on claims, and the preset of the best point."""

import functools
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vse import presets
from vse.cli.command import Request
from vse.config import flatten, override, to_dict
from vse.errors import DamagedError
from vse.evaluation.per_image import PerImage, counts_of
from vse.evaluation.statistics import Sample
from vse.report.curve import by_seed
from vse.report.response import OBJECTIVE, Point, ResponseResults, choose
from vse.stages import pipeline
from vse.stages.trained import load_run
from vse.studies.sweep_claims import SWEEP_CLAIMS, arm_name, verdicts
from vse.sweeps.ledger import Entry
from vse.sweeps.plan import LABELS, SEED, SweepCall, SweepPlan
from vse.sweeps.space import label
from vse.sweeps.trial import measure_test, read_hits
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)


def response_results(plan: SweepPlan, call: SweepCall) -> ResponseResults:
    """Results of all trials in the ledger that have the plan's seeds and were trained on these data."""
    base, ledger = flatten(plan.config), call.ledger
    points, failed = [], {}
    for changes in plan.points_in(ledger):
        entries = [
            entry for trial in plan.trials_of(changes, call.material) if (entry := ledger.get(trial)) is not None
        ]
        failed |= {plan.trial_label(e.changes): e.why for e in entries if e.state == "failed"}
        finished = [entry for entry in entries if entry.state == "finished"]
        if finished:
            points.append(_point(plan, changes, finished))
    varied = {key for key in plan.space.keys if len({repr(p.values[key]) for p in points if key in p.values}) > 1}
    keys = [key for key in plan.space.keys if key in varied or key in plan.space.varied]
    costs = ledger.costs()
    return ResponseResults(
        name=call.folder.name,
        label=LABELS.get(plan.family, plan.family),
        data=plan.data,
        preset=call.request.preset or "",
        method=plan.options.method,
        objective=plan.options.objective,
        rule=plan.rule,
        seeds=list(plan.seeds),
        keys=keys,
        base={key: _plain(base[key]) for key in plan.space.keys if key in base},
        points=points,
        best=choose(points, len(plan.seeds)),
        seconds=sum(seconds for seconds, _ in costs),
        gpu_hours=sum(seconds * need.gpus for seconds, need in costs) / 3600,
        left=call.left,
        failed=failed,
    )


def judged(results: ResponseResults, plan: SweepPlan, workspace: Workspace) -> ResponseResults:
    """The results with verdicts on the registered claims that these points answer."""
    return replace(results, claims=verdicts(_samples(results.points, plan, workspace)))


def _point(plan: SweepPlan, changes: dict[str, Any], finished: list[Entry]) -> Point:
    whole = flatten(override(plan.config, changes))
    metrics = by_seed([{**e.result["metrics"], OBJECTIVE: e.result["objective"]} for e in finished])
    return Point(
        label=label(changes),
        changes=changes,
        values={key: _plain(whole[key]) for key in plan.space.keys if key in whole},
        seeds=[int(e.changes[SEED]) for e in finished],
        metrics=metrics,
        epochs=[int(e.result["epochs"]) for e in finished],
        seconds=sum(e.spent for e in finished),
        stopped=any(e.stopped for e in finished),
        runs={str(e.changes[SEED]): e.result["run"] for e in finished},
        hits={str(e.changes[SEED]): e.result.get("hits", "") for e in finished},  # a trial ended early has none
    )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _samples(points: list[Point], plan: SweepPlan, workspace: Workspace) -> dict[str, Callable[[str], Sample]]:
    """Arms of the registered claims that all seeds of some point answer, by the arm's name."""
    base = flatten(plan.config)
    arms: dict[str, Callable[[str], Sample]] = {}
    for claim in SWEEP_CLAIMS:
        for key in claim.keys:
            for value in claim.values:
                for point in points:
                    others = all(point.values.get(k) == base.get(k) for k in point.values if k != key)
                    whole = len(point.seeds) == len(plan.seeds) and not point.stopped and all(point.hits.values())
                    if whole and others and point.values.get(key) == value:
                        arms[arm_name(key, value)] = functools.partial(_sample, point, workspace)
                        break
    return arms


def _sample(point: Point, workspace: Workspace, metric: str) -> Sample:
    """Hits per image of a point on the test split, all seeds."""
    hits, queries = [], None
    for seed, run in point.runs.items():
        found, queries = counts_of(_hits(workspace, run, point.hits[seed]), metric)
        hits.append(found)
    assert queries is not None
    return Sample(hits=np.stack(hits), queries=queries, images="test")


def _hits(workspace: Workspace, run: str, name: str) -> PerImage:
    """Hits per image of a run, measured again where the file of them is damaged."""
    folder = workspace.run(run)
    try:
        return read_hits(folder, name)
    except (FileNotFoundError, DamagedError) as error:
        log.warning("%s; measured again", error)
        measure_test(folder, pipeline.prepare(load_run(folder).config, workspace))
        return read_hits(folder, name)


def headline(results: ResponseResults) -> dict[str, Any]:
    """The numbers a reader wants first."""
    best, base = results.chosen(), results.at_base()
    found: dict[str, Any] = {"points": len(results.points), "trials": sum(len(p.seeds) for p in results.points)}
    if best is not None:
        found |= {"best": best.label, OBJECTIVE: best.objective.mean}
        found |= {key: float(np.mean(best.metrics[key])) for key in ("val/rsum", "test/rsum") if key in best.metrics}
    if base is not None:
        found |= {f"preset/{OBJECTIVE}": base.objective.mean}
    found |= {"failed": len(results.failed), "left": results.left, "trial_seconds": round(results.seconds, 1)}
    return found | {f"claim/{name}": verdict["answer"] for name, verdict in results.claims.items()}


def preset_file(request: Request, config: RunConfig, changes: Mapping[str, Any]) -> str:
    """The best point as JSON that `--preset FILE` reads: the named preset and what differs from it."""
    chosen = override(config, dict(changes))
    name = request.preset or ""
    if name not in presets.names():  # a file: it stands alone
        return json.dumps(to_dict(chosen), indent=1) + "\n"
    own = to_dict(chosen, whole=True)
    theirs = to_dict(presets.preset(name), whole=True)
    return json.dumps({"preset": name, **_different(own, theirs)}, indent=1) + "\n"


def _different(data: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What of nested data is not in `other`; a component of another name whole."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        theirs = other.get(key)
        if isinstance(value, Mapping) and isinstance(theirs, Mapping):
            if value.get("name") != theirs.get("name"):
                found[key] = dict(value)
            elif inner := _different(value, theirs):
                found[key] = inner
        elif value != theirs:
            found[key] = value
    return found
