"""Embedding Network and Similarity Network against their formulas."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.synthetic import make_family, make_objective, synthetic
from vse.models import noise, similarity_network
from vse.training.step import _listed_scores, step_losses

DATA = synthetic(seed=5, images=6)


def _made(name):
    family = make_family(name, DATA.context)
    return family, DATA.collator(family, make_objective(name))(np.arange(len(DATA)), 1)


def test_embedding_network_measures_cosines_and_encodes_siblings_as_captions():
    family, batch = _made("embedding_network")
    encoded = family(batch)
    torch.testing.assert_close(encoded["images"], F.normalize(family.image(batch["pooled"]), dim=1))
    again = family.encode_captions({"sentence": batch["sibling"]})["captions"]
    has = batch["has_sibling"]
    assert has.any()
    assert not has.all()
    torch.testing.assert_close(encoded["siblings"][has], again[has])
    assert not encoded["siblings"][~has].any()
    torch.testing.assert_close(family.scores(encoded, encoded), encoded["images"] @ encoded["captions"].T)


def test_without_siblings_none_is_asked_for():
    family = make_family("embedding_network", DATA.context, siblings=False)
    batch = DATA.collator(family, make_objective("embedding_network"))(np.arange(4), 1)
    assert "sibling" not in batch
    assert family(batch).keys() == {"images", "captions"}


def test_similarity_network_judges_every_pair(monkeypatch):
    family, batch = _made("similarity_network")
    encoded = family(batch)
    scores = family.scores(encoded, encoded)
    first, _, last = family.judge
    for i in range(3):
        for j in range(3):
            product = encoded["images"][i] * encoded["captions"][j]
            logit = last.weight[0] @ (first.weight @ product + first.bias).clamp_min(0)
            torch.testing.assert_close(scores[i, j], logit)
    monkeypatch.setattr(similarity_network, "PRODUCTS_AT_ONCE", 2 * encoded["captions"].numel())
    torch.testing.assert_close(family.scores(encoded, encoded), scores)


def test_similarity_network_learns_from_the_logistic_loss():
    torch.manual_seed(0)
    family = make_family(
        "similarity_network", DATA.context, objective="logistic", dim=16, hidden_dim=32, product_dim=16
    )
    objective = make_objective("similarity_network", objective="logistic")
    batch = DATA.collator(family, objective)(np.arange(len(DATA)), 1)
    optimizer, losses = torch.optim.Adam(family.parameters(), 1e-2), []
    for _ in range(80):
        total, named = step_losses(family, objective, batch, 0)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        losses.append(float(named["sent"]))
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("name", ["embedding_network", "similarity_network", "cite"])
def test_dropout_is_of_the_first_layer_and_of_one_mask_for_each_caption(name):
    objective = "logistic" if name == "similarity_network" else name
    family = make_family(name, DATA.context, objective=objective, dropout=0.4, hidden_dim=48)
    batch = DATA.collator(family, make_objective(name, objective=objective))(np.arange(len(DATA)), 1)
    for branch, vectors, stream in ((family.image, batch["pooled"], 900), (family.text, batch["sentence"], 901)):
        vectors = vectors.clone().requires_grad_()
        kept = (noise.uniform(batch["draw"], 48, stream) >= 0.4).float() / 0.6
        hidden = (branch.scale(vectors) @ branch.first.weight.T + branch.first.bias).clamp_min(0)
        expected = (hidden * kept) @ branch.last.weight.T + branch.last.bias
        ours = branch(vectors, batch["draw"])
        torch.testing.assert_close(ours, expected)
        gradients = [torch.autograd.grad(output.square().sum(), vectors)[0] for output in (ours, expected)]
        torch.testing.assert_close(*gradients)
        assert 0 < int((kept == 0).sum()) < kept.numel()
    family.eval()
    assert torch.equal(family.image(batch["pooled"], batch["draw"]), family.image(batch["pooled"]))


def test_the_negatives_of_a_caption_lose_the_units_that_its_own_image_loses():
    family = make_family("embedding_network", DATA.context, siblings=False, dropout=0.4)
    objective = make_objective("embedding_network")
    batch = DATA.collator(family, objective)(np.arange(6), 1)
    batch["negative_features"] = batch["pooled"][:, None].expand(-1, 3, -1)  # its own image, as a negative
    scores = _listed_scores(family, batch, family(batch))
    torch.testing.assert_close(scores, scores[:, :1].expand(-1, 4))
