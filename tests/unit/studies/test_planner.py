"""A study's plan: an equal search, what it chose, and which arms come first."""

import dataclasses

import numpy as np
import pytest

from tests.unit.studies.miniature import STUDY, chosen_of, search, summary
from vse.config import flatten
from vse.errors import InputError
from vse.studies.planner import Planner
from vse.studies.tasks import Task


def test_the_search_is_equal_and_apart(planner: Planner) -> None:
    tasks = planner.search_tasks()
    assert [len(each) for each in tasks.values()] == [2, 1]
    for task in search(planner):
        assert task.config.seed == STUDY.search_seed
        assert (task.splits, task.alphas) == ((), ())
        assert (flatten(task.config)["model.dim"], task.config.train.epochs) == (32, 2)
    folds = Planner(dataclasses.replace(STUDY, folds=3), planner.workspace, {}, 2).search_tasks()["vsepp"]
    flat = [[flatten(task.config) for task in each] for each in folds]
    assert [[(one["data.folds"], one["data.fold"]) for one in each] for each in flat] == [[(3, 0), (3, 1), (3, 2)]] * 2


def test_validation_chooses_and_the_chosen_is_used(planner: Planner, done: dict[str, list[Task]]) -> None:
    chosen = chosen_of(planner)
    for family, candidates in planner.search_tasks().items():
        scores = [summary(planner, trainings[0])["metrics"]["val/rsum"] for trainings in candidates]
        assert chosen[family]["val_rsum"] == pytest.approx(scores)
        assert chosen[family]["changes"] == STUDY.search[family][int(np.argmax(scores))]
    for name, tasks in done.items():
        family = STUDY.arms[name].family
        assert [task.config.seed for task in tasks] == [0, 1]
        assert {task.config.optim.lr for task in tasks} == {chosen[family]["changes"]["optim.lr"]}
    assert {flatten(task.config)["objective.eta_c"] for task in done["univse_no_comp"]} == {0.0}
    longer = done["vsepp_longer"][0].config.train.epochs
    seconds = {name: [summary(planner, task)["seconds"] for task in done[name]] for name in ("vsepp", "univse")}
    ratio = np.median([u / v for u, v in zip(seconds["univse"], seconds["vsepp"], strict=True)])
    assert longer == max(1, round(ratio * STUDY.data["train.epochs"]))


def test_some_arms_may_be_done_before_the_others(planner: Planner, done: dict[str, list[Task]]) -> None:
    some = dataclasses.replace(planner, only=("univse_no_comp", "vsepp"))
    assert [task.label for task in some.in_order(done)] == ["vsepp", "vsepp", "univse_no_comp", "univse_no_comp"]
    with pytest.raises(InputError, match=r"study.arms: miniature has no arm 'vse'; did you mean vsepp\?$"):
        dataclasses.replace(planner, only=("vse",))
    with pytest.raises(InputError, match=r"study.arms: miniature has no arm 'x'; it has vsepp, univse, "):
        dataclasses.replace(planner, only=("x",))


def test_only_the_families_of_those_arms_are_searched(planner: Planner, done: dict[str, list[Task]]) -> None:
    some = dataclasses.replace(planner, only=("vsepp_longer",))
    assert set(some.search_tasks()) == {"vsepp"}
    chosen = some.chosen()
    assert chosen is not None
    assert set(some.arm_tasks(chosen)) == {
        "vsepp"
    }  # the longer one waits for univse's seconds, whose search is not of it


def test_a_family_is_searched_as_its_first_arm_trains(planner: Planner) -> None:
    first = dataclasses.replace(STUDY.arms["vsepp"], changes={"model.word_dim": 48, "optim.lr": 1.0})
    study = dataclasses.replace(STUDY, arms={**STUDY.arms, "vsepp": first})
    (slow,), (fast,) = dataclasses.replace(planner, study=study).search_tasks()["vsepp"]
    assert [flatten(task.config)["model.word_dim"] for task in (slow, fast)] == [48, 48]
    assert [task.config.optim.lr for task in (slow, fast)] == [1e-9, 2e-3]
