"""A study's figure from planted findings: who is shown, in which order, and where the marks lie."""

import io
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from vse.report.study_figures import study_figure

pytestmark = pytest.mark.seconds

LEVELS = {"vsepp": 300.0, "univse": 420.0, "cca": 120.0}


def row(arm: str, level: float, split: str = "test", attacked: bool = True) -> dict[str, Any]:
    metrics = {"rsum": level, "i2t/r1": level / 6, "t2i/r1": level / 7}
    if attacked:
        metrics |= {f"attack_{kind}/r1": level / 10 for kind in ("object", "attribute", "relation")}
    numbers = {name: [value, value - 2, value + 3] for name, value in metrics.items()}
    return {"arm": arm, "split": split, "alpha": 0.75 if arm == "univse" else None, **numbers}


def findings(attacked: bool = True) -> dict[str, Any]:
    rows = [row(arm, level, attacked=attacked) for arm, level in LEVELS.items()]
    return {"table": {"shared": [*rows, row("vsepp", 150.0, "drawing", False)], "disjoint": []}}


def texts(svg: bytes) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("attacked", [True, False])
def test_every_system_is_a_line_and_every_measured_thing_a_panel(attacked):
    figure = study_figure(findings(attacked))
    assert Image.open(io.BytesIO(figure["png"])).size[0] > 1500
    shown = texts(figure["svg"])
    assert [text for text in shown if text.startswith(("VSE++", "UniVSE", "CCA"))] == [
        "CCA",
        "VSE++",
        "UniVSE, α = 0.75",
    ]
    assert ("R@1 under attack, test (%)" in shown) == attacked
    assert {"rsum", "second drawing", "image → sentence"} <= set(shown)
    assert "second wording" not in shown  # not measured


def test_a_mark_lies_within_its_interval():
    svg = study_figure(findings())["svg"].decode()
    first = svg[svg.index('id="axes_1"') : svg.index('id="axes_2"')]
    marks = [
        float(x)
        for x in re.findall(r'<use [^>]*xlink:href="#m[^"]*" x="([\d.]+)" y="[\d.]+" style="fill: #0072b2', first)
    ]
    lines = [
        (float(left), float(right))
        for left, right in re.findall(r'd="M ([\d.]+) [\d.]+ \nL ([\d.]+) [\d.]+ \n" [^>]*stroke: #0072b2', first)
    ]
    assert len(lines) == len(LEVELS)
    for left, right in lines:
        inside = [mark for mark in marks if left < mark < right]
        assert len(inside) == 1
        assert (inside[0] - left) / (right - left) == pytest.approx(2 / 5, abs=1e-3)


@pytest.mark.seconds
def test_same_findings_same_bytes():
    assert study_figure(findings()) == study_figure(findings())
