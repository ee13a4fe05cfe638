"""The public interface of the package, for scripts and notebooks; `import vse` offers these names.

Nothing here needs a running Ray or an MLflow server. Stages whose output the workspace lacks run in this process.
"""

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from vse import presets, registry
from vse.adversaries.univse.generate import PRINTED, WORDS
from vse.config import flatten, override, spelled_out, validate
from vse.data.records import Split
from vse.errors import Diverged as Diverged
from vse.errors import InputError
from vse.inference.embedder import Embedder
from vse.inference.image_search import place_of
from vse.inference.items import items_of
from vse.inference.run_pictures import open_image as open_image
from vse.inference.run_pictures import relevance_map as relevance_map
from vse.inference.run_pictures import saliency as saliency
from vse.report.comparison_build import TOGETHER, CompareOptions, compare_runs
from vse.report.measured import record, summary_metrics
from vse.stages import pipeline
from vse.stages.attack import attack_split
from vse.stages.measuring.options import AdversaryWords, MeasureOptions
from vse.stages.measuring.stage import Measured, measure
from vse.stages.parse import check_parser
from vse.stages.train import run_training
from vse.stages.trained import read_config
from vse.storage.folder import Folder
from vse.training.config import RunConfig, check_objective
from vse.training.effects import check_effects
from vse.training.run_journal import Origin, finished
from vse.workspace.layout import Workspace


@dataclass(frozen=True, eq=False)
class Run:
    """A finished training in a workspace.

    Attributes:
        name: name of its folder in `runs/`, unique in the workspace.
        workspace: the workspace.
        config: the configuration: data, features, model and training.
        metrics: validation metrics and losses of the kept epoch, by name, such as `val/rsum`. In MLflow, these
            metrics are `best/val/...`, and `val/...` are the curves over epochs.
        history: the metrics of every epoch, one dict per epoch: `pandas.DataFrame(run.history)` is the learning curve.
        best: the kept epoch, counted from 1.
        seconds: training time in seconds.
    """

    name: str
    workspace: Workspace = field(repr=False)
    config: RunConfig = field(repr=False)
    metrics: dict[str, float]
    history: list[dict[str, float]] = field(repr=False)
    best: int
    seconds: float = field(repr=False)

    @property
    def folder(self) -> Folder:
        """The folder of the run: configuration, journal, checkpoints, evaluations."""
        return self.workspace.run(self.name)

    @property
    def parameters(self) -> dict[str, Any]:
        """Every key of the configuration, such as `optim.lr`, with its value."""
        return flatten(self.config)

    def split(self, name: str = "test") -> Split:
        """The images and captions of a split of its data set, as evaluation ranks them.

        The `uri` of an image can be given to `vse.open_image` and to `Embedder.encode_images`.

        Args:
            name: name of the split, such as `train`, `val` or `test`.

        Returns:
            A `Split` with `images`, `captions` and `caption_to_image`.

        Raises:
            InputError: the data set has no such split.
        """
        part = pipeline.prepare(self.config, self.workspace).records.split(name)
        root = registry.build("source", self.config.data).image_root
        return replace(part, images=tuple(replace(each, uri=place_of(each.uri, root)) for each in part.images))


def preset(name: str, **overrides: Any) -> RunConfig:
    """The run configuration called `name`, with some keys changed.

    Args:
        name: name of a preset; `vse.presets.names()` lists them.
        **overrides: keys of the configuration and their values. Two underscores stand for the dot of a key:
            `optim__lr=1e-3` sets `optim.lr`. Keys with dots may be given as `**{"optim.lr": 1e-3}`.

    Returns:
        A frozen configuration; `vse.config.override` makes changed copies of it.

    Raises:
        InputError: there is no such preset or key, or a value is of the wrong type or out of range.
    """
    return _changed(name, overrides)


def train(
    config: str | RunConfig,
    workspace: str | os.PathLike[str] | Workspace = "workspace",
    *,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
    **overrides: Any,
) -> Run:
    """Train a model to the end, or return the run at once if the workspace has it finished.

    A training that was interrupted continues from its last checkpoint. Data sets, features and parses that the
    workspace lacks are made first.

    Args:
        config: the name of a preset, or a configuration.
        workspace: folder or s3:// address that holds all results. It is created if it does not exist.
        on_epoch: called after each epoch with its metrics and its number as `epoch`.
        **overrides: keys of the configuration and their values, as for `preset`.

    Returns:
        The finished run.

    Raises:
        InputError: the configuration or its data cannot be trained on; the message names the key or the file.
        Diverged: a loss or a gradient is NaN or infinite.

    Example:
        >>> run = vse.train("vsepp_tiny", "workspace", train__epochs=1)
        >>> round(run.metrics["val/rsum"]) > 0
        True
    """
    changed = _changed(config, overrides)
    check_objective(changed)
    check_effects(changed, _dotted(overrides))
    check_parser(changed)  # attacks parse captions, also of families that read none
    place = _workspace(workspace)
    origin = Origin(config, tuple(sorted(_dotted(overrides).keys() - {"seed"}))) if isinstance(config, str) else None
    result = run_training(changed, place, origin=origin, report=on_epoch)
    return _opened(place, result.run)


def evaluate(
    run: str | Run,
    workspace: str | os.PathLike[str] | Workspace = "workspace",
    *,
    tasks: str | Sequence[str] = ("retrieval",),
    **options: Any,
) -> dict[str, float]:
    """Measure a trained run. What was measured before on the same weights is read, not computed again.

    Args:
        run: a run, or its name in `workspace`.
        workspace: workspace of a run that is given by name.
        tasks: the name of a task, or several, such as `retrieval` and `attacks`; the reference of metrics lists them.
        **options: keys of `measure`, such as `splits=("test", "shifted")`; two underscores stand for a dot, as in
            `attacks__words=("shared",)`.

    Returns:
        Metrics by name, such as `test/rsum`, or `folds-3/test/rsum` with what `options` alter. R@k, `rsum` (a sum) and
        `unknown_words` are in percent, `medr` and `meanr` ranks from 1. The reference of metrics has every unit.

    Raises:
        InputError: there is no such run, split, task or key.
        Diverged: a score is NaN or infinite.

    Example:
        >>> metrics = vse.evaluate(run, tasks=["retrieval"], splits=["test"])
        >>> 0 <= metrics["test/i2t/r1"] <= metrics["test/i2t/r10"] <= 100
        True
    """
    return summary_metrics(*_measured(_run(run, workspace), tasks, options))


def outcomes(
    run: str | Run,
    workspace: str | os.PathLike[str] | Workspace = "workspace",
    *,
    tasks: str | Sequence[str] = ("retrieval",),
    **options: Any,
) -> pd.DataFrame:
    """Measure a trained run and return one row for each query, from which metrics of your own can be computed.

    Args:
        run: a run, or its name in `workspace`.
        workspace: workspace of a run that is given by name.
        tasks: what to measure, as for `evaluate`.
        **options: keys of `measure`, as for `evaluate`.

    Returns:
        Columns `split`, `task` (`i2t`, `t2i`, `attack_object`, ...), `fold`, `image`, `caption` (of `t2i`), `above`
        (candidates above the best correct answer), `tied_negatives`, `tied_positives`, and under attack `adversaries`
        and `wins`. The rank of the best correct answer is `above + 1` unless candidates are tied. A metric that is no
        recall has a row for each `unit`, such as an image or a query, with its `hits` and `queries`; `task` names it.

    Raises:
        InputError: there is no such run, split, task or key, or none of the tasks has outcomes of single queries.

    Example:
        >>> queries = vse.outcomes(run).query("task == 'i2t'")
        >>> bool(100 * (queries["above"] < 1).mean() >= vse.evaluate(run)["test/i2t/r1"])
        True
    """
    opened = _run(run, workspace)
    folder, (measured, _) = opened.folder.child("evaluation"), _measured(opened, tasks, options)
    files = [measures.table for measures in measured.tasks.values() if measures.table]
    if not files:
        raise InputError(f"tasks={','.join(measured.tasks)}: has no rows of single queries, only numbers")
    return pd.concat([pd.read_parquet(io.BytesIO(folder.read_bytes(file))) for file in files], ignore_index=True)


def compare(
    runs: Sequence[str | Run],
    workspace: str | os.PathLike[str] | Workspace = "workspace",
    *,
    tasks: str | Sequence[str] = ("retrieval",),
    seeds: str = TOGETHER,
    **options: Any,
) -> pd.DataFrame:
    """Compare runs with the first of them, with 95 % intervals of a paired bootstrap over images and seeds.

    Runs that have not been measured are measured first. Runs that differ only in their seed are one system.

    Args:
        runs: two or more runs of one workspace, or their names.
        workspace: workspace of runs that are given by name.
        tasks: what to measure, as for `evaluate`.
        seeds: `together`, or `apart` to make every run a system of its own.
        **options: keys of `measure`, as for `evaluate`.

    Returns:
        One row for each split, metric and system but the first. `split` begins with what `options` alter, as in
        `folds-3/test`. `baseline` is the value of the first system, `value` of this one, `difference` is
        `value - baseline`, and `low` and `high` are the ends of its interval.

    Raises:
        InputError: there is no such run, or the runs were not measured on the same images.
    """
    opened = [_run(run, workspace) for run in items_of(runs, str | Run, "runs", "runs or their names")]
    place = opened[0].workspace if opened else _workspace(workspace)
    if others := [run for run in opened if run.workspace != place]:
        raise InputError(f"runs: {others[0].name} is in {others[0].workspace.root}, and the first in {place.root}")
    names, how = tuple(run.name for run in opened), _overridden(MeasureOptions(device="auto"), options)
    found = compare_runs(place, validate(CompareOptions(runs=names, seeds=seeds, tasks=_tasks(tasks), measure=how)))
    rows = [
        {
            "split": split,
            "metric": line.metric.name,
            "system": system.label,
            "baseline": line.values[0],
            "value": value,
            "difference": difference.estimate,
            "low": difference.low,
            "high": difference.high,
        }
        for split, lines in found.lines.items()
        for line in lines
        for system, value, difference in zip(found.others, line.values[1:], line.differences, strict=True)
    ]
    return pd.DataFrame(rows)


def adversarial_captions(
    run: str | Run,
    workspace: str | os.PathLike[str] | Workspace = "workspace",
    *,
    split: str = "test",
    words: str = "shared",
) -> pd.DataFrame:
    """The adversarial captions that the task `attacks` adds to the candidates: captions with one thing changed.

    Args:
        run: a run, or its name in `workspace`. Its data decide the adversaries, not its weights.
        workspace: workspace of a run that is given by name.
        split: name of the split whose captions are changed.
        words: `shared` with the negatives of training, `disjoint` from them, or `published`: shared ones, put in as the
            supplement of UniVSE prints it, even if the caption is still true.

    Returns:
        Columns `attack` (`object`, `attribute`, ...), `image` (its id), `caption` and `adversary` (sentences).

    Raises:
        InputError: there is no such run or split, training negatives may use all words, or no attack changes a caption.
    """
    if words not in (*WORDS, PRINTED):
        raise InputError(f"words={words}: expected {', '.join(WORDS)} or {PRINTED}")
    opened = _run(run, workspace)
    material = pipeline.prepare(opened.config, opened.workspace, parsed=True)
    protocol = AdversaryWords()
    material = replace(material, words=protocol.pools)
    if words == "disjoint" and not protocol.held_out_of(opened.config.text)[0]:
        raise InputError(f"words=disjoint: {opened.name} was trained with text.pools of its own; choose shared")
    adversaries = attack_split(opened.config, opened.workspace, material, split, words)
    captions = np.array([(each.image, each.text) for each in material.records.split(split).captions], dtype=object)
    tables = [
        pd.DataFrame({"attack": attack, "image": image, "caption": text, "adversary": adversaries.texts[attack]})
        for attack, rows in adversaries.caption.items()
        if len(rows)
        for image, text in [captions[rows].T]
    ]
    if not tables:
        raise InputError(f"split={split}: no attack finds a word to change in its captions")
    return pd.concat(tables, ignore_index=True)


def load(run: str | Run, workspace: str | os.PathLike[str] | Workspace = "workspace", **overrides: Any) -> Embedder:
    """The trained model of a run, ready for raw images and sentences.

    Args:
        run: a run, or its name in `workspace`.
        workspace: workspace of a run that is given by name.
        **overrides: keys that matter at inference only, such as `model__alpha=0.5`.

    Returns:
        A model with `encode_images(paths)` and `encode_captions(sentences)`, which return one row per item, and
        `scores(paths, sentences)`, which serves families without vectors of single items too.

    Raises:
        InputError: there is no such run, or it has no finished checkpoint.

    Example:
        >>> model = vse.load(run)
        >>> model.encode_captions(["a red ball", "two dogs"]).shape
        (2, 64)
    """
    opened = _run(run, workspace)
    return Embedder.of_run(opened.workspace, opened.name, _dotted(overrides))


def runs(workspace: str | os.PathLike[str] | Workspace = "workspace") -> list[Run]:
    """The finished runs of a workspace, by name. Raises InputError if there is no such workspace.

    Example:
        >>> [run.name.split("-")[0] for run in vse.runs("workspace")]
        ['vsepp']
    """
    if not (place := _workspace(workspace)).root.exists():
        raise InputError(f"workspace={place.root}: no such workspace")
    return [_opened(place, name) for name in place.root.child("runs").names() if finished(place.run(name))]


def _tasks(tasks: Any) -> tuple[str, ...]:
    names = tasks.split(",") if isinstance(tasks, str) else tasks
    return tuple(name.strip() for name in items_of(names, str, "tasks", "names of tasks"))


def _measured(run: Run, tasks: Any, options: Mapping[str, Any]) -> tuple[Measured, MeasureOptions]:
    how = _overridden(MeasureOptions(device="auto"), options)
    measured = measure([run.folder], run.folder.child("evaluation"), run.workspace, _tasks(tasks), how)
    record(measured, how, run.folder, run.workspace)
    return measured, how


def _overridden(config: Any, overrides: Mapping[str, Any]) -> Any:
    return validate(override(config, spelled_out(config, _dotted(overrides))))


def _workspace(given: str | os.PathLike[str] | Workspace) -> Workspace:
    return given if isinstance(given, Workspace) else Workspace.open(os.fspath(given))


def _run(run: str | Run, workspace: str | os.PathLike[str] | Workspace) -> Run:
    if not isinstance(run, str | Run):
        raise InputError(f"run: expected a run or its name, got {type(run).__name__}")
    return run if isinstance(run, Run) else _opened(_workspace(workspace), run)


def _opened(workspace: Workspace, name: str) -> Run:
    folder = workspace.existing("runs", name, "run")
    result = finished(folder)
    if result is None:
        raise InputError(f"run={name}: is not finished; run the command that started it again")
    history = [{"epoch": epoch, **row} for epoch, row in enumerate(result["history"], start=1)]
    return Run(
        name, workspace, read_config(folder), result["metrics"], history, best=result["best"], seconds=result["seconds"]
    )


def _dotted(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The values by key of the configuration, in which two underscores stand for the dot."""
    values = {key.replace("__", "."): value for key, value in overrides.items()}
    if both := [key for key in overrides if "." in key and key.replace(".", "__") in overrides]:
        raise InputError(f"{both[0]}: given twice, also as {both[0].replace('.', '__')}")
    return values


def _changed(config: Any, overrides: Mapping[str, Any]) -> RunConfig:
    config = presets.preset(config) if isinstance(config, str) else config
    if not isinstance(config, RunConfig):
        raise InputError(f"config: expected the name of a preset or a configuration, got {type(config).__name__}")
    return _overridden(config, overrides)
