"""The figure holds what it should, is the same every time, and survives thin data."""

import io
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests.unit.report.results import made_up
from vse.report.curve import ATTACKS, AlphaResults
from vse.report.figures import alpha_figure


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


def test_same_results_same_bytes() -> None:
    assert alpha_figure(made_up()) == alpha_figure(made_up())


def one_alpha(results: AlphaResults) -> AlphaResults:
    return replace(results, alphas=[0.7], points=[results.points[14]])


def flat(results: AlphaResults) -> AlphaResults:
    points = [{name: [0.0] * len(values) for name, values in point.items()} for point in results.points]
    return replace(results, points=points, chosen=1.0)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_attacks_without_adversaries_have_no_panel(left: int) -> None:
    gone = [f"attack_{attack}/" for attack in ATTACKS[left:]]
    results = made_up()
    points = [{name: v for name, v in point.items() if not any(g in name for g in gone)} for point in results.points]
    shown = texts(alpha_figure(replace(results, points=points))["svg"])
    assert [attack for attack in ATTACKS if f"{attack} attack" in shown] == list(ATTACKS[:left])
    assert ("adversarial captions in the pool" in shown) == bool(left)
    assert "Plain retrieval" in shown


@pytest.mark.parametrize(
    "results",
    [
        made_up(seeds=1),
        made_up(reference=False),
        one_alpha(made_up()),
        flat(made_up(reference=False)),
        made_up(seeds=12),
    ],
    ids=["one seed", "no reference", "one alpha", "all zero", "many seeds"],
)
def test_thin_data_is_drawn_too(results: AlphaResults) -> None:
    figure = alpha_figure(results)
    assert Image.open(io.BytesIO(figure["png"])).size[0] > 1500
    assert ("95 % interval" in texts(figure["svg"])) == (len(results.seeds) > 1)
