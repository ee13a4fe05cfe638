"""Retrieval among adversaries, against one big matrix and loops."""

import numpy as np
import pytest
import torch

from tests.unit.evaluation.contexts import evaluate_attacks
from tests.unit.evaluation.models import Cosine, unit
from vse.evaluation.attacks import AttackSet, UnencodedSet, attack, own_scores, pair_wins, unknown_word_rate
from vse.evaluation.metrics import Ties
from vse.evaluation.protocol import Protocol
from vse.evaluation.retrieval import Blocks, count_retrieval


def planted(num_images=23, seed=0, width=12):
    """Images, 0 to 5 captions each in mixed order, and 0 to 4 adversaries a caption close to it."""
    generator = torch.Generator().manual_seed(seed)
    caption_to_image = torch.randint(0, num_images, (2 * num_images,), generator=generator)
    images = torch.randn(num_images, width, generator=generator)
    captions = images[caption_to_image] + torch.randn(len(caption_to_image), width, generator=generator)
    caption = torch.repeat_interleave(
        torch.arange(len(caption_to_image)), torch.randint(0, 5, (len(caption_to_image),), generator=generator)
    )
    adversaries = captions[caption] + 0.7 * torch.randn(len(caption), width, generator=generator)
    attacked = AttackSet(encoded={"u": unit(adversaries)}, caption=caption.numpy())
    return {"v": unit(images)}, {"u": unit(captions)}, caption_to_image.numpy(), attacked


def by_hand(images, captions, caption_to_image, attacked):
    """(rank of the best caption per image among all texts, pair accuracy) by loops."""
    true, false = images["v"] @ captions["u"].T, images["v"] @ attacked.encoded["u"].T
    ranks = []
    for i in sorted(set(caption_to_image.tolist())):
        best = max(true[i, c].item() for c in range(len(caption_to_image)) if caption_to_image[c] == i)
        rivals = [true[i, c].item() for c in range(len(caption_to_image)) if caption_to_image[c] != i] + false[
            i
        ].tolist()
        ranks.append(1 + sum(s > best for s in rivals))
    wins = [
        (true[caption_to_image[c], c] > false[caption_to_image[c], a]).item() for a, c in enumerate(attacked.caption)
    ]
    return np.array(ranks), 100 * np.mean(wins)


def test_attack_against_loops():
    images, captions, caption_to_image, attacked = planted()
    ranks, accuracy = by_hand(images, captions, caption_to_image, attacked)
    result = evaluate_attacks(Cosine(), images, captions, caption_to_image, {"object": attacked})
    prefix = "test/attack_object"
    for k in (1, 5, 10):
        assert result.metrics[f"{prefix}/r{k}"] == pytest.approx(100 * (ranks <= k).mean())
    assert result.metrics[f"{prefix}/rsum3"] == pytest.approx(sum(100 * (ranks <= k).mean() for k in (1, 5, 10)))
    assert result.metrics[f"{prefix}/pair_accuracy"] == pytest.approx(accuracy)
    assert result.queries[0].ranks.expected().tolist() == ranks.tolist()


def test_folds_keep_adversaries_with_their_captions():
    images, captions, caption_to_image, attacked = planted(20)
    halves = Protocol(name="halves", split="val", folds=2, captions_per_image=2)
    result = evaluate_attacks(Cosine(), images, captions, caption_to_image, {"relation": attacked}, halves)
    accuracies = []
    for fold in halves.select(caption_to_image, 20):
        inside = np.isin(attacked.caption, fold.captions)
        part = AttackSet(
            encoded={"u": attacked.encoded["u"][torch.as_tensor(inside)]},
            caption=np.array([fold.captions.tolist().index(c) for c in attacked.caption[inside]]),
        )
        some = {"v": images["v"][fold.images]}, {"u": captions["u"][fold.captions]}
        ranks, accuracy = by_hand(*some, fold.caption_to_image, part)
        accuracies.append((100 * (ranks <= 1).mean(), accuracy))
    r1, pairs = np.mean(accuracies, axis=0)
    assert result.metrics["val/attack_relation/r1"] == pytest.approx(r1)
    assert result.metrics["val/attack_relation/pair_accuracy"] == pytest.approx(pairs)


@pytest.mark.parametrize("blocks", [Blocks(images=4, captions=7), Blocks(images=100, captions=1000)])
def test_adversaries_that_are_encoded_while_they_are_counted(monkeypatch, blocks):
    """In blocks from short to long: the same as all of them at once, in every fold."""
    images, captions, caption_to_image, attacked = planted(20)
    lengths = np.random.default_rng(0).integers(2, 9, len(attacked.caption))
    asked = []

    def encode(rows):
        asked.append(rows)
        return {"u": attacked.encoded["u"][torch.as_tensor(rows)]}

    monkeypatch.setattr("vse.evaluation.attacks.blocks_for", lambda *_: blocks)
    halves = Protocol(name="halves", folds=2, captions_per_image=2)
    sets = {"object": UnencodedSet(caption=attacked.caption, lengths=lengths, encode=encode)}
    found = evaluate_attacks(Cosine(), images, captions, caption_to_image, sets, halves)
    expected = evaluate_attacks(Cosine(), images, captions, caption_to_image, {"object": attacked}, halves)
    assert found.metrics == expected.metrics
    for one, other in zip(found.queries, expected.queries, strict=True):
        assert torch.equal(one.ranks.above, other.ranks.above)
        assert np.array_equal(one.pairs, other.pairs)
    assert max(map(len, asked)) <= blocks.captions
    taken = np.concatenate([fold.captions for fold in halves.select(caption_to_image, 20)])
    inside = np.flatnonzero(np.isin(attacked.caption, taken))
    assert sorted(np.concatenate(asked)) == inside.tolist()  # each once, and no other
    if blocks.captions > len(lengths):
        assert [lengths[rows].tolist() for rows in asked] == [sorted(lengths[rows]) for rows in asked]


def test_own_scores_are_those_of_a_loop():
    images, _, caption_to_image, attacked = planted()
    found = own_scores(Cosine(), images, torch.as_tensor(caption_to_image), attacked)
    expected = [
        float(images["v"][caption_to_image[c]] @ u)
        for c, u in zip(attacked.caption, attacked.encoded["u"], strict=True)
    ]
    assert found.scores.tolist() == pytest.approx(expected, abs=1e-6)
    assert found.image.tolist() == caption_to_image[attacked.caption].tolist()


def test_ties_count_half():
    wins = pair_wins(torch.tensor([0.5, 0.5, 0.5, 0.5]), torch.tensor([0.4, 0.5, 0.5 + 5e-7, 0.6]), Ties())
    assert wins.tolist() == [1.0, 0.5, 0.5, 0.0]


def test_no_adversaries_is_plain_retrieval():
    images, captions, caption_to_image, attacked = planted()
    none = AttackSet(encoded={"u": attacked.encoded["u"][:0]}, caption=attacked.caption[:0])
    counter = count_retrieval(Cosine(), images, captions, caption_to_image)
    values = attack(Cosine(), images, counter, none)[0].metrics()
    assert values["r1"] == counter.result().i2t.metrics()["r1"]
    assert "pair_accuracy" not in values


def test_adversaries_equal_to_their_captions_tie():
    images, captions, caption_to_image, _ = planted()
    same = AttackSet(encoded=captions, caption=np.arange(len(caption_to_image)))
    metrics = evaluate_attacks(Cosine(), images, captions, caption_to_image, {"object": same}).metrics
    assert metrics["test/attack_object/pair_accuracy"] == 50.0


def test_unknown_words():
    assert unknown_word_rate(["A dog", "a Zorp dog"], {"a", "dog"}) == pytest.approx(20.0)
    assert unknown_word_rate([], set()) == 0.0
