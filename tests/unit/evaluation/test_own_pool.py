"""The own-image candidate pool against ranks counted one by one."""

import numpy as np
import pytest
import torch

from tests.unit.evaluation.contexts import context_of, evaluate_own_pools, split_of
from vse.evaluation.attacks import AttackSet, own_scores
from vse.evaluation.outcomes import pack, rows_of, unpack
from vse.evaluation.protocol import Protocol
from vse.evaluation.retrieval import count_retrieval
from vse.evaluation.statistics import Sample
from vse.evaluation.tasks.contrast import VSEC
from vse.evaluation.tasks.own_pools import chosen_pools, own_pool_ranks


class Cosine:
    """Scores are products of the codes."""

    def score_parts(self, images, captions):
        return {"score": images["code"] @ captions["code"].T}

    @property
    def combine(self):
        return lambda parts, shift=0.0: parts["score"] + shift


def random_split(seed, sizes=(3, 1, 4, 2, 5), dim=3):
    rng = torch.Generator().manual_seed(seed)
    caption_to_image = np.repeat(np.arange(len(sizes)), sizes)
    images = {"code": torch.randn(len(sizes), dim, generator=rng)}
    captions = {"code": torch.randn(len(caption_to_image), dim, generator=rng)}
    attacks = {}
    for k, name in enumerate(("noun", "numeral")):
        caption = np.sort(np.random.default_rng(seed + k).integers(0, len(caption_to_image), 17))
        attacks[name] = AttackSet(encoded={"code": torch.randn(17, dim, generator=rng)}, caption=caption)
    return images, captions, caption_to_image, attacks


def by_hand(images, captions, caption_to_image, sets):
    """Ranks of each image's best caption among all captions and the adversaries of its own."""
    ranks = []
    for i, code in enumerate(images["code"]):
        scores = captions["code"] @ code
        best = scores[torch.from_numpy(caption_to_image == i)].max()
        rivals = [s for s, o in zip(scores, caption_to_image, strict=True) if o != i]
        for found in sets:
            mine = caption_to_image[found.caption] == i
            rivals += list(found.encoded["code"][torch.from_numpy(mine)] @ code)
        ranks.append(1 + sum(bool(s > best) for s in rivals))
    return np.array(ranks)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ranks_by_hand(seed):
    images, captions, caption_to_image, attacks = random_split(seed)
    found = evaluate_own_pools(Cosine(), images, captions, caption_to_image, attacks)
    wanted = {
        "none": [],
        "noun": [attacks["noun"]],
        "numeral": [attacks["numeral"]],
        "all": list(attacks.values()),
    }
    for name, sets in wanted.items():
        ranks = by_hand(images, captions, caption_to_image, sets)
        assert found.metrics[f"test/own_pool_{name}/meanr"] == pytest.approx(ranks.mean())
        assert found.metrics[f"test/own_pool_{name}/medr"] == pytest.approx(np.median(ranks))
        for k in (1, 10):
            assert found.metrics[f"test/own_pool_{name}/r{k}"] == pytest.approx(100 * (ranks <= k).mean())


def ranks_of(images, captions, caption_to_image, attacks, together, settings=None):
    counter = count_retrieval(Cosine(), images, captions, caption_to_image, settings=settings)
    own = {
        name: own_scores(Cosine(), images, counter.caption_to_image, each, settings=settings)
        for name, each in attacks.items()
    }
    return own_pool_ranks(counter, own, together)


def test_only_those_together_count_in_all_and_knobs_pass():
    images, captions, caption_to_image, attacks = random_split(5)
    some = ranks_of(images, captions, caption_to_image, attacks, ("noun",), {"shift": 2.0})
    assert some["all"].metrics() == some["noun"].metrics()
    assert set(some) == {"none", "noun", "numeral", "all"}


def test_adversaries_of_others_and_none_at_all_change_nothing():
    images, captions, caption_to_image, _ = random_split(7)
    empty = AttackSet(encoded={"code": torch.zeros(0, 3)}, caption=np.zeros(0, dtype=np.int64))
    found = evaluate_own_pools(Cosine(), images, captions, caption_to_image, {"noun": empty})
    assert found.metrics["test/own_pool_noun/meanr"] == found.metrics["test/own_pool_none/meanr"]
    first = np.flatnonzero(caption_to_image == 0)[:1]
    strong = AttackSet(encoded={"code": 100 * images["code"][:1]}, caption=first)
    ranks = ranks_of(images, captions, caption_to_image, {"noun": strong}, ("noun",))
    moved = ranks["noun"].above - ranks["none"].above
    assert moved.tolist() == [1, 0, 0, 0, 0]


def test_folds_are_averaged():
    images, captions, caption_to_image, attacks = random_split(9, sizes=(2, 3, 1, 2))
    protocol = Protocol(name="folds", split="test", folds=2)
    found = evaluate_own_pools(Cosine(), images, captions, caption_to_image, attacks, protocol)
    means = []
    for fold in protocol.select(caption_to_image, 4):
        inside = {"code": images["code"][fold.images]}, {"code": captions["code"][fold.captions]}
        sets = [
            AttackSet(
                encoded={"code": each.encoded["code"][torch.from_numpy(np.isin(each.caption, fold.captions))]},
                caption=np.searchsorted(fold.captions, each.caption[np.isin(each.caption, fold.captions)]),
            )
            for each in attacks.values()
        ]
        means.append(by_hand(*inside, fold.caption_to_image, sets).mean())
    assert found.metrics["test/own_pool_all/meanr"] == pytest.approx(np.mean(means))


def value(outcomes, metric):
    hits, queries = outcomes.counts(metric)
    return Sample(hits=hits[None], queries=queries, images="test").value()


def outcomes_of(queries, caption_to_image):
    """What was recorded, as it is kept and read again."""
    rows = rows_of(queries, split_of(caption_to_image, caption_to_image.max() + 1), "test")
    return unpack(pack(rows, {}))[0]["test"]


SIZES = (2, 3, 1, 2, 4, 1)
FOLDS = pytest.mark.parametrize("folds", [1, 2])


@FOLDS
def test_recorded_queries_give_the_recalls_back(folds):
    images, captions, caption_to_image, attacks = random_split(11, SIZES)
    protocol = Protocol(name="folds", split="test", folds=folds)
    found = evaluate_own_pools(Cosine(), images, captions, caption_to_image, attacks, protocol)
    outcomes = outcomes_of(found.queries, caption_to_image)
    for pool in ("none", "noun", "numeral", "all"):
        for k in (1, 10):
            metric = f"own_pool_{pool}/r{k}"
            assert value(outcomes, metric) == pytest.approx(found.metrics[f"test/{metric}"]), metric


@FOLDS
def test_chosen_images_are_recorded_under_their_ids(folds):
    images, captions, caption_to_image, attacks = random_split(13, SIZES)
    protocol = Protocol(name="folds", split="test", folds=folds)
    context = context_of(Cosine(), images, captions, caption_to_image, protocol, attacks, VSEC)
    values = chosen_pools(context, "odd", lambda of, _: np.unique(of)[1::2].copy(), tuple(attacks), "shared")
    chosen = outcomes_of(context.queries, caption_to_image)
    every = evaluate_own_pools(Cosine(), images, captions, caption_to_image, attacks, protocol)
    everything = outcomes_of(every.queries, caption_to_image)
    split = split_of(caption_to_image, len(SIZES))
    folded = [fold.images for fold in protocol.select(caption_to_image, len(SIZES))]
    asked = {split.images[image].id for inside in folded for image in inside[1::2]}
    for outcomes in (chosen, chosen | everything, everything | chosen):
        for pool in ("none", "noun", "numeral", "all"):
            assert value(outcomes, f"odd/own_pool_{pool}/r1") == pytest.approx(values[f"odd/own_pool_{pool}/r1"])
        queries = outcomes.counts("odd/own_pool_all/r1")[1].sum(1)
        assert {image for image, number in zip(outcomes.images, queries, strict=True) if number} == asked
    for outcomes in (chosen | everything, everything | chosen):
        assert value(outcomes, "own_pool_all/r1") == pytest.approx(every.metrics["test/own_pool_all/r1"])
        fold = dict(zip(outcomes.images, outcomes.fold.tolist(), strict=True))
        assert fold == {split.images[image].id: k for k, inside in enumerate(folded) for image in inside}
