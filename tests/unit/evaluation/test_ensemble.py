"""The mean of several models' scores, against whole matrices."""

import numpy as np
import pytest
import torch

from tests.unit.evaluation.contexts import evaluate_attacks, evaluate_retrieval
from tests.unit.evaluation.models import Cosine, Mixed, unit
from vse.evaluation.attacks import AttackSet
from vse.evaluation.ensemble import Ensemble, joined
from vse.evaluation.metrics import RetrievalCounter, mean_over_folds
from vse.evaluation.protocol import Protocol
from vse.evaluation.retrieval import Blocks, ScoresParts, count_retrieval, retrieve, slice_items

IMAGES, CAPTIONS, ADVERSARIES = 31, 80, 120


def planted(width, seed):
    """Codes of the same images, captions and adversaries by one model of each kind."""
    generator = torch.Generator().manual_seed(7)
    caption_to_image = torch.randint(0, IMAGES, (CAPTIONS,), generator=generator)
    caption = torch.randint(0, CAPTIONS, (ADVERSARIES,), generator=generator)
    generator = torch.Generator().manual_seed(seed)

    def near(rows, noise):
        return unit(rows + noise * torch.randn(rows.shape, generator=generator))

    images = unit(torch.randn(IMAGES, width, generator=generator))
    texts = {name: near(images[caption_to_image], 1.0) for name in ("u", "sent", "comp")}
    false = {name: near(rows[caption], 0.6) for name, rows in texts.items()}
    return {"v": images}, texts, false, caption_to_image, caption


def by_hand(images, texts, alpha=None):
    """A whole matrix images x captions, entry by entry: a cosine, or UniVSE's mixture normalised again."""
    scores = torch.zeros(len(images["v"]), len(texts["u"]))
    for i, image in enumerate(images["v"]):
        for c in range(len(texts["u"])):
            if alpha is None:
                scores[i, c] = image @ texts["u"][c]
            else:
                mixed = alpha * texts["sent"][c] + (1 - alpha) * texts["comp"][c]
                scores[i, c] = image @ mixed / mixed.norm()
    return scores


@pytest.fixture(scope="module")
def three():
    """VSE++'s kind once, and UniVSE's twice: at its own α and at another."""
    return [planted(width, seed) for width, seed in ((16, 0), (8, 1), (12, 2))]


MODELS, SETTINGS = (Cosine(), Mixed(), Mixed()), ({}, {}, {"alpha": 0.3})
ALPHAS = (None, 0.75, 0.3)


def mean_by_hand(three, texts):
    return torch.stack([by_hand(one[0], one[texts], a) for one, a in zip(three, ALPHAS, strict=True)]).mean(0)


@pytest.mark.seconds
@pytest.mark.parametrize("blocks", [None, Blocks(images=4, captions=7), Blocks(images=100, captions=1)])
def test_ranks_are_those_of_the_mean_of_whole_matrices(three, blocks):
    model, caption_to_image = Ensemble(MODELS, SETTINGS), three[0][3]
    assert isinstance(model, ScoresParts)
    whole = mean_by_hand(three, 1)
    images, captions = (joined([one[side] for one in three]) for side in (0, 1))
    torch.testing.assert_close(model.combine(model.score_parts(images, captions)), whole, rtol=0, atol=1e-6)
    counter = RetrievalCounter(whole[caption_to_image, torch.arange(CAPTIONS)], caption_to_image, IMAGES)
    counter.add(whole, slice(0, IMAGES), slice(0, CAPTIONS))
    found = retrieve(model, images, captions, caption_to_image, blocks=blocks)
    assert found.metrics() == counter.result().metrics()
    alone = [
        retrieve(m, one[0], one[1], caption_to_image, settings=k)
        for m, one, k in zip(MODELS, three, SETTINGS, strict=True)
    ]
    assert all(found.metrics() != each.metrics() for each in alone)


@pytest.mark.seconds
def test_attacks_are_those_of_the_mean_of_whole_matrices(three):
    caption_to_image, caption = three[0][3], three[0][4]
    true, false = mean_by_hand(three, 1), mean_by_hand(three, 2)
    attacked = AttackSet(encoded=joined([one[2] for one in three]), caption=caption.numpy())
    images, captions = (joined([one[side] for one in three]) for side in (0, 1))
    result = evaluate_attacks(
        Ensemble(MODELS, SETTINGS),
        images,
        captions,
        caption_to_image.numpy(),
        {"object": attacked},
    )
    wins = [float(true[caption_to_image[c], c] > false[caption_to_image[c], a]) for a, c in enumerate(caption)]
    assert result.metrics["test/attack_object/pair_accuracy"] == pytest.approx(100 * np.mean(wins))
    ranks = []
    for i in sorted(set(caption_to_image.tolist())):
        best = true[i][caption_to_image == i].max()
        ranks.append(1 + int((true[i][caption_to_image != i] > best).sum()) + int((false[i] > best).sum()))
    for k in (1, 5, 10):
        share = np.mean([rank <= k for rank in ranks])
        assert result.metrics[f"test/attack_object/r{k}"] == pytest.approx(100 * share)


@pytest.mark.parametrize("times", [1, 2])
def test_a_model_with_itself_is_the_model(three, times):
    images, captions, _, caption_to_image, _ = three[1]
    model = Ensemble([Mixed()] * times, [{"alpha": 0.4}] * times)
    halves = Protocol(name="part", num_images=20, folds=2)
    found = evaluate_retrieval(
        model, joined([images] * times), joined([captions] * times), caption_to_image.numpy(), halves
    )
    alone = [
        retrieve(
            Mixed(),
            slice_items(images, fold.images),
            slice_items(captions, fold.captions),
            fold.caption_to_image,
            settings={"alpha": 0.4},
        ).metrics()
        for fold in halves.select(caption_to_image.numpy(), len(images["v"]))
    ]
    assert found.metrics == {f"test/{name}": value for name, value in mean_over_folds(alone).items()}


def test_no_matrix_of_the_whole_split_is_made(three):
    """The largest matrix that any model makes is a block, or the true pairs' of one block of captions."""
    seen = []

    class Watched(Cosine):
        def score_parts(self, images, captions):
            seen.append((len(images["v"]), len(captions["u"])))
            return super().score_parts(images, captions)

    images, captions, _, caption_to_image, _ = three[0]
    both = joined([images] * 2), joined([captions] * 2)
    model = Ensemble([Watched(), Watched()], [{}, {}])
    count_retrieval(model, *both, caption_to_image, blocks=Blocks(images=5, captions=6))
    blocks = [size for size in seen if size[1] <= 6]
    assert len(blocks) == 2 * 7 * 14  # every block once for each model
    assert all(rows <= 5 for rows, _ in blocks)
    assert len(seen) == len(blocks) + 2  # and the true pairs, at most PAIRS_AT_ONCE captions at once
