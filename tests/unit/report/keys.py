"""Values by full name, as tests write them, by the keys that reports have."""

from collections.abc import Mapping

from vse.evaluation import tasks
from vse.evaluation.metrics import Metric
from vse.report.measured import MetricKey


def keyed(values: Mapping[str, float]) -> dict[MetricKey, float]:
    """Each value by its key; one whose name is no metric's belongs to retrieval."""
    return {_key(name): value for name, value in values.items()}


def _key(name: str) -> MetricKey:
    every = [(task, metric) for task in tasks.names() for metric in tasks.task(task)().metrics]
    fitting = [(task, metric) for task, metric in every if name.endswith(f"/{metric.name}")]
    head, _, last = name.rpartition("/")
    task, metric = max(
        fitting, key=lambda each: len(each[1].name), default=("retrieval", Metric(name=last, heading=last))
    )
    return MetricKey(task, name.removesuffix(f"/{metric.name}") if fitting else head, metric)
