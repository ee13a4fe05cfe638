"""HyperOpt's and Optuna's searches on top of the ledger. No Ray process is needed."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from vse.config import knob
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.sweeps.hyperopt_search import ParzenSearch
from vse.sweeps.informed_search import InformedSearch, Value, first_draws
from vse.sweeps.ledger import Entry, FailureKind, Ledger, trial_id
from vse.sweeps.optuna_search import GaussianProcessSearch, OptunaSearch
from vse.sweeps.space import Space


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    kind: str = knob("plain", "kind", choices=("plain", "pool", "attention"))
    weight: float = knob(0.5, "weight", low=0)
    margin: float = knob(0.2, "margin", low=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    alpha: float = knob(0.75, "weight", low=0, high=1)
    every: int = knob(3, "epochs", low=1, high=10)
    sizes: tuple[int, ...] = knob((1,), "sizes")
    loss: Loss = field(default_factory=Loss)


FLAT = Space(
    "here",
    {
        "alpha": tune.uniform(0.0, 1.0),
        "every": tune.randint(1, 4),
        "sizes": tune.choice([[1], [1, 2]]),
        "loss.margin": 0.3,
    },
)
CONDITIONAL = Space(
    "here",
    {
        "alpha": tune.quniform(0.0, 1.0, 0.25),
        "structure": tune.choice(
            [
                {"loss.kind": "plain"},
                {"loss.kind": "pool", "loss.weight": tune.uniform(0.0, 1.0)},
                {
                    "loss.kind": "attention",
                    "loss.weight": tune.loguniform(0.01, 1.0),
                    "loss.margin": tune.choice([1, 2]),
                },
            ]
        ),
    },
    initial=({"alpha": 0.75, "loss.kind": "attention", "loss.weight": 0.15, "loss.margin": 2},),
)


def bowl(changes: Mapping[str, Any]) -> float:
    shift = {"plain": 0.0, "pool": 0.4, "attention": 0.2}[changes.get("loss.kind", "plain")]
    return shift - (changes["alpha"] - 0.25) ** 2 - (changes.get("loss.weight", 0.0) - 0.5) ** 2


def unfinished(entry: Entry | None) -> bool:
    return entry is None or entry.state == "failed"


class Searched:
    """A search over a ledger as the sweep makes it, worked off one trial at a time in this process."""

    kind: type[InformedSearch] = ParzenSearch
    measured: tuple[Callable[[Mapping[str, Any]], float], ...] = (bowl,)

    def __init__(self, folder: Path, space: Space, seeds: tuple[int, ...] = (0,), **options: Any) -> None:
        self.ledger, self.space, self.seeds = Ledger(Folder.open(folder)), space, seeds
        found: dict[str, dict[str, Any]] = {}
        for entry in self.ledger:
            point = {key: value for key, value in entry.changes.items() if key != "seed"}
            found.setdefault(str(sorted(point.items())), point)
        given: dict[str, Any] = {"samples": 12, "num_initial": 4, "is_pending": unfinished}
        self.search = self.kind(
            space,
            Config(),
            self.ledger,
            trials_of=self.trials,
            points=found.values(),
            value_of=self.value,
            **(given | options),
        )

    def trials(self, point: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [{**point, "seed": seed} for seed in self.seeds]

    def value(self, point: Mapping[str, Any]) -> Value | None:
        entries = [self.ledger.get(changes) for changes in self.trials(point)]
        values = [entry.result["objectives"] for entry in entries if entry is not None and entry.state == "finished"]
        if len(values) != len(self.seeds):
            return None
        return tuple(sum(each) / len(each) for each in zip(*values, strict=True))

    def work(self, most: int = 10**6, fails: Callable[[dict[str, Any]], bool] = lambda changes: False) -> list[Any]:
        done: list[dict[str, Any]] = []
        while len(done) < most and (changes := self.search.propose()) is not None:
            if fails(changes):
                entry = self.ledger.fail(changes, "ValueError: no")
            else:
                entry = self.ledger.finish(changes, {"objectives": [each(changes) for each in self.measured]}, 1.0)
            self.search.ended(entry)
            done.append(changes)
        return done


@pytest.fixture(params=[ParzenSearch, OptunaSearch], ids=["hyperopt", "optuna"], autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[InformedSearch]:
    """Every test runs with each library."""
    if issubclass(request.param, OptunaSearch):
        pytest.importorskip("optuna")
    monkeypatch.setattr(Searched, "kind", request.param)
    return request.param


def test_a_search_ends_with_as_many_points_and_none_twice(tmp_path: Path) -> None:
    done = Searched(tmp_path, FLAT).work()
    assert len(done) == len({trial_id(c) for c in done}) == 12
    assert all(set(c) == {"alpha", "every", "sizes", "loss.margin", "seed"} for c in done)
    assert all(type(c["every"]) is int and 1 <= c["every"] <= 3 and isinstance(c["sizes"], list) for c in done)
    assert {c["loss.margin"] for c in done} == {0.3}


@pytest.mark.seconds
def test_it_is_better_than_chance(tmp_path: Path) -> None:
    """Mean objective of the informed half over that of the random half, several searches."""
    gains = []
    for seed in range(5):
        done = Searched(tmp_path / str(seed), FLAT, samples=24, num_initial=12, seed=seed).work()
        values = [bowl(c) for c in done]
        gains.append(sum(values[12:]) / 12 - sum(values[:12]) / 12)
    assert sum(gains) / len(gains) > 0.02


@pytest.mark.seconds
def test_alternatives_bring_their_own_keys(tmp_path: Path) -> None:
    done = Searched(tmp_path, CONDITIONAL, samples=30).work()
    keys = {"plain": set(), "pool": {"loss.weight"}, "attention": {"loss.weight", "loss.margin"}}
    assert {c["loss.kind"] for c in done} == set(keys)
    for changes in done:
        assert set(changes) == {"alpha", "loss.kind", "seed"} | keys[changes["loss.kind"]]
        assert changes["alpha"] in (0.0, 0.25, 0.5, 0.75, 1.0)
    first = {key: value for key, value in done[0].items() if key != "seed"}
    assert first == CONDITIONAL.initial[0]


@pytest.mark.parametrize("stop", [1, 2, 5, 9])
@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_stopped_anywhere_it_goes_on_as_it_would_have(tmp_path: Path, stop: int, seeds: tuple[int, ...]) -> None:
    whole = Searched(tmp_path / "whole", CONDITIONAL, seeds, samples=8).work()
    first = Searched(tmp_path / "parts", CONDITIONAL, seeds, samples=8).work(most=stop)
    rest = Searched(tmp_path / "parts", CONDITIONAL, seeds, samples=8).work()
    assert first + rest == whole


def test_more_points_and_more_seeds_extend(tmp_path: Path) -> None:
    few = Searched(tmp_path, CONDITIONAL, samples=4).work()
    more = Searched(tmp_path, CONDITIONAL, samples=6).work()
    assert len(few) == 4
    assert len(more) == 2
    seeded = Searched(tmp_path, CONDITIONAL, (0, 1), samples=6).work()
    assert {c["seed"] for c in seeded} == {1}
    assert [{**c, "seed": 0} for c in seeded] == few + more


def test_failures_come_again_once_and_count_as_points(tmp_path: Path) -> None:
    done = Searched(tmp_path, FLAT, samples=3).work(fails=lambda c: c["alpha"] < 0.5)
    again = [c for c in done if done.count(c) > 1]
    assert again
    assert all(c["alpha"] < 0.5 for c in again)
    assert len({trial_id(c) for c in done}) == 3
    assert Searched(tmp_path, FLAT, samples=3, is_pending=lambda entry: False).work() == []
    missing = {trial_id(c) for c in again}
    assert {trial_id(c) for c in Searched(tmp_path, FLAT, samples=9, draw=False).work()} == missing


def failures(folder: Path, samples: int, kind: FailureKind) -> int:
    """How many points of three searches fail where every point above 0.5 does; below, the highest is the best."""
    count, space = 0, Space("here", {"alpha": tune.uniform(0.0, 1.0)})
    for seed in range(3):
        searched = Searched(folder / f"{kind}{seed}", space, samples=samples, num_initial=samples // 4, seed=seed)
        while (changes := searched.search.propose()) is not None:
            if changes["alpha"] > 0.5:
                count += 1
                entry = searched.ledger.fail(changes, "no", kind=kind)
            else:
                entry = searched.ledger.finish(changes, {"objectives": [changes["alpha"]]}, 1.0)
            searched.search.ended(entry, final=True)
    return count


@pytest.mark.seconds
def test_points_that_diverged_are_kept_from(tmp_path: Path) -> None:
    """The best is next to where trainings diverge, as with rates. Of other failures nothing is learnt."""
    assert failures(tmp_path, 40, FailureKind.DIVERGED) < 0.6 * failures(tmp_path, 40, FailureKind.ERROR)


@pytest.mark.seconds
def test_it_learns_from_what_it_is_told(tmp_path: Path) -> None:
    """Told where the best is, it draws nearer to it than a search that starts from nothing."""
    near = [({"alpha": 0.2 + 0.01 * k, "every": 1, "sizes": [1], "loss.margin": 0.3}, (1.0,)) for k in range(10)]
    far = [({"alpha": 0.6 + 0.04 * k, "every": 3, "sizes": [1, 2], "loss.margin": 0.3}, (-1.0,)) for k in range(10)]
    told = [Searched(tmp_path / f"told{s}", FLAT, learned=near + far, seed=s).work() for s in range(4)]
    alone = [Searched(tmp_path / f"alone{s}", FLAT, num_initial=12, seed=s).work() for s in range(4)]

    def away(searches: list[Any]) -> float:
        distances = [abs(c["alpha"] - 0.25) for done in searches for c in done]
        return sum(distances) / len(distances)

    assert [len(done) for done in told] == [12] * 4  # what it was told is not counted
    assert away(told) < 0.8 * away(alone)


@pytest.mark.seconds
def test_points_that_would_not_train_are_drawn_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Half of the space is refused; a search that is stopped draws and refuses as it would have."""

    def check(point: Mapping[str, Any]) -> None:
        if point["every"] == 1:
            raise InputError("every=1: trains nothing")

    whole = Searched(tmp_path / "whole", FLAT, check=check)
    done = whole.work()
    assert len(done) == 12
    assert all(changes["every"] > 1 for changes in done)
    assert whole.search.refused
    assert set(whole.search.refused.values()) == {"every=1: trains nothing"}
    assert sum("drew a new point instead of" in line for line in caplog.messages) == len(whole.search.refused)
    first = Searched(tmp_path / "parts", FLAT, check=check).work(most=5)
    assert first + Searched(tmp_path / "parts", FLAT, check=check).work() == done


@pytest.mark.seconds
def test_a_space_in_which_nothing_trains_ends(tmp_path: Path) -> None:
    def check(point: Mapping[str, Any]) -> None:
        raise InputError("trains nothing")

    searched = Searched(tmp_path, FLAT, check=check)
    assert searched.work() == []
    assert searched.search.refused


def test_a_point_outside_its_ranges_is_no_point(tmp_path: Path) -> None:
    space = Space("here", {"every": tune.randint(8, 14), "alpha": tune.uniform(0.0, 1.0)})  # 10 is the most
    assert all(changes["every"] <= 10 for changes in Searched(tmp_path, space).work())


def test_a_refused_trial_settles_its_point(tmp_path: Path) -> None:
    searched = Searched(tmp_path, FLAT, samples=2)
    changes = searched.search.propose()
    assert changes is not None
    assert not searched.search.ended(searched.ledger.fail(changes, "data.root: no such folder"), final=True)
    assert searched.search._open == {}
    assert len(searched.work()) == 1


def test_points_that_ended_early_go_on_where_they_are_wanted_whole(tmp_path: Path) -> None:
    done = Searched(tmp_path, FLAT, samples=3).work(most=3)
    Ledger(Folder.open(tmp_path)).finish(done[1], {"objectives": [0.0], "stopped": True}, 1.0)
    assert Searched(tmp_path, FLAT, samples=3).work() == []
    whole = Searched(tmp_path, FLAT, samples=3, is_pending=lambda entry: entry is None or not entry.complete)
    assert whole.work() == [done[1]]


def test_a_space_that_is_used_up_ends(tmp_path: Path) -> None:
    space = Space("here", {"sizes": tune.choice([[1], [2]]), "every": tune.choice([1, 2])})
    done = Searched(tmp_path, space, samples=50, num_initial=2)
    seen = []
    while (changes := done.search.propose()) is not None:
        seen.append(changes)
        done.search.ended(done.ledger.finish(changes, {"objectives": [0.0]}, 1.0))
    assert len(seen) == 4


STEPPED = Space("here", {"alpha": tune.quniform(0.1, 0.3, 0.1), "sizes": tune.choice([[1], [1, 2], [2]])})


def test_steps_whose_multiples_miss_the_end_of_their_range(tmp_path: Path) -> None:
    """HyperOpt draws 3 * 0.1 > 0.3."""
    done = Searched(tmp_path, STEPPED, samples=9, num_initial=3).work()
    assert {changes["alpha"] for changes in done} == {0.1, 0.2, 0.3}
    assert len({trial_id(changes) for changes in done}) == 9


def test_a_ledger_that_holds_such_draws_is_gone_on_from(tmp_path: Path) -> None:
    """As it was written when draws were not moved into their range."""
    ledger = Ledger(Folder.open(tmp_path))
    for k, sizes in enumerate(([1], [1, 2], [2])):
        ledger.finish({"alpha": 3 * 0.1, "sizes": sizes, "seed": 0}, {"objectives": [float(k)]}, 1.0)
    searched = Searched(tmp_path, STEPPED, samples=5)
    assert len(searched.work()) == 2


def test_refusals(kind: type[InformedSearch]) -> None:
    with pytest.raises(InputError, match="alpha: a grid cannot be searched"):
        kind.check_space(Space("here", {"alpha": tune.grid_search([0.1])}))
    with pytest.raises(InputError, match="which: a grid cannot be searched"):
        kind.check_space(Space("here", {"which": tune.grid_search([{"alpha": 0.1}])}))
    with pytest.raises(InputError, match="nothing in it varies"):
        kind.check_space(Space("here", {"alpha": 0.1}))
    assert [first_draws(n) for n in (1, 9, 60, 300)] == [1, 3, 20, 20]


@pytest.mark.seconds
@pytest.mark.parametrize("kind", [GaussianProcessSearch], indirect=True)
def test_a_gaussian_process_goes_on_as_it_would_have_and_beats_chance(tmp_path: Path) -> None:
    whole = Searched(tmp_path / "whole", FLAT, samples=14, num_initial=7).work()
    first = Searched(tmp_path / "parts", FLAT, samples=14, num_initial=7).work(most=9)
    assert first + Searched(tmp_path / "parts", FLAT, samples=14, num_initial=7).work() == whole
    values = [bowl(changes) for changes in whole]
    assert sum(values[7:]) > sum(values[:7])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [GaussianProcessSearch], indirect=True)
def test_a_gaussian_process_keeps_from_points_that_diverged(tmp_path: Path) -> None:
    assert failures(tmp_path, 12, FailureKind.DIVERGED) < 0.6 * failures(tmp_path, 12, FailureKind.ERROR)


@pytest.mark.parametrize("kind", [OptunaSearch], indirect=True)
def test_optuna_needs_bounds(kind: type[InformedSearch]) -> None:
    with pytest.raises(InputError, match=r"^search space here: alpha: a normal distribution has no bounds; use"):
        kind.check_space(Space("here", {"alpha": tune.randn(0.5, 0.1)}))


@pytest.mark.parametrize("kind", [OptunaSearch], indirect=True)
def test_trials_that_run_at_once_keep_apart(tmp_path: Path) -> None:
    """Of points drawn while none has ended, no two are near each other more often than chance would have it."""
    space = Space("here", {"alpha": tune.uniform(0.0, 1.0)})
    ended = [({"alpha": 0.5 + 0.05 * k}, (-abs(0.05 * k),)) for k in range(-8, 9)]
    searched = Searched(tmp_path, space, samples=4, learned=ended, num_initial=1)
    drawn = [searched.search.propose() for _ in range(4)]
    alphas = sorted(changes["alpha"] for changes in drawn if changes is not None)
    assert len(alphas) == 4
    assert min(b - a for a, b in itertools.pairwise(alphas)) > 1e-3
