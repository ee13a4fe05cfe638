"""CITE against a formula written by hand: value and gradient."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.synthetic import make_family, make_objective, synthetic
from vse.config import override
from vse.errors import InputError
from vse.models import cite
from vse.presets import preset
from vse.training.effects import check_effects
from vse.training.step import step_losses

DATA = synthetic(seed=5, images=6)


def _score(head, v, t, u):
    """The score of one pair, concept by concept."""
    weights = torch.exp(u) / torch.exp(u).sum()
    joint = (head.joint.weight @ (v * t) + head.joint.bias).clamp_min(0)
    total = torch.zeros(head.width, dtype=v.dtype)
    for k in range(head.num):
        rows = slice(k * head.width, (k + 1) * head.width)
        total = total + weights[k] * (head.concepts.weight[rows] @ joint + head.concepts.bias[rows]).clamp_min(0)
    return (head.last.weight @ total)[0]


@pytest.mark.parametrize("name", ["cite", "jwae_cite"])
def test_every_pair_is_scored_by_the_formula(name, monkeypatch):
    family = make_family(name, DATA.context)
    batch = DATA.collator(family, make_objective(name, name))(np.arange(7), 1)
    images, captions = family.encode_images(batch), family.encode_captions(batch)
    expected = torch.stack([
        torch.stack([
            _score(family.score, images["images"][i], captions["captions"][j], captions["concepts"][j])
            for j in range(7)
        ])
        for i in range(7)
    ])  # fmt: skip
    torch.testing.assert_close(family.scores(images, captions), expected)
    torch.testing.assert_close(images["images"].norm(dim=1), torch.ones(7, dtype=torch.float64))
    monkeypatch.setattr(cite, "NUMBERS_AT_ONCE", 1)
    torch.testing.assert_close(family.scores(images, captions), expected)


def test_loss_and_gradient_of_cite():
    family, objective = make_family("cite", DATA.context), make_objective("cite", "cite", l1=0.3)
    batch = DATA.collator(family, objective)(np.arange(9), 1)
    total, losses = step_losses(family, objective, batch, 0)
    family.zero_grad()
    total.backward()
    found = {name: parameter.grad.clone() for name, parameter in family.named_parameters()}
    family.zero_grad()
    images, captions = family.encode_images(batch), family.encode_captions(batch)
    positive, negative, count = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64), 0
    for i in range(9):
        for j in range(9):
            s = _score(family.score, images["images"][i], captions["captions"][j], captions["concepts"][j])
            s = s + family.get_parameter("logistic_bias")
            same = (
                batch["image_group"][i] == batch["image_group"][j] or batch["text_group"][i] == batch["text_group"][j]
            )
            if i == j:
                positive = positive + torch.log(1 + torch.exp(-s))
            elif not same:
                negative, count = negative + torch.log(1 + torch.exp(s)), count + 1
    concepts = torch.stack([abs(u) for row in captions["concepts"] for u in row]).sum()
    expected = positive + 9 / count * negative + 0.3 * concepts
    expected.backward()
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(losses["concepts"], concepts.detach())
    for name, parameter in family.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, msg=name)
        assert found[name].abs().sum() > 0, name


def test_nothing_but_the_logistic_loss_trains_the_layers_that_score():
    with pytest.raises(InputError, match=r"^objective\.logistic=0\.0: must be greater than 0"):
        override(preset("jwae_mse_cite_localisation_small"), {"objective.logistic": 0.0})


def test_the_mask_of_jwae_cite_is_of_its_logistic_loss():
    check_effects(override(preset("jwae_mse_cite_localisation_small"), {"objective.mask": "none"}), ["objective.mask"])
    family = make_family("jwae_cite", DATA.context)
    losses = {}
    for mask in ("same", "none"):
        objective = make_objective("jwae_cite", "jwae_cite", mask=mask)
        losses[mask] = step_losses(family, objective, DATA.collator(family, objective)(np.arange(8), 1), 0)[1]
    assert {name for name in losses["same"] if losses["same"][name] != losses["none"][name]} == {"logistic"}


def test_jwae_cite_adds_the_losses_of_both():
    family, objective = make_family("jwae_cite", DATA.context), make_objective("jwae_cite", "jwae_cite", logistic=2.0)
    batch = DATA.collator(family, objective)(np.arange(8), 1)
    total, losses = step_losses(family, objective, batch, 0)
    codes, captions = family(batch), family.encode_captions(batch)
    mse = (codes["image_codes"] - codes["caption_codes"]).square().sum()
    torch.testing.assert_close(losses["mse"], mse)
    scores = family.scores(codes, captions) + family.get_parameter("logistic_bias")
    positive = F.softplus(-scores.diagonal()).sum()
    group = batch["image_group"], batch["text_group"]
    same = (group[0][:, None] == group[0]) | (group[1][:, None] == group[1])
    negative = (F.softplus(scores) * ~same).sum() * 8 / (~same).sum()
    torch.testing.assert_close(losses["logistic"], (positive + negative).detach())
    weights = objective.weights(0)
    torch.testing.assert_close(total, sum(weights[name] * loss for name, loss in losses.items()))
    assert {"mse", "image", "text", "gauss_image", "gauss_text", "logistic", "concepts"} == losses.keys()
    judged = step_losses(family, objective, batch, 0, frozenset({"discriminator"}), "discriminator")[1]
    assert judged.keys() == {"discriminator"}


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_mean_over_the_batch_is_of_all_losses_but_the_hinge(reduction):
    objective = make_objective("jwae_cite", "jwae_cite", reduction=reduction)
    assert objective.averaged >= {"logistic", "concepts"} if reduction == "mean" else not objective.averaged
