"""The loop where a number is none: an overflow that the scaler mends, a divergence that ends the run."""

import numpy as np
import pytest
import torch

from tests.unit.training.test_loop import Run
from vse.errors import Diverged
from vse.training.batches import epoch_batches


@pytest.mark.parametrize("scaled", [True, False])
def test_an_overflow_of_scaled_gradients_is_no_divergence(tmp_path, monkeypatch, scaled):
    run = Run(tmp_path, train__epochs=1)
    loop, calls = run.loop(), []
    step = loop.stepper.step

    def overflowing(batch, epoch, number=0):
        calls.append(1)
        return step(batch, epoch) | ({"gradient": torch.tensor(torch.inf)} if len(calls) == 2 else {})

    loop.stepper.step = overflowing
    monkeypatch.setattr(loop.stepper.scaler, "is_enabled", lambda: scaled)
    if scaled:
        monkeypatch.setattr(loop.checkpoints, "save", lambda *arguments: None)  # its state is a GPU's
        loop.run()
        assert np.isfinite(run.told[0][1]["train/gradient"])
    else:
        with pytest.raises(Diverged, match=r"epoch 1, step 2: gradient is inf; try a lower optim\.lr"):
            loop.run()


def test_a_gradient_that_no_scale_helps_is_divergence(tmp_path, monkeypatch):
    run = Run(tmp_path, train__epochs=9)
    loop, scale = run.loop(), [8.0]
    step = loop.stepper.step

    def overflowing(batch, epoch, number=0):
        scale[0] /= 2  # as the scaler does
        return step(batch, epoch, number) | {"gradient": torch.tensor(torch.nan)}

    loop.stepper.step = overflowing
    monkeypatch.setattr(loop.stepper.scaler, "is_enabled", lambda: True)
    monkeypatch.setattr(loop.stepper.scaler, "get_scale", lambda: scale[0])
    monkeypatch.setattr(loop.checkpoints, "save", lambda *arguments: None)
    with pytest.raises(Diverged, match=r"epoch 1, step 3: gradient is nan; try a lower optim\.lr"):
        loop.run()


@pytest.mark.parametrize("bad", [1, 4])
def test_no_checkpoint_holds_what_a_diverged_step_left(tmp_path, monkeypatch, bad):
    """Numbers are read one step late, but before anything is saved: within an epoch, and at its end."""
    clock = [0.0]
    monkeypatch.setattr("vse.training.loop.time.monotonic", lambda: clock[0])
    run = Run(tmp_path, train__epochs=1, train__batch_size=8, train__checkpoint_seconds=5)
    loop, saved = run.loop(), []
    num = len(epoch_batches(len(run.data), 8, 0, 0))
    assert num == 4
    step = loop.stepper.step

    def diverging(batch, epoch, number=0):
        clock[0] += 10.0  # a checkpoint is due after every step
        found = step(batch, epoch, number)
        return found | ({"sent": torch.tensor(torch.nan)} if number == bad - 1 else {})

    loop.stepper.step = diverging
    monkeypatch.setattr(run.checkpoints, "save", lambda progress, *_: saved.append(progress.step))
    with pytest.raises(Diverged, match=rf"epoch 1, step {bad}: sent is nan"):
        loop.run()
    assert saved == list(range(1, bad))


@pytest.mark.parametrize("rate", [1e38, 1e300])
def test_an_update_beyond_all_numbers_is_divergence(tmp_path, rate):
    """torch refuses it as it does wrong arguments, and a sweep would try it again."""
    run = Run(tmp_path, train__precision="float32", optim__lr=rate)
    run.family.float()
    with pytest.raises(Diverged, match=r"^epoch 1, step 1: the update overflows; try a lower optim\.lr$"):
        run.loop().run()
    assert run.checkpoints.newest() is None


def test_other_errors_of_an_update_are_no_divergence(tmp_path, monkeypatch):
    run = Run(tmp_path)
    loop = run.loop()

    def broken(optimizer):
        raise RuntimeError("an error of its own")

    monkeypatch.setattr(loop.stepper.scaler, "step", broken)
    with pytest.raises(RuntimeError, match=r"^an error of its own$"):
        loop.run()
