"""What MLflow's page of a run says of its results, in Markdown: the headline numbers with intervals, and the files."""

from collections.abc import Iterable, Mapping, Sequence

from vse.evaluation.intervals import interval
from vse.markdown import artifact, block, escaped, figure, table
from vse.measuring.options import Size
from vse.report.curve import AlphaResults
from vse.report.metric_names import name_of
from vse.report.response import OBJECTIVE, Point, ResponseResults
from vse.report.tables import alpha_table
from vse.report.terminal import lines
from vse.storage import Folder

HEADLINE = ("rsum", "i2t/r1", "t2i/r1", "attack_object/r1", "attack_attribute/r1", "attack_relation/r1")
PAGE = "report.html"
_POINTS = 5  # of a sweep, best first
_FAILED = 5
_LINES = 40  # of an evaluation


def alpha_text(results: AlphaResults, missing: Iterable[str] = ()) -> str:
    """The outcome of an α sweep."""
    full = alpha_table(results)
    kept = [k for k, column in enumerate(full.columns) if column.metric in HEADLINE]
    heads = ["model", "setting", *(name_of(full.columns[k].metric) for k in kept)]
    rows = [[row.label, row.note, *("–" if (v := row.values[k]) is None else v for k in kept)] for row in full.rows]
    told = [f"**α = {results.chosen:g}** was chosen on validation. {escaped(full.title)}:", table(heads, rows)]
    return "\n\n".join([*told, *(f"**Missing:** {escaped(line)}" for line in missing)])


def response_text(results: ResponseResults) -> str:
    """The outcome of a sweep of trainings."""
    best, base = results.chosen(), results.at_base()
    ranked = sorted(results.complete, key=lambda point: point.objective.mean, reverse=True)[:_POINTS]
    shown = [*ranked, *([base] if base is not None and base not in ranked else [])]
    metrics = [key for key in ("val/rsum", "test/rsum") if any(key in point.metrics for point in shown)]
    told = []
    if best is not None:
        told.append(f"**Best point: {escaped(best.label)}** with objective {best.objective}.")
    if base is not None:
        told.append(f"The preset itself: {base.objective}.")
    if shown:
        count = (
            f"{len(results.points)} points, {len(results.seeds)} seeds; mean over seeds ± 95 % interval; best first:"
        )
        told += [count, table(["point", OBJECTIVE, *metrics], [_row(point, metrics) for point in shown])]
    told += [f"Claim “{escaped(claim['statement'])}”: **{claim['answer']}**." for claim in results.claims.values()]
    if results.failed:
        told.append(f"**{len(results.failed)} trials failed:**")
        told.append(
            "\n".join(f"- {escaped(name)}: {escaped(why)}" for name, why in [*results.failed.items()][:_FAILED])
        )
    if results.left:
        told.append("A cap held trials back: the same command with a higher cap continues.")
    return "\n\n".join(told)


def _row(point: Point, metrics: Sequence[str]) -> list[object]:
    return [point.label, point.objective, *(interval(v) if (v := point.metrics.get(k)) else "–" for k in metrics)]


def files_text(folder: Folder, files: Iterable[str]) -> str:
    """Where the page and the other files are, with the first figure below."""
    names = list(files)
    pages = [name for name in names if name.endswith(".html")]
    told = [f"**Page:** {artifact(page)}, in the workspace {escaped(folder.address(page))}" for page in pages[:1]]
    others = [name for name in names if name not in pages[:1] and not name.endswith(".svg")]
    told += ["**Files:** " + ", ".join(map(artifact, others))] if others else []
    return "\n\n".join([*told, *(figure(name) for name in names[:1] if name.endswith(".png"))])


def evaluation_text(metrics: Mapping[str, float], sizes: Mapping[str, Size], command: str) -> str:
    """What an evaluation found, as the terminal shows it, and its command."""
    shown = list(lines(metrics, sizes))
    more = [f"and {len(shown) - _LINES} more lines"] if len(shown) > _LINES else []
    return "\n\n".join([block([*shown[:_LINES], *more]), block([command])])
