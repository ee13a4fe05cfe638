"""What a terminal shows of an epoch: the losses of whatever objective, and validation."""

import pytest

from vse.config import override
from vse.objectives.objective import Objective
from vse.presets import preset
from vse.training import epoch_report as module
from vse.training.epoch_report import epoch_line

VALIDATION = {"val/i2t/r5": 60.0, "val/i2t/r1": 25.0, "val/t2i/r1": 20.0, "val/rsum": 300.0, "epoch": 2.0}
SAID = "  val/i2t/r1 25.000  val/t2i/r1 20.000  val/rsum 300.000"


class Mine(Objective):
    """Losses of any names, all of weight two but `off`."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def weights(self, epoch: int) -> dict[str, float]:
        assert epoch == 1, "0-based"
        return {name: 0.0 if name == "off" else 2.0 for name in self.names}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("mine",), "  train/mine 0.500"),
        (("mine", "off"), "  train/mine 0.500"),
        (("one", "two", "sent"), "  train/one 0.500  train/two 0.500  train/sent 0.500"),
        (("one", "two", "three", "sent"), "  train/sent 0.500"),
        (("one", "two", "three", "four"), "  sum of 4 losses 4.000"),
    ],
)
def test_losses_of_any_name_are_told(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], said: str) -> None:
    monkeypatch.setattr(module.registry, "build", lambda *a: Mine(*names))
    config = override(preset("vsepp_tiny"), {"objective.warmup": 0, "train.epochs": 8})
    numbers = {**{f"train/{name}": 0.5 for name in names}, "train/gradient": 1.0, **VALIDATION}
    assert epoch_line(config, numbers, 2) == f"epoch 2/8{said}{SAID}"


def test_epochs_of_the_warm_up_and_without_validation_say_so() -> None:
    config = override(preset("vsepp_tiny"), {"objective.warmup": 1})
    assert epoch_line(config, {"train/sent": 0.4}, 1) == "epoch 1/2  train/sent 0.400  (sum over negatives)"
    assert epoch_line(config, {"train/sent": 0.4}, 2) == "epoch 2/2  train/sent 0.400"
    closed = preset("cca_scenes")  # fitted without a loss
    assert epoch_line(closed, {}, 1) == "epoch 1/1"
