"""Matching by a loss without a margin: it is that loss, over items that are pairs, and asks for its scalars."""

import pytest
import torch

from tests.unit.objectives.test_infonce import gathered
from vse.objectives import infonce, sigmoid
from vse.objectives.cse import CSELoss
from vse.objectives.hinge import bidirectional_hinge, excluded_pairs
from vse.objectives.infonce import InfoNCE
from vse.objectives.matching import MATCHES, first_scalars, matched
from vse.objectives.sigmoid import Sigmoid
from vse.objectives.univse import UniVSELoss

ALONE = {"infonce": InfoNCE(InfoNCE.Config()), "sigmoid": Sigmoid(Sigmoid.Config())}


def _batch(match, seed=0):
    """Codes of seven items, and scalars away from their first values, both with gradients."""
    batch = gathered(seed)
    leaves = {name: batch[name].requires_grad_() for name in ("images", "captions")}
    for k, (name, value) in enumerate(first_scalars(match).items()):
        leaves[name] = torch.tensor(value / 2 + k, dtype=torch.float64, requires_grad=True)
    return batch | leaves, list(leaves.values())


def _alike(one, other, leaves):
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    first, second = (torch.autograd.grad(loss, leaves, retain_graph=True) for loss in (one, other))
    for mine, theirs in zip(first, second, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("match", ALONE)
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_loss_of_the_objective_of_that_name(match, seed):
    batch, leaves = _batch(match, seed)
    excluded = excluded_pairs(batch, "same")
    ours = matched(match, batch["images"] @ batch["captions"].T, excluded, batch, 0.2, hardest=True)
    _alike(ours, ALONE[match](batch, batch, 0)["sent"], leaves)
    assert ALONE[match].scalars == first_scalars(match)


def test_the_hinge_asks_for_nothing():
    batch, leaves = _batch("hinge")
    scores, excluded = batch["images"] @ batch["captions"].T, excluded_pairs(batch, "same")
    assert first_scalars("hinge") == first_scalars("mse") == {}
    ours = matched("hinge", scores, excluded, batch, 0.3, hardest=False)
    _alike(ours, bidirectional_hinge(scores, excluded, 0.3, hardest=False), leaves)


@pytest.mark.parametrize("match", MATCHES)
@pytest.mark.parametrize("known", [[1, 0, 1, 1, 0, 1, 0], [0] * 7, [1] * 7, [0, 0, 0, 0, 0, 0, 1]])
def test_items_that_are_no_pairs_count_nowhere(match, known):
    """The same as picking the pairs first: unpaired items of a batch, captions without components."""
    batch, leaves = _batch(match)
    known = torch.tensor(known, dtype=torch.bool)
    scores = batch["images"] @ batch["captions"].T
    excluded = excluded_pairs(batch | {"paired": known}, "same")
    ours = matched(match, scores, excluded, batch, 0.2, hardest=True, paired=known)
    picked = excluded_pairs(batch, "same")[known][:, known]
    nothing = 0 * sum(leaf.sum() for leaf in leaves)
    some = matched(match, scores[known][:, known], picked, batch, 0.2, hardest=True) if known.any() else 0
    _alike(ours + nothing, some + nothing, leaves)


@pytest.mark.parametrize("match", ALONE)
def test_layers_of_cse_share_one_scale(match):
    batch, leaves = _batch(match)
    batch["middle"] = torch.stack([batch["captions"].flip(0), batch["captions"].roll(2, 0)], dim=1)
    objective = CSELoss(CSELoss.Config(match=match))
    losses = objective(batch, batch, 0)
    each = [ALONE[match](batch, batch | {"captions": codes}, 0)["sent"] for codes in batch["middle"].unbind(1)]
    _alike(losses["sent"], ALONE[match](batch, batch, 0)["sent"], leaves)
    _alike(losses["middle"], (each[0] + each[1]) / 2, leaves)
    assert objective.scalars == first_scalars(match)
    assert CSELoss(CSELoss.Config(match=match, hinge="hardest")).collapse_level(0) is None


@pytest.mark.parametrize("match", ALONE)
def test_univse_matches_sentences_and_bags_by_one_scale(match):
    batch, leaves = _batch(match)
    bags, some = batch["captions"].roll(1, 0), torch.tensor([1, 1, 0, 1, 1, 0, 1], dtype=torch.bool)
    batch |= {"sentences": batch["captions"], "bags": bags, "bag_mask": some}
    del batch["captions"]
    objective = UniVSELoss(UniVSELoss.Config(match=match, eta_o=0, eta_a=0, relation_epoch=9))
    losses = objective(batch, batch, 0)
    _alike(losses["sent"], ALONE[match](batch, batch | {"captions": batch["sentences"]}, 0)["sent"], leaves)
    those = {name: batch[name][some] for name in ("images", "image_group", "text_group")}
    _alike(losses["comp"], ALONE[match](batch, {**batch, **those, "captions": bags[some]}, 0)["sent"], leaves)
    assert objective.scalars == first_scalars(match)
    assert objective.collapse_level(9) is None


def test_scales_begin_where_clip_and_siglip_do():
    assert infonce.bounded_exp(torch.tensor(first_scalars("infonce")[infonce.SCALE])).item() == pytest.approx(1 / 0.07)
    assert first_scalars("sigmoid")[sigmoid.BIAS] == -10
