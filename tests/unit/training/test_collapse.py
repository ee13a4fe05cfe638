"""What is said of a collapsed run fits its configuration."""

import pytest

from vse.config import override
from vse.presets import preset
from vse.training.loop import collapse


@pytest.mark.parametrize(
    ("name", "changes", "advice"),
    [
        ("vsepp_scenes", {"objective.warmup": 0}, "try objective.warmup=1 or an optim.lr below 0.002"),
        (
            "vsepp_scenes",
            {"objective.warmup": 3},
            "objective.warmup=3 did not prevent it; try more of it or an optim.lr",
        ),
        ("cse_scenes", {"optim.lr": 0.5}, "; try an optim.lr below 0.5"),
    ],
)
def test_advice_fits_the_configuration(name, changes, advice):
    config = override(preset(name), changes)
    line = collapse(config, {"train/collapse": 1.004}, 7)
    assert line.startswith("epoch 7: the loss is that of codes that are all alike (train/collapse 1.004); ")
    assert advice in line
    assert ("objective.warmup" in line) == (getattr(config.objective, "hinge", "") == "hardest")


FINDS = {"val/t2i/r1": 12.0, "val/t2i/r10": 48.0}
LOST = {"val/t2i/r1": 0.5, "val/t2i/r10": 4.0}


def test_collapsed_codes_find_images_by_chance():
    assert "train/collapse 1.004" in collapse(preset("vsepp_scenes"), {"train/collapse": 1.004, **LOST}, 3)


@pytest.mark.parametrize(
    "numbers",
    [{}, {"train/collapse": 1.28}, {"train/collapse": 0.97}, {"train/collapse": 1.004, **FINDS}, {**LOST}],
)
def test_other_losses_are_no_collapse(numbers):
    assert collapse(preset("vsepp_scenes"), numbers, 1) == ""
