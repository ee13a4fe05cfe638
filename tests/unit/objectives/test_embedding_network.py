"""The ranking loss with neighbourhood constraints against a loop over triples."""

import pytest
import torch
import torch.nn.functional as F

from vse.config import override
from vse.errors import InputError
from vse.objectives.embedding_network import EmbeddingNetworkLoss
from vse.presets import preset
from vse.training.config import check_objective


def _everyone(raw):
    images, captions, siblings = F.normalize(raw, dim=-1)
    return {
        "images": images,
        "captions": captions,
        "siblings": siblings,
        "has_sibling": torch.tensor([True, True, False, True, False, True]),
        "image_group": torch.tensor([0, 0, 1, 2, 3, 3]),
        "text_group": torch.tensor([0, 1, 2, 0, 3, 4]),
    }


def _negatives(gathered, i):
    images, texts = gathered["image_group"].tolist(), gathered["text_group"].tolist()
    return [j for j in range(len(images)) if images[j] != images[i] and texts[j] != texts[i]]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_against_a_loop(most):
    raw = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    gathered, margin = _everyone(raw), 0.4
    images, captions, siblings = (gathered[name] for name in ("images", "captions", "siblings"))

    def d(a, b):
        return (a - b).square().sum().sqrt()

    def worst(positive, negatives):
        terms = [(margin + positive - negative).clamp_min(0) for negative in negatives]
        return torch.stack(sorted(terms, key=lambda term: float(term.detach()), reverse=True)[:most]).sum()

    sent, text = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for i in range(6):
        others = _negatives(gathered, i)
        own = d(images[i], captions[i])
        sent = sent + worst(own, [d(images[i], captions[j]) for j in others])
        sent = sent + worst(own, [d(images[j], captions[i]) for j in others])
        if gathered["has_sibling"][i]:
            text = text + worst(d(captions[i], siblings[i]), [d(captions[i], captions[j]) for j in others])
    losses = EmbeddingNetworkLoss(EmbeddingNetworkLoss.Config(margin=margin, most=most))(gathered, gathered, 0)
    assert float(text.detach()) > 0
    for name, expected in (("sent", sent), ("text", text)):
        torch.testing.assert_close(losses[name], expected)
        # of the codes before normalisation: off the sphere the two ways to write a distance differ
        one, other = (torch.autograd.grad(loss, raw, retain_graph=True)[0] for loss in (losses[name], expected))
        torch.testing.assert_close(one, other)


def test_unknown_pairs_cost_nothing():
    gathered = _everyone(torch.randn(3, 6, 4))
    objective = EmbeddingNetworkLoss(EmbeddingNetworkLoss.Config(margin=0.4))
    losses = objective(
        gathered | {"paired": torch.zeros(6, dtype=torch.bool)}, gathered | {"paired": torch.zeros(6) > 0}, 0
    )
    assert float(losses["sent"].detach()) == float(losses["text"].detach()) == 0


def test_without_siblings_there_is_no_constraint():
    gathered = {name: value for name, value in _everyone(torch.randn(3, 6, 4)).items() if "sibling" not in name}
    objective = EmbeddingNetworkLoss(EmbeddingNetworkLoss.Config(neighbours=0.3))
    assert objective(gathered, gathered, 0).keys() == {"sent"}
    assert objective.weights(0) == {"sent": 1.0, "text": 0.3}


def test_codes_that_coincide_have_a_finite_gradient():
    codes = torch.ones(3, 4, dtype=torch.float64) / 2
    codes.requires_grad_()
    gathered = {"images": codes, "captions": codes, "image_group": torch.arange(3), "text_group": torch.arange(3)}
    loss = EmbeddingNetworkLoss(EmbeddingNetworkLoss.Config())(gathered, gathered, 0)["sent"]
    assert float(loss.detach()) == pytest.approx(2 * 3 * 2 * 0.1)
    assert torch.autograd.grad(loss, codes)[0].isfinite().all()


def test_codes_of_other_lengths_are_refused():
    changes = {"model.image": "pooled", "model.normalize_images": False, "objective": "embedding_network"}
    with pytest.raises(InputError, match=r"^model.normalize_images=false: objective=embedding_network compares"):
        check_objective(override(preset("vsepp_scenes"), changes))
