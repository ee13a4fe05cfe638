"""Every task: its metrics are declared once each, and its help is a line."""

import pytest

from vse.errors import InputError
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


def test_help_has_a_line_for_each_task() -> None:
    lines = help_text().splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(names())
    assert all(len(line.split()) > 3 for line in lines)


def test_an_unknown_task_is_one_line_with_what_may_be_meant() -> None:
    with pytest.raises(InputError, match=r"^tasks=retreival: unknown; did you mean retrieval\?$"):
        check_names(["retreival"])
