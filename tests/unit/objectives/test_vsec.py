"""The intra-pair term against a loop, both pools, and the epochs in which it counts."""

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse.config import override
from vse.errors import InputError
from vse.objectives.vsec import intra_pair_hinge
from vse.presets import preset
from vse.training.config import check_objective
from vse.training.step import step_losses

DATA = synthetic(seed=13, images=9)


@pytest.mark.parametrize("number", [0, 1, 4])
def test_the_hinge_against_a_loop(number):
    torch.manual_seed(number)
    scores = torch.randn(6, number, dtype=torch.float64, requires_grad=True)
    positive = torch.randn(6, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(6, number) < 0.6
    value = intra_pair_hinge(scores, mask, positive, 0.2)
    naive = sum(
        (
            max(
                [(0.2 + scores[i, n] - positive[i]).clamp_min(0) for n in range(number) if mask[i, n]],
                key=lambda v: v.item(),
            )
            for i in range(6)
            if mask[i].any()
        ),
        torch.zeros((), dtype=torch.float64),
    )
    torch.testing.assert_close(value, naive)
    if mask.any():
        for ours, theirs in zip(
            torch.autograd.grad(value, (scores, positive)), torch.autograd.grad(naive, (scores, positive)), strict=True
        ):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("pool", ["own", "batch"])
def test_whose_adversaries(pool):
    family, objective = make_family("vsec", DATA.context), make_objective("vsec", pool=pool)
    batch = DATA.collator(family, objective)(np.arange(len(DATA)), 1)
    encoded = {name: value.detach() for name, value in family(batch).items()}
    expected = 0.0
    for i in range(len(DATA)):
        own = float(encoded["images"][i] @ encoded["captions"][i])
        found = [0.0]
        for j in range(len(DATA)) if pool == "batch" else [i]:
            for n in range(encoded["contrast"].shape[1]):
                if encoded["contrast_mask"][j, n]:
                    found.append(0.2 + float(encoded["images"][i] @ encoded["contrast"][j, n]) - own)
        expected += max(found)
    losses = step_losses(family, objective, batch, 1)[1]
    assert float(losses["contrast"]) == pytest.approx(expected)
    assert set(losses) == {"sent", "contrast"}


def test_the_term_joins_when_asked():
    family, objective = make_family("vsec", DATA.context), make_objective("vsec", contrast_epoch=1)
    batch = DATA.collator(family, objective)(np.arange(6), 0)
    assert set(step_losses(family, objective, batch, 0)[1]) == {"sent"}
    assert set(step_losses(family, objective, batch, 1)[1]) == {"sent", "contrast"}


def test_no_kind_of_adversaries_is_one_line_before_any_stage():
    with pytest.raises(InputError, match=r"^objective\.kinds=: names no kind of adversaries; use some of noun,num"):
        check_objective(override(preset("vsec_scenes"), {"objective.kinds": ""}))


def test_kinds_of_which_no_adversary_is_made_are_refused():
    changes = {"text.contrast.paradigms": "noun,shuffle", "objective.kinds": "numeral"}
    said = "makes no adversaries of objective.kinds=numeral; add numeral"
    with pytest.raises(InputError, match=rf"^text\.contrast\.paradigms=noun,shuffle: {said}$"):
        check_objective(override(preset("vsec_scenes"), changes))
    check_objective(override(preset("vsec_scenes"), changes | {"objective.kinds": "numeral,relation"}))
