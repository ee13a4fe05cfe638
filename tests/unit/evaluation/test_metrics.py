"""Ranks against loops that sort, and against every order that tied candidates can take."""

import itertools
import math
import statistics

import pytest
import torch

from tests.levels import slow, slow_but
from vse.errors import Diverged, InputError
from vse.evaluation.attacks import pair_wins
from vse.evaluation.average_precision import map_at_r
from vse.evaluation.metrics import (
    Metric,
    Ranks,
    RetrievalCounter,
    Ties,
    count_metric,
    mean_over_folds,
    ranks_among,
    refuse_nan,
    rsum3,
    with_rsum,
)
from vse.evaluation.tasks.own_pools import add_own


def count(scores, caption_to_image, rows=7, cols=11, ties=None):
    """Both directions from a whole matrix, in blocks of a given shape."""
    counter = RetrievalCounter(
        scores[caption_to_image, torch.arange(len(caption_to_image))], caption_to_image, len(scores), ties
    )
    for r in range(0, scores.shape[0], rows):
        for c in range(0, scores.shape[1], cols):
            block = slice(r, min(r + rows, scores.shape[0])), slice(c, min(c + cols, scores.shape[1]))
            counter.add(scores[block], *block)
    return counter


def first_positive(values, positive):
    """1-based rank of the first positive after an honest sort."""
    order = sorted(range(len(values)), key=lambda j: -values[j])
    return 1 + next(place for place, j in enumerate(order) if positive[j])


def expectations(values, positive, tolerance=1e-6):
    """(P(hit at 1), P(hit at 5), expected rank) over every order of the candidates that tie with the best positive."""
    best = max(v for v, p in zip(values, positive, strict=True) if p)
    above = sum(v > best + tolerance for v, p in zip(values, positive, strict=True) if not p)
    tied = [p for v, p in zip(values, positive, strict=True) if abs(v - best) <= tolerance]
    ranks = [above + 1 + order.index(True) for order in itertools.permutations(tied)]
    return [sum(r <= 1 for r in ranks) / len(ranks), sum(r <= 5 for r in ranks) / len(ranks), sum(ranks) / len(ranks)]


def ragged(num_images, seed):
    """A caption -> image vector in random order with 0 to 6 captions an image."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(0, 7, (num_images,), generator=generator)
    caption_to_image = torch.repeat_interleave(torch.arange(num_images), sizes)
    return caption_to_image[torch.randperm(len(caption_to_image), generator=generator)]


@pytest.mark.seconds
@pytest.mark.parametrize(("num_images", "seed"), [(1, 6), (13, 1), (40, 2), *slow([(257, 3)])])
def test_ranks_equal_a_sort_per_query(num_images, seed):
    caption_to_image = ragged(num_images, seed)
    scores = torch.randn(num_images, len(caption_to_image), generator=torch.Generator().manual_seed(seed))
    result = count(scores, caption_to_image).result()
    with_captions = sorted(set(caption_to_image.tolist()))
    assert result.i2t.queries.tolist() == with_captions
    assert result.i2t.expected().tolist() == [
        first_positive(scores[i].tolist(), (caption_to_image == i).tolist()) for i in with_captions
    ]
    images = torch.arange(num_images)
    assert result.t2i.expected().tolist() == [
        first_positive(scores[:, c].tolist(), (images == caption_to_image[c]).tolist())
        for c in range(len(caption_to_image))
    ]
    ranks = result.i2t.expected()
    metrics = result.metrics()
    assert metrics["i2t/r5"] == pytest.approx(100 * (ranks <= 5).double().mean().item())
    assert metrics["i2t/medr"] == ranks.quantile(0.5).item()
    assert metrics["rsum"] == pytest.approx(sum(metrics[f"{w}/r{k}"] for w in ("i2t", "t2i") for k in (1, 5, 10)))


def test_ties_are_averaged_over_every_order():
    caption_to_image = torch.tensor([0, 0, 1, 2, 2, 2])
    scores = torch.randint(0, 3, (4, 6), generator=torch.Generator().manual_seed(5)).float()
    result = count(scores, caption_to_image, 2, 3).result()
    for ranks, rows, positive in (
        (result.i2t, scores[:3], caption_to_image[None] == torch.arange(3)[:, None]),
        (result.t2i, scores.T, caption_to_image[:, None] == torch.arange(4)[None]),
    ):
        for q in range(len(rows)):
            at_1, at_5, rank = expectations(rows[q].tolist(), positive[q].tolist())
            assert ranks.hits(1)[q].item() == pytest.approx(at_1)
            assert ranks.hits(5)[q].item() == pytest.approx(at_5)
            assert ranks.expected()[q].item() == pytest.approx(rank)


def test_the_median_lies_between_the_middle_two():
    zero = torch.zeros(4, dtype=torch.int64)
    ranks = Ranks(
        queries=torch.arange(4), above=torch.tensor([0, 0, 1, 5]), tied_negatives=zero, tied_positives=zero + 1
    )
    assert ranks.metrics()["medr"] == 1.5
    published = math.floor(statistics.median([0, 0, 1, 5])) + 1  # the public code's rule
    assert math.floor(ranks.metrics()["medr"]) == published == 1


def test_constant_scores_are_chance():
    caption_to_image = torch.arange(20).repeat_interleave(5)
    metrics = count(torch.full((20, 100), 0.3), caption_to_image).result().metrics()
    assert metrics["i2t/r1"] == pytest.approx(5.0)
    assert metrics["t2i/r1"] == pytest.approx(5.0)
    assert metrics["t2i/r10"] == pytest.approx(50.0)
    assert metrics["t2i/meanr"] == pytest.approx(10.5)
    assert metrics["i2t/meanr"] == pytest.approx(101 / 6)  # expected minimum of 5 of 100 places


@pytest.mark.parametrize(
    ("best", "near", "ties", "tied"),
    [
        (0.5, (5e-7, -8e-7, 3e-6, -3e-6), Ties(), 2),
        (0.0, (5e-7, -8e-7, 3e-6, -3e-6), Ties(), 2),
        (-100.0, (5e-5, -8e-5, 3e-4, -3e-4), Ties(), 2),
        (100.0, (5e-5, -8e-5, 3e-4, -3e-4), Ties(), 2),
        (100.0, (5e-5, -8e-5, 3e-4, -3e-4), Ties(tolerance=0.0), 0),
    ],
)
def test_tolerance_is_absolute_up_to_one_and_relative_beyond(best, near, ties, tied):
    scores = torch.tensor([[best, *(best + step for step in near)]], dtype=torch.float64)
    pairs = scores[0, :1]
    counter = RetrievalCounter(pairs, torch.tensor([0]), 1, ties)
    counter.add(pairs[None], slice(0, 1), slice(0, 1))
    counter.add_distractors(scores[:, 1:], slice(0, 1))
    assert counter.result().i2t.tied_negatives.item() == tied
    found = ranks_among(scores, torch.tensor([[True] + [False] * 4]), ties=ties)
    assert found.tied_negatives.item() == tied


def test_runs_of_great_scores_tie_in_map_at_r():
    scores = torch.tensor([[300.0, 300.0001, 2.0]], dtype=torch.float64)
    relevant = torch.tensor([[True, False, False]])
    assert map_at_r(scores, relevant).item() == pytest.approx(0.5)
    assert map_at_r(scores / 300, relevant).item() == pytest.approx(0.5)
    assert map_at_r(scores, relevant, tolerance=0.0).item() == 0.0


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("cols", "rows"),
    slow_but(itertools.product((1, 8, 100, 4096), (1, 5, 64)), (1, 5), (8, 1), (100, 64), (4096, 5)),
)
def test_block_size_changes_nothing(rows, cols):
    caption_to_image = torch.arange(18).repeat_interleave(7)
    scores = torch.randint(0, 40, (18, 126), generator=torch.Generator().manual_seed(0)).float()
    assert (
        count(scores, caption_to_image, rows, cols).result().metrics()
        == count(scores, caption_to_image, 18, 126).result().metrics()
    )


def test_counts_of_many_rows_do_not_overflow():
    caption_to_image = torch.tensor([0] * 3)
    scores = torch.ones(3000, 3)
    scores[0] = 0.0
    assert count(scores, caption_to_image, 3000, 3).result().t2i.above.tolist() == [2999] * 3
    caption_to_image = torch.zeros(4000, dtype=torch.int64)
    caption_to_image[0] = 1
    wide = torch.ones(2, 4000)
    wide[1, 0] = 0.0
    assert count(wide, caption_to_image, 2, 4000).result().i2t.above.tolist() == [0, 3999]


def test_order_of_images_and_captions_changes_nothing():
    generator = torch.Generator().manual_seed(8)
    caption_to_image = ragged(31, 8)
    scores = torch.randint(0, 9, (31, len(caption_to_image)), generator=generator).float()
    images, captions = (
        torch.randperm(31, generator=generator),
        torch.randperm(len(caption_to_image), generator=generator),
    )
    moved = count(scores[images][:, captions], images.argsort()[caption_to_image[captions]])
    assert moved.result().metrics() == pytest.approx(count(scores, caption_to_image).result().metrics())


def test_distractors_continue_from_a_fork():
    caption_to_image = ragged(12, 4)
    generator = torch.Generator().manual_seed(4)
    scores, extra = (
        torch.randn(12, len(caption_to_image), generator=generator),
        torch.randn(12, 50, generator=generator),
    )
    counter = count(scores, caption_to_image)
    attacked = counter.fork()
    for rows in (slice(0, 5), slice(5, 12)):
        attacked.add_distractors(extra[rows], rows)
    both = torch.cat((scores, extra), 1)
    for ranks, whole in ((counter.result().i2t, scores), (attacked.result().i2t, both)):
        padded = torch.cat((caption_to_image, torch.full((whole.shape[1] - len(caption_to_image),), -1)))
        assert ranks.expected().tolist() == [
            first_positive(whole[i].tolist(), (padded == i).tolist()) for i in ranks.queries.tolist()
        ]


def test_nan_is_refused_and_no_query_is_an_error():
    for pair, said in (("nan", "are NaN"), ("inf", "are infinite"), ("-inf", "are infinite")):
        with pytest.raises(Diverged, match=said):
            RetrievalCounter(torch.tensor([float(pair)]), torch.tensor([0]), 1)
        with pytest.raises(Diverged, match=said):
            ranks_among(torch.tensor([[float(pair), 0.5]]), torch.tensor([[True, False]]))
    counter = RetrievalCounter(torch.tensor([0.5]), torch.tensor([0]), 2)
    bad = torch.tensor([[0.5], [float("nan")]])
    for refusing in (
        lambda: counter.add(bad, slice(0, 2), slice(0, 1)),
        lambda: counter.add_distractors(bad, slice(0, 2)),
        lambda: ranks_among(bad, torch.ones_like(bad).bool()),
        lambda: map_at_r(bad, torch.ones_like(bad).bool()),
        lambda: pair_wins(bad[:, 0], torch.zeros(2), Ties()),
        lambda: pair_wins(torch.zeros(2), bad[:, 0], Ties()),
        lambda: add_own(counter, bad[:, 0], torch.tensor([0, 1])),
    ):
        with pytest.raises(Diverged, match="NaN"):
            refusing()
    none = torch.zeros(0, dtype=torch.int64)
    with pytest.raises(InputError, match="at least one image with a caption"):
        Ranks(queries=none, above=none, tied_negatives=none, tied_positives=none).metrics()


@pytest.mark.parametrize("large", [float("inf"), torch.finfo(torch.float32).max])
def test_scores_that_sum_to_nan_without_one_are_ranked(large: float) -> None:
    """So do infinite ones of both signs, and large ones, whose partial sums may be infinite."""
    scores = torch.tensor([[large, -large]]).repeat(1, 64)
    scores[0, 0] = 0.5
    assert scores.sum().isnan()
    refuse_nan(scores)
    positive = torch.zeros_like(scores).bool()
    positive[0, 0] = True
    assert ranks_among(scores, positive).expected().tolist() == [64]
    with pytest.raises(Diverged, match="NaN"):
        refuse_nan(torch.cat((scores, torch.tensor([[float("nan")]])), 1))


def test_several_positives_or_ignored_candidates():
    scores = torch.tensor([[3.0, 2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0]])
    own = torch.tensor([[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]).bool()
    true = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0]]).bool()
    assert ranks_among(scores, own).expected().tolist() == [3, 4]
    assert ranks_among(scores, own, true & ~own).expected().tolist() == [2, 3]
    assert ranks_among(scores, true).expected().tolist() == [2, 1]
    assert ranks_among(scores, true).queries.tolist() == [0, 1]


def test_ranks_among_agrees_with_the_counter():
    caption_to_image = ragged(17, 9)
    scores = torch.randint(0, 12, (17, len(caption_to_image)), generator=torch.Generator().manual_seed(9)).float()
    positive = caption_to_image[None] == torch.arange(17)[:, None]
    result = count(scores, caption_to_image).result()
    assert ranks_among(scores, positive).metrics() == pytest.approx(result.i2t.metrics())
    assert ranks_among(scores.T, positive.T).metrics() == pytest.approx(result.t2i.metrics())


def map_of_an_order(relevant):
    """mAP@R of one ranking by its definition."""
    total, hits, value = sum(relevant), 0, 0.0
    for place, r in enumerate(relevant[:total], 1):
        hits += r
        value += r * hits / place
    return value / total


def test_map_at_r_equals_its_definition_and_averages_ties():
    generator = torch.Generator().manual_seed(3)
    scores, relevant = torch.randn(20, 9, generator=generator), torch.rand(20, 9, generator=generator) < 0.4
    relevant[0] = False
    values = map_at_r(scores, relevant)
    assert values[0].isnan()
    for q in range(1, 20):
        order = scores[q].argsort(descending=True)
        assert values[q].item() == pytest.approx(map_of_an_order(relevant[q, order].int().tolist()))
    tied = torch.tensor([[2.0, 1.0, 1.0, 1.0, 1.0, 0.0]])
    relevant = torch.tensor([[False, True, True, False, True, True]])
    middle = [True, True, False, True]
    oracle = [map_of_an_order([0, *map(int, order), 1]) for order in itertools.permutations(middle)]
    assert map_at_r(tied, relevant).item() == pytest.approx(sum(oracle) / len(oracle))


def test_sums():
    assert mean_over_folds([{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 2.0}]) == {"a": 2.0, "b": 2.0}
    assert mean_over_folds([{"a": 1.0}, {"a": 3.0, "b": 2.0}, {"a": 2.0, "b": 4.0}]) == {"a": 2.0, "b": 3.0}
    metrics = [Metric(name="a", heading="a"), count_metric("b", "b")]
    assert mean_over_folds([{"a": 1.0}, {"a": 3.0, "b": 2.0}, {"b": 4.0}], metrics) == {"a": 2.0, "b": 6.0}
    values = {f"{way}/r{k}": float(k) for way in ("i2t", "t2i") for k in (1, 5, 10)}
    assert with_rsum(values)["rsum"] == 32.0
    assert rsum3({"r1": 1.0, "r5": 2.0, "r10": 3.0, "medr": 9.0}) == 6.0
