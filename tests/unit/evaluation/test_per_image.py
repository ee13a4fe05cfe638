"""Per-image results add up to the metrics they came from."""

import numpy as np
import pytest

from tests.unit.evaluation.contexts import evaluate_own_pools
from tests.unit.evaluation.models import Cosine
from tests.unit.evaluation.test_attacks import planted
from vse.adversaries.attacks import ATTACKS
from vse.errors import InputError
from vse.evaluation.attacks import attack, own_scores
from vse.evaluation.per_image import counts_of, own_pools, per_image, terms_of
from vse.evaluation.retrieval import count_retrieval
from vse.evaluation.statistics import Sample
from vse.evaluation.tasks.own_pools import own_pool_ranks


def test_per_image_results_give_back_the_metrics():
    images, captions, caption_to_image, attacked = planted()
    counter = count_retrieval(Cosine(), images, captions, caption_to_image)
    attacks = {name: attack(Cosine(), images, counter, attacked)[0] for name in ATTACKS}
    retrieval = counter.result()
    table = per_image(retrieval, attacks, caption_to_image, len(images["v"]))
    expected = retrieval.metrics() | {f"attack_{k}/{m}": v for k, a in attacks.items() for m, v in a.metrics().items()}
    expected["attacks/rsum3"] = len(ATTACKS) * expected["attack_object/rsum3"]
    for metric in (
        "i2t/r1",
        "t2i/r10",
        "rsum",
        "attack_object/rsum3",
        "attack_relation/pair_accuracy",
        "attacks/rsum3",
    ):
        hits, queries = counts_of(table, metric)
        assert Sample(hits=hits[None], queries=queries, images="test").value() == pytest.approx(expected[metric])
    assert table["i2t/r1"][:, 1].tolist() == (np.bincount(caption_to_image, minlength=23) > 0).astype(float).tolist()


def test_own_pools_give_back_their_metrics():
    images, captions, caption_to_image, attacked = planted()
    pools = evaluate_own_pools(Cosine(), images, captions, caption_to_image, {"noun": attacked})
    counter = count_retrieval(Cosine(), images, captions, caption_to_image)
    own = own_scores(Cosine(), images, counter.caption_to_image, attacked)
    table = own_pools({"noun": own_pool_ranks(counter, {"noun": own}, ["noun"])["noun"]}, len(images["v"]))
    for k in (1, 10):
        hits, queries = counts_of(table, f"own_pool_noun/r{k}")
        found = Sample(hits=hits[None], queries=queries, images="test").value()
        assert found == pytest.approx(pools.metrics[f"test/own_pool_noun/r{k}"])
    assert pools.metrics["test/own_pool_noun/r1"] < pools.metrics["test/own_pool_none/r1"]


def test_terms():
    assert len(terms_of("rsum")) == 6
    assert terms_of("attack_object/rsum3")[0] == "attack_object/r1"
    assert len(terms_of("attacks/rsum3")) == 3 * len(ATTACKS)
    with pytest.raises(InputError, match="no per-image results for i2t/r7"):
        counts_of({"i2t/r1": np.zeros((2, 2))}, "i2t/r7")
