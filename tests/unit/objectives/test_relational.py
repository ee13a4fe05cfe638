"""Structural alignment against loops over items, pools and nodes; value and gradient."""

import contextlib
import re

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse.errors import InputError
from vse.objectives.hinge import bidirectional_hinge, excluded_pairs
from vse.objectives.relational import RelationalLoss, attended, hardest, pool_hinge
from vse.training.step import step_losses

DATA = synthetic(seed=8, images=8)
ITEMS = 6


def _batch(seed=0, kind="pool"):
    torch.manual_seed(seed)
    unit = torch.nn.functional.normalize
    kinds = {"image": (ITEMS, 4, 3), "caption": (ITEMS, 4 if kind == "pool" else 5, 3)}
    gathered = {f"{name}s": unit(torch.randn(ITEMS, 3, dtype=torch.float64), dim=-1) for name in kinds}
    for name, shape in kinds.items():
        codes = unit(torch.randn(shape, dtype=torch.float64), dim=-1)
        if kind == "node":
            there = torch.rand(shape[:2]) < 0.7
            there[:, 0] = True
            codes = codes * there[..., None]
        gathered[f"{name}_{kind}s"] = codes
    return gathered | {
        "image_group": torch.tensor([0, 0, 1, 2, 3, 3]),
        "text_group": torch.tensor([0, 1, 2, 0, 3, 4]),
    }


def _negatives(scores, excluded):
    """(item, its hardest negative) of every item that has one."""
    for i in range(len(scores)):
        allowed = [j for j in range(len(scores)) if j != i and not excluded[i, j]]
        if allowed:
            yield i, max(allowed, key=lambda j: scores[i, j].detach().item())


def _pool_loop(a, b, negatives, margin):
    total = torch.zeros((), dtype=torch.float64)
    for i, n in negatives:
        for p in range(a.shape[1]):
            total = total + (margin + a[i, p] @ b[n, p] - a[i, p] @ b[i, p]).clamp_min(0)
    return total


def _attend_loop(nodes, others):
    """s(v, v') of each present node."""
    found = []
    others = others[(others != 0).any(-1)]
    for node in nodes[(nodes != 0).any(-1)]:
        weights = torch.softmax(torch.stack([node @ other for other in others]), 0)
        found.append(node @ torch.stack([w * other for w, other in zip(weights, others, strict=True)]).sum(0))
    return torch.stack(found)


def _node_loop(a, b, negatives, margin):
    total = torch.zeros((), dtype=torch.float64)
    for i, n in negatives:
        total = total + (margin + _attend_loop(a[i], b[n]) - _attend_loop(a[i], b[i])).clamp_min(0).sum()
    return total


@pytest.mark.parametrize("mask", ["same", "none"])
@pytest.mark.parametrize("kind", ["pool", "node"])
@pytest.mark.parametrize("seed", range(3))
def test_against_loops(seed, kind, mask):
    gathered = _batch(seed, kind)
    leaves = [v.requires_grad_() for v in gathered.values() if v.is_floating_point()]
    objective = RelationalLoss(RelationalLoss.Config(mask=mask, structure_margin=0.3))
    losses = objective({}, gathered, 0)
    name = {"pool": "pool", "node": "attention"}[kind]
    assert set(losses) == {"sent", name}
    excluded = excluded_pairs(gathered, mask)
    scores = gathered["images"] @ gathered["captions"].T
    assert torch.equal(losses["sent"], bidirectional_hinge(scores, excluded, 0.2, True))
    loop = {"pool": _pool_loop, "node": _node_loop}[kind]
    a, b = gathered[f"image_{kind}s"], gathered[f"caption_{kind}s"]
    naive = loop(a, b, list(_negatives(scores, excluded)), 0.3)
    naive = naive + loop(b, a, list(_negatives(scores.T, excluded.T)), 0.3)
    assert float(naive.detach()) > 0
    torch.testing.assert_close(losses[name], naive, rtol=1e-12, atol=1e-12)
    found = torch.autograd.grad(losses[name], leaves, allow_unused=True)
    expected = torch.autograd.grad(naive, leaves, allow_unused=True)
    for leaf, one, other in zip(leaves, found, expected, strict=True):
        assert (one is None) == (other is None)  # negatives are chosen by the global codes, not moved through them
        if one is not None and other is not None:
            real = (leaf != 0).any(-1, keepdim=True)
            torch.testing.assert_close(one * real, other * real, rtol=1e-9, atol=1e-11)


def test_items_without_negatives_have_none():
    scores = torch.randn(4, 4)
    excluded = torch.zeros(4, 4, dtype=torch.bool)
    excluded[1] = True
    column, some = hardest(scores, excluded)
    assert some.tolist() == [True, False, True, True]
    assert all(column[i] != i for i in (0, 2, 3))
    gathered = _batch(0) | {"image_group": torch.zeros(ITEMS, dtype=torch.long)}
    losses = RelationalLoss(RelationalLoss.Config())({}, gathered, 0)
    assert not losses["pool"]


def test_weights_and_warmup():
    objective = RelationalLoss(RelationalLoss.Config(warmup=2, global_weight=0.2))
    assert objective.weights(0) == {"sent": 0.2, "pool": 0.8, "attention": 0.15}
    assert objective.collapse_level(1) is None
    assert objective.collapse_level(2) == ("sent", 0.4)
    gathered = _batch()
    scores, excluded = gathered["images"] @ gathered["captions"].T, excluded_pairs(gathered, "same")
    for epoch, mined in ((1, False), (2, True)):
        expected = bidirectional_hinge(scores, excluded, 0.2, mined)
        assert torch.equal(objective({}, gathered, epoch)["sent"], expected)


def test_one_node_is_what_is_attended():
    nodes, others = torch.eye(3)[None, :2], torch.eye(3)[None, :1]
    over_others, over_nodes = attended(nodes, others)
    assert over_others.tolist() == [[1.0, 0.0]]
    assert torch.allclose(over_nodes, torch.tensor([[1.0]]).exp() / (1 + torch.tensor([[1.0]]).exp()))


def test_codes_of_half_precision_are_compared_in_single():
    torch.manual_seed(0)
    a, b = (torch.nn.functional.normalize(torch.randn(4, 3, 16), dim=-1).bfloat16() for _ in range(2))
    negative, some = torch.tensor([1, 2, 3, 0]), torch.ones(4, dtype=torch.bool)
    torch.testing.assert_close(
        pool_hinge(a, b, negative, some, 0.2), pool_hinge(a.float(), b.float(), negative, some, 0.2)
    )
    for found, expected in zip(attended(a, b), attended(a.float(), b.float()), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("structure", "weights", "said"),
    [
        ("none", {}, "objective.global_weight=0: leaves no loss without pools or attention; use one above 0"),
        (
            "pool",
            {"pool_weight": 0.0},
            "objective.pool_weight=0: nothing else trains model.structure=pool; use model.structure=none",
        ),
        (
            "attention",
            {"attention_weight": 0.0},
            "objective.attention_weight=0: nothing else trains model.structure=attention; use model.structure=none",
        ),
        ("pool", {}, ""),
        ("attention", {}, ""),
    ],
)
def test_weights_that_leave_no_loss_are_refused(structure, weights, said):
    family = make_family("relational", DATA.context, structure=structure)
    objective = make_objective("relational", global_weight=0.0, **weights)
    total = step_losses(family, objective, DATA.collator(family, objective)(np.arange(len(DATA)), 1), 1)[0]
    assert (float(total.detach()) == 0) == bool(said)
    with pytest.raises(InputError, match=f"^{re.escape(said)}$") if said else contextlib.nullcontext():
        objective.check(family.config)
