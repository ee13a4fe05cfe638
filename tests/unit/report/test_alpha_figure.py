"""The figure holds what it should, is the same every time, and survives thin data."""

import io
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.levels import slow, slow_but
from tests.unit.report.results import made_up
from vse.adversaries.attacks import ATTACKS
from vse.report.alpha_figure import alpha_figure
from vse.report.curve import AlphaResults

pytestmark = pytest.mark.seconds


def texts(svg: bytes) -> str:
    return " ".join(t.strip() for t in ElementTree.fromstring(svg).itertext() if t.strip())


def test_png_and_svg_say_what_is_shown() -> None:
    figure = alpha_figure(made_up())
    image = Image.open(io.BytesIO(figure["png"]))
    assert image.size[0] > 1500
    colours = np.unique(np.asarray(image.convert("RGB")).reshape(-1, 3), axis=0)
    assert {(0, 114, 178), (213, 94, 0)} <= set(map(tuple, colours.tolist()))  # both models are drawn
    shown = texts(figure["svg"])
    for words in ("Plain retrieval", "object attack", "attribute attack", "relation attack", "R@1 (%)", "α"):
        assert words in shown
    assert "chosen α = 0.7" in shown
    assert "UniVSE, mean of 3 seeds" in shown
    assert "VSE++ (no α)" in shown
    assert "95 % interval over seeds" in shown


def test_the_numbers_beside_the_marks_are_the_means() -> None:
    results = made_up()
    shown = texts(alpha_figure(results)["svg"])
    at = results.at(results.chosen)
    assert at is not None
    assert results.reference is not None
    for metric in ("i2t/r1", "t2i/r1", "attack_object/r1", "attack_attribute/r1", "attack_relation/r1"):
        assert f"{np.mean(at[f'test/{metric}']):.1f}" in shown
        assert f"{np.mean(results.reference.metrics[f'test/{metric}']):.1f}" in shown


@pytest.mark.slow
def test_same_results_same_bytes() -> None:
    assert alpha_figure(made_up()) == alpha_figure(made_up())


def one_alpha(results: AlphaResults) -> AlphaResults:
    return replace(results, alphas=[0.7], points=[results.points[14]])


def flat(results: AlphaResults) -> AlphaResults:
    points = [{name: [0.0] * len(values) for name, values in point.items()} for point in results.points]
    return replace(results, points=points, chosen=1.0)


@pytest.mark.parametrize("left", slow_but([0, 1, 2], 1))
def test_attacks_without_adversaries_have_no_panel(left: int) -> None:
    gone = [f"attack_{attack}/" for attack in list(ATTACKS)[left:]]
    results = made_up()
    points = [{name: v for name, v in point.items() if not any(g in name for g in gone)} for point in results.points]
    shown = texts(alpha_figure(replace(results, points=points))["svg"])
    assert [attack for attack in ATTACKS if f"{attack} attack" in shown] == list(ATTACKS)[:left]
    assert ("adversarial captions in the pool" in shown) == bool(left)
    assert "Plain retrieval" in shown


@pytest.mark.parametrize(
    "results",
    [
        made_up(seeds=1),
        made_up(seeds=12),
        *slow([made_up(reference=False), one_alpha(made_up()), flat(made_up(reference=False))]),
    ],
    ids=["one seed", "many seeds", "no reference", "one alpha", "all zero"],
)
def test_thin_data_is_drawn_too(results: AlphaResults) -> None:
    figure = alpha_figure(results)
    assert Image.open(io.BytesIO(figure["png"])).size[0] > 1500
    number = len(results.seeds)
    assert f"UniVSE, {f'mean of {number} seeds' if number > 1 else '1 seed'}" in texts(figure["svg"])
    assert ("single seed" in texts(figure["svg"])) == (number > 1)
    assert ("95 % interval" in texts(figure["svg"])) == (len(results.seeds) > 2)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Figures as they are when they are rendered."""
    drawn: list[Any] = []

    def kept(figure: Any) -> dict[str, bytes]:
        drawn.append(figure)
        return {}

    monkeypatch.setattr("vse.report.alpha_figure.rendered", kept)
    return drawn


@pytest.mark.parametrize(("seeds", "bands"), [(1, 0), (2, 0), (3, 2), (5, 2)])
def test_bands_are_drawn_from_three_seeds_on(figures: list[Any], seeds: int, bands: int) -> None:
    """Of two seeds an interval is thirteen times as wide as they are apart."""
    alpha_figure(made_up(seeds=seeds))
    for axis in figures[0].axes:
        shaded = [*axis.collections, *axis.patches]
        assert len(shaded) == bands  # the swept model's and the reference's
        assert len(axis.lines) == seeds + 4  # single seeds, their mean, the chosen α with its mark, the reference


def through(results: AlphaResults, values: Sequence[float], chosen: float) -> AlphaResults:
    """The same curve in every panel."""
    made = np.interp(results.alphas, np.linspace(0, 1, len(values)), values)
    points = [
        {name: [float(v)] * len(each) for name, each in point.items()}
        for v, point in zip(made, results.points, strict=True)
    ]
    return replace(results, points=points, chosen=chosen)


@pytest.mark.parametrize("chosen", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "values",
    [(0, 0, 50), (50, 0), *slow([((50, 0, 0),), ((0, 50),), ((0, 0),), ((50, 0, 50),), ((0, 50, 0),)])],
    ids=lambda v: f"{v}",
)
def test_the_number_at_the_chosen_alpha_stays_in_its_axes(
    figures: list[Any], values: tuple[int, ...], chosen: float
) -> None:
    alpha_figure(through(made_up(reference=False), values, chosen))
    figure = figures[0]
    figure.canvas.draw()
    for axis in figure.axes:
        (number,) = axis.texts
        inside, box = axis.get_window_extent(), number.get_window_extent()
        assert inside.y0 <= box.y0 < box.y1 <= inside.y1
