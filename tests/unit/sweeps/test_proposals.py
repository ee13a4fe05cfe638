"""Which trial comes next, and what Tune is told about it."""

import pickle
from typing import Any

import pytest
from ray.tune.search import Searcher

from vse.sweeps.budget import Budget, Caps, Meter, Resources
from vse.sweeps.ledger import Entry, FailureKind, trial_id
from vse.sweeps.nodes import AWAY, ENDS, PAUSE, SickNodes
from vse.sweeps.proposals import AVOIDED, LOSSES, TrialList, TrialSearcher


def ended(
    changes: dict[str, Any], state: Any = "finished", seconds: float = 1.0, failure: FailureKind | None = None
) -> Entry:
    return Entry(id=trial_id(changes), changes=changes, state=state, seconds=seconds, failure=failure, spent=seconds)


def capped(seconds: float, expected: float | None = None) -> Meter:
    return Meter(Budget(Caps(max_seconds=seconds), Resources()), expected=expected)


def unlimited() -> Meter:
    return Meter(Budget(Caps(), Resources()))


def end(meter: Meter, entry: Entry) -> None:
    meter.ended(entry.id, entry.spent, entry.need, entry.length if entry.complete else None)


def test_in_their_order_and_again_after_a_failure() -> None:
    trials = [{"x": 1}, {"x": 2}]
    proposer = TrialList(trials, attempts=2)
    assert proposer.propose() == {"x": 1}
    assert proposer.ended(ended({"x": 1}, "failed"))
    assert proposer.propose() == {"x": 2}
    assert not proposer.ended(ended({"x": 2}))
    assert proposer.propose() == {"x": 1}
    assert not proposer.ended(ended({"x": 1}, "failed"))
    assert proposer.propose() is None


def test_lost_nodes_are_no_failures_of_a_trial_until_they_are_many() -> None:
    proposer, changes = TrialList([{"x": 1}], attempts=2), {"x": 1}
    lost = ended(changes, "failed", failure=FailureKind.NODE_LOST)
    assert all(proposer.ended(lost) for _ in range(LOSSES))
    assert proposer.ended(ended(changes, "failed", failure=FailureKind.ERROR))
    assert not proposer.ended(lost)
    assert not proposer.ended(ended(changes, "failed", failure=FailureKind.ERROR))


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if kind.is_innocent])
def test_what_is_no_fault_of_a_trial_may_be_more_often_than_its_failures(kind: FailureKind) -> None:
    proposer = TrialList([{"x": 1}], attempts=1)
    ends = [proposer.ended(ended({"x": 1}, "failed", failure=kind)) for _ in range(LOSSES + 1)]
    assert ends == [True] * LOSSES + [False]


def test_a_trial_waits_for_its_place_however_often_it_has_none() -> None:
    proposer = TrialList([{"x": 1}])
    without = ended({"x": 1}, "failed", failure=FailureKind.NO_RESOURCES)
    assert all(proposer.ended(without) for _ in range(10 * LOSSES))


def test_tune_waits_while_a_running_trial_may_come_again() -> None:
    proposer = TrialList([{"x": 1}])
    searcher = TrialSearcher(proposer, unlimited())
    assert searcher.suggest("a") == {"changes": {"x": 1}}
    assert searcher.suggest("b") is None
    searcher.on_trial_complete("a", error=True)
    proposer.ended(ended({"x": 1}, "failed"))
    assert searcher.suggest("b") == {"changes": {"x": 1}}
    searcher.on_trial_complete("b")
    proposer.ended(ended({"x": 1}))
    assert searcher.suggest("c") == Searcher.FINISHED
    assert searcher.held_back is None


def test_the_cap_lets_nothing_new_start() -> None:
    meter = capped(2.5, 1.0)
    searcher = TrialSearcher(TrialList([{"x": number} for number in range(5)]), meter)
    assert searcher.suggest("a") == {"changes": {"x": 0}}
    assert searcher.suggest("b") == {"changes": {"x": 1}}
    for name, number in (("a", 0), ("b", 1)):
        searcher.on_trial_complete(name)
        end(meter, ended({"x": number}))
    assert searcher.suggest("c") == Searcher.FINISHED
    assert searcher.held_back == {"x": 2}
    assert searcher.suggest("d") == Searcher.FINISHED


def test_what_the_cap_held_back_starts_where_others_end_sooner_than_expected() -> None:
    meter = capped(2.5, 1.0)
    searcher = TrialSearcher(TrialList([{"x": number} for number in range(4)]), meter)
    assert [searcher.suggest(name) for name in "ab"] == [{"changes": {"x": 0}}, {"changes": {"x": 1}}]
    assert searcher.suggest("c") is None
    assert searcher.held_back == {"x": 2}
    searcher.on_trial_complete("a")
    end(meter, ended({"x": 0}, "failed", seconds=0.1))
    assert searcher.suggest("c") == {"changes": {"x": 2}}
    assert searcher.held_back is None
    for name, number in (("b", 1), ("c", 2)):
        searcher.on_trial_complete(name)
        end(meter, ended({"x": number}))
    assert searcher.suggest("d") == Searcher.FINISHED
    assert searcher.held_back == {"x": 3}


def test_where_nothing_is_known_a_capped_sweep_waits_for_its_first_trial() -> None:
    meter = capped(2.5)
    searcher = TrialSearcher(TrialList([{"x": number} for number in range(5)]), meter)
    assert searcher.suggest("a") == {"changes": {"x": 0}}
    assert searcher.suggest("b") is None
    searcher.on_trial_complete("a")
    end(meter, ended({"x": 0}))
    assert searcher.suggest("b") == {"changes": {"x": 1}}
    assert searcher.suggest("c") is None  # 1 + 1 expected + 1 are too much, but b may be over sooner
    searcher.on_trial_complete("b")
    end(meter, ended({"x": 1}))
    assert searcher.suggest("c") == Searcher.FINISHED


def test_a_refused_trial_does_not_come_again() -> None:
    proposer = TrialList([{"x": 1}])
    proposer.propose()
    assert not proposer.ended(ended({"x": 1}, "failed"), final=True)
    assert proposer.propose() is None


def test_trials_keep_from_sick_nodes_and_come_again() -> None:
    now = [0.0]
    sick = SickNodes(lambda: False, clock=lambda: now[0])
    proposer = TrialList([{"x": number} for number in range(5)])
    searcher = TrialSearcher(proposer, unlimited(), sick=sick)
    assert searcher.suggest("a") == {"changes": {"x": 0}}
    sick.ill("n1", "host-1", "StorageError", "full")
    assert proposer.ended(ended({"x": 0}, "failed", failure=FailureKind.NODE_FAULT))
    searcher.on_trial_complete("a")
    assert searcher.suggest("b") is None  # a pause
    now[0] += PAUSE
    assert searcher.suggest("b") == {"changes": {"x": 1}}
    sick.ill("n1", "host-1", "StorageError", "full")
    now[0] += PAUSE
    assert searcher.suggest("c") == {"changes": {"x": 2}, AVOIDED: ["n1"]}
    lost = ended({"x": 0}, "failed", failure=FailureKind.NODE_FAULT)
    assert [proposer.ended(lost) for _ in range(LOSSES)] == [True] * (LOSSES - 1) + [False]


def test_where_all_nodes_are_left_out_trials_wait_for_the_first_that_comes_back() -> None:
    """One that keeps from all of them would do so for its life, and hold the place of others."""
    now = [0.0]
    sick = SickNodes(lambda: False, clock=lambda: now[0])
    proposer = TrialList([{"x": 1}, {"x": 2}])
    searcher = TrialSearcher(proposer, unlimited(), sick=sick, elsewhere=lambda left_out: left_out != ["n1", "n2"])
    for node in ("n1", "n2"):
        sick.well(node)
        for _ in range(ENDS):
            assert sick.ill(node, node, "StorageError", "full") == "here"
        now[0] += 2 * PAUSE
    assert [searcher.suggest("a"), searcher.suggest("b")] == [None, None]
    now[0] = AWAY - 1.0
    assert searcher.suggest("a") is None
    now[0] = AWAY
    assert searcher.suggest("a") == {"changes": {"x": 1}, AVOIDED: ["n2"]}
    assert searcher.held_back is None


def test_where_nothing_is_left_nobody_waits_for_nodes_that_are_left_out() -> None:
    sick = SickNodes(lambda: False, clock=lambda: 2 * PAUSE)
    sick.ill("n1", "n1", "StorageError", "full")
    sick.ill("n1", "n1", "StorageError", "full")
    sick._rested = 0.0
    searcher = TrialSearcher(TrialList([]), unlimited(), sick=sick, elsewhere=lambda left_out: False)
    assert searcher.suggest("a") == Searcher.FINISHED


def test_nothing_new_starts_where_results_have_no_place() -> None:
    broken: list[bool] = []
    searcher = TrialSearcher(TrialList([{"x": 1}, {"x": 2}]), unlimited(), lambda: bool(broken))
    assert searcher.suggest("a") == {"changes": {"x": 1}}
    broken.append(True)
    assert searcher.suggest("b") == Searcher.FINISHED


def test_tune_may_save_it_whatever_the_proposer_holds() -> None:
    """Tune pickles its searcher when an experiment begins; open generators and locks below it must not matter."""
    proposer: Any = TrialList([{"x": 1}])
    proposer.open = (number for number in range(3))
    assert pickle.loads(pickle.dumps(TrialSearcher(proposer, unlimited()))).__dict__ == {}


def test_a_training_that_diverged_is_not_retried() -> None:
    assert not TrialList([{"x": 1}]).ended(ended({"x": 1}, "failed", failure=FailureKind.DIVERGED))
