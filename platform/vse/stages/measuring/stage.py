"""Stage 5, measure: tasks on a trained run or several, kept in the folder of the run as JSON, one file a task.

A cluster measures a run in a Ray task, on a GPU if it has any, but for what has to stay with the job's process
(`elsewhere`).
"""

import contextlib
import logging
import platform
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from vse.config import fingerprint, to_dict
from vse.display.progress import Progress
from vse.errors import Diverged, InputError
from vse.evaluation import tasks
from vse.evaluation.outcomes import Outcomes, pack, rows_of, unpack
from vse.evaluation.statistics import Effect, Sample, bootstrap_all
from vse.evaluation.task import Context, Scope, Task, measured
from vse.evaluation.work import Arrays, Work
from vse.stages.measuring.context import context_of
from vse.stages.measuring.elsewhere import portable_tasks
from vse.stages.measuring.encoding import encoder_for
from vse.stages.measuring.options import MeasureOptions, SharedOptions, Size, label_of
from vse.stages.measuring.plan import REVISION, MeasurePlan, plan_measure, shared_options
from vse.stages.measuring.request import MeasureRequest, request_of
from vse.stages.measuring.shards import ShardedScores, shards_for
from vse.stages.measuring.work import computed_on_cluster, joined_cluster
from vse.stages.trained import device_of
from vse.storage.files import entry_of
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskMeasures:
    """What a task measured.

    Args:
        task: The task, with its keys.
        values: By what stands before the name of a metric, such as the split, and by that name.
        missing: What the runs or the data lack; then there are no values.
        outcomes: Of queries, by split.
        intervals: 95 % intervals over images or queries, as `values`, of the metrics that have outcomes.
        table: Name of the file of outcomes, next to the numbers.
        pictures: Names of pictures, likewise.
        met: `MeasurePlan.met` of the task.
    """

    task: Task
    values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    missing: str = ""
    outcomes: Mapping[str, Outcomes] = field(default_factory=dict)
    intervals: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    table: str = ""
    pictures: tuple[str, ...] = ()
    met: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Measured:
    """Measures by task, in the order of tables, and the sizes of what was measured. `digits` identify the request."""

    tasks: dict[str, TaskMeasures]
    sizes: dict[str, Size]
    digits: str

    @property
    def metrics(self) -> dict[str, float]:
        """Every value under its full name, such as `test/i2t/r1`."""
        return {
            f"{label}/{name}": value
            for measures in self.tasks.values()
            for label, values in measures.values.items()
            for name, value in values.items()
        }

    @cached_property
    def outcomes(self) -> dict[str, Outcomes]:
        """Outcomes of the queries of all tasks, by split."""
        joined = dict[str, Outcomes]()
        for measures in self.tasks.values():
            for split, each in measures.outcomes.items():
                joined[split] = joined.get(split, Outcomes()) | each
        return joined


def measure_run(
    run: Folder, workspace: Workspace, names: Sequence[str] = tasks.DEFAULT, options: SharedOptions | None = None
) -> dict[str, float]:
    """Metrics of a run by full name, such as `test/i2t/r1`, computed once.

    Args:
        run: Folder of the run; its `evaluation` keeps the numbers.
        workspace: Where stages keep what they make.
        names: Of the tasks.
        options: How to measure; by default the test split.

    Raises:
        InputError, Diverged: As for `measure`.
    """
    return measure([run], run.child("evaluation"), workspace, names, options).metrics


def measure(
    runs: Sequence[Folder],
    folder: Folder,
    workspace: Workspace,
    names: Sequence[str] = tasks.DEFAULT,
    options: SharedOptions | None = None,
) -> Measured:
    """Tasks on a run, or on the mean of the scores of several. What was measured of the same weights, data, adversaries
    and files is read, task by task.

    Args:
        runs: Trained runs.
        folder: Where the numbers are kept.
        workspace: Where stages keep what they make.
        names: Of the tasks.
        options: How to measure; by default the test split.

    Raises:
        InputError: A run has no checkpoint, the data set no such split, or none of the tasks can measure.
        Diverged: Scores are NaN.
    """
    plan = plan_measure(runs, workspace, names, options or MeasureOptions())
    plan.warn_of_unattacked()
    return carry_out(plan, folder)


def carry_out(plan: MeasurePlan, folder: Folder) -> Measured:
    """What was measured before, and the rest measured and kept. Raises Diverged if scores are NaN."""
    kept = all_kept(plan, folder)
    with contextlib.nullcontext() if len(kept) == len(plan.tasks) else joined_cluster():
        if measure_on_cluster(work_for(plan, kept, folder)):
            kept = all_kept(plan, folder)
    left = {name: task for name, task in plan.tasks.items() if name not in kept}
    kept |= _measure(plan, left, folder) if left else {}
    lacking = {name: TaskMeasures(task=plan.options.task(name), missing=needs) for name, needs in plan.missing.items()}
    every = kept | lacking
    digits = fingerprint([plan.digits(name) for name in plan.tasks])
    return Measured({name: every[name] for name in tasks.names() if name in every}, plan.sizes, digits)


@dataclass(frozen=True, eq=False)
class MeasureWork(Work):
    """Tasks on a run, or on an ensemble, that any process can measure; it keeps their numbers itself.

    Args:
        request: What is measured.
        folder: Address of the folder where the numbers are kept.
    """

    request: MeasureRequest
    folder: str

    @cached_property
    def digits(self) -> str:
        return self.request.digits

    def compute(self, number: int, device: torch.device) -> Arrays:
        """`device`: the name of the device and its node. Raises Diverged if scores are NaN."""
        plan = self.request.plan()
        plan = replace(plan, device=device, options=replace(plan.options, device=device.type))
        _measure(plan, plan.tasks, Folder.open(self.folder))
        return {"device": np.array(f"{_device_name(device)} of {platform.node()}")}


def work_for(plan: MeasurePlan, kept: Container[str], folder: Folder) -> list[MeasureWork]:
    """What any node of a cluster could measure: one piece of work, or none.

    Args:
        plan: The measurement.
        kept: Names of the tasks that were measured before.
        folder: Where the numbers are kept.
    """
    names = portable_tasks(plan, kept)
    return [MeasureWork(request_of(plan, names), folder.uri)] if names else []


def measure_on_cluster(works: Sequence[MeasureWork]) -> bool:
    """Measure runs by tasks of the cluster, as many at once as it has room for.

    Args:
        works: What to measure, in the same workspace and with the same `measure.device`.

    Returns:
        Whether it was measured: not without a cluster that has other nodes, or GPUs which this process lacks.

    Raises:
        InputError: A node does not see the workspace, or what opening the runs raises.
        Diverged: Scores are NaN.
    """
    if not works:
        return False
    request = works[0].request
    device, free = device_of(request.options.device, "measure.device"), request.options.device == "auto"
    jobs = [(work, 0) for work in works]
    results = computed_on_cluster(jobs, device, "measure runs", any_device=free, workspace=request.workspace)
    for place in dict.fromkeys(str(result["device"]) for result in results or ()):
        log.info("measured on %s", place)
    return results is not None


def all_kept(plan: MeasurePlan, folder: Folder) -> dict[str, TaskMeasures]:
    """What was measured before, by task."""
    return {name: measures for name in plan.tasks if (measures := kept_measures(plan, name, folder)) is not None}


def kept_measures(plan: MeasurePlan, name: str, folder: Folder) -> TaskMeasures | None:
    """What a task measured before; None if it is absent, damaged, or of other data.

    Args:
        plan: The measurement; its digits of the task name the file.
        name: Of the task.
        folder: Where the numbers are kept. The file gets the time of this call, since reports prefer what was requested
            last.
    """
    file = measures_file(name, plan.digits(name))
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, InputError, KeyError, TypeError):
        content = folder.read_json(file)
        packed = {each: folder.read_bytes(each) for each in content["files"]}
        if {each: entry_of(data) for each, data in packed.items()} != content["files"]:  # damaged on its disk
            return None
        table, expected = content["outcomes"], plan.fingerprints_of(name)
        outcomes, prints = unpack(packed.pop(table)) if table else ({}, expected)
        if prints != expected:
            return None
        with contextlib.suppress(OSError, InputError):  # InputError: a folder that this user may only read
            folder.write_checked(file, {**content, "asked": time.time()})
        return TaskMeasures(
            task=plan.tasks[name],
            values=content["metrics"],
            outcomes=outcomes,
            intervals=content["intervals"],
            table=table,
            pictures=tuple(packed),
            met=content["met"],
        )
    return None


def measures_file(task: str, digits: str) -> str:
    """The name of the file that keeps the numbers of a task."""
    return f"measures-{task}-{digits}.json"


@dataclass(frozen=True, eq=False)
class _Results:
    """What a task has measured so far: values by label and metric, rows of the table of outcomes, and pictures."""

    values: dict[str, dict[str, float]] = field(default_factory=dict)
    rows: list[Any] = field(default_factory=list)
    pictures: dict[str, bytes] = field(default_factory=dict)


def _measure(plan: MeasurePlan, left: Mapping[str, Task], folder: Folder) -> dict[str, TaskMeasures]:
    """Measure some tasks, and store the results of each in its own file when it ends.

    If a task raises InputError, the other tasks are measured before that error is raised.
    """
    members = plan.members
    for member in members.each:
        member.trained.to(plan.device)
    results, refused = {name: _Results() for name in left}, dict[str, InputError]()
    finished, sharded, encoder = dict[str, TaskMeasures](), list[ShardedScores](), encoder_for(plan)
    of_split = {name: task for name, task in left.items() if task.scope is not Scope.DATA}
    for part in (*(plan.parts if of_split else ()), *([members.data_set()] if len(of_split) < len(left) else ())):
        here = {name: task for name, task in left.items() if (task.scope is Scope.DATA) == (not part.name)}
        with Progress(f"scores of {part.name or 'the data set'}", unit="pairs") as bar:
            seen = replace(members, scored=bar.advance, folder=folder.child("probes"))
            context = context_of(plan, part, here, seen)
            context.encoder = encoder
            context.shards = shards = shards_for(plan, context, folder.child("shards"))
            sharded += [] if shards is None else [shards]
            for name in [name for name in here if name not in refused]:
                try:
                    _measure_part(plan, name, context, results[name])
                except InputError as error:
                    refused[name] = error
                    log.warning("tasks=%s: ends without numbers: %s", name, error)
                    continue
                if not part.name or part is plan.parts[-1]:
                    finished[name] = _keep(plan, name, folder, results[name])
    for shards in sharded:
        shards.forget()
    log.info("measured on %s", _device_name(plan.device))
    if refused:
        raise next(iter(refused.values()))
    return finished


def _measure_part(plan: MeasurePlan, name: str, context: Context, results: _Results) -> None:
    """Add what a task measures of a split or of the data set. Raises Diverged with the name of the run."""
    task, part = plan.tasks[name], context.split
    label = label_of(task, part.name, plan.options)
    try:
        results.values[label], pictures, queries = measured(task, context)
    except Diverged as error:
        raise Diverged(f"run={plan.members.names}: {error}") from None
    results.rows.extend(rows_of(queries, part, label))
    where = f"{name}-{plan.digits(name)}-{label.replace('/', '-')}"
    results.pictures.update({f"{where}-{picture}": data for picture, data in pictures.items()})


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"


def _keep(plan: MeasurePlan, name: str, folder: Folder, results: _Results) -> TaskMeasures:
    """Write the results of a task: files first, then the numbers, which name them."""
    digits, outcomes, table = plan.digits(name), dict[str, Outcomes](), ""
    values, files = results.values, dict(results.pictures)
    if results.rows:
        table = f"outcomes-{name}-{digits}.parquet"
        files[table] = pack(results.rows, plan.fingerprints_of(name))
        outcomes, _ = unpack(files[table])
    for file, data in files.items():
        folder.write_bytes(file, data)
    intervals = {label: intervals_of(plan.tasks[name], values[label], each) for label, each in outcomes.items()}
    loaded = [member.trained for member in plan.members.each]
    content: dict[str, Any] = {
        "asked": time.time(),
        "task": name,
        "revision": [REVISION, plan.tasks[name].revision],
        "options": {**shared_options(plan.options), name: to_dict(plan.tasks[name].config)},
        "weights": [trained.weights for trained in loaded],
        "checkpoint": [trained.checkpoint.uri for trained in loaded],
        "sizes": {label: asdict(size) for label, size in plan.sizes.items()},
        "metrics": values,
        "intervals": intervals,
        "met": plan.met(name),
        "outcomes": table,
        "files": {file: entry_of(data) for file, data in files.items()},
    }
    folder.write_checked(measures_file(name, digits), content)
    return TaskMeasures(
        task=plan.tasks[name],
        values=values,
        outcomes=outcomes,
        intervals=intervals,
        table=table,
        pictures=tuple(results.pictures),
        met=content["met"],
    )


def intervals_of(task: Task, values: Mapping[str, float], outcomes: Outcomes) -> dict[str, tuple[float, float]]:
    """95 % intervals (BCa bootstrap over images, or over the units of a metric) of the metrics of a run.

    Args:
        task: The task.
        values: By metric.
        outcomes: Of its queries.
    """
    effects: dict[str, Effect] = {}
    for metric in map(task.metric, values):
        samples = [
            Sample(hits=hits[None], queries=queries, images=fingerprint(units))
            for units, hits, queries in outcomes.terms(metric)
        ]
        if samples and all(sample.defined for sample in samples):
            effects[metric.name] = [(1.0, sample) for sample in samples]
    if not effects:
        return {}
    results = bootstrap_all(list(effects.values()))
    return {name: result.interval() for name, result in zip(effects, results, strict=True)}
