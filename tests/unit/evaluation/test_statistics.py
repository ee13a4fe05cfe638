"""Bootstrap against closed forms and planted effects; Holm against its definition; verdicts."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from vse.errors import InputError
from vse.evaluation.statistics import Bootstrap, Outcome, Sample, bootstrap, bootstrap_all, holm, judge


def sample(rate, num_seeds=6, num_images=300, spread=0.0, seed=0, difficulty=None, images="test", queries=1):
    """Hits of Bernoulli queries whose rate varies by seed and, with shared difficulty, by image."""
    rng = np.random.default_rng(seed)
    rates = rate + spread * rng.standard_normal((num_seeds, 1))
    hard = 0 if difficulty is None else difficulty
    hits = rng.binomial(queries, np.clip(rates + hard, 0, 1), size=(num_seeds, num_images)).astype(float)
    return Sample(hits=hits[..., None], queries=np.full((num_images, 1), float(queries)), images=images)


def test_value_is_a_ratio_of_sums_over_terms():
    hits = np.array([[[1.0, 2.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])
    queries = np.array([[1.0, 3.0], [1.0, 1.0]])
    value = Sample(hits=hits, queries=queries, images="a").value()
    assert value == pytest.approx(((50 + 75) + (100 + 0)) / 2)


def test_error_of_a_mean_equals_its_closed_form():
    one = sample(0.4, num_seeds=1, num_images=500)
    rate = one.value() / 100
    result = bootstrap([(1.0, one)])
    assert result.error == pytest.approx(100 * math.sqrt(rate * (1 - rate) / 500), rel=0.06)
    low, high = result.interval(method="percentile")
    assert high - low == pytest.approx(2 * 1.96 * result.error, rel=0.06)
    assert low < result.estimate < high


def test_error_over_seeds_is_unbiased():
    values = np.array([0.2, 0.3, 0.5, 0.6, 0.9])
    hits = np.repeat(values[:, None, None], 40, axis=1)  # images all alike: only seeds vary
    result = bootstrap([(1.0, Sample(hits=hits, queries=np.ones((40, 1)), images="a"))])
    assert result.error == pytest.approx(100 * values.std(ddof=1) / math.sqrt(5), rel=0.06)


def test_shared_difficulty_cancels_in_pairs():
    hard = np.where(np.arange(300) % 2, 0.45, -0.45)
    first, second = (sample(0.5, seed=s, difficulty=hard) for s in (1, 2))
    elsewhere = Sample(hits=second.hits, queries=second.queries, images="other")
    assert bootstrap([(1.0, first), (-1.0, second)]).error < 0.5 * bootstrap([(1.0, first), (-1.0, elsewhere)]).error


def test_nested_draws_average_images_away_and_crossed_do_not():
    hard = np.where(np.arange(300) % 2, 0.45, -0.45)
    arm = [(1.0, sample(0.5, difficulty=hard))]
    assert bootstrap(arm, nested=True).error < 0.7 * bootstrap(arm).error


@pytest.mark.seconds
def test_intervals_cover_and_p_values_agree_with_them():
    covered = {"bca": 0, "percentile": 0}
    for trial in range(100):
        arms = [(1.0, sample(0.5, 10, 200, 0.05, 2 * trial)), (-1.0, sample(0.4, 10, 200, 0.05, 2 * trial + 1))]
        result = bootstrap(arms, replicates=1000, seed=trial)
        for method in covered:
            low, high = result.interval(method=method)
            covered[method] += low <= 10 <= high
        low, high = result.interval()
        assert result.p_above(low - 1) < 0.025 < result.p_above(low + 1)
        assert result.p_below(high + 1) < 0.025 < result.p_below(high - 1)
    assert all(count >= 93 for count in covered.values()), covered  # conservative: chance in cells is drawn twice


def test_acceleration_is_that_of_a_jackknife():
    one = sample(0.1, num_seeds=1, num_images=60)
    hits = one.hits[0, :, 0]
    left_out = np.array([np.delete(hits, k).mean() for k in range(60)])
    u = left_out.mean() - left_out
    expected = (u**3).sum() / (6 * (u**2).sum() ** 1.5)
    assert bootstrap([(1.0, one)]).acceleration == pytest.approx(expected)


def test_same_seed_same_replicates():
    arms = [(1.0, sample(0.5)), (-1.0, sample(0.4, seed=3))]
    assert np.array_equal(bootstrap(arms).draws, bootstrap(arms).draws)
    assert not np.array_equal(bootstrap(arms).draws, bootstrap(arms, seed=1).draws)


@pytest.mark.parametrize("nested", [False, True])
def test_effects_that_share_their_draws_are_those_of_each_alone(nested):
    first, *others = (sample(rate, seed=k) for k, rate in enumerate((0.5, 0.4, 0.7)))
    effects = [[(1.0, other), (-1.0, first)] for other in others]
    together = bootstrap_all(effects, replicates=300, nested=nested)
    for effect, found in zip(effects, together, strict=True):
        alone = bootstrap(effect, replicates=300, nested=nested)
        assert np.array_equal(found.draws, alone.draws)
        assert (found.estimate, found.acceleration) == (alone.estimate, alone.acceleration)
    with pytest.raises(InputError, match="numbers of seeds"):
        bootstrap_all([[(1.0, first)], [(1.0, sample(0.5, num_seeds=5))]], replicates=50)


def test_an_interval_does_not_depend_on_the_order_of_additions():
    """Replicates that equal the effect are ties, of which there are many with few images."""
    rng = np.random.default_rng(0)
    for num_images in range(11, 41):
        queries = np.full((num_images, 1), 1.0)
        one, other = (rng.integers(0, 2, (1 + num_images % 3, num_images, 1)).astype(float) for _ in range(2))
        arms = [
            (1.0, Sample(hits=one, queries=queries, images="a")),
            (-1.0, Sample(hits=other, queries=queries, images="a")),
        ]
        apart = bootstrap(arms, replicates=500)
        at_once = bootstrap([(1.0, Sample(hits=one - other, queries=queries, images="a"))], replicates=500)
        assert apart.interval() == pytest.approx(at_once.interval(), abs=1e-6)
        assert apart.p_above(0) == pytest.approx(at_once.p_above(0))


def test_arms_must_match():
    with pytest.raises(InputError, match="numbers of seeds"):
        bootstrap([(1.0, sample(0.5)), (-1.0, sample(0.5, num_seeds=5))])
    with pytest.raises(InputError, match="numbers of images of test"):
        bootstrap([(1.0, sample(0.5)), (-1.0, sample(0.5, num_images=5))])
    with pytest.raises(InputError, match="method=magic"):
        bootstrap([(1.0, sample(0.5))], replicates=50).interval(method="magic")


def test_holm():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert holm({"a": 0.6, "b": 0.9}) == {"a": 1.0, "b": 1.0}


def normal(mean, error, num_seeds=10):
    draws = np.random.default_rng(0).normal(mean, error, 4000)
    return Bootstrap(estimate=mean, draws=draws, acceleration=0.0, num_seeds=num_seeds)


def outcome(mean, error=1.0, margin=0.0, negligible=0.0, num_seeds=10):
    return Outcome(name="t", result=normal(mean, error, num_seeds), margin=margin, negligible=negligible)


def test_verdicts():
    verdicts = judge(
        {
            "clear": ([outcome(6.0)], 10),
            "opposite": ([outcome(-6.0)], 10),
            "negligible": ([outcome(0.0, 0.1, negligible=1.0)], 10),
            "open": ([outcome(0.5)], 10),
            "one part fails": ([outcome(6.0), outcome(-6.0)], 10),
            "one part open": ([outcome(6.0), outcome(0.5)], 10),
            "no worse": ([outcome(-0.1, 0.1, margin=-1.0)], 10),
            "few seeds": ([outcome(6.0, num_seeds=3)], 10),
        }
    )
    assert {name: verdict.answer for name, verdict in verdicts.items()} == {
        "clear": "holds",
        "opposite": "does not hold",
        "negligible": "does not hold",
        "open": "undecided",
        "one part fails": "does not hold",
        "one part open": "undecided",
        "no worse": "holds",
        "few seeds": "undecided",
    }
    first_step = NormalDist().inv_cdf(1 - 0.05 / 8 / 2) + NormalDist().inv_cdf(0.8)
    assert verdicts["open"].detectable == pytest.approx(first_step, rel=0.05)
    name, estimate, low, high = verdicts["clear"].effects[0]
    assert (name, estimate) == ("t", 6.0)
    assert low == pytest.approx(6 - 1.96, abs=0.15)
    assert high == pytest.approx(6 + 1.96, abs=0.15)


def test_runs_that_are_the_same_refute_nothing():
    same = sample(0.5)
    found = bootstrap([(1.0, same), (-1.0, same)], replicates=200)
    assert not found.varies
    itself = Outcome(name="t", result=found, margin=0.0, negligible=0.0)
    assert judge({"a": ([itself], 1)})["a"].answer == "undecided"
    assert judge({"a": ([itself, outcome(6.0)], 1)})["a"].answer == "undecided"
    assert judge({"a": ([itself, outcome(-6.0)], 1)})["a"].answer == "does not hold"
    within = Outcome(name="t", result=found, margin=-1.0, negligible=0.0)
    assert judge({"a": ([within], 1)})["a"].answer == "holds"  # that they are no worse


def test_correction_can_take_a_verdict_away():
    alone = {"a": ([outcome(2.1)], 1)}
    assert judge(alone)["a"].answer == "holds"
    among = alone | {str(k): ([outcome(0.2)], 1) for k in range(5)}
    assert judge(among)["a"].answer == "undecided"


def test_claims_that_nothing_was_measured_of_yet_count_too():
    assert holm({"a": 0.01, "b": 0.04}, registered=4) == pytest.approx({"a": 0.04, "b": 0.12})
    measured = {"a": ([outcome(2.1)], 1)}
    assert judge(measured, registered=6)["a"].answer == "undecided"
    assert judge(measured, registered=6)["a"].detectable > 1.2 * judge(measured)["a"].detectable


def test_what_could_be_seen_is_seen_four_times_in_five():
    """Effects of the size that one claim among six could have shown, drawn a thousand times."""
    size = normal(0.0, 1.0).detectable(0.05 / 6) / normal(0.0, 1.0).error
    rng, error = np.random.default_rng(1), 1.0
    seen = [NormalDist(0, error).cdf(-found) <= 0.025 / 6 for found in rng.normal(size, error, 1000)]
    assert np.mean(seen) == pytest.approx(0.8, abs=0.04)


def test_a_draw_without_any_query_of_a_term_keeps_its_value():
    """One of 20 images has all queries of the second term, and 36 % of the draws miss it."""
    queries = np.ones((20, 2))
    queries[1:, 1] = 0
    hits = queries * [0.0, 1.0]
    found = bootstrap([(1.0, Sample(hits=hits[None], queries=queries, images="a"))])
    assert found.estimate == 100
    assert np.all(found.draws == 100)


def test_a_metric_without_queries_is_refused():
    empty = Sample(hits=np.zeros((6, 300, 2)), queries=np.stack([np.ones(300), np.zeros(300)], 1), images="test")
    assert not empty.defined
    assert sample(0.5).defined
    with pytest.raises(InputError, match="test: no queries"):
        bootstrap([(1.0, sample(0.5)), (-1.0, empty)], replicates=50)
