"""Outcomes of queries give back every metric of the evaluation they are of, whole or in folds."""

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
from vse.evaluation.outcomes import pack, rows_of, unpack
from vse.evaluation.protocol import WHOLE_SPLIT, Protocol
from vse.evaluation.statistics import Sample

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
