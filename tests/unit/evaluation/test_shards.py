"""Shards against whole evaluations: counts, attacks, any order, ragged sizes."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.unit.evaluation.models import Cosine
from tests.unit.evaluation.test_alpha import planted
from vse.errors import Diverged
from vse.evaluation import shards
from vse.evaluation.attacks import AnySet, AttackSet, UnencodedSet, attack
from vse.evaluation.metrics import RetrievalCounter
from vse.evaluation.retrieval import Encoded, ScoresParts, count_retrieval, slice_items
from vse.evaluation.shards import Coder
from vse.evaluation.work import Arrays


class MadeUpCoder(Coder):
    """Gives codes that it holds."""

    def __init__(self, images: Encoded, captions: Encoded, own: np.ndarray, adversaries: AnySet) -> None:
        self._images, self._captions, self._own, self._adversaries = images, captions, own, adversaries

    @property
    def model(self) -> ScoresParts:
        return Cosine()

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def caption_to_image(self) -> np.ndarray:
        return self._own

    @property
    def num_images(self) -> int:
        return len(self._images["v"])

    def images(self, rows: np.ndarray) -> Encoded:
        return slice_items(self._images, rows)

    def captions(self, rows: slice) -> Encoded:
        return slice_items(self._captions, rows)

    def adversaries(self, attack: str) -> AnySet:
        assert attack == "univse/shared/object"
        return self._adversaries


def made_up(lengths: bool = False) -> MadeUpCoder:
    images, captions, own, adversaries = planted(0.4)
    encoded = adversaries.encoded["sent"]
    one: AnySet = AttackSet(encoded={"u": encoded}, caption=adversaries.caption)
    if lengths:
        words = np.random.default_rng(0).integers(2, 9, len(adversaries.caption))

        def encode(rows: np.ndarray) -> Encoded:
            return {"u": encoded[torch.as_tensor(rows)]}

        one = UnencodedSet(caption=adversaries.caption, lengths=words, encode=encode)
    return MadeUpCoder(images, {"u": captions["sent"]}, own, one)


def counted(coder: Coder, number: int, size: int) -> tuple[RetrievalCounter, np.ndarray]:
    """The counter that shards add up to, counted from the last to the first."""
    pairs = np.concatenate([shards.true_pairs(coder, k, size)["pairs"] for k in range(number)])
    results: list[Any] = [None] * number
    for k in reversed(range(number)):
        results[k] = shards.counts(coder, pairs, k, size)
    return shards.added(shards.counter_of(coder, pairs), results, size), pairs


@pytest.mark.parametrize("at_once", [7, 50, 2048])
@pytest.mark.parametrize("lengths", [False, True])
def test_shards_add_up_to_the_counts_of_one_evaluation(at_once: int, lengths: bool) -> None:
    coder = made_up(lengths)
    number = len(shards.shards_of(len(coder.caption_to_image), at_once))
    assert number == -(-120 // at_once)
    counter, pairs = counted(coder, number, at_once)
    codes = coder.images(np.arange(40)), coder.captions(slice(None))
    whole = count_retrieval(coder.model, *codes, coder.caption_to_image)
    assert all(torch.equal(one, other) for one, other in zip(counter.counts(), whole.counts(), strict=True))
    assert counter.result().metrics() == whole.result().metrics()

    adversaries = coder.adversaries("univse/shared/object")
    results = [
        shards.attack_counts(coder, pairs, "univse/shared/object", k, at_once)
        for k in range(len(shards.adversary_shards(adversaries, at_once)))
    ]
    attacked, own = shards.attacked(counter, adversaries, results, at_once)
    expected, expected_own = attack(coder.model, codes[0], whole, adversaries)
    assert attacked.metrics() == expected.metrics()
    assert torch.equal(attacked.i2t.above, expected.i2t.above)
    torch.testing.assert_close(own.scores, expected_own.scores)
    assert torch.equal(own.image, expected_own.image)


def test_a_nan_of_one_shard_is_refused() -> None:
    coder = made_up()
    pairs = shards.true_pairs(coder, 0, 2048)["pairs"]
    coder._images["v"][-1] = torch.nan
    with pytest.raises(Diverged, match="scores are NaN"):
        shards.counts(coder, pairs, 0, 2048)


def test_only_costly_scores_of_many_pairs_are_worth_shards() -> None:
    assert shards.worth_shards(True, 1000, 5000)
    assert not shards.worth_shards(False, 5000, 25000)
    assert not shards.worth_shards(True, 100, 500)


def test_a_missing_shard_is_an_error() -> None:
    coder = made_up()
    counter, pairs = counted(coder, 3, 50)
    some: list[Arrays] = [shards.counts(coder, pairs, k, 50) for k in range(2)]
    with pytest.raises(ValueError, match="zip"):
        shards.added(counter.fork(), some, 50)
