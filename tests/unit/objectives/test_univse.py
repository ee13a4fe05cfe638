"""Parts of UniVSE's objective; whole losses have their oracle in tests/parity."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.synthetic import make_family, make_objective, synthetic
from vse.objectives.univse import UniVSELoss, masked_mean, region_hinge, region_scores
from vse.training.batches import Truth
from vse.training.step import step_losses


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 40),
    batch=st.integers(0, 4),
    items=st.integers(0, 9),
    regions=st.integers(1, 5),
    dim=st.integers(1, 4),
)
def test_region_scores_both_routes_against_a_loop(rows, batch, items, regions, dim):
    generator = torch.Generator().manual_seed(rows + 41 * items)
    table = torch.randn(rows, dim, generator=generator, dtype=torch.float64).requires_grad_()
    local = torch.randn(batch, regions, dim, generator=generator, dtype=torch.float64).requires_grad_()
    index = torch.randint(rows, (batch, items), generator=generator)
    scores = region_scores(table, index, local)
    assert scores.shape == (batch, items, regions)
    naive = torch.zeros(batch, items, regions, dtype=torch.float64)
    for b in range(batch):
        for n in range(items):
            for r in range(regions):
                naive[b, n, r] = table[index[b, n]] @ local[b, r]
    torch.testing.assert_close(scores, naive, rtol=1e-12, atol=1e-13)
    weight = torch.randn(scores.shape, generator=generator, dtype=torch.float64)
    if scores.numel():
        ours = torch.autograd.grad((scores * weight).sum(), (table, local))
        theirs = torch.autograd.grad((naive * weight).sum(), (table, local))
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


def test_both_routes_are_taken():
    """Twice as many rows as items is where the route changes; values do not."""
    torch.manual_seed(0)
    table, local, index = torch.randn(8, 3), torch.randn(2, 5, 3), torch.randint(8, (2, 4))
    longer = torch.cat([table, torch.randn(30, 3)])
    torch.testing.assert_close(region_scores(table, index, local), region_scores(longer, index, local))


def test_region_scores_under_autocast():
    torch.manual_seed(0)
    table, local = torch.randn(40, 6, requires_grad=True), torch.randn(2, 5, 6, requires_grad=True)
    index = torch.randint(40, (2, 4))
    exact = torch.autograd.grad(region_scores(table, index, local).square().sum(), (table, local))
    with torch.autocast("cpu", torch.bfloat16):
        scores = region_scores(table, index, local)
    assert scores.dtype == torch.bfloat16
    for near, far in zip(torch.autograd.grad(scores.float().square().sum(), (table, local)), exact, strict=True):
        assert near.dtype == torch.float32
        torch.testing.assert_close(near, far, rtol=0.05, atol=0.2)


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_region_hinge_gradcheck(temperature):
    torch.manual_seed(1)
    positive = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    negative = torch.randn(2, 3, 5, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(2, 3, 5) < 0.6
    mask[0, 0] = False
    value = region_hinge(positive, negative, mask, 0.2, temperature)
    assert float(value[0, 0].detach()) == 0
    assert torch.autograd.gradcheck(lambda p, n: region_hinge(p, n, mask, 0.2, temperature), (positive, negative))


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_absent_regions_have_no_relevance(temperature):
    """With three of four regions the value is that of the three, whatever the fourth says; with none it is zero."""
    torch.manual_seed(2)
    positive = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    negative = torch.randn(2, 3, 5, 4, dtype=torch.float64, requires_grad=True)
    mask, there = torch.rand(2, 3, 5) < 0.6, torch.tensor([[True, True, False, True], [False] * 4])
    value = region_hinge(positive, negative, mask, 0.2, temperature, there)
    seen = [0, 1, 3]
    alone = region_hinge(positive[:1, :, seen], negative[:1, :, :, seen], mask[:1], 0.2, temperature)
    torch.testing.assert_close(value[:1], alone)
    assert not value[1].any()
    value.sum().backward()
    for gradient in (positive.grad, negative.grad):
        assert gradient is not None
        assert gradient[0, ..., 0].any()
        assert not gradient[0, ..., 2].any()
        assert not gradient[1].any()
    assert torch.autograd.gradcheck(
        lambda p, n: region_hinge(p, n, mask, 0.2, temperature, there), (positive, negative)
    )


def test_a_sharp_relevance_map_looks_at_the_best_region_only():
    positive = torch.tensor([[[0.1, 0.9, 0.3]]])
    negative = torch.tensor([[[[5.0, 0.8, 5.0]]]])
    value = region_hinge(positive, negative, torch.ones(1, 1, 1, dtype=torch.bool), 0.2, 1e-3)
    assert float(value) == pytest.approx(0.1, abs=1e-6)


def test_masked_mean():
    values = torch.tensor([[1.0, 2.0, 6.0], [4.0, 5.0, 6.0]])
    mask = torch.tensor([[True, False, True], [False, False, False]])
    assert masked_mean(values, mask).tolist() == [3.5, 0.0]


def test_published_weights_and_counts():
    """§3.5 and A.1: η_c = η_o = η_a = 0.5; η_r is 0 for two epochs, then 1; 16, 8 + 8 and 4 + 2 + 2 negatives."""
    objective = UniVSELoss(UniVSELoss.Config())
    relations = ("rel_word", "rel_subject", "rel_object", "rel_batch")
    for epoch in range(5):
        weights = objective.weights(epoch)
        assert weights["sent"] == 1.0
        assert [weights[k] for k in ("comp", "obj", "attr_word", "attr_noun")] == [0.5] * 4
        assert [weights[k] for k in relations] == [0.0 if epoch < 2 else 1.0] * 4
    counts = objective.negatives
    assert counts is not None
    assert (counts.nouns, counts.attribute_words, counts.attribute_nouns) == (16, 8, 8)
    assert (counts.relation_words, counts.relation_subjects, counts.relation_objects) == (4, 2, 2)
    assert objective.collapse_level(0) == ("sent", 0.4)


@pytest.mark.parametrize(
    ("changes", "absent"),
    [
        ({"eta_c": 0.0}, {"comp"}),
        ({"eta_o": 0.0}, {"obj"}),
        ({"eta_a": 0.0}, {"attr_word", "attr_noun"}),
        ({"eta_r": 0.0}, {"rel_word", "rel_subject", "rel_object", "rel_batch"}),
        ({"relation_epoch": 4}, {"rel_word", "rel_subject", "rel_object", "rel_batch"}),
    ],
)
def test_losses_of_weight_zero_are_not_computed(changes, absent):
    data = synthetic(seed=1)
    family, objective = make_family("univse", data.context), make_objective("univse", **changes)
    batch = data.collator(family, objective)(np.arange(8), 3)
    losses = step_losses(family, objective, batch, 3)[1]
    assert not absent & losses.keys()
    assert losses.keys() == {name for name, w in objective.weights(3).items() if w and name != "cap"}


def test_mask_none_still_spares_the_images_own_relations():
    data = synthetic(seed=8, images=3, share_copied=0.6, most_captions=4)
    family = make_family("univse", data.context)
    found = {}
    for mask in ("same", "none"):
        objective = make_objective("univse", mask=mask)
        batch = data.collator(family, objective)(np.arange(len(data)), 3)
        found[mask] = {k: float(v) for k, v in step_losses(family, objective, batch, 3)[1].items()}
    assert found["none"]["sent"] > found["same"]["sent"]
    for name in ("obj", "attr_word", "rel_word"):
        assert found["none"][name] == pytest.approx(found["same"][name])


def test_triples_that_are_true_of_an_image_are_no_negatives_under_the_truth():
    """With nothing true but an image's own captions: as without the truth. With everything true: none is left."""
    data = synthetic(seed=1)
    own = np.arange(data.examples.num_images)[:, None] == data.examples.image[None, :]
    found = []
    for mask, true in (("same", own), ("truth", own), ("truth", np.ones_like(own))):
        family, objective = make_family("univse", data.context), make_objective("univse", mask=mask)
        collate = data.collator(family, objective)
        collate.extras = (Truth(true), *collate.extras)
        found.append(step_losses(family, objective, collate(np.arange(len(data)), 2), 2)[1]["rel_batch"])
    assert float(found[0]) > 0
    torch.testing.assert_close(found[1], found[0])
    assert float(found[2]) == 0
