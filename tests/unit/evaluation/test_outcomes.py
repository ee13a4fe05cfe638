"""Outcomes of queries give back every metric of the evaluation they are of, whole or in folds."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.unit.evaluation.contexts import evaluate_attacks, evaluate_retrieval, split_of
from tests.unit.evaluation.models import Cosine
from tests.unit.evaluation.test_attacks import planted
from vse.errors import InputError
from vse.evaluation.attacks import AttackSet
from vse.evaluation.metrics import Metric
from vse.evaluation.outcomes import pack, rows_of, unpack
from vse.evaluation.protocol import WHOLE_SPLIT, Protocol
from vse.evaluation.statistics import Sample
from vse.evaluation.task import UnitValues
from vse.stages.measuring.stage import intervals_of

METRICS = ("rsum", *(f"{way}/r{k}" for way in ("i2t", "t2i") for k in (1, 5, 10)))
ATTACKED = tuple(f"attack_object/{metric}" for metric in ("r1", "r5", "r10", "rsum3", "pair_accuracy"))


def evaluated(protocol=WHOLE_SPLIT, num_images=23, attacked=None, words="shared"):
    """(metrics of the evaluation, outcomes as kept and read again)."""
    images, captions, caption_to_image, made = planted(num_images)
    sets = {"object": made if attacked is None else attacked(made)}
    plain = evaluate_retrieval(Cosine(), images, captions, caption_to_image, protocol)
    attack = evaluate_attacks(Cosine(), images, captions, caption_to_image, sets, protocol, words)
    rows = rows_of([*plain.queries, *attack.queries], split_of(caption_to_image, num_images), protocol.split)
    outcomes, prints = unpack(pack(rows, {"test": "01234567"}))
    assert prints == {"test": "01234567"}
    return plain.metrics | attack.metrics, outcomes[protocol.split]


def value(outcomes, metric):
    hits, queries = outcomes.counts(metric)
    return Sample(hits=hits[None], queries=queries, images="test").value()


@pytest.mark.parametrize(
    "protocol",
    [
        WHOLE_SPLIT,
        Protocol(name="folds", folds=4),  # of unequal numbers of captions
        Protocol(name="first", num_images=16, folds=2, captions_per_image=2),
    ],
    ids=lambda protocol: protocol.name,
)
def test_every_metric_comes_back(protocol):
    metrics, outcomes = evaluated(protocol, 20)
    for metric in (*METRICS, *ATTACKED):
        assert value(outcomes, metric) == pytest.approx(metrics[f"test/{metric}"], abs=1e-9), metric
    assert outcomes.fold.max() == protocol.folds - 1


def test_queries_are_those_of_loops():
    """Every row by itself: the rank of the best caption of an image, of the image of a caption, and pairs won."""
    images, captions, caption_to_image, attacked = planted()
    plain = evaluate_retrieval(Cosine(), images, captions, caption_to_image)
    attacks = evaluate_attacks(Cosine(), images, captions, caption_to_image, {"object": attacked}, words="disjoint")
    split = split_of(caption_to_image, 23)
    rows = pa.concat_tables(rows_of([*plain.queries, *attacks.queries], split, "test")).to_pylist()
    scores, ids = images["v"] @ captions["u"].T, [image.id for image in split_of(caption_to_image, 23).images]
    false = images["v"] @ attacked.encoded["u"].T
    by_task = {task: [row for row in rows if row["task"] == task] for task in ("i2t", "t2i", "attack_object/disjoint")}
    assert sum(map(len, by_task.values())) == len(rows)
    assert len(by_task["t2i"]) == len(caption_to_image)
    for row, (c, i) in zip(by_task["t2i"], enumerate(caption_to_image), strict=True):
        assert (row["image"], row["caption"]) == (ids[i], f"caption {c}")
        assert row["above"] == int((scores[:, c] > scores[i, c]).sum())
    captioned = sorted(set(caption_to_image.tolist()))
    for row, i in zip(by_task["i2t"], captioned, strict=True):
        best = scores[i, torch.as_tensor(caption_to_image == i)].max()
        assert (row["image"], row["caption"], row["adversaries"]) == (ids[i], None, None)
        assert row["above"] == int((scores[i] > best).sum())
    for row, i in zip(by_task["attack_object/disjoint"], captioned, strict=True):
        own = np.flatnonzero(caption_to_image[attacked.caption] == i)
        wins = sum(float(scores[i, attacked.caption[a]] > false[i, a]) for a in own)
        assert (row["image"], row["adversaries"], row["wins"]) == (ids[i], len(own), wins)


def test_kinds_of_words_stand_in_the_name():
    metrics, outcomes = evaluated(words="disjoint")
    assert value(outcomes, "attack_object/disjoint/rsum3") == pytest.approx(
        metrics["test/attack_object/disjoint/rsum3"]
    )
    with pytest.raises(InputError, match="no per-image results for attack_object/r1"):
        outcomes.counts("attack_object/r1")


def test_a_fold_without_adversaries_counts_for_nothing_and_none_at_all_is_no_number():
    protocol = Protocol(name="folds", folds=2)
    _, _, caption_to_image, _ = planted(20)

    def of_first_half(made):
        inside = np.flatnonzero(caption_to_image[made.caption] < 10)
        return AttackSet(encoded={"u": made.encoded["u"][torch.as_tensor(inside)]}, caption=made.caption[inside])

    def none(made):
        return AttackSet(encoded={"u": made.encoded["u"][:0]}, caption=made.caption[:0])

    metrics, outcomes = evaluated(protocol, 20, of_first_half)
    for metric in ATTACKED:
        assert value(outcomes, metric) == pytest.approx(metrics[f"test/{metric}"]), metric
    metrics, outcomes = evaluated(protocol, 20, none)
    assert "test/attack_object/pair_accuracy" not in metrics
    hits, queries = outcomes.counts("attack_object/pair_accuracy")
    assert not Sample(hits=hits[None], queries=queries, images="test").defined


def test_images_are_named_in_their_order():
    _, _, caption_to_image, _ = planted()
    _, outcomes = evaluated()
    captioned = sorted(set(caption_to_image.tolist()))
    assert outcomes.images == tuple(split_of(caption_to_image, 23).images[i].id for i in captioned)
    assert outcomes.num_captions == len(caption_to_image)


def test_other_files_are_refused():
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    for data in (b"", b"PAR1 and more", sink.getvalue().to_pybytes()):
        with pytest.raises(InputError, match="not a table of outcomes"):
            unpack(data)


def by_units(fold, units, hits, queries, metric="mass"):
    return UnitValues(metric, fold, tuple(units), np.array(hits, float), np.array(queries, float))


def kept(*recorded):
    return unpack(pack(rows_of(recorded, split_of([0, 0, 1], 2), "test"), {}))[0]["test"]


def sum_of(outcomes, metric):
    terms = outcomes.terms(metric)
    return sum(
        Sample(hits=hits[None], queries=queries, images=str(k)).value() for k, (_, hits, queries) in enumerate(terms)
    )


def test_values_by_unit_come_back_as_a_mean_over_folds():
    outcomes = kept(by_units(0, "ab", [1, 0.5], [2, 1]), by_units(1, "cd", [3, 0], [3, 1]))
    assert outcomes.by_unit["mass"].units == ("a", "b", "c", "d")
    assert sum_of(outcomes, Metric(name="mass", heading="mass")) == pytest.approx(100 * (1.5 / 3 + 3 / 4) / 2)
    assert outcomes.images == () == tuple(outcomes.table)


def test_a_sum_of_metrics_has_the_units_of_each():
    outcomes = kept(by_units(0, "ab", [1, 0], [1, 1]), by_units(0, "xyz", [1, 0, 0], [1, 1, 1], metric="other"))
    total = Metric(name="total", heading="total", terms=("mass", "other"))
    assert [units for units, _, _ in outcomes.terms(total)] == [("a", "b"), ("x", "y", "z")]
    assert sum_of(outcomes, total) == pytest.approx(50 + 100 / 3)
    assert outcomes.terms(Metric(name="total", heading="total", terms=("mass", "absent"))) == []
    assert outcomes.terms(Metric(name="absent", heading="absent")) == []


def test_values_by_unit_stand_next_to_ranks():
    _, ranks = evaluated()
    both = kept(by_units(0, "ab", [1, 0], [1, 1])) | ranks
    assert both.images == ranks.images
    assert both.num_captions == ranks.num_captions
    assert set(both.table) == set(ranks.table)
    assert sum_of(both, Metric(name="mass", heading="mass")) == 50


@pytest.mark.parametrize("units", ["aa", "abc"])
def test_units_are_unique_and_as_many_as_values(units):
    with pytest.raises(AssertionError, match="mass"):
        by_units(0, units, [1, 0], [1, 1])


def test_intervals_hold_the_metric():
    rng = np.random.default_rng(0)
    hits = rng.binomial(1, 0.3, 400).astype(float)
    outcomes = kept(by_units(0, map(str, range(400)), hits, np.ones(400)))
    task: Any = SimpleNamespace(metric=lambda name: Metric(name=name, heading=name))
    value = 100 * hits.mean()
    low, high = intervals_of(task, {"mass": value, "unrecorded": 1.0}, outcomes)["mass"]
    error = 100 * np.sqrt(hits.mean() * (1 - hits.mean()) / 400)
    assert low == pytest.approx(value - 1.96 * error, abs=0.3 * error)
    assert high == pytest.approx(value + 1.96 * error, abs=0.3 * error)
