"""A model kept from the epochs that take the sum over negatives is told from one of the configured loss."""

import pytest

from vse.config import override
from vse.presets import preset
from vse.training.epoch_report import kept_in_warmup, warmup_epochs

VSEPP = override(preset("vsepp_tiny"), {"train.epochs": 6, "objective.warmup": 3})


def test_epochs_with_the_sum() -> None:
    assert warmup_epochs(VSEPP) == 3
    assert warmup_epochs(override(VSEPP, {"objective.hinge": "sum"})) == 0
    assert warmup_epochs(preset("cca_small")) == 0
    assert warmup_epochs(preset("jwae_mh_small")) > 0


@pytest.mark.parametrize("name", ["jwae_mse_small", "mse_small", "mmd_mse_small"])
def test_what_has_no_hinge_has_no_such_epochs(name: str) -> None:
    assert warmup_epochs(preset(name)) == 0


@pytest.mark.parametrize("match", ["infonce", "sigmoid"])
def test_another_loss_on_pairs_leaves_no_hinge(match: str) -> None:
    assert warmup_epochs(override(preset("univse_tiny"), {"objective.match": match})) == 0


@pytest.mark.parametrize(("best", "told"), [(0, False), (1, True), (3, True), (4, False), (6, False)])
def test_a_model_of_the_warm_up_is_told(best: int, told: bool) -> None:
    line = kept_in_warmup(VSEPP, best)
    assert bool(line) is told
    assert not told or line.startswith(f"epoch {best}, which validated best, is one of the first 3 with the sum")


def test_a_training_that_ends_in_its_warm_up_was_asked_for() -> None:
    assert kept_in_warmup(override(VSEPP, {"train.epochs": 3}), 2) == ""
