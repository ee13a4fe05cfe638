"""Pretraining of the small backbone: labels fit pictures, the loss is right, learning happens, twice the same."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from vse.assets.backbone_training import (
    CellReader,
    PretrainingConfig,
    accuracies,
    cell_loss,
    draw_cells,
    pretrain,
    shipped_state,
)
from vse.data.scenes.layout import Address
from vse.data.scenes.render import CELL_LABELS, render
from vse.features.small_backbone import convolutions


def test_cells_are_the_scenes_asked_for():
    cells = draw_cells(3, "pretrain", range(5, 9))
    assert cells.pixels.shape == (4, 112, 112, 3)
    assert np.array_equal(cells.pixels[1].numpy(), render(Address(3, "pretrain", 6).uri))
    assert set(cells.labels) == set(CELL_LABELS)
    for kind, labels in cells.labels.items():
        assert labels.shape == (4, 7, 7)
        assert 0 <= int(labels.min()) <= int(labels.max()) <= len(CELL_LABELS[kind])
    nothing = cells.labels["noun"] == 0
    assert all(torch.equal(labels == 0, nothing) for labels in cells.labels.values())


def test_another_ground_leaves_things_and_labels_alone():
    plain, other = (draw_cells(3, "pretrain", range(6), grounds=share) for share in (0.0, 1.0))
    changed = (plain.pixels != other.pixels).any(dim=3).float().mean(dim=(1, 2))
    assert (changed > 0.3).all()
    assert (changed < 1).all()
    assert all(torch.equal(plain.labels[kind], other.labels[kind]) for kind in CELL_LABELS)


def test_the_loss_is_a_weighted_mean_over_cells():
    generator = torch.Generator().manual_seed(0)
    scores = {kind: torch.randn(2, len(n) + 1, 7, 7, generator=generator) for kind, n in CELL_LABELS.items()}
    labels = {k: torch.randint(0, s.shape[1], (2, 7, 7), generator=generator) for k, s in scores.items()}
    expected = 0.0
    for kind, score in scores.items():
        total, weights = 0.0, 0.0
        for item, row, column in np.ndindex(2, 7, 7):
            truth = int(labels[kind][item, row, column])
            weight = 0.25 if truth == 0 else 1.0
            total += weight * float(F.cross_entropy(score[item, :, row, column], torch.tensor(truth)))
            weights += weight
        expected += total / weights
    assert float(cell_loss(scores, labels)) == pytest.approx(expected, rel=1e-5)


def test_accuracies_count_cells_that_show_something():
    class Perfect(CellReader):
        def __init__(self, cells):
            super().__init__()
            self.cells = cells

        def forward(self, pixels):
            labels = self.cells.labels.items()
            return {k: F.one_hot(v, len(CELL_LABELS[k]) + 1).permute(0, 3, 1, 2).float() for k, v in labels}

    cells = draw_cells(3, "pretrain", range(4))
    assert accuracies(Perfect(cells), cells) == dict.fromkeys([*CELL_LABELS, "empty"], 1.0)
    blind = accuracies(CellReader().eval(), cells)
    assert max(blind[kind] for kind in ("noun", "colour")) < 0.5


@pytest.mark.slow
def test_training_learns_and_is_the_same_twice():
    config = PretrainingConfig(rounds=1, images=128, batch=16)
    losses = []
    first = pretrain(config, lambda count, text: losses.append(float(text.rsplit(" ", 1)[1])))
    second = pretrain(config)
    state, again = shipped_state(first), shipped_state(second)
    assert all(torch.equal(state[key], again[key]) for key in state)
    assert len(losses) == 8
    assert losses[-1] < losses[0]
    plain = convolutions(normalised=False)
    plain.load_state_dict(state)
