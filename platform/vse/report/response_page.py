"""The report of a sweep of trainings: figures, table, page and results as files."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from vse.display.counts import count
from vse.evaluation.intervals import interval
from vse.report.files import RESULTS, csv_text, json_text, write_files
from vse.report.importance import Importance, importance
from vse.report.page import Provenance, provenance, render
from vse.report.response import OBJECTIVE, PAIRS, RSUM, Point, ResponseResults, front
from vse.report.response_figures import front_figure, importance_figure, interaction_figure, response_figure
from vse.report.style import inline
from vse.storage.folder import Folder

BEST = "best.json"
SHOWN = (RSUM, PAIRS, "test/rsum", "test/i2t/r1", "test/t2i/r1")
MOST_ROWS = 60
_METHODS = {
    "grid": "grid",
    "random": "random search",
    "hyperopt": "tree of Parzen estimators (HyperOpt)",
    "optuna": "Optuna's search",
    "asha": "asynchronous successive halving",
}
_OBJECTIVES = {
    "rsum": "validation rsum",
    "pairs": "pair accuracy on validation",
    "both": "objective on validation",
    "front": "mean of both objectives on validation",
}


def write_response(
    folder: Folder,
    results: ResponseResults,
    commands: Sequence[str],
    configuration: Mapping[str, Mapping[str, Any]],
    extra: Mapping[str, str],
    elsewhere: Sequence[str] = (),
) -> list[str]:
    """Write figures, table, page and results of a sweep.

    Args:
        folder: Where to write.
        results: The sweep.
        commands: What reproduces the sweep.
        configuration: Settings as dotted keys.
        extra: Further texts by file name, among them the preset of the best point.
        elsewhere: Arguments by which the preset's command finds the workspace (`Request.elsewhere`).

    Returns:
        The names of the files.
    """
    weights = importance(results)
    band = next((verdict["margin"] for verdict in results.claims.values()), 0.0)
    drawn = {"response": response_figure(results, band=band)} if results.points else {}
    if (steps := front_figure(results)) is not None:
        drawn["front"] = steps
    if (pairs := interaction_figure(results, list(weights.shares) if weights else [])) is not None:
        drawn["interaction"] = pairs
    if weights is not None:
        drawn["importance"] = importance_figure(weights)
    finished = sum(len(point.seeds) for point in results.points)
    made_with = provenance(
        commands, configuration, {"trials": f"{finished} finished, {results.seconds:.0f} s of trials in all"}
    )
    training = ["python", "jobs/train.py", "--preset", folder.address(BEST), *elsewhere]
    command = shlex.join(training) if BEST in extra else ""
    svgs = {name: images["svg"] for name, images in drawn.items()}
    files: dict[str, str | bytes] = {f"{n}.{kind}": data for n, kinds in drawn.items() for kind, data in kinds.items()}
    files |= {
        **extra,
        "points.csv": points_csv(results),
        "report.html": response_page(results, svgs, weights, made_with, command),
        RESULTS: json_text(results.to_dict()),
    }
    return write_files(folder, files)


def response_page(
    results: ResponseResults,
    figures: Mapping[str, bytes],
    weights: Importance | None,
    made_with: Provenance,
    preset_command: str,
) -> str:
    """The page: the search space, the best point with its command, claims, all points, and failed trials.

    Args:
        results: The sweep.
        figures: SVG by name: response, front, interaction, importance.
        weights: Importance of the searched keys, if it could be computed.
        made_with: How the results can be reproduced.
        preset_command: The command that trains the best point; "": none.
    """
    captions = {"response": ("Response", _response_caption(results))}
    captions["front"] = ("Retrieval against robustness", front_text(results))
    text = "Points by pairs of keys that were varied together; colour is the objective, the ring is the best point."
    captions["interaction"] = ("Interactions", text)
    if weights is not None:
        captions["importance"] = ("Importance", importance_text(weights))
    test = any("test/rsum" in point.metrics for point in results.points)
    return render(
        "response.html",
        title=f"Sweep {results.name}",
        heading=f"{results.label}: {', '.join(key.rpartition('.')[2] for key in results.keys)}",
        lead=f"{_METHODS[results.method]} · {count(len(results.points), 'point')} · {results.name}",
        protocol={
            "data": results.data,
            "split": "validation for every choice" + (", test for rsum on test" if test else ""),
            "candidates": "all images and captions of the split",
            "seeds": f"{len(results.seeds)} ({', '.join(map(str, results.seeds))})",
            "preset": results.preset,
        },
        headline=_headline(results),
        figures=[
            {"title": title, "caption": caption, "drawing": inline(figures[name], name)}
            for name, (title, caption) in captions.items()
            if name in figures
        ],
        claims=[(verdict["statement"], _verdict(verdict)) for verdict in results.claims.values()],
        rule=results.rule,
        best=best_text(results),
        preset_command=preset_command,
        points=points_table(results),
        failed=results.failed,
        runs={f"{p.label}, seed {seed}": run for p in results.points for seed, run in p.runs.items()},
        provenance=made_with,
    )


def _headline(results: ResponseResults) -> list[tuple[str, str]]:
    best, base, objective = results.chosen(), results.at_base(), _OBJECTIVES[results.objective]
    cards = []
    if best is not None:
        for text, metric in ((f"best {objective}", OBJECTIVE), ("test rsum there", "test/rsum")):
            if metric in best.metrics:
                preset = f" (preset {interval(base.metrics[metric]).mean:.1f})" if base is not None else ""
                cards.append((f"{interval(best.metrics[metric]).mean:.1f}", text + preset))
    means = [point.objective.mean for point in results.complete]
    if len(means) > 1:
        cards.append((f"{max(means) - min(means):.1f}", f"{objective}: best minus worst point"))
    cards += [(verdict["answer"], "the registered claim") for verdict in results.claims.values()]
    spent = f"{results.gpu_hours:.2f} GPU-hours" if results.gpu_hours else f"{results.seconds / 3600:.2f} h"
    return [*cards, (spent, f"of trials, {sum(len(p.seeds) for p in results.points)} finished")]


def _response_caption(results: ResponseResults) -> str:
    text = (
        "One column for each searched key. A line joins points that differ in that key alone; dots are other points. "
        "The dotted line is the preset's own value. The upper row is the maximised objective, on validation."
    )
    if any("test/rsum" in p.metrics for p in results.points):
        text += " The lower row is rsum on test, which had no part in any choice."
    return text + (" The cap ended the sweep before all trials had run." if results.left else "")


def importance_text(weights: Importance) -> str:
    """What the bars mean, and whether they mean anything."""
    text = (
        f"Permutation importance in a random forest of {weights.points} points: the R² that is lost when the values "
        f"of one key are permuted. The forest explains {100 * max(weights.explained, 0.0):.0f} % of the variance on "
        "points that its trees have not seen"
    )
    text += ": too little for the bars to mean anything." if weights.explained <= 0.1 else "."
    left_out = ", ".join(weights.left_out)
    return text + (f" Keys that only some points have are left out: {left_out}." if left_out else "")


def front_text(results: ResponseResults) -> str:
    """What the front is, and its points."""
    named = "; ".join(
        f"{point.label} ({interval(point.metrics[RSUM]).mean:.1f}, {interval(point.metrics[PAIRS]).mean:.1f})"
        for point in front(results)
    )
    return (
        "Means over seeds of rsum and of pair accuracy under attack, on validation. Of a point on the Pareto front, no "
        f"other point is at least as good in both and better in one: {named}. Points that differ by less than their "
        "seeds do may change places."
    )


def _verdict(verdict: Mapping[str, Any]) -> str:
    distances = [each for each in verdict["effects"] if each[0].endswith("the mean")]
    name, value, low, high = max(distances, key=lambda each: abs(each[1]))
    arm = name.partition(": ")[2].partition(" no further")[0]
    return (
        f"{verdict['answer']} with {verdict['num_seeds']} seed(s) of {verdict['seeds_needed']} needed. The margin of "
        f"the claim is {verdict['margin']:.2f} on the scale measured here (mean {verdict['mean']:.1f}). Furthest from "
        f"the mean, on the paper's scale: {arm}, {value:+.1f} [{low:.1f}, {high:.1f}]."
    )


def best_text(results: ResponseResults) -> str:
    """What the best point changes, and its objective."""
    best = results.chosen()
    if best is None:
        return "No point is complete yet."
    changed = ", ".join(
        f"{key} = {_rounded(value)} "
        + (f"(preset {_rounded(results.base[key])})" if key in results.base else "(not in the preset)")
        for key, value in best.changes.items()
    )
    return f"{changed}: {_OBJECTIVES[results.objective]} {best.objective}."


def points_table(results: ResponseResults) -> dict[str, Any]:
    """The points as a table, best first, at most `MOST_ROWS`: title, heads, and rows of texts and intervals."""
    metrics = [m for m in (OBJECTIVE, *SHOWN) if any(m in p.metrics for p in results.points)]
    best, complete = results.chosen(), {id(p) for p in results.complete}
    ranked = sorted(results.points, key=lambda p: (id(p) not in complete, -p.objective.mean))
    rows = []
    for point in ranked[:MOST_ROWS]:
        cells = [_rounded(point.values[key]) if key in point.values else "·" for key in results.keys]
        cells += [interval(point.metrics[metric]) if metric in point.metrics else "·" for metric in metrics]
        cells += ["/".join(map(str, sorted(set(point.epochs)))), f"{point.seconds:.0f}"]
        rows.append({"label": point.label, "note": _note(point, results), "best": point is best, "cells": cells})
    more = len(results.points) - len(rows)
    text = "means over seeds with 95 % intervals" if len(results.seeds) > 1 else "one seed"
    return {
        "title": text + (f"; {more} more in points.csv" if more > 0 else ""),
        "heads": [*(key.rpartition(".")[2] for key in results.keys), *metrics, "epochs", "s"],
        "rows": rows,
    }


def _note(point: Point, results: ResponseResults) -> str:
    """What sets a point apart from the others of its table."""
    notes = ["best"] if point is results.chosen() else ["ended early"] if point.stopped else []
    if any(point is each for each in front(results)):
        notes.append("on the front")
    if len(point.seeds) < len(results.seeds):
        notes.append(f"{len(point.seeds)} of {len(results.seeds)} seeds")
    return ", ".join(notes)


def _rounded(value: Any) -> str:
    """A setting for readers; `best.json` has all its digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def points_csv(results: ResponseResults) -> str:
    """One line for each point and seed: searched values, every metric, epochs, whether it was ended early, the run."""
    metrics = list(dict.fromkeys(m for p in results.points for m in p.metrics))
    rows = []
    for point in results.points:
        for place, seed in enumerate(point.seeds):
            values = [point.values.get(key, "") for key in results.keys]
            numbers = [point.metrics[m][place] if m in point.metrics else "" for m in metrics]
            rows.append([*values, seed, *numbers, point.epochs[place], point.stopped, point.runs[str(seed)]])
    return csv_text([*results.keys, "seed", *metrics, "epochs", "stopped", "run"], rows)
