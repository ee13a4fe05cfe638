"""Every task: its metrics are declared once each, and its help is a line."""

import inspect
import re
import sys
from typing import Any

import pytest

from tests.unit.evaluation.contexts import evaluated, split_of
from vse.errors import InputError
from vse.evaluation.metrics import Metric
from vse.evaluation.protocol import WHOLE_SPLIT, Protocol
from vse.evaluation.task import Context, Task
from vse.evaluation.tasks import check_names, help_text, names, task


@pytest.mark.parametrize("name", names())
def test_metrics_are_declared_once_and_have_what_tables_need(name: str) -> None:
    metrics = task(name)().metrics
    assert metrics
    assert len({metric.name for metric in metrics}) == len(metrics)
    declared = {metric.name for metric in metrics}
    assert all(metric.heading and metric.decimals >= 0 for metric in metrics)
    assert all(set(metric.terms) <= declared for metric in metrics)
    assert len({(metric.group, metric.heading) for metric in metrics}) == len(metrics)


@pytest.mark.parametrize("name", names())
def test_what_a_task_reads_of_the_data_is_declared(name: str) -> None:
    """Numbers of two runs stand in one table only if what was declared is the same."""
    measures = task(name)
    code = inspect.getsource(sys.modules[measures.__module__])
    assert measures.reads_boxes == ("records.boxes" in code)
    assert measures.reads_training == bool(re.search(r"""records\.split\((TRAIN|"train")\)""", code))


def test_help_has_a_line_for_each_task() -> None:
    lines = help_text().splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(names())
    assert all(len(line.split()) > 3 for line in lines)


def test_an_unknown_task_is_one_line_with_what_may_be_meant() -> None:
    with pytest.raises(InputError, match=r"^tasks=retreival: unknown; did you mean retrieval\?$"):
        check_names(["retreival"])


class Careless(Task):
    """A task whose author errs."""

    def list_metrics(self) -> tuple[Metric, ...]:
        return (Metric(name="careless/share", heading="share"),)

    def measure(self, context: Context) -> dict[str, float]:
        return {"careless/shares": 1.0}


def test_a_metric_that_is_not_declared_is_named() -> None:
    with pytest.raises(AssertionError, match="Careless measures careless/shares, which its metrics do not declare"):
        evaluated(Careless(), context_without_codes())


def test_units_are_texts() -> None:
    units: Any = range(2)
    with pytest.raises(AssertionError, match="careless/share: the unit 0 is no text, such as the id of an image"):
        context_without_codes().record_values("careless/share", 0, units, [0, 1], [1, 1])


def test_texts_are_the_captions_that_a_protocol_takes() -> None:
    runs: Any = None
    split = split_of([0, 0, 1, 2, 2, 2], 3)
    for protocol, number in ((WHOLE_SPLIT, 6), (Protocol(name="first", num_images=2, captions_per_image=None), 3)):
        assert Context(runs, split, protocol, {}).texts == [caption.text for caption in split.captions[:number]]


def context_without_codes() -> Context:
    runs: Any = None
    return Context(runs, split_of([0, 1], 2), WHOLE_SPLIT, {})
