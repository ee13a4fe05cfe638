"""What MLflow's page of a run says of its results, in Markdown: the headline numbers with intervals, and the files."""

from collections.abc import Iterable, Mapping, Sequence

from vse.display.markdown import artifact, block, commands, escaped, run, table
from vse.evaluation.intervals import interval
from vse.report.curve import AlphaResults
from vse.report.metric_names import WAYS, name_of
from vse.report.response import OBJECTIVE, Point, ResponseResults
from vse.report.tables import alpha_table
from vse.report.terminal import lines
from vse.stages.measuring.options import Size
from vse.storage.folder import Folder
from vse.workspace.redaction import redact_text

HEADLINE = ("rsum", "i2t/r1", "t2i/r1", "attack_object/r1", "attack_attribute/r1", "attack_relation/r1")
PAGE = "report.html"
_POINTS = 5  # of a sweep, best first
_FAILED = 5
_LINES = 40  # of an evaluation


def alpha_headline(results: AlphaResults, split: str = "test") -> str:
    """The outcome of an α sweep in a sentence."""
    here, key = results.at(results.chosen) or {}, f"{split}/rsum"
    rsum = f": {split} rsum {interval(here[key])}" if key in here else ""
    other, beside = results.reference, ""
    if other is not None and key in other.metrics:
        beside = f" ({escaped(other.label)} {interval(other.metrics[key])})"
    return f"**α = {results.chosen:g} chosen on validation{rsum}**{beside}, {_count(results.seeds)}."


def alpha_text(results: AlphaResults, missing: Iterable[str] = ()) -> str:
    """The table of an α sweep."""
    full = alpha_table(results)
    kept = [k for k, column in enumerate(full.columns) if column.metric in HEADLINE]
    heads = ["model", *(_short(full.columns[k].metric) for k in kept)]
    rows = [
        [f"{row.label}{f' ({row.note})' * bool(row.note)}", *("–" if (v := row.values[k]) is None else v for k in kept)]
        for row in full.rows
    ]
    told = [f"{escaped(full.title)}:", table(heads, rows)]
    told += ["Among the charts, `curve/…` is over α: a step is a hundredth of it (finer for finer grids)."]
    return "\n\n".join([*told, *(f"**Missing:** {escaped(line)}" for line in missing)])


def _short(metric: str) -> str:
    """A metric as a narrow column has it: i2t, R@1."""
    name = name_of(metric)
    for way, sign in WAYS.items():
        name = name.replace(sign, way)
    return name


def response_headline(results: ResponseResults) -> str:
    """The outcome of a sweep of trainings in a sentence."""
    best, base = results.chosen(), results.at_base()
    if best is None:
        return "No point has finished with all seeds yet."
    beside = "" if base is None else f" (preset {base.objective})"
    return f"**Best: {escaped(best.label)}, objective {best.objective}**{beside}, {_count(results.seeds)}."


def response_text(results: ResponseResults) -> str:
    """The best points of a sweep of trainings, the answers to claims, and what is missing."""
    base = results.at_base()
    ranked = sorted(results.complete, key=lambda point: point.objective.mean, reverse=True)[:_POINTS]
    shown = [*ranked, *([base] if base is not None and base not in ranked else [])]
    metrics = [key for key in ("val/rsum", "test/rsum") if any(key in point.metrics for point in shown)]
    told = []
    if shown:
        count = f"{len(results.points)} points, {_count(results.seeds)}"
        mean = "; mean over seeds ± 95 % interval" if len(results.seeds) > 1 else ""
        told += [f"{count}{mean}, best first:"]
        told += [table(["point", OBJECTIVE, *metrics], [_row(point, metrics) for point in shown])]
    told += [f"Claim “{escaped(claim['statement'])}”: **{claim['answer']}**." for claim in results.claims.values()]
    if results.failed:
        told.append(f"**{len(results.failed)} trials failed:**")
        first = [*results.failed.items()][:_FAILED]
        told.append("\n".join(f"- {escaped(name)}: {escaped(why)}" for name, why in first))
    if results.left:
        told.append("A cap held trials back: the same command with a higher cap continues.")
    return "\n\n".join(told)


def _count(seeds: Sequence[int]) -> str:
    return f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"


def _row(point: Point, metrics: Sequence[str]) -> list[object]:
    return [point.label, point.objective, *(interval(v) if (v := point.metrics.get(k)) else "–" for k in metrics)]


def page_link(folder: Folder, page: str = PAGE) -> str:
    """Where the page is: among the artifacts, and in the workspace."""
    return f"Page: {artifact(page)}; in the workspace: {escaped(redact_text(folder.address(page)))}"


def files_text(files: Iterable[str]) -> str:
    """Links to all files but the vector graphics, which are there as pictures too."""
    return "Files: " + ", ".join(artifact(name) for name in files if not name.endswith(".svg"))


def evaluation_headline(metrics: Mapping[str, float]) -> str:
    """rsum of what was evaluated, in a sentence."""
    rsums = {name.removesuffix("/rsum"): value for name, value in metrics.items() if name.endswith("/rsum")}
    return f"**Evaluated: {', '.join(f'{escaped(name)} rsum {value:.1f}' for name, value in rsums.items())}**"


def trial_text(name: str, sweep: str, training: str, metrics: Mapping[str, float]) -> str:
    """What a trial is and found, in a few sentences. `training`: the name of its run, empty if there is none."""
    told = [f"{escaped(name)}, a trial of {run(sweep)}"]
    told += [f"of the training {run(training)}"] if training else []
    return "\n\n".join([", ".join(told), *([evaluation_headline(metrics)] if metrics else [])])


def evaluation_text(metrics: Mapping[str, float], sizes: Mapping[str, Size], command: str) -> str:
    """What an evaluation found, as the terminal shows it, and its command."""
    shown = list(lines(metrics, sizes))
    more = [f"and {len(shown) - _LINES} more lines"] if len(shown) > _LINES else []
    return "\n\n".join([block([*shown[:_LINES], *more]), commands([command])])
