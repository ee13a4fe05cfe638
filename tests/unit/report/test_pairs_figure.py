"""The curve over known pairs from planted findings: which lines there are, and where their marks lie."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from vse.report.study_figures import pairs_figure
from vse.studies.families import FAMILIES_SCENES
from vse.studies.registered import SEMI_SUPERVISED_SCENES

ARMS = SEMI_SUPERVISED_SCENES.arms
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#6b7280"


def findings(names: list[str]) -> dict[str, Any]:
    levels = {name: 100.0 + 10 * place for place, name in enumerate(sorted(names))}
    rows = [{"arm": name, "split": "test", "rsum": [level, level - 3, level + 5]} for name, level in levels.items()]
    return {"table": {"shared": [*rows, {"arm": names[0], "split": "shifted", "rsum": [1.0, 0.0, 2.0]}]}}


def texts(svg: bytes) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def marks(svg: bytes, panel: int, colour: str) -> list[tuple[float, float]]:
    text = svg.decode()
    start = text.index(f'id="axes_{panel}"')
    ends = [text.find(end, start) for end in (f'id="axes_{panel + 1}"', 'id="legend_1"')]
    part = text[start : min(end for end in ends if end > 0)]
    found = re.findall(
        rf'x="([\d.]+)" y="([\d.]+)" style="fill: {colour}; stroke: {colour}(?:"|; stroke-linejoin)', part
    )
    return [(float(x), float(y)) for x, y in found]


@pytest.mark.seconds
def test_every_share_is_a_mark_of_its_line_and_all_pairs_end_every_line():
    data = findings(list(ARMS))
    svg = pairs_figure(data, ARMS)["svg"]
    assert {"jWAE-MSE", "MSE", "pairs known (%)", "rsum, test", "5", "10", "25", "50", "100"} <= set(texts(svg))
    rsum = {row["arm"]: row["rsum"][0] for row in data["table"]["shared"] if row["split"] == "test"}
    for panel, preset in ((1, "jwae_mse"), (2, "mse")):
        drawn = []
        for colour, use in ((BLUE, "_unpaired"), (ORANGE, "_steps"), (GREY, "")):
            found = marks(svg, panel, colour)
            shares = ["5", "10", "25", "50"]
            names = [f"{preset}_{share}{use}" for share in shares] + [f"{preset}_100"]
            assert [x for x, _ in found] == sorted({x for x, _ in found})
            drawn += [(rsum[name], y) for name, (_, y) in zip(names, found, strict=True)]
        (one, high), (other, low) = max(drawn), min(drawn)  # rsum -> place is one line for all marks
        for level, y in drawn:
            assert y == pytest.approx(low + (high - low) * (level - other) / (one - other), abs=0.01)


def test_arms_that_are_not_done_leave_their_marks_out():
    svg = pairs_figure(findings(["jwae_mse_10", "jwae_mse_25", "jwae_mse_10_unpaired"]), ARMS)["svg"]
    assert "MSE" not in texts(svg)
    assert "the rest left out, as many steps" not in texts(svg)
    assert (len(marks(svg, 1, GREY)), len(marks(svg, 1, BLUE)), marks(svg, 1, ORANGE)) == (2, 1, [])


@pytest.mark.parametrize("names", [["jwae_mse_10", "mse_10_unpaired"], ["jwae_mse_100"]])
def test_one_share_is_no_curve(names):
    assert pairs_figure(findings(names), ARMS) == {}


def test_a_study_that_knows_all_pairs_has_none():
    assert pairs_figure(findings(["vsepp", "univse"]), FAMILIES_SCENES.arms) == {}


@pytest.mark.seconds
def test_same_findings_same_bytes():
    assert pairs_figure(findings(list(ARMS)), ARMS) == pairs_figure(findings(list(ARMS)), ARMS)
