"""Systems that were tested on the folds of a cross-validation: means over folds, drawn over all images."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.report.comparisons import keys, outcomes, run
from tests.unit.report.pages import Outline
from tests.unit.report.test_comparison_page import MADE
from vse.config import override
from vse.errors import InputError
from vse.evaluation.outcomes import ByUnit, Outcomes, in_folds
from vse.evaluation.statistics import Sample, bootstrap
from vse.presets import preset
from vse.report.comparison import REPLICATES, Compared, Comparison, compare, method, systems_of, with_same_seeds
from vse.report.comparison_build import CompareOptions, compare_runs
from vse.report.comparison_page import comparison_page, terminal_lines, to_data
from vse.stages.measuring.options import Size
from vse.stages.train import run_training
from vse.workspace.layout import Workspace

FOLDS, SIZES = 3, (20, 21, 22)


def on_fold(name: str, fold: int, seed: int = 0, **changes: Any) -> Compared:
    made_of = {"records": f"{fold}"}
    return run(name, seed, made_of=made_of, data__folds=FOLDS, data__fold=fold, data__held_out="test", **changes)


def outcomes_on(fold: int, rate: float, seed: int) -> Outcomes:
    """Outcomes of the images of a fold."""
    found = outcomes(rate, 10 * fold + seed, num_images=SIZES[fold])
    return Outcomes(
        images=tuple(f"{fold}/{name}" for name in found.images),
        fold=found.fold,
        num_captions=found.num_captions,
        table=found.table,
    )


def made_up(seeds: int) -> tuple[Comparison, dict[str, dict[str, Outcomes]]]:
    runs, found = list[Compared](), dict[str, dict[str, Outcomes]]()
    for dim, rate in ((32, 0.3), (64, 0.45)):
        for seed in range(seeds):
            for fold in range(FOLDS):
                name = f"{dim}-{seed}-{fold}"
                runs.append(on_fold(name, fold, seed, model__dim=dim))
                found[name] = {"test": outcomes_on(fold, rate, seed + dim)}
    systems, _ = with_same_seeds(systems_of(runs))
    return compare(systems, found, keys(found[runs[0].name]["test"].table)), found


def mean_of(found: dict[str, dict[str, Outcomes]], start: str, metric: str) -> float:
    """The metric of every run alone, then the mean over runs."""
    alone = []
    for name, splits in found.items():
        if name.startswith(start):
            hits, queries = splits["test"].table[metric].sum(0)
            alone.append(100 * hits / queries)
    return float(np.mean(alone))


@pytest.mark.parametrize("seeds", [1, 2])
def test_values_are_means_over_folds(seeds: int) -> None:
    comparison, found = made_up(seeds)
    assert [(len(each.runs), each.seeds, each.folds) for each in comparison.systems] == [
        (3 * seeds, tuple(range(seeds)), (0, 1, 2))
    ] * 2
    captions = sum(found[f"32-0-{fold}"]["test"].num_captions for fold in range(FOLDS))
    assert comparison.sizes == {"test": Size(sum(SIZES), captions, FOLDS)}
    for line in comparison.lines["test"]:
        if line.metric.name == "rsum":
            continue
        assert line.values == pytest.approx([mean_of(found, start, line.metric.name) for start in ("32", "64")])
        assert line.differences[0].estimate == pytest.approx(line.values[1] - line.values[0])


def test_the_interval_is_that_of_a_loop_over_the_same_draws() -> None:
    """All images are drawn together; a drawn image counts in its own fold."""
    _, found = made_up(1)
    arms = [in_folds([found[f"{dim}-0-{fold}"]["test"] for fold in range(FOLDS)]) for dim in (64, 32)]
    samples = [
        Sample(hits=hits[None], queries=queries, images="test")
        for hits, queries in (arm.counts("t2i/r5") for arm in arms)
    ]
    drawn = bootstrap([(1.0, samples[0]), (-1.0, samples[1])], replicates=50)
    rng = np.random.default_rng(0)
    rng.multinomial(1, [1.0], size=50)  # of the only seed
    for value, times in zip(
        drawn.draws, rng.multinomial(sum(SIZES), np.full(sum(SIZES), 1 / sum(SIZES)), 50), strict=True
    ):
        total = 0.0
        for sign, dim in ((1, 64), (-1, 32)):
            start = 0
            for fold, size in enumerate(SIZES):
                hits = queries = 0.0
                for n, row in zip(
                    times[start : start + size], found[f"{dim}-0-{fold}"]["test"].table["t2i/r5"], strict=True
                ):
                    hits, queries = hits + n * row[0], queries + n * row[1]
                total += sign * 100 * hits / queries / FOLDS
                start += size
        assert value == pytest.approx(total)


def test_units_that_folds_share_are_drawn_once() -> None:
    """A query such as a noun may be asked in every fold; it is asked of other images there."""
    one = Outcomes(by_unit={"map": ByUnit(("dog", "cat"), np.array([[0.5], [1.0]]), np.ones((2, 1)))})
    other = Outcomes(
        by_unit={"map": ByUnit(("cat", "sun"), np.array([[0.2], [0.4]]), np.ones((2, 1))), "more": one.by_unit["map"]}
    )
    joined = in_folds([one, other]).by_unit
    assert list(joined) == ["map"]  # what a fold lacks has no mean
    assert joined["map"].units == ("dog", "cat", "sun")
    np.testing.assert_array_equal(joined["map"].hits, [[0.5, 0], [1.0, 0.2], [0, 0.4]])
    np.testing.assert_array_equal(joined["map"].queries, [[1, 0], [1, 1], [0, 1]])


def test_folds_of_a_protocol_stay_apart() -> None:
    halves = [
        Outcomes(images=(f"{k}a", f"{k}b"), fold=np.array([0, 1]), table={"m": np.array([[k, 1.0], [1, 1]])})
        for k in (0, 1)
    ]
    assert in_folds(halves).fold.tolist() == [0, 1, 2, 3]
    assert in_folds(halves[:1]) is halves[0]


def test_every_seed_needs_every_fold() -> None:
    runs = [on_fold(f"a{fold}", fold) for fold in range(3)] + [
        on_fold("b0", 0, model__dim=64),
        on_fold("b2", 2, model__dim=64),
    ]
    with pytest.raises(InputError, match="runs: b0, seed 0: no run on test fold 1, as others have"):
        with_same_seeds(systems_of(runs))
    with pytest.raises(InputError, match="a0, seed 0: no run on the data set's test images, as others have"):
        with_same_seeds(systems_of([*runs[:3], run("c", model__dim=64)]))


def test_seeds_are_named_once_for_all_folds() -> None:
    runs = [replace(on_fold(f"{seed}-{fold}", fold, seed), preset="p") for seed in (0, 1) for fold in range(3)]
    assert [each.label for each in systems_of(runs)] == ["p, seed 0", "p, seed 1"]
    others = [on_fold(f"b{fold}", fold, model__dim=64) for fold in range(3)]
    assert with_same_seeds(systems_of([*runs, *others]))[1] == ["p: seed 1 left out, which not every system has"]


def test_of_one_system_the_seeds_are_compared() -> None:
    runs = [on_fold(f"{seed}-{fold}", fold, seed) for seed in (0, 1) for fold in range(3)]
    assert [(each.seeds, len(each.runs)) for each in systems_of(runs)] == [((0,), 3), ((1,), 3)]
    assert [len(each.runs) for each in systems_of(runs, together=False)] == [3, 3]


def test_the_page_and_the_method_tell_of_folds() -> None:
    comparison, _ = made_up(2)
    images = f"{sum(SIZES)} images of test in 3 folds"
    assert f"the {images} with their captions, and over 2 seeds" in method(comparison)[0]
    assert f"{REPLICATES:,} replicates" in method(comparison)[0]
    assert "one training" not in " ".join(method(comparison))
    one_seed, _ = made_up(1)
    assert "Every system is 3 trainings, one for each fold; the intervals do not" in " ".join(method(one_seed))
    page = Outline(comparison_page(one_seed, {}, MADE)).text
    for text in (page, "\n".join(terminal_lines(one_seed))):
        assert "Metrics are means over folds, and each query ranks only the images or captions of its own fold." in text
        assert "captions in 3 folds" in text
    assert to_data(one_seed)["splits"]["test"]["folds"] == 3
    assert [each["seeds"] for each in to_data(comparison)["systems"]] == [[0, 1]] * 2


@pytest.mark.seconds
def test_runs_on_folds_are_measured_and_compared(workspace: Workspace) -> None:
    few = {"data.num_train": 20, "data.num_val": 6, "data.num_test": 7, "data.num_shifted": 0, "train.epochs": 1}
    names = []
    for dim in (32, 48):
        for fold in range(FOLDS):
            changes = {**few, "data.folds": FOLDS, "data.fold": fold, "data.held_out": "test", "model.dim": dim}
            names.append(run_training(override(preset("vsepp_tiny"), changes), workspace).run)
    comparison = compare_runs(workspace, CompareOptions(runs=tuple(names), tasks=("retrieval",)))
    assert comparison.sizes["test"].images == 20 + 6 + 7
    assert [len(each.runs) for each in comparison.systems] == [3, 3]
    assert list(comparison.keys) == ["model.dim"]
    rsum = next(line for line in comparison.lines["test"] if line.metric.name == "rsum")
    assert all(0 < value <= 600 for value in rsum.values)
    workspace.run(names[1]).delete("result.json")  # as while it trains
    with pytest.raises(InputError, match=f"^runs={names[1]}: is not trained to its end; run the command that started"):
        compare_runs(workspace, CompareOptions(runs=tuple(names), tasks=("retrieval",)))
