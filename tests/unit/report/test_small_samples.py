"""A comparison of few images or queries says of which rows, and how many each row has."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.report.comparisons import made_up, run
from tests.unit.report.pages import Outline
from tests.unit.report.test_comparison_page import MADE
from vse.evaluation.metrics import Metric
from vse.evaluation.outcomes import ByUnit, Outcomes
from vse.report.comparison import Comparison, compare, method, systems_of
from vse.report.comparison_page import comparison_page, terminal_lines, to_csv, to_data
from vse.report.measured import MetricKey

LABEL = "pairs/many"
NUMBERS = {"foil-it": 8, "swap_obj": 12, "replace_obj": 57, "mean": 8, "all": 77}


def outcomes(rate: float) -> Outcomes:
    """Outcomes of three categories of caption pairs; of each, one image has no query."""
    rng, by_unit = np.random.default_rng(0), dict[str, ByUnit]()
    for name in ("foil-it", "swap_obj", "replace_obj"):
        queries = np.ones((NUMBERS[name] + 1, 1))
        queries[0] = 0
        units = tuple(f"{name} {k}" for k in range(len(queries)))
        by_unit[name] = ByUnit(units, rng.binomial(1, rate, queries.shape) * queries, queries)
    # a mean that is recorded with a fold for each category, as the task does
    joined = {name: np.zeros((sum(len(each.units) for each in by_unit.values()), 3)) for name in ("hits", "queries")}
    start = 0
    for k, each in enumerate(by_unit.values()):
        rows = slice(start, start := start + len(each.units))
        joined["hits"][rows, k], joined["queries"][rows, k] = each.hits[:, 0], each.queries[:, 0]
    units = tuple(unit for each in by_unit.values() for unit in each.units)
    return Outcomes(by_unit={**by_unit, "all": ByUnit(units, **joined)})


@pytest.fixture(scope="module")
def pairs() -> Comparison:
    single = [Metric(name=name, heading=f"category {name}") for name in ("foil-it", "swap_obj", "replace_obj")]
    metrics = [*single, Metric(name="mean", heading="mean", terms=tuple(metric.name for metric in single))]
    metrics.append(Metric(name="all", heading="all categories"))
    keys = {LABEL: [MetricKey("caption_pairs", LABEL, metric) for metric in metrics]}
    systems = systems_of([run("a"), run("b", model__dim=128)])
    return compare(systems, {"a": {LABEL: outcomes(0.4)}, "b": {LABEL: outcomes(0.6)}}, keys)


def test_every_row_has_its_number_of_images_or_queries(pairs: Comparison) -> None:
    assert {line.metric.name: line.units for line in pairs.lines[LABEL]} == NUMBERS
    page = Outline(comparison_page(pairs, {}, MADE)).text
    text = "\n".join(terminal_lines(pairs))
    for shown in (page, text):
        assert "8 to 77 images or queries" in shown
        assert "n: images or queries with an outcome" in shown
        assert "folds" not in shown
    for name, number in NUMBERS.items():
        assert re.search(rf"^  {name} +{number} ", text, re.MULTILINE)
    assert "category swap_obj 12 " in page
    assert {name: each["units"] for name, each in to_data(pairs)["splits"][LABEL]["metrics"].items()} == NUMBERS
    rows = csv.DictReader(io.StringIO(to_csv(pairs)))
    assert {row["metric"].removeprefix(f"{LABEL}/"): int(row["units"]) for row in rows} == NUMBERS


def test_the_warning_names_the_rows_that_it_is_about(pairs: Comparison) -> None:
    warning = "Fewer than 30 images or queries are too few for them: the intervals of {} are too narrow, and "
    named = warning.format("foil-it (n = 8); swap_obj (n = 12); mean (n = 8)")
    assert named in " ".join(method(pairs))
    assert named in "\n".join(terminal_lines(pairs))
    labels = warning.format("category foil-it (n = 8); category swap_obj (n = 12); mean (n = 8)")
    assert labels in Outline(comparison_page(pairs, {}, MADE)).text


def test_if_all_rows_are_small_none_is_named() -> None:
    found = made_up(2)
    assert "too few" not in " ".join(method(found))
    small = replace(found, lines={"test": tuple(replace(line, units=3) for line in found.lines["test"])})
    assert "the intervals of all rows (n = 3) are too narrow" in " ".join(method(small))
    both = replace(
        found,
        sizes={**found.sizes, "shifted": found.sizes["test"]},
        lines={**found.lines, "shifted": small.lines["test"][:1]},
    )
    assert "the intervals of shifted, rsum (n = 3) are too narrow" in " ".join(method(both))
