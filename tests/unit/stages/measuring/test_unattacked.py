"""Attacks that find nothing to change in a split have no numbers, and who asked for them is told."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.asked import CONTRAST, asked
from vse.config import override
from vse.presets import preset
from vse.report import comparison_build
from vse.stages.measuring import plan, stage
from vse.stages.train import run_training

pytestmark = pytest.mark.seconds

CHANGES = {"data.num_train": 40, "data.num_val": 4, "data.num_test": 6, "data.num_shifted": 4, "train.epochs": 1}
OPTIONS = asked("retrieval", "attacks", *CONTRAST, attacks__words=("shared",))


@pytest.fixture(scope="module")
def runs(place):
    return [run_training(override(preset("vsepp_tiny"), {**CHANGES, "seed": k}), place).folder for k in (0, 1)]


@pytest.fixture(autouse=True)
def less(monkeypatch):
    """Objects, relations and plurals as on captions that have none."""
    for make in (plan.attack_split, plan.contrast_split):

        def without(*arguments, make=make, **named):
            made = make(*arguments, **named)
            gone = made.caption.keys() & {"object", "relation", "plural"}
            caption = {key: np.empty(0, np.int64) if key in gone else rows for key, rows in made.caption.items()}
            texts = {key: () if key in gone else each for key, each in made.texts.items()}
            return replace(made, texts=texts, caption=caption)

        monkeypatch.setattr(plan, make.__name__, without)


TOLD = (
    "split test has no object and no relation adversaries (shared words): their metrics are missing",
    "split test has no contrast_relation and no contrast_plural adversaries (shared words): their metrics are missing",
)


def test_an_evaluation_says_which_attacks_have_no_numbers(place, runs, caplog):
    with caplog.at_level("WARNING", "vse"):
        found = stage.measure(runs[:1], runs[0].child("evaluation"), place, *OPTIONS).metrics
    assert tuple(caplog.messages) == TOLD
    attacks = {key.split("/")[1] for key in found if "/attack_" in key}
    named = ("attribute", "contrast_noun", "contrast_numeral", "contrast_shuffle", "contrast_preposition")
    assert attacks == {f"attack_{name}" for name in named}
    assert "test/attack_attribute/unknown_words" in found


@pytest.mark.slow
def test_a_comparison_says_it_once_for_all_runs(place, runs, caplog):
    with caplog.at_level("WARNING", "vse"):
        comparison_build.measured_alike([comparison_build.compared_run(run, place) for run in runs], place, *OPTIONS)
    assert tuple(caplog.messages) == TOLD
