"""A study's plan: an equal search, what it chose, and which arms come first."""

import dataclasses

import numpy as np
import pytest

from tests.unit.studies.miniature import STUDY, chosen_of, summary
from vse.config import flatten
from vse.errors import InputError
from vse.studies.planner import Planner
from vse.studies.trainings import Training


def test_the_search_is_equal_and_apart(planner: Planner) -> None:
    searches = planner.candidates()
    assert [len(each) for each in searches.values()] == [2, 1]
    for training in planner.search():
        assert training.config.seed == STUDY.search_seed
        assert (training.splits, training.alphas) == ((), ())
        assert (flatten(training.config)["model.dim"], training.config.train.epochs) == (32, 2)
    folds = Planner(dataclasses.replace(STUDY, folds=3), planner.archive, {}, 2).candidates()["vsepp"]
    flat = [[flatten(training.config) for training in each] for each in folds]
    assert [[(one["data.folds"], one["data.fold"]) for one in each] for each in flat] == [[(3, 0), (3, 1), (3, 2)]] * 2


@pytest.mark.slow
def test_validation_chooses_and_the_chosen_is_used(planner: Planner, done: dict[str, list[Training]]) -> None:
    chosen = chosen_of(planner)
    for family, candidates in planner.candidates().items():
        scores = [summary(planner, trainings[0])["metrics"]["val/rsum"] for trainings in candidates]
        assert chosen[family]["val_rsum"] == pytest.approx(scores)
        assert chosen[family]["changes"] == STUDY.search[family][int(np.argmax(scores))]
    for name, trainings in done.items():
        family = STUDY.arms[name].family
        assert [training.config.seed for training in trainings] == [0, 1]
        assert {training.config.optim.lr for training in trainings} == {chosen[family]["changes"]["optim.lr"]}
    assert {flatten(training.config)["objective.eta_c"] for training in done["univse_no_comp"]} == {0.0}
    longer = done["vsepp_longer"][0].config.train.epochs
    seconds = {name: [summary(planner, training)["seconds"] for training in done[name]] for name in ("vsepp", "univse")}
    ratio = np.median([u / v for u, v in zip(seconds["univse"], seconds["vsepp"], strict=True)])
    assert longer == max(1, round(ratio * STUDY.data["train.epochs"]))


@pytest.mark.slow
def test_some_arms_may_be_done_before_the_others(planner: Planner, done: dict[str, list[Training]]) -> None:
    some = dataclasses.replace(planner, only=("univse_no_comp", "vsepp"))
    assert [training.label for training in some.in_order(done)] == [
        "vsepp",
        "vsepp",
        "univse_no_comp",
        "univse_no_comp",
    ]
    with pytest.raises(InputError, match=r"study.arms: miniature has no arm 'vse'; did you mean vsepp\?$"):
        dataclasses.replace(planner, only=("vse",))
    with pytest.raises(InputError, match=r"study.arms: miniature has no arm 'x'; it has vsepp, univse, "):
        dataclasses.replace(planner, only=("x",))


@pytest.mark.slow
def test_only_the_families_of_those_arms_are_searched(planner: Planner, done: dict[str, list[Training]]) -> None:
    some = dataclasses.replace(planner, only=("vsepp_longer",))
    assert set(some.candidates()) == {"vsepp"}
    chosen = some.chosen()
    assert chosen is not None
    assert set(some.arms(chosen)) == {"vsepp"}  # the longer one waits for univse's seconds, whose search is not of it


def test_a_family_is_searched_as_its_first_arm_trains(planner: Planner) -> None:
    first = dataclasses.replace(STUDY.arms["vsepp"], changes={"model.word_dim": 48, "optim.lr": 1.0})
    study = dataclasses.replace(STUDY, arms={**STUDY.arms, "vsepp": first})
    (slow,), (fast,) = dataclasses.replace(planner, study=study).candidates()["vsepp"]
    assert [flatten(training.config)["model.word_dim"] for training in (slow, fast)] == [48, 48]
    assert [training.config.optim.lr for training in (slow, fast)] == [1e-9, 2e-3]
