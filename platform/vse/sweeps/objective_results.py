"""From the ledger of an objective sweep to its results, the verdicts on claims, and the preset of the best point."""

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vse import presets
from vse.cli.command import Request
from vse.config import flatten, override, to_dict
from vse.evaluation.per_image import counts_of
from vse.evaluation.statistics import Sample
from vse.report.curve import by_seed
from vse.report.response import OBJECTIVE, Point, ResponseResults, choose
from vse.studies.sweep_claims import SWEEP_CLAIMS, arm_name, verdicts
from vse.sweeps.ledger import Entry
from vse.sweeps.plan import LABELS, SEED, SweepCall, SweepPlan, label_of
from vse.sweeps.space import label, plain
from vse.sweeps.trial import hits_of
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace


def response_results(plan: SweepPlan, call: SweepCall, tried: Iterable[dict[str, Any]]) -> ResponseResults:
    """Results of all trials of some points that have the plan's seeds and were trained on the data of this call.

    Args:
        plan: The space, the seeds, and the settings of the search.
        call: With the ledger, the fingerprint of the data, and how many trials a cap held back.
        tried: The points, as dotted keys and values without seed and material, in the order of the trials.
    """
    base, ledger = flatten(plan.config), call.ledger
    points, failed = [], {}
    for changes in tried:
        trials = plan.trials_of(changes, call.material)
        entries = [entry for trial in trials if (entry := ledger.get(trial)) is not None]
        failed |= {label_of(entry.changes): entry.why for entry in entries if entry.state == "failed"}
        if finished := [entry for entry in entries if entry.state == "finished"]:
            points.append(_point(plan, changes, finished))
    varied = {key for key in plan.space.keys if len({repr(p.values[key]) for p in points if key in p.values}) > 1}
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
        keys=[key for key in plan.space.keys if key in varied or key in plan.space.varied],
        base={key: plain(base[key]) for key in plan.space.keys if key in base},
        points=points,
        best=choose(points, len(plan.seeds)),
        seconds=sum(seconds for seconds, _ in costs),
        gpu_hours=sum(seconds * need.gpus for seconds, need in costs) / 3600,
        left=call.left,
        failed=failed,
    )


def _point(plan: SweepPlan, changes: dict[str, Any], finished: list[Entry]) -> Point:
    settings = flatten(override(plan.config, changes))
    return Point(
        label=label(changes),
        changes=changes,
        values={key: plain(settings[key]) for key in plan.space.keys if key in settings},
        seeds=[int(entry.changes[SEED]) for entry in finished],
        metrics=by_seed([{**entry.result["metrics"], OBJECTIVE: entry.result["objective"]} for entry in finished]),
        epochs=[int(entry.result["epochs"]) for entry in finished],
        seconds=sum(entry.spent for entry in finished),
        stopped=any(entry.stopped for entry in finished),
        runs={str(entry.changes[SEED]): entry.result["run"] for entry in finished},
        # a trial that was ended early has no file of hits
        hits={str(entry.changes[SEED]): entry.result.get("hits", "") for entry in finished},
    )


def judged(results: ResponseResults, plan: SweepPlan, workspace: Workspace) -> ResponseResults:
    """The results with verdicts on the registered claims that these points answer.

    Args:
        results: Complete points with hits per image count. A point is an arm of a claim if no other key than the
            claim's differs from the preset.
        plan: With the preset.
        workspace: Where the hits of the runs are.
    """
    base = flatten(plan.config)
    arms: dict[str, Callable[[str], Sample]] = {}
    for point in reversed([point for point in results.complete if all(point.hits.values())]):  # the first one counts
        for claim in SWEEP_CLAIMS:
            for key in claim.keys:
                others = all(point.values.get(k) == base.get(k) for k in point.values if k != key)
                if others and point.values.get(key) in claim.values:
                    arms[arm_name(key, point.values[key])] = functools.partial(_sample, point, workspace)
    return replace(results, claims=verdicts(arms))


def _sample(point: Point, workspace: Workspace, metric: str) -> Sample:
    """Hits per image of a point on the test split, all seeds."""
    counts = [counts_of(hits_of(workspace, run, point.hits[seed]), metric) for seed, run in point.runs.items()]
    return Sample(hits=np.stack([hits for hits, _ in counts]), queries=counts[-1][1], images="test")


def headline(results: ResponseResults) -> dict[str, Any]:
    """The headline numbers of the sweep's `summary.json`."""
    best, base = results.chosen(), results.at_base()
    numbers: dict[str, Any] = {"points": len(results.points), "trials": sum(len(p.seeds) for p in results.points)}
    if best is not None:
        numbers |= {"best": best.label, OBJECTIVE: best.objective.mean}
        numbers |= {key: float(np.mean(best.metrics[key])) for key in ("val/rsum", "test/rsum") if key in best.metrics}
    if base is not None:
        numbers |= {f"preset/{OBJECTIVE}": base.objective.mean}
    numbers |= {"failed": len(results.failed), "left": results.left, "trial_seconds": round(results.seconds, 1)}
    return numbers | {f"claim/{name}": verdict["answer"] for name, verdict in results.claims.items()}


def preset_file(request: Request, config: RunConfig, changes: Mapping[str, Any]) -> str:
    """The best point as JSON that `--preset FILE` reads: the named preset and the settings that differ from it.

    Args:
        request: Names the preset. If that is a file, the new preset is written in full.
        config: The run configuration that was swept.
        changes: The best point, as dotted keys and values.
    """
    chosen = override(config, dict(changes))
    name = request.preset or ""
    if name not in presets.names():  # a file: the new preset is written in full
        return json.dumps(to_dict(chosen), indent=1) + "\n"
    preset_settings = to_dict(presets.preset(name))
    return json.dumps({"preset": name, **_different(to_dict(chosen), preset_settings)}, indent=1) + "\n"


def _different(data: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The nested settings of `data` that differ from `other`, with all keys of a component whose name differs."""
    different: dict[str, Any] = {}
    for key, value in data.items():
        other_value = other.get(key)
        if isinstance(value, Mapping) and isinstance(other_value, Mapping):
            if value.get("name") != other_value.get("name"):
                different[key] = dict(value)
            elif inner := _different(value, other_value):
                different[key] = inner
        elif value != other_value:
            different[key] = value
    return different
