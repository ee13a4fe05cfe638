"""A comparison as page, figure, text and data: the same numbers everywhere, and every caveat."""

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from tests.levels import slow_but
from tests.unit.report.comparisons import keys, made_up, outcomes, run
from tests.unit.report.pages import SVG
from vse.report.comparison import Comparison, compare, systems_of
from vse.report.comparison_page import comparison_figure, comparison_page, terminal_lines, to_csv, to_data
from vse.report.page import Provenance

MADE = Provenance(commands=["python jobs/compare.py runs=a,b"], configuration={}, versions={"vse": "1"})
KEYS = keys(outcomes(0.3).table)


@pytest.fixture(scope="module")
def two():
    return made_up(2)


@pytest.fixture(scope="module")
def three():
    return made_up(3, seeds=2)


@pytest.mark.parametrize("which", ["two", "three"])
def test_every_number_is_everywhere(request, which):
    found = request.getfixturevalue(which)
    page = comparison_page(found, {"test": SVG}, MADE)
    text = "\n".join(terminal_lines(found))
    rows = list(csv.DictReader(io.StringIO(to_csv(found))))
    data = to_data(found)["splits"]["test"]
    assert len(rows) == len(found.systems) * len(found.lines["test"])
    for line in found.lines["test"]:
        own = [row for row in rows if row["metric"] == f"test/{line.metric.name}"]
        assert [float(row["value"]) for row in own] == list(line.values) == data["metrics"][line.metric.name]["values"]
        assert own[0]["difference"] == ""
        for row, difference, plain in zip(
            own[1:], line.differences, data["metrics"][line.metric.name]["differences"], strict=True
        ):
            numbers = [difference.estimate, difference.low, difference.high]
            assert [float(row[name]) for name in ("difference", "low", "high")] == numbers == list(plain.values())
            shown = f"[{difference.low:+.1f}, {difference.high:+.1f}]".replace("-", "−").replace("+0.0", "0.0")
            assert shown.replace("−0.0", "0.0") in text
            assert shown.replace("−0.0", "0.0") in page
        assert line.metric.label in page
        assert re.search(rf"^  {re.escape(line.metric.name)} ", text, re.MULTILINE)
    json.dumps(data, allow_nan=False)


def test_page_and_text_say_what_differs_and_what_intervals_are(two):
    for text in (comparison_page(two, {"test": SVG}, MADE), "\n".join(terminal_lines(two))):
        assert "model.dim" in text
        assert "not corrected for multiple comparisons" in text
        assert "Every system is one training" in text
        assert "60 images" in text
        assert "vsepp-scenes-s0-00000001" in text
    assert "http" not in comparison_page(two, {"test": SVG}, MADE).replace("http-equiv", "")


def test_a_difference_is_strong_if_its_interval_excludes_zero(three):
    cells = re.findall(r"<td>(<strong>)?[^<]+(?:</strong>)?\s*<span class=\"half\">", comparison_page(three, {}, MADE))
    differences = [each for line in three.lines["test"] for each in line.differences]
    assert [bool(strong) for strong in cells] == [each.clear for each in differences]
    assert {each.clear for each in differences} == {True, False}


def test_keys_of_other_components_are_counted_and_folded_away():
    runs = [run("a"), run("b", preset="univse_tiny")]
    found = compare(systems_of(runs), {each.name: {"test": outcomes(0.3)} for each in runs}, KEYS)
    text, page = "\n".join(terminal_lines(found)), comparison_page(found, {"test": SVG}, MADE)
    assert re.search(r"and \d+ keys of components that not every system has", text)
    assert "model.alpha" not in text
    assert re.search(r"<summary>\d+ keys of components that not every system has</summary>", page)
    assert "model.alpha" in page


def test_runs_without_a_differing_key_say_so():
    runs = [run("a"), run("b")]
    found = compare(systems_of(runs), {each.name: {"test": outcomes(0.3)} for each in runs}, KEYS)
    assert "no key of the configuration differs" in "\n".join(terminal_lines(found))
    assert "no key of the configuration differs" in comparison_page(found, {"test": SVG}, MADE)


def test_names_are_escaped():
    runs = [run("a", known_as="<b>"), run("b", known_as="x&y", optim__lr=0.5)]
    found = compare(systems_of(runs), {each.name: {"test": outcomes(0.3)} for each in runs}, KEYS)
    page = comparison_page(found, {"test": SVG}, MADE)
    assert "<b>," not in page
    assert "&lt;b&gt;" in page
    assert "x&amp;y" in page


@pytest.mark.seconds
@pytest.mark.parametrize("attacks", slow_but([True, False], True))
@pytest.mark.parametrize("num_systems", slow_but([2, 4], 4))
def test_the_figure_has_a_row_a_metric(num_systems, attacks):
    found = made_up(num_systems, attacks=attacks)
    figure = comparison_figure(found, "test")
    assert Image.open(io.BytesIO(figure["png"])).size[0] > 1000
    root = ElementTree.fromstring(figure["svg"])
    shown = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"rsum", "image → sentence, R@1", "sentence → image, R@10", "vsepp_small (zero)"} <= set(shown)
    assert ("object attack, R@1" in shown) == attacks
    assert ("relation attack, disjoint words, pairs" in shown) == attacks
    assert {system.label for system in found.others} <= set(shown)
    assert comparison_figure(found, "test") == figure


def with_others(number: int) -> Comparison:
    """A comparison with this number of systems besides the first, all with the same numbers."""
    found = made_up(2)
    first, other = found.systems
    lines = tuple(
        replace(line, values=(line.values[0], *line.values[1:] * number), differences=line.differences * number)
        for line in found.lines["test"]
    )
    systems = (first, *(replace(other, label=f"system {k}") for k in range(number)))
    keys = {key: (values[0], *values[1:] * number) for key, values in found.keys.items()}
    return replace(found, systems=systems, lines={"test": lines}, keys=keys)


@pytest.mark.seconds
def test_no_two_systems_have_the_same_colour_and_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("vse.report.comparison_page.rendered", lambda figure: drawn.append(figure) or {})
    found = with_others(36)
    comparison_figure(found, "test")
    (legend,) = drawn[0].legends
    looks = {text.get_text(): (line.get_color(), line.get_marker()) for text, line in _entries(legend)}
    looks = {name: look for name, look in looks.items() if name.startswith("system ")}
    assert len(looks) == len(set(looks.values())) == 36
    colours = {line.get_color() for line in drawn[0].axes[0].lines}
    assert {colour for colour, _ in looks.values()} <= colours


def _entries(legend: Any) -> Iterator[tuple[Any, Any]]:
    return zip(legend.get_texts(), legend.legend_handles, strict=True)


def test_more_systems_than_marks_have_no_figure() -> None:
    found = with_others(37)
    assert comparison_figure(found, "test") == {}
    assert "No figure: more than 37 systems." in comparison_page(found, {}, MADE)
    assert "No figure" not in comparison_page(with_others(36), {"test": SVG}, MADE)
