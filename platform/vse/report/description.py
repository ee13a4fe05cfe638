"""The description of a run in MLflow, in Markdown: headline numbers with intervals, and the files."""

from collections.abc import Iterable, Mapping, Sequence

from vse.display.counts import count
from vse.display.markdown import artifact, block, commands, escaped, run, table
from vse.evaluation.intervals import interval
from vse.evaluation.metrics import WAYS
from vse.report.curve import AlphaResults
from vse.report.response import OBJECTIVE, Point, ResponseResults
from vse.report.tables import PLAIN, Column, alpha_table
from vse.storage.folder import Folder
from vse.workspace.redaction import redact_text

HEADLINE = ("rsum", "i2t/r1", "t2i/r1", "attack_object/r1", "attack_attribute/r1", "attack_relation/r1")
PAGE = "report.html"
_POINTS = 5  # of a sweep, best first
_FAILED = 5
_LINES = 40  # of an evaluation


def alpha_headline(results: AlphaResults) -> str:
    """The outcome of an α sweep in a sentence."""
    here, key = results.at(results.chosen) or {}, "test/rsum"
    rsum = f": test rsum {interval(here[key])}" if key in here else ""
    other, reference = results.reference, ""
    if other is not None and key in other.metrics:
        reference = f" ({escaped(other.label)} {interval(other.metrics[key])})"
    return f"**α = {results.chosen:g} chosen on validation{rsum}**{reference}, {count(len(results.seeds), 'seed')}."


def alpha_text(results: AlphaResults, missing: Iterable[str] = ()) -> str:
    """The table of an α sweep."""
    full = alpha_table(results)
    kept = [k for k, column in enumerate(full.columns) if column.metric in HEADLINE]
    heads = ["model", *(_short(full.columns[k]) for k in kept)]
    rows = [
        [f"{row.label}{f' ({row.note})' * bool(row.note)}", *("–" if (v := row.values[k]) is None else v for k in kept)]
        for row in full.rows
    ]
    parts = [f"{escaped(full.title)}:", table(heads, rows)]
    parts += ["Among the charts, `curve/…` is over α: a step is a hundredth of it (finer for finer grids)."]
    return "\n\n".join([*parts, *(f"**Missing:** {escaped(line)}" for line in missing)])


def _short(column: Column) -> str:
    """A column in one line: i2t, R@1."""
    ways = {sign: way for way, sign in WAYS.items()}
    return column.title if column.group == PLAIN[0] else f"{ways.get(column.group, column.group)}, {column.title}"


def response_headline(results: ResponseResults) -> str:
    """The outcome of a sweep of trainings in a sentence."""
    best, base = results.chosen(), results.at_base()
    if best is None:
        return "No point has finished with all seeds yet."
    preset = "" if base is None else f" (preset {base.objective})"
    return f"**Best: {escaped(best.label)}, objective {best.objective}**{preset}, {count(len(results.seeds), 'seed')}."


def response_text(results: ResponseResults) -> str:
    """The best points of a sweep of trainings, the answers to claims, and the missing trials."""
    base = results.at_base()
    ranked = sorted(results.complete, key=lambda point: point.objective.mean, reverse=True)[:_POINTS]
    shown = [*ranked, *([base] if base is not None and base not in ranked else [])]
    metrics = [key for key in ("val/rsum", "test/rsum") if any(key in point.metrics for point in shown)]
    parts = []
    if shown:
        numbers = f"{len(results.points)} points, {count(len(results.seeds), 'seed')}"
        mean = "; mean over seeds ± 95 % interval" if len(results.seeds) > 1 else ""
        parts += [f"{numbers}{mean}, best first:"]
        parts += [table(["point", OBJECTIVE, *metrics], [_row(point, metrics) for point in shown])]
    parts += [f"Claim “{escaped(claim['statement'])}”: **{claim['answer']}**." for claim in results.claims.values()]
    if results.failed:
        parts.append(f"**{len(results.failed)} trials failed:**")
        first = [*results.failed.items()][:_FAILED]
        parts.append("\n".join(f"- {escaped(name)}: {escaped(why)}" for name, why in first))
    if results.left:
        parts.append("A cap held trials back: the same command with a higher cap continues.")
    return "\n\n".join(parts)


def _row(point: Point, metrics: Sequence[str]) -> list[object]:
    return [point.label, point.objective, *(interval(v) if (v := point.metrics.get(k)) else "–" for k in metrics)]


def page_link(folder: Folder, page: str = PAGE) -> str:
    """Links to the page among the artifacts and in the workspace."""
    return f"Page: {artifact(page)}; in the workspace: {escaped(redact_text(folder.address(page)))}"


def files_text(files: Iterable[str]) -> str:
    """Links to all files except vector graphics, which are there as PNG too."""
    return "Files: " + ", ".join(artifact(name) for name in files if not name.endswith(".svg"))


def evaluation_headline(rsums: Mapping[str, float]) -> str:
    """rsum of an evaluation by split, in a sentence; empty if there is none."""
    shown = ", ".join(f"{escaped(split)} rsum {value:.1f}" for split, value in rsums.items())
    return f"**Evaluated: {shown}**" if shown else ""


def trial_text(name: str, sweep: str, training: str, metrics: Mapping[str, float]) -> str:
    """A trial and its rsum in a few sentences, as Markdown.

    Args:
        name: The trial, as its run in MLflow is called.
        sweep: Name of the sweep, to whose run the text links.
        training: Name of the run that the trial trained; empty if there is none.
        metrics: By full name; of these, `val/rsum` and `test/rsum` are shown if they are there.
    """
    parts = [f"{escaped(name)}, a trial of {run(sweep)}"]
    parts += [f"of the training {run(training)}"] if training else []
    rsums = {split: metrics[f"{split}/rsum"] for split in ("val", "test") if f"{split}/rsum" in metrics}
    return "\n\n".join(filter(None, [", ".join(parts), evaluation_headline(rsums)]))


def evaluation_text(shown: Sequence[str], command: str) -> str:
    """The tables of an evaluation as a terminal shows them, and its command."""
    more = [f"and {len(shown) - _LINES} more lines"] if len(shown) > _LINES else []
    return "\n\n".join([block([*shown[:_LINES], *more]), commands([command])])
