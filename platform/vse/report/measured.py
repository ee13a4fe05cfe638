"""Measures of a run by metric, split and way of measuring, under the names of journals and pages."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from vse.config import from_dict, to_dict
from vse.evaluation import tasks
from vse.evaluation.file_names import stems
from vse.evaluation.metrics import Metric
from vse.evaluation.task import Task
from vse.evaluation.tasks.retrieval import RetrievalTask
from vse.stages.measuring.options import SharedOptions, Size
from vse.stages.measuring.plan import REVISION
from vse.stages.measuring.stage import Measured, TaskMeasures
from vse.storage.folder import Folder
from vse.training.checkpoint import Checkpoints, weights_of
from vse.workspace.journal import read
from vse.workspace.layout import Workspace

V = TypeVar("V")
_OF_TRAINING = ("train", "val")  # splits that training has metrics of in every epoch
VALIDATION = "val"  # label of the metrics in results of training


@dataclass(frozen=True, slots=True)
class MetricKey:
    """A metric of a task and its label: the split, with the protocol and what was altered."""

    task: str
    label: str
    metric: Metric

    @property
    def name(self) -> str:
        """In files and in MLflow: `test/i2t/r1`."""
        return f"{self.label}/{self.metric.name}"


def altered(options: Mapping[str, Any]) -> str:
    """How an evaluation differs from the run as configured, such as `alpha-0.6` or `on-flickr30k`, or empty."""
    parts = []
    if options.get("on"):
        items = sorted(options["on"], key=lambda item: not item.startswith("path="))  # the path, then what is below it
        parts.append("on-" + stems([item.partition("=")[2] for item in items]))
    if options.get("alpha") is not None:
        parts.append(f"alpha-{options['alpha']:g}")
    if options.get("components"):
        parts.append("components-" + "-".join(options["components"]))
    if options.get("folds", 1) != 1:
        parts.append(f"folds-{options['folds']}")
    if options.get("drop_components"):
        seed = options.get("drop_seed", 0)
        parts.append(f"drop-{options['drop_components']:g}" + (f"-seed-{seed}" if seed else ""))
    return "_".join(parts)


def journal_label(label: str, options: Mapping[str, Any]) -> str:
    """A label in journals and reports, unique for each way of measuring.

    It begins with what was altered (`alpha-0.6/test`), or with `measured` for splits that training measures too
    (`measured/val`).
    """
    if head := altered(options):
        return f"{head}/{label}"
    protocol = options.get("protocol", "")
    return f"measured/{label}" if label in (*_OF_TRAINING, *(f"{s}/{protocol}" for s in _OF_TRAINING)) else label


def keyed(measured: Measured, options: Mapping[str, Any] | None = None) -> dict[MetricKey, float]:
    """Every value of a measurement; under the labels of journals if `options` say how it was measured."""
    values = dict[MetricKey, float]()
    for name, measures in measured.tasks.items():
        values |= _values(name, measures.task, measures.values, options)
    return values


def intervals(measured: Measured) -> dict[MetricKey, tuple[float, float]]:
    """The intervals of a measurement, by the keys of `keyed`."""
    result = dict[MetricKey, tuple[float, float]]()
    for name, measures in measured.tasks.items():
        result |= _values(name, measures.task, measures.intervals, None)
    return result


def _values(
    name: str, task: Task, values: Mapping[str, Mapping[str, V]], options: Mapping[str, Any] | None
) -> dict[MetricKey, V]:
    return {
        MetricKey(name, label if options is None else journal_label(label, options), task.metric(metric)): value
        for label, each in values.items()
        for metric, value in each.items()
    }


def named(values: Mapping[MetricKey, float]) -> dict[str, float]:
    """Values by full name."""
    return {key.name: value for key, value in values.items()}


def summary_metrics(measured: Measured, options: SharedOptions) -> dict[str, float]:
    """The values of a measurement by the names of its summary, which begin with what was altered."""
    way = to_dict(options)
    return named(keyed(measured, way if altered(way) else None))


def record(measured: Measured, options: SharedOptions, run: Folder, workspace: Workspace) -> None:
    """Write the metrics of a measurement into the journal of its run, from which MLflow gets them.

    Nothing is written if the journal has all of them with these values.

    Args:
        measured: What was measured of the run.
        options: How it was measured. The labels of metrics say what was altered (`journal_label`).
        run: Its folder.
        workspace: Where the journals are.
    """
    journal, metrics = workspace.journal(run), named(keyed(measured, to_dict(options)))
    known = read(journal.path).latest()
    if any(known.get(name) != value for name, value in metrics.items()):
        journal.metrics(metrics, step=0)


def grouped(keys: Iterable[MetricKey]) -> dict[str, list[MetricKey]]:
    """Metrics by heading, in the order of tasks and of their metrics. Validation comes after other splits."""
    listed, order = list(dict.fromkeys(keys)), tasks.names()
    labels = sorted(dict.fromkeys(key.label for key in listed), key=lambda label: label == VALIDATION)
    groups: dict[str, list[MetricKey]] = {}
    places = {task: {metric.name: k for k, metric in enumerate(tasks.task(task)().metrics)} for task in order}

    def place(key: MetricKey) -> tuple[int, int, int]:
        of_task = places[key.task]
        return order.index(key.task), labels.index(key.label), of_task.get(key.metric.name, len(of_task))

    for key in sorted(listed, key=place):
        groups.setdefault(f"{key.task.replace('_', ' ')}: {key.label}", []).append(key)
    return groups


class RunNumbers:
    """The numbers of a run as configured: validation at its kept epoch, and evaluations of these weights, read once.

    Args:
        run: Its folder.
        alpha: If given, the evaluations that were asked for at this weight of u_sent, and nothing else is altered.
    """

    def __init__(self, run: Folder, alpha: float | None = None) -> None:
        self._run, self._alpha, self._measures = run, alpha, list(_measures(run, alpha))

    @cached_property
    def metrics(self) -> dict[MetricKey, float]:
        """Every value."""
        metrics = dict[MetricKey, float]()
        if self._alpha is None and self._run.exists("result.json"):
            values = self._run.read_json("result.json")["metrics"]
            keys = [MetricKey("retrieval", VALIDATION, metric) for metric in RetrievalTask().metrics]
            metrics |= {key: values[key.name] for key in keys if key.name in values}
        return metrics | {key: value for each in self._measures for key, value in _by_key(each, "metrics").items()}

    @property
    def intervals(self) -> dict[MetricKey, tuple[float, float]]:
        """The 95 % intervals of evaluations that have any."""
        return {key: ends for each in self._measures for key, ends in _by_key(each, "intervals").items()}

    @property
    def evaluations(self) -> list[tuple[str, dict[str, Any]]]:
        """(task, options) of every evaluation that `metrics` has a number of, in the order of the requests."""
        latest = {key: number for number, each in enumerate(self._measures) for key in _by_key(each, "metrics")}
        used = [self._measures[number] for number in sorted(set(latest.values()))]
        return [(each["task"], dict(each["options"])) for each in used]

    @property
    def sizes(self) -> dict[str, Size]:
        """The sizes of the evaluated splits, by label."""
        return {
            journal_label(label, each["options"]): Size(**size)
            for each in self._measures
            for label, size in each["sizes"].items()
        }

    @property
    def met(self) -> dict[tuple[str, str], dict[str, str]]:
        """By task and label, fingerprints of the data and adversaries of the numbers (`MeasurePlan.met`).

        A task that was measured with several kinds of words has those of all of them.
        """
        met = dict[tuple[str, str], dict[str, str]]()
        for each in self._measures:
            for label, prints in each["met"].items():
                met.setdefault((each["task"], journal_label(label, each["options"])), {}).update(prints)
        return met


def _by_key(measured: Mapping[str, Any], what: str) -> dict[MetricKey, Any]:
    """`metrics` or `intervals` of an evaluation."""
    name, options = measured["task"], measured["options"]
    task = tasks.task(name)
    return _values(name, task(from_dict(task.Config(), options[name])), measured[what], options)


def alike(runs: Sequence[V], met: Callable[[V], Mapping[str, str]]) -> list[list[V]]:
    """Runs in groups whose numbers are of the same data and adversaries, as far as two of them have the same kinds."""
    groups = list[tuple[dict[str, str], list[V]]]()
    for run in runs:
        prints = met(run)
        for common, members in groups:
            if all(common.get(key, digits) == digits for key, digits in prints.items()):
                common.update(prints)
                members.append(run)
                break
        else:
            groups.append((dict(prints), [run]))
    return [members for _, members in groups]


def _measures(run: Folder, alpha: float | None = None) -> Iterator[Mapping[str, Any]]:
    """Evaluations of a run's kept weights as configured, or at `alpha`, by this revision, in the order of the requests.

    Of two with a metric in common, for example after a file of pairs was corrected, the later one counts.
    """
    folder, kept = run.child("evaluation"), Checkpoints(run.child("checkpoints")).best()
    files = [name for name in sorted(folder.names()) if name.startswith("measures-") and name.endswith(".json")]
    for measured in sorted(map(folder.read_json, files), key=lambda each: each.get("asked", 0.0)):
        options = measured["options"]
        if (
            measured["task"] not in tasks.names()
            or options.get("alpha") != alpha
            or altered({**options, "alpha": None})
        ):
            continue
        present = measured["revision"] == [REVISION, tasks.task(measured["task"]).revision]
        if present and ("weights" not in measured or kept is None or measured["weights"] == [weights_of(kept)]):
            yield measured


def lacking(measured: Measured) -> dict[str, str]:
    """What the run or the data lack for a task, by its name."""
    return {name: measures.missing for name, measures in measured.tasks.items() if measures.missing}


def comparable(measured: Measured) -> dict[str, list[MetricKey]]:
    """By split, the metrics with outcomes of single queries. Sums are included if they are main metrics."""

    def has_outcomes(metric: Metric, measures: TaskMeasures, label: str) -> bool:
        single = metric.main or not metric.terms
        return single and bool(measures.outcomes[label].terms(metric))

    keys = [
        MetricKey(name, label, measures.task.metric(metric))
        for name, measures in measured.tasks.items()
        for label in measures.outcomes
        for metric in measures.values[label]
        if has_outcomes(measures.task.metric(metric), measures, label)
    ]
    return {label: [key for key in keys if key.label == label] for label in measured.outcomes}
