"""The page and the tables of a sweep of trainings."""

import csv
import html
import io
import math
from collections.abc import Mapping
from typing import Any

from vse.evaluation.intervals import interval
from vse.report.html import Provenance, card, details, figure, header, page, provenance_parts
from vse.report.importance import Importance
from vse.report.response import OBJECTIVE, Point, ResponseResults, sortable

SHOWN = ("val/rsum", "test/rsum", "test/i2t/r1", "test/t2i/r1")
MOST_ROWS = 60
_METHODS = {
    "grid": "grid",
    "random": "random search",
    "hyperopt": "tree of Parzen estimators (HyperOpt)",
    "asha": "asynchronous successive halving",
}


def response_page(
    results: ResponseResults,
    figures: Mapping[str, bytes],
    found: Importance | None,
    provenance: Provenance,
    preset_command: str,
) -> str:
    """What was searched, what came out, the best point and how to run it, claims, every point, what failed."""
    seeds = f"{len(results.seeds)} seed{'s' if len(results.seeds) > 1 else ''}"
    lead = f"{_METHODS[results.method]} on {results.data} · {len(results.points)} points · {seeds} · {results.name}"
    body = [
        header(f"{results.label}: {', '.join(key.rpartition('.')[2] for key in results.keys)}", lead),
        f'<div class="cards">{"".join(card(value, text) for value, text in _cards(results))}</div>',
    ]
    if "response" in figures:
        body += ["<h2>Response</h2>", figure(figures["response"], _response_text(results))]
    if "interaction" in figures:
        text = "Points by pairs of keys that were varied together; colour is the objective, the ring is the best point."
        body += ["<h2>Interactions</h2>", figure(figures["interaction"], text)]
    if found is not None and "importance" in figures:
        body += ["<h2>Importance</h2>", figure(figures["importance"], importance_text(found))]
    if results.claims:
        body += ["<h2>Claims</h2>", *(_claim(verdict) for verdict in results.claims.values())]
    body += ["<h2>The best point</h2>", f"<blockquote>{html.escape(results.rule)}</blockquote>", _best(results)]
    if preset_command:
        body.append(f"<pre>{html.escape(preset_command)}</pre>")
    body += ["<h2>Points</h2>", f'<div class="panel">{points_table(results)}</div>']
    if results.failed:
        body += ["<h2>Failed</h2>", details(f"{len(results.failed)} trials", results.failed, True)]
    body += [
        "<h2>Made again</h2>",
        f"<pre>{html.escape(chr(10).join(provenance.commands))}</pre>",
        "<h2>Made with</h2>",
        provenance_parts(provenance),
        details("Training runs", {f"{p.label}, seed {s}": run for p in results.points for s, run in p.runs.items()}),
    ]
    return page(f"Sweep {results.name}", body)


def _cards(results: ResponseResults) -> list[tuple[str, str]]:
    best, base = results.chosen(), results.at_base()
    cards = []
    if best is not None:
        beside = f" (preset {base.objective.mean:.1f})" if base is not None else ""
        cards.append((f"{best.objective.mean:.1f}", f"best {_objective_name(results)}{beside}"))
        if "test/rsum" in best.metrics:
            there = f" (preset {interval(base.metrics['test/rsum']).mean:.1f})" if base is not None else ""
            cards.append((f"{interval(best.metrics['test/rsum']).mean:.1f}", f"test rsum there{there}"))
    objectives = [p.objective.mean for p in results.complete]
    if len(objectives) > 1:
        text = f"{_objective_name(results)}: best minus worst point"
        cards.append((f"{max(objectives) - min(objectives):.1f}", text))
    for verdict in results.claims.values():
        cards.append((verdict["answer"], "the registered claim"))
    spent = f"{results.gpu_hours:.2f} GPU-hours" if results.gpu_hours else f"{results.seconds / 3600:.2f} h"
    cards.append((spent, f"of trials, {sum(len(p.seeds) for p in results.points)} finished"))
    return cards


def _objective_name(results: ResponseResults) -> str:
    return {"rsum": "validation rsum", "pairs": "pair accuracy on validation", "both": "objective on validation"}[
        results.objective
    ]


def _response_text(results: ResponseResults) -> str:
    text = (
        "One column a searched key. A line joins points that differ in that key alone; dots are other points. The "
        "dotted line is the preset's own value. The upper row is what was maximised, on validation."
    )
    if any("test/rsum" in p.metrics for p in results.points):
        text += " The lower row is rsum on test, which had no part in any choice."
    if results.left:
        text += " The cap ended the sweep before all trials had run."
    return text


def importance_text(found: Importance) -> str:
    """What the bars mean, and whether they mean anything."""
    text = (
        f"Permutation importance in a random forest of {found.points} points: how much of R² is lost when the values "
        f"of one key are permuted. The forest explains {100 * max(found.explained, 0.0):.0f} % of the variance on "
        "points that its trees have not seen"
    )
    text += ": too little for the bars to mean anything." if found.explained <= 0.1 else "."
    return text + (
        f" Keys that only some points have are left out: {', '.join(found.left_out)}." if found.left_out else ""
    )


def _claim(verdict: Mapping[str, Any]) -> str:
    distances = {name: (value, low, high) for name, value, low, high in verdict["effects"] if name.endswith("the mean")}
    worst = max(distances.items(), key=lambda item: abs(item[1][0]))
    arm = worst[0].partition(": ")[2].partition(" no further")[0]
    value, low, high = worst[1]
    text = (
        f"{verdict['answer']} with {verdict['num_seeds']} seed(s) of {verdict['seeds_needed']} needed. The margin of "
        f"the claim is {verdict['margin']:.2f} on the scale measured here (mean {verdict['mean']:.1f}). Furthest from "
        f"the mean, on the paper's scale: {arm}, {value:+.1f} [{low:.1f}, {high:.1f}]."
    )
    return f"<blockquote>{html.escape(verdict['statement'])}</blockquote><p>{html.escape(text)}</p>"


def _best(results: ResponseResults) -> str:
    best = results.chosen()
    if best is None:
        return "<p>No point is complete yet.</p>"
    changed = ", ".join(
        f"{key} = {_rounded(value)} "
        + (f"(preset {_rounded(results.base[key])})" if key in results.base else "(not in the preset)")
        for key, value in best.changes.items()
    )
    return f"<p>{html.escape(changed)}: {_objective_name(results)} {best.objective}.</p>"


def points_table(results: ResponseResults) -> str:
    """All points as an HTML table, best first, at most `MOST_ROWS`."""
    metrics = [m for m in (OBJECTIVE, *SHOWN) if any(m in p.metrics for p in results.points)]
    heads = "".join(
        f"<th>{html.escape(name)}</th>"
        for name in (*(k.rpartition(".")[2] for k in results.keys), *metrics, "epochs", "s")
    )
    best = results.chosen()
    rows = []
    for point in _ranked(results)[:MOST_ROWS]:
        cells = [html.escape(_cell(point.values.get(key, "·"))) for key in results.keys]
        cells += [_number(point, metric) for metric in metrics]
        cells += [html.escape("/".join(map(str, sorted(set(point.epochs))))), f"{point.seconds:.0f}"]
        marks = " ·&nbsp;best" if point is best else " ·&nbsp;ended early" if point.stopped else ""
        if len(point.seeds) < len(results.seeds):
            marks += f" ·&nbsp;{len(point.seeds)} of {len(results.seeds)} seeds"
        rows.append(
            f'<tr><th class="model">{html.escape(point.label)}<span class="note">{marks}</span></th>'
            + "".join(f"<td>{'<strong>' if point is best else ''}{c}</td>" for c in cells)
            + "</tr>"
        )
    more = len(results.points) - len(rows)
    text = "means over seeds with 95 % intervals" if len(results.seeds) > 1 else "one seed"
    caption = f"<caption>{text}{f'; {more} more in points.csv' if more > 0 else ''}</caption>"
    return f"<table>{caption}<thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _ranked(results: ResponseResults) -> list[Point]:
    complete = {id(p) for p in results.complete}
    return sorted(results.points, key=lambda p: (id(p) not in complete, -p.objective.mean))


def _rounded(value: Any) -> str:
    """A setting for people; `best.json` has it to its last digit."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if sortable(value)[0] == 0 else str(value)


def _number(point: Point, metric: str) -> str:
    if metric not in point.metrics:
        return "·"
    found = interval(point.metrics[metric])
    half = "" if math.isnan(found.half) else f'<span class="half">±{found.half:.1f}</span>'
    return f"{found.mean:.1f}{half}"


def points_csv(results: ResponseResults) -> str:
    """One line a point and seed: the searched values, every metric, epochs, whether it was ended early, the run."""
    metrics = list(dict.fromkeys(m for p in results.points for m in p.metrics))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*results.keys, "seed", *metrics, "epochs", "stopped", "run"])
    for point in results.points:
        for place, seed in enumerate(point.seeds):
            values = [point.values.get(key, "") for key in results.keys]
            numbers = [point.metrics[m][place] if m in point.metrics else "" for m in metrics]
            writer.writerow([*values, seed, *numbers, point.epochs[place], point.stopped, point.runs[str(seed)]])
    return out.getvalue()
