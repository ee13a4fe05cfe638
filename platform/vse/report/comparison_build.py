"""jobs/compare.py: runs are measured if numbers are missing, then compared with the first of them."""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from vse.cli.command import Request
from vse.config import fingerprint, flatten, knob, to_dict
from vse.display.escaping import one_line
from vse.display.markdown import block
from vse.errors import InputError
from vse.evaluation.tasks import check_names, task
from vse.report.build import command_of
from vse.report.comparison import Compared, Comparison, System, compare, differing_keys, systems_of, with_same_seeds
from vse.report.comparison_page import comparison_figure, comparison_page, terminal_lines, to_csv, to_data
from vse.report.files import json_text, write_files
from vse.report.measured import altered, comparable, record
from vse.report.page import provenance
from vse.report.page_row import record_page
from vse.stages import pipeline
from vse.stages.describe import read_once
from vse.stages.measuring.checks import check_measure, foresee_measure
from vse.stages.measuring.members import difference
from vse.stages.measuring.options import TASKS, MeasureOptions, SharedOptions
from vse.stages.measuring.plan import BOXES, PARSES, READS, TRAINING, MeasurePlan, plan_measure
from vse.stages.measuring.stage import Measured, MeasureWork, all_kept, carry_out, measure_on_cluster, work_for
from vse.stages.measuring.work import joined_cluster
from vse.stages.trained import read_config
from vse.storage.folder import Folder
from vse.training.checkpoint import Checkpoints
from vse.training.run_journal import finished, read_origin
from vse.workspace.layout import Workspace

TOGETHER, APART = "together", "apart"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompareOptions:
    """Keys of the job."""

    runs: tuple[str, ...] = knob(
        (), "names of folders below runs/, or paths that jobs printed; the others are compared with the first"
    )
    seeds: str = knob(
        TOGETHER, "runs that differ only in their seed are one system, or one system each", choices=(TOGETHER, APART)
    )
    name: str = knob("", "name of the comparison; empty: derived from its content")
    tasks: tuple[str, ...] = TASKS
    measure: MeasureOptions = field(default_factory=partial(MeasureOptions, device="auto"))


def build_comparison(request: Request) -> str:
    """Write a comparison into `comparisons/NAME` and print it; returns the path of its `summary.json`.

    Raises InputError for runs that cannot be compared, before anything is measured.
    """
    options = request.options
    workspace = Workspace.open(request.workspace)
    comparison = compare_runs(workspace, options)
    name = options.name or f"runs-{fingerprint([options.runs, options.seeds, options.tasks, options.measure])}"
    folder, systems = workspace.comparison(name), comparison.systems
    files = write_files(folder, _files(comparison, command_of(request)))
    headline = _headline(comparison)
    record_page(
        workspace,
        folder,
        "comparison",
        name,
        command_of(request),
        files,
        page="comparison.html",
        runs=[run.name for system in systems for run in system.runs],
        metrics=headline,
        result=block(terminal_lines(comparison)),
    )
    path = request.write_summary(
        folder,
        seeds=sorted({seed for system in systems for seed in system.seeds}),
        headline=headline,
        outputs={file.replace(".", "_"): folder.address(file) for file in files},
        details={"systems": {system.label: [run.name for run in system.runs] for system in systems}},
    )
    print("\n".join(map(one_line, terminal_lines(comparison))))
    return path


def compare_runs(workspace: Workspace, options: CompareOptions) -> Comparison:
    """Measure the runs that lack numbers, and compare them with the first.

    Names of splits begin with what the measurement altered, as in journals: `folds-3/test`.

    Raises InputError for runs that cannot be compared, before anything is measured.
    """
    systems, notes = arranged(workspace, options)
    workspace.check_writable()
    measured = dict[str, Measured]()
    for runs in _by_fold(systems):
        measured |= measured_alike(runs, workspace, options.tasks, options.measure)
    for name, each in measured.items():
        if not each.outcomes:
            raise InputError(f"runs={name}: tasks={','.join(options.tasks)} have no numbers of this run to compare")
    way = altered(to_dict(options.measure))

    def label(split: str) -> str:
        return f"{way}/{split}" if way else split

    of_splits = comparable(measured[systems[0].runs[0].name]).items()
    keys = {label(split): [replace(key, label=label(split)) for key in each] for split, each in of_splits}
    outcomes = {run: {label(split): found for split, found in each.outcomes.items()} for run, each in measured.items()}
    return replace(compare(systems, outcomes, keys, notes), altered=way)


def foresee_comparison(request: Request) -> Iterator[str]:
    """The lines of a dry run: the systems and the keys that differ.

    Raises InputError as the job does before it reads data.
    """
    workspace, options = Workspace.open(request.workspace), request.options
    systems, notes = arranged(workspace, options)
    for place, system in enumerate(systems):
        what = "compare" if place else "the others with"
        yield f"{what} {system.label}: {', '.join(run.name for run in system.runs)}"
    yield from notes
    yield f"keys that differ: {', '.join(differing_keys(systems)) or 'none'}"
    for place, run in enumerate(_of_other_data(_by_fold(systems)[0])):
        lines = list(foresee_measure([workspace.run(run.name)], workspace, options.tasks, options.measure))
        yield from lines[:-1] if place == 0 else ()
    yield "not checked: image files, whether all runs have the same images and adversaries, what is measured already"


def arranged(workspace: Workspace, options: CompareOptions) -> tuple[tuple[System, ...], list[str]]:
    """The systems, and notes on omitted runs and tasks.

    Raises InputError for fewer than two runs, a run that is missing or not trained, and tasks without outcomes.
    """
    check_compared(options)
    workspace.comparison(options.name or "runs")  # raises for a name that no folder can have
    names = options.runs
    if not names:
        workspace.existing("runs", "", "runs")
    if len(names) < 2 or len(set(names)) < len(names):
        raise InputError(f"runs={','.join(names)}: name two runs or more, each once")
    runs = [compared_run(workspace.existing("runs", name, "runs"), workspace) for name in names]
    systems, notes = with_same_seeds(systems_of(runs, together=options.seeds == TOGETHER))
    if options.measure.on:
        notes = [*notes, f"measured on other data ({', '.join(options.measure.on)}), attacked with words of its own"]
    if way := altered({**to_dict(options.measure), "on": ()}):
        notes = [*notes, f"altered measurement ({way}): its numbers are not comparable with unaltered ones"]
    return systems, notes


def _by_fold(systems: Sequence[System]) -> list[list[Compared]]:
    """The runs that were tested on the same images, by fold."""
    return [[run for system in systems for run in system.runs if run.fold == fold] for fold in systems[0].folds]


def check_compared(options: CompareOptions) -> None:
    """Raises InputError for an unknown task, and for one without outcomes of single images."""
    check_names(options.tasks)
    for name in options.tasks:
        if not task(name).records_queries:
            raise InputError(f"tasks={name}: has no outcomes by image to compare; jobs/evaluate.py measures it")


def compared_run(run: Folder, workspace: Workspace) -> Compared:
    """A run of a comparison. Raises InputError if it is not trained to its end."""
    found = _finished(run, workspace)
    if found is None:
        raise InputError(f"runs={run.name}: is not trained to its end; run the command that started it again")
    return found


def _finished(run: Folder, workspace: Workspace) -> Compared | None:
    """A run and what it started from; None if it was removed or is not trained to its end."""
    best = Checkpoints(run.child("checkpoints")).best()
    if best is None or finished(run) is None:
        return None
    origin, config = read_origin(run), read_config(best)
    before = config.train.warm_start if config.train.finetune else ""
    start = _finished(workspace.run(before), workspace) if before else None
    return Compared(
        name=run.name,
        config=config,
        preset="" if origin is None else str(origin),
        made_of=best.read_json("context.json")["fingerprints"],
        start="" if start is None else start.alike,
    )


def measured_alike(
    runs: Sequence[Compared], workspace: Workspace, tasks: Sequence[str], options: SharedOptions
) -> dict[str, Measured]:
    """Measures of every run by name. Missing numbers are measured and kept; the run's journal gets those it lacks.

    Args:
        runs: The runs.
        workspace: Where they are.
        tasks: Names of what is measured.
        options: How it is measured.

    Raises:
        InputError: Two runs differ in an image, a caption or an adversary. Then none is measured.
    """
    read = read_once(workspace)
    for run in _of_other_data(runs):
        check_measure([workspace.run(run.name)], workspace, tasks, options, read)
    if not options.on:
        _refuse_other_data(runs, workspace, options.splits)
    folders = [workspace.run(run.name) for run in runs]
    first, prints = runs[0].name, dict[str, str]()
    missing, works = set[str](), list[MeasureWork]()
    with contextlib.ExitStack() as stack:
        for folder in folders:
            plan = plan_measure([folder], workspace, tasks, options, read)
            if not prints:  # all runs meet the same adversaries, or are refused
                plan.warn_of_unattacked()
            prints = prints or plan.fingerprints
            _refuse_other_texts(plan, folder.name, prints, first)
            kept = all_kept(plan, folder.child("evaluation"))
            if len(kept) < len(plan.tasks):
                if not missing:
                    stack.enter_context(joined_cluster())  # once for all runs
                missing.add(folder.name)
                works += work_for(plan, kept, folder.child("evaluation"))
        measure_on_cluster(works)
    results = dict[str, Measured]()
    for folder in folders:
        plan = plan_measure([folder], workspace, tasks, options, read)
        if folder.name in missing:
            print(f"measuring {folder.name}", file=sys.stderr, flush=True)
        results[folder.name] = carry_out(plan, folder.child("evaluation"))
        record(results[folder.name], options, folder, workspace)
    return results


_DIFFERS = {  # what differs, and why it matters
    PARSES: "parsers (text.parser), and parses say what is right in",
    BOXES: "annotated boxes, which say what is right in",
    TRAINING: "training captions, which decide the queries or candidates of",
}


def _refuse_other_texts(plan: MeasurePlan, name: str, prints: Mapping[str, str], first: str) -> None:
    """Raises InputError if a run meets other adversaries than the first one, or other queries or truths.

    Args:
        plan: The measurement of the run.
        name: Its name.
        prints: Fingerprints of the first run's measurement.
        first: The name of that run.
    """
    others = {each for each, digits in plan.fingerprints.items() if prints.get(each, digits) != digits}
    for kind, reads in READS.items():
        if kind in others:
            names = ",".join(each for each, task in plan.tasks.items() if reads(task))
            raise InputError(f"runs={first},{name}: {first} and {name} have other {_DIFFERS[kind]} tasks={names}")
    if others:
        raise InputError(
            f"runs={first},{name}: {first} and {name} are attacked by different captions (their "
            "text.parser or training captions differ); tasks=retrieval compares them without attacks"
        )


def _of_other_data(runs: Sequence[Compared]) -> list[Compared]:
    """The first run of each data set and backbone."""
    sources: dict[str, Compared] = {}
    for run in runs:
        data = to_dict(run.config)
        sources.setdefault(fingerprint([data["data"], data["features"]["backbone"]]), run)
    return list(sources.values())


def _refuse_other_data(runs: Sequence[Compared], workspace: Workspace, splits: Sequence[str]) -> None:
    """Raises InputError if a split is not the same for two runs, before anything is parsed."""
    sources = _of_other_data(runs)
    if len(sources) == 1:
        return  # one backbone leaves out the same images
    first, *others = (
        (run.name, [pipeline.prepare(run.config, workspace).records.split(split) for split in splits])
        for run in sources
    )
    for name, parts in others:
        for own_split, other_split in zip(first[1], parts, strict=True):
            if other := difference(own_split, other_split):
                raise InputError(
                    f"runs={first[0]},{name}: split {own_split.name} differs between {first[0]} and {name}: {other}; "
                    "a comparison needs runs on the same data"
                )


def _files(comparison: Comparison, command: str) -> dict[str, str | bytes]:
    figures = {split: comparison_figure(comparison, split) for split in comparison.lines}
    made_with = provenance([command], {system.label: flatten(system.runs[0].config) for system in comparison.systems})
    drawings = {split: kinds["svg"] for split, kinds in figures.items() if kinds}
    page = comparison_page(comparison, drawings, made_with)
    texts = {
        "comparison.html": page,
        "comparison.csv": to_csv(comparison),
        "comparison.json": json_text(to_data(comparison)),
    }
    return texts | {
        f"differences-{split.replace('/', '-')}.{kind}": data
        for split, kinds in figures.items()
        for kind, data in kinds.items()
    }


def _headline(comparison: Comparison) -> dict[str, Any]:
    """Values, differences and intervals by number of the system (the first is 1), split and metric."""
    numbers = dict[str, Any]()
    for split, lines in comparison.lines.items():
        for line in lines:
            for place, value in enumerate(line.values, start=1):
                numbers[f"{place}/{split}/{line.metric.name}"] = value
            for place, each in enumerate(line.differences, start=2):
                head = f"{place}-1/{split}/{line.metric.name}"
                numbers |= {head: each.estimate, f"{head}/low": each.low, f"{head}/high": each.high}
    return numbers
