"""The objective of jWAE: which losses, with which weights, in which phase."""

import pytest
import torch

from tests.synthetic import gradients, make_family, make_objective, synthetic
from vse.objectives.jwae import JWAELoss
from vse.objectives.ranking import Ranking
from vse.training.step import step_losses

DATA = synthetic(seed=7, images=8)


def _losses(changes, phase="codes", epoch=2):
    family, objective = make_family("jwae", DATA.context, **changes), make_objective("jwae", **changes)
    batch = DATA.collator(family, objective)(torch.arange(len(DATA)).numpy(), 1)
    return family, objective, batch, step_losses(family, objective, batch, epoch, None, phase)


def test_published_weights():
    assert JWAELoss(JWAELoss.Config()).weights(0) == {
        "sent": 1.0,
        "mse": 1.0,
        "image": 0.5,
        "text": 0.005,
        "gauss_image": 0.01,
        "gauss_text": 0.01,
        "mmd": 0.0,
        "discriminator": 1.0,
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"sent", "image", "text", "gauss_image", "gauss_text"}),
        ({"match": "mse", "text": "sentence"}, {"mse", "image", "text", "gauss_image", "gauss_text"}),
        ({"regularizer": "none", "match": "mse"}, {"mse", "image", "text"}),
        ({"regularizer": "none", "match": "mse", "mmd": 0.5}, {"mse", "image", "text", "mmd"}),
        ({"regularizer": "vae"}, {"sent", "image", "text", "gauss_image", "gauss_text"}),
    ],
)
def test_each_variant_has_its_losses(changes, expected):
    _, objective, _, (total, losses) = _losses(changes)
    assert losses.keys() == expected
    weighed = sum(objective.weights(2)[name] * float(loss) for name, loss in losses.items())
    assert float(total.detach()) == pytest.approx(weighed, rel=1e-12)
    assert all(float(loss) > 0 for loss in losses.values())


@pytest.mark.parametrize("match", ["hinge", "mse"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_means_beside_the_summed_hinge(match, reduction):
    """What is descended, by hand from the terms' definitions: value and every gradient."""
    changes = {"match": match, "text": "sentence", "norm": "l1", "reduction": reduction}
    family, _, batch, (total, _) = _losses(changes)
    family.zero_grad()
    total.backward()
    ours = gradients(family)
    family.zero_grad()
    e = family(batch)
    num = len(DATA)
    softplus = torch.nn.functional.softplus
    share = 1 / num if reduction == "mean" else 1.0
    image = (e["image_inputs"] - e["image_outputs"]).abs().sum()
    text = (e["sentence_inputs"] - e["sentence_outputs"]).square().sum()
    fooled = softplus(-e["fooling_images"]).sum() + softplus(-e["fooling_captions"]).sum()
    expected = share * (0.5 * image + 0.005 * text + 0.01 * fooled)
    if match == "mse":
        expected = expected + share * (e["image_codes"] - e["caption_codes"]).square().sum()
    else:
        groups = {name: batch[name] for name in ("image_group", "text_group")}
        expected = expected + Ranking(Ranking.Config())({}, e | groups, 0)["sent"]
    torch.testing.assert_close(total.detach(), expected.detach())
    expected.backward()
    for name, gradient in gradients(family).items():
        torch.testing.assert_close(ours[name], gradient, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_known_pairs_weigh_as_their_mean_however_few_they_are(reduction):
    """Eq. 7: 1/N_S over the pairs that are known; reconstructions are means over all, or both B times as much."""
    changes = {"match": "mse", "reduction": reduction, "lambda1": 2.0, "lambda2": 0.0, "regularizer": "none"}
    family, objective, batch, _ = _losses(changes)
    for every in (1, 3, len(DATA)):
        batch["paired"] = torch.arange(len(DATA)) % every == 0
        encoded = family(batch)
        distances = (encoded["image_codes"] - encoded["caption_codes"]).square().sum(1)
        images = (encoded["image_inputs"] - encoded["image_outputs"]).square().sum(1).sqrt()
        expected = (distances[batch["paired"]].mean() + 2 * images.mean()) * (len(DATA) if reduction == "sum" else 1)
        total = step_losses(family, objective, batch, 2, None, "codes")[0]
        torch.testing.assert_close(total, expected)
        parameters = [p for p in family.parameters() if p.requires_grad]
        both = (torch.autograd.grad(each, parameters, materialize_grads=True) for each in (total, expected))
        for ours, theirs in zip(*both, strict=True):
            torch.testing.assert_close(ours, theirs)


def test_where_no_pair_is_known_nothing_is_aligned():
    family, objective, batch, _ = _losses({"match": "mse", "regularizer": "none"})
    batch["paired"] = torch.zeros(len(DATA), dtype=torch.bool)
    total, losses = step_losses(family, objective, batch, 2, None, "codes")
    assert float(losses["mse"]) == 0
    assert torch.isfinite(total)


def test_the_discriminators_phase_moves_the_discriminator_alone():
    family, _, _, (total, losses) = _losses({}, "discriminator")
    assert losses.keys() == {"discriminator"}
    total.backward()
    touched = {name.split(".")[0] for name, p in family.named_parameters() if p.grad is not None}
    assert touched == {"discriminator"}


def test_the_encoders_phase_leaves_the_discriminator_alone():
    family, _, _, (total, _) = _losses({})
    total.backward()
    assert all(p.grad is None for p in family.discriminator.parameters())


def test_the_hinge_is_the_ranking_objective():
    family, _, batch, (_, losses) = _losses({"margin": 0.3})
    encoded = dict(family(batch)) | {name: batch[name] for name in ("image_group", "text_group")}
    expected = Ranking(Ranking.Config(margin=0.3))(encoded, encoded, 0)["sent"]
    torch.testing.assert_close(losses["sent"], expected)


def test_warmup_and_collapse():
    objective = JWAELoss(JWAELoss.Config(warmup=2))
    assert objective.collapse_level(1) is None
    assert objective.collapse_level(2) == ("sent", 0.4)
    assert JWAELoss(JWAELoss.Config(match="mse")).collapse_level(5) is None
    family, _, batch, (_, mined) = _losses({})
    summed = step_losses(family, objective, batch, 1, None, "codes")[1]
    assert float(summed["sent"]) > float(mined["sent"])
