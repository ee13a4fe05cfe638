"""Systems out of runs, and differences between them against loops over the same draws."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.report.comparisons import IMAGES, keys, made_up, outcomes, run
from vse.errors import InputError
from vse.evaluation.metrics import Metric
from vse.evaluation.outcomes import ByUnit, Outcomes
from vse.evaluation.statistics import Sample, bootstrap
from vse.report.comparison import (
    ABSENT,
    REPLICATES,
    Compared,
    MetricDifferences,
    compare,
    differing_keys,
    method,
    systems_of,
    with_same_seeds,
)
from vse.report.comparison_build import CompareOptions, arranged
from vse.report.measured import MetricKey
from vse.stages.measuring.options import Size
from vse.workspace.layout import Workspace

KEYS = keys(outcomes(0.3).table)


def labels(*runs: Compared, together: bool = True) -> list[str]:
    return [system.label for system in systems_of(runs, together)]


def line(found, metric: str, split: str = "test") -> MetricDifferences:
    return next(each for each in found.lines[split] if each.metric.name == metric)


def test_runs_that_differ_in_their_seed_only_are_one_system():
    runs = [run("a-s1", 1), run("b-s0", 0, model__dim=128), run("a-s0", 0), run("b-s1", 1, model__dim=128)]
    systems = systems_of(runs)
    assert [[each.name for each in system.runs] for system in systems] == [["a-s0", "a-s1"], ["b-s0", "b-s1"]]
    assert [system.seeds for system in systems] == [(0, 1), (0, 1)]
    assert [len(system.runs) for system in systems_of(runs, together=False)] == [1, 1, 1, 1]
    # what changes no number makes no other system
    assert len(systems_of([*runs, run("a-s2", 2, train__workers=2)])) == 2


def test_of_one_system_the_seeds_are_compared():
    systems = systems_of([run("a-s0", 0, "vsepp_small"), run("a-s1", 1, "vsepp_small")])
    assert [system.label for system in systems] == ["vsepp_small, seed 0", "vsepp_small, seed 1"]


def test_other_data_and_the_same_seed_twice_are_other_systems():
    same, other = {"records": "0"}, {"records": "1"}
    assert len(systems_of([run("a", 0, made_of=same), run("b", 1, made_of=other), run("c", 1, made_of=same)])) == 2
    systems = systems_of([run("a", 0), run("b", 0), run("c", 1)])
    assert [[each.name for each in system.runs] for system in systems] == [["a", "c"], ["b"]]


def test_labels_tell_systems_apart():
    assert labels(run("a-0", 0, "vsepp_small"), run("b-1", 0, model__dim=128)) == ["vsepp_small", "b-1"]
    one, other = run("a-0123", 0, "vsepp_small +1 key"), run("b-4567", 0, "vsepp_small +1 key", model__dim=128)
    assert labels(one, other) == ["vsepp_small +1 key, 0123", "vsepp_small +1 key, 4567"]
    several = [run("a-0123", seed, "vsepp_small") for seed in (0, 1)]
    assert labels(*several, run("b", 0, "univse_small", preset="univse_tiny")) == ["vsepp_small", "univse_small"]


def test_seeds_are_those_that_every_system_has():
    systems = systems_of([run("a-s0", 0), run("a-s1", 1), run("a-s2", 2), run("b-s2", 2, model__dim=128)])
    kept, notes = with_same_seeds(systems)
    assert [system.seeds for system in kept] == [(2,), (2,)]
    assert notes == ["a-s0: seeds 0, 1 left out, which not every system has"]
    unlike, notes = with_same_seeds(systems_of([run("a", 0), run("b", 5, model__dim=128)]))
    assert ([system.seeds for system in unlike], notes) == ([(0,), (5,)], [])
    with pytest.raises(InputError, match=r"a seed in common, .*: a has seeds 0, 1; b has seed 5"):
        with_same_seeds(systems_of([run("a", 0), run("c", 1), run("b", 5, model__dim=128)]))


def test_keys_that_differ():
    systems = systems_of([run("a", 0), run("c", 1), run("b", 0, optim__lr=0.5), run("d", 1, optim__lr=0.5)])
    keys = differing_keys(systems)
    assert list(keys) == ["optim.lr"]
    assert keys["optim.lr"][1] == 0.5
    assert differing_keys(systems_of([run("a", 0), run("b", 3)])) == {"seed": ("0", "3")}
    assert differing_keys(systems_of([run("a", 0), run("b", 0)])) == {}
    keys = differing_keys(systems_of([run("a", 0), run("b", 0, preset="univse_tiny")]))
    assert keys["model"] == ("vsepp", "univse")
    assert keys["model.alpha"] == (ABSENT, 0.75)


def test_values_and_differences_are_those_of_the_metrics():
    found = made_up(3, seeds=2)
    for split, lines in found.lines.items():
        assert split == "test"
        for each in lines:
            for place, difference in enumerate(each.differences, start=1):
                assert difference.estimate == pytest.approx(each.values[place] - each.values[0])
                assert difference.low <= difference.estimate <= difference.high
    assert [each.metric.name for each in found.lines["test"]][:8] == [
        "rsum",
        *(f"{way}/r{k}" for way in ("i2t", "t2i") for k in (1, 5, 10)),
        "attack_object/r1",
    ]
    rsum = line(found, "rsum")
    assert rsum.values[0] == pytest.approx(sum(line(found, m).values[0] for m in _recalls()))


def _recalls() -> list[str]:
    return [f"{way}/r{k}" for way in ("i2t", "t2i") for k in (1, 5, 10)]


@pytest.mark.parametrize("num_seeds", [1, 3])
def test_the_interval_is_that_of_a_loop_over_the_same_draws(num_seeds):
    """Ragged captions: a drawn image brings all of its captions, to both systems."""
    first, other = ([outcomes(rate, 7 * s + k) for s in range(num_seeds)] for k, rate in enumerate((0.3, 0.5)))
    for metric in ("t2i/r1", "i2t/r5", "attack_object/pair_accuracy"):
        arms = [
            Sample(
                hits=np.stack([each.counts(metric)[0] for each in arm]), queries=arm[0].counts(metric)[1], images="test"
            )
            for arm in (other, first)
        ]
        drawn = bootstrap([(1.0, arms[0]), (-1.0, arms[1])], replicates=200)
        rng, loops = np.random.default_rng(0), []
        seeds = rng.multinomial(max(num_seeds - 1, 1), np.full(num_seeds, 1 / num_seeds), size=200)
        images = rng.multinomial(IMAGES, np.full(IMAGES, 1 / IMAGES), size=200)
        for seed_times, image_times in zip(seeds, images, strict=True):
            total = 0.0
            for s, times in enumerate(seed_times):
                for _ in range(times):
                    means = []
                    for arm in (other, first):
                        hits = queries = 0.0
                        for i, n in enumerate(image_times):
                            hits += n * arm[s].table[metric][i, 0]
                            queries += n * arm[s].table[metric][i, 1]
                        means.append(100 * hits / queries)
                    total += means[0] - means[1]
            loops.append(total / seed_times.sum())
        assert drawn.draws == pytest.approx(np.array(loops))
        assert drawn.interval(method="percentile") == pytest.approx(tuple(np.quantile(loops, [0.025, 0.975])))


def test_what_is_reported_is_that_bootstrap():
    found, metric = made_up(2, seeds=3), "t2i/r5"
    arms = []
    for place in range(2):
        measured = [outcomes(0.3 + 0.1 * place, 10 * place + seed).counts(metric) for seed in range(3)]
        arms.append(Sample(hits=np.stack([hits for hits, _ in measured]), queries=measured[0][1], images="test"))
    expected = bootstrap([(1.0, arms[1]), (-1.0, arms[0])], replicates=REPLICATES)
    (difference,) = line(found, metric).differences
    assert (difference.low, difference.high) == expected.interval(0.95)


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_identical_runs_differ_by_exactly_nothing(num_seeds):
    runs = [
        run(f"{system}-{seed}", seed, optim__lr=lr)
        for system, lr in (("a", 0.1), ("b", 0.2))
        for seed in range(num_seeds)
    ]
    measured = {each.name: {"test": outcomes(0.4, each.config.seed)} for each in runs}
    found = compare(systems_of(runs), measured, KEYS)
    for each in found.lines["test"]:
        (difference,) = each.differences
        assert (difference.estimate, difference.low, difference.high, difference.clear) == (0.0, 0.0, 0.0, False)


def test_other_images_are_refused():
    found = {"a": {"test": outcomes(0.3)}, "b": {"test": outcomes(0.3, num_images=50)}}
    systems = systems_of([run("a"), run("b", optim__lr=0.5)])
    with pytest.raises(InputError, match="b and a have other images in test"):
        compare(systems, found, KEYS)


def asked_of(*queries):
    """Outcomes of one metric of units a, b and c with these numbers of queries, half of them right."""
    numbers = np.array(queries, float)[:, None]
    return {"test": Outcomes(by_unit={"mass": ByUnit(("a", "b", "c"), numbers / 2, numbers)})}


MASS = {"test": [MetricKey("grounding", "test", Metric(name="mass", heading="mass inside", group="nouns"))]}


def test_different_numbers_of_queries_are_noted():
    systems = systems_of([run("a", known_as="scan"), run("b", known_as="univse", model__dim=128)])
    found = compare(systems, {"a": asked_of(2, 1, 4), "b": asked_of(2, 3, 4)}, MASS, notes=["first"])
    assert found.notes == ("first", "test, nouns: systems have different numbers of queries (scan 7, univse 9)")
    assert compare(systems, {"a": asked_of(2, 1, 4), "b": asked_of(2, 1, 4)}, MASS).notes == ()


def test_seeds_with_different_numbers_of_queries_are_refused():
    """The counts of the first seed would divide the hits of the others."""
    runs = [run("a", 0), run("b", 1), run("c", 0, model__dim=128), run("d", 1, model__dim=128)]
    found = {each.name: asked_of(2, 1, 4 + (each.name == "b")) for each in runs}
    with pytest.raises(InputError, match="seeds of a have different queries for mass in test"):
        compare(systems_of(runs), found, MASS)


def test_a_name_that_no_folder_can_have_is_refused_before_runs_are_read(tmp_path):
    with pytest.raises(InputError, match=r"^'a/b': use letters, digits"):
        arranged(Workspace.open(str(tmp_path)), CompareOptions(runs=("a", "b"), name="a/b"))


def test_a_run_without_numbers_of_a_split_is_named():
    with pytest.raises(InputError, match="runs: b has no numbers of test"):
        compare(systems_of([run("a"), run("b", optim__lr=0.5)]), {"a": {"test": outcomes(0.3)}, "b": {}}, KEYS)


def test_where_no_metric_has_a_query_nothing_is_compared():
    measured = {name: {"test": _without_pairs(outcomes(0.3))} for name in ("a", "b")}
    pairs = {"test": [key for key in KEYS["test"] if key.metric.name == "attack_object/pair_accuracy"]}
    with pytest.raises(InputError, match="tasks: no metric has a query in all runs"):
        compare(systems_of([run("a"), run("b", optim__lr=0.5)]), measured, pairs)


def test_a_metric_that_asks_nothing_has_no_line():
    measured = {name: {"test": _without_pairs(outcomes(0.3))} for name in ("a", "b")}
    found = compare(systems_of([run("a"), run("b", optim__lr=0.5)]), measured, KEYS)
    assert "attack_object/r1" in [each.metric.name for each in found.lines["test"]]
    assert "attack_object/pair_accuracy" not in [each.metric.name for each in found.lines["test"]]


def _without_pairs(found: Outcomes) -> Outcomes:
    return replace(found, table={**found.table, "attack_object/pair_accuracy": np.zeros((IMAGES, 2))})


def test_it_says_what_intervals_come_from_and_what_they_leave_out():
    one, several = (" ".join(method(made_up(2, seeds=n))) for n in (1, 3))
    for text in (one, several):
        assert "60 images of test" in text
        assert "not corrected for multiple comparisons" in text
    assert "Every system is one training" in one
    assert "and over 3 seeds" in several
    assert "Every system is one training" not in several
    assert "folds" not in one + several
    single = replace(made_up(2), sizes={"test": Size(1, 5)})
    assert "over the 1 image of test with their captions;" in method(single)[0]
    assert "too few" not in one + several
