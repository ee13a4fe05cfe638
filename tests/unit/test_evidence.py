"""A miniature study from its search to its verdicts: in slices, once each, and whole."""

import dataclasses
import json
import types
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit import killed_tasks
from vse import evidence, pipeline
from vse.config import flatten, override
from vse.errors import InputError
from vse.evaluation.per_image import PerImage, counts_of
from vse.evaluation.retrieval import retrieve
from vse.evidence import Planner, Task, perform, read_summary, read_table, run_tasks
from vse.presets import preset
from vse.report.claims import PLATEAU, UNIVSE_CLAIMS, registered_hash
from vse.report.findings import PLAIN, Results, findings, row_metrics
from vse.report.studies import Study, StudyArm
from vse.trained import encode_split, load_run
from vse.training.code import name_of, this_code
from vse.workspace import Workspace

ALPHAS = (0.0, *PLATEAU, 1.0)
SPLITS = ("test", "shifted")
STUDY = Study(
    name="miniature",
    data={"data.num_train": 40, "data.num_val": 6, "data.num_test": 6, "data.num_shifted": 5, "train.epochs": 2},
    arms={
        "vsepp": StudyArm(preset="vsepp_tiny", family="vsepp"),
        "univse": StudyArm(preset="univse_tiny", family="univse", alphas=ALPHAS),
        "vsepp_longer": StudyArm(preset="vsepp_tiny", family="vsepp", longer="univse"),
        "univse_no_comp": StudyArm(
            preset="univse_tiny", family="univse", changes={"objective.eta_c": 0.0}, alphas=(0.75, 1.0)
        ),
    },
    search={"vsepp": ({"optim.lr": 1e-9}, {"optim.lr": 2e-3}), "univse": ({"optim.lr": 2e-3},)},
    splits=SPLITS,
    seeds=2,
    transfers={"drawing": {"data.drawing": "second"}, "wording": {"data.wording": "second"}},
)


class Here:
    """Stands for the pool of processes: does each task at once, in this one."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def submit(self, function: Any, task: Task) -> Future[str]:
        future: Future[str] = Future()
        try:
            future.set_result(function(task))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Planner:
    workspace = Workspace.open(str(tmp_path_factory.mktemp("evidence")))
    return Planner(STUDY, workspace, {"model.dim": 32}, 2)


def do(planner: Planner, tasks: list[Task], deadline: float = float("inf")) -> tuple[bool, list[str]]:
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "ProcessPoolExecutor", Here)
        return run_tasks(tasks, 1, deadline, said.append), said


def search(planner: Planner) -> list[Task]:
    return [task for each in planner.search_tasks().values() for trainings in each for task in trainings]


@pytest.fixture(scope="module")
def done(planner: Planner) -> dict[str, list[Task]]:
    """Everything, in as many slices as tasks: each slice starts one and stops."""
    assert planner.chosen() is None
    slices = 0
    while planner.chosen() is None:
        complete, said = _slice(planner, search(planner))
        slices += 1
        assert len(said) == 1
        assert complete == (slices == 3)
    chosen = planner.chosen()
    assert chosen is not None
    tasks = planner.arm_tasks(chosen)
    assert set(tasks) == {"vsepp", "univse", "univse_no_comp"}  # one arm waits for the seconds of another
    assert not planner.answerable(tasks)
    while not _slice(planner, planner.in_order(tasks))[0]:
        slices += 1
    slices += 1
    tasks = planner.arm_tasks(chosen)
    assert set(tasks) == set(STUDY.arms)
    assert do(planner, planner.in_order(tasks))[0]
    assert slices == 3 + 6
    return tasks


def _slice(planner: Planner, tasks: list[Task]) -> tuple[bool, list[str]]:
    """One task, then the budget is spent."""
    clock = iter([0.0, *[2.0] * 1000])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
        return do(planner, tasks, deadline=1.0)


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


def test_names_are_stable_and_tell_tasks_apart(planner: Planner, done: dict[str, list[Task]]) -> None:
    every = [*search(planner), *(task for tasks in done.values() for task in tasks)]
    assert len({task.name for task in every}) == len(every)
    again = [*search(planner), *(t for tasks in planner.arm_tasks(_chosen(planner)).values() for t in tasks)]
    assert [t.name for t in again] == [t.name for t in every]
    task = every[0]
    others = [
        dataclasses.replace(task, splits=("test",)),
        dataclasses.replace(task, alphas=(1.0,)),
        dataclasses.replace(task, config=override(task.config, {"seed": 7})),
        dataclasses.replace(task, transfers=(("drawing", (("data.drawing", "second"),)),)),
    ]
    assert len({task.name, *(other.name for other in others)}) == 5
    assert dataclasses.replace(task, workspace="other", results="other").name == task.name


def _chosen(planner: Planner) -> dict[str, Any]:
    chosen = planner.chosen()
    assert chosen is not None
    return chosen


def summary(planner: Planner, task: Task) -> dict[str, Any]:
    found = read_summary(task)
    assert found is not None
    return found


def test_validation_chooses_and_the_chosen_is_used(planner: Planner, done: dict[str, list[Task]]) -> None:
    chosen = _chosen(planner)
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


def test_what_is_done_is_not_done_again(
    planner: Planner, done: dict[str, list[Task]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "perform", lambda task: pytest.fail("done again"))
    assert do(planner, planner.in_order(done)) == (True, [])
    assert do(planner, search(planner)) == (True, [])


def test_a_spent_budget_starts_nothing(planner: Planner) -> None:
    other = Planner(STUDY, planner.workspace, {"model.dim": 16}, 2)
    assert do(other, search(other), deadline=0.0) == (False, [])


def test_a_failing_task_leaves_the_others_alone(
    planner: Planner, done: dict[str, list[Task]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [dataclasses.replace(done["vsepp"][0], label=label) for label in ("one", "two", "three")]
    finished: list[str] = []

    def some(task: Task) -> str:
        if task.label == "two":
            raise ValueError("broken")
        finished.append(task.label)
        return task.name

    monkeypatch.setattr(evidence, "perform", some)
    complete, said = do(planner, tasks)
    assert not complete
    assert finished == ["one", "three"]
    assert [line for line in said if "failed" in line] == ["two seed 0: failed: ValueError('broken'), 1 to go"]


def test_tables_agree_with_the_measures_of_the_run(planner: Planner, done: dict[str, list[Task]]) -> None:
    from vse.measuring.options import MeasureOptions
    from vse.measuring.stage import measure_run

    for name, alpha in (("vsepp", "none"), ("univse", "0.75")):
        task = done[name][0]
        summary = read_summary(task)
        assert summary is not None
        found = measure_run(planner.workspace.run(summary["run"]), planner.workspace, MeasureOptions(splits=SPLITS))
        for split in SPLITS:
            for words, behind in (("shared", ""), ("disjoint", "/disjoint")):
                table = read_table(task, split, words, alpha)
                for kind in ("object", "attribute", "relation"):
                    hits, number = counts_of(table, f"attack_{kind}/pair_accuracy")
                    assert 100 * hits.sum() / number.sum() == pytest.approx(
                        found[f"{split}/attack_{kind}{behind}/pair_accuracy"]
                    )
    curve = read_summary(done["univse"][0])
    assert curve is not None
    assert {float(alpha) for alpha in curve["alphas"]} == set(ALPHAS)


def test_where_a_learned_alpha_ended_is_kept_and_told(planner: Planner, done: dict[str, list[Task]]) -> None:
    changes: dict[str, Any] = {"model.learn_alpha": True, "train.epochs": 1}
    tasks = [
        Task("learned", override(done["univse"][0].config, {**changes, "seed": seed}), (), (), *_places(planner))
        for seed in (0, 1)
    ]
    tasks = [dataclasses.replace(task, splits=("test",)) for task in tasks]
    assert do(planner, tasks)[0]
    ends = []
    for task in tasks:
        summary = read_summary(task)
        assert summary is not None
        ended = load_run(planner.workspace.run(summary["run"])).family.get_parameter("alpha_logit").sigmoid().item()
        assert summary["learned_alpha"] == pytest.approx(ended)
        ends.append(summary["learned_alpha"])
    mean, low, high = Results(planner, {**done, "learned": tasks}).learned_alphas()["learned"]
    assert mean == pytest.approx(np.mean(ends))
    assert low < mean < high
    assert Results(planner, done).learned_alphas() == {}


def _places(planner: Planner) -> tuple[str, str]:
    return planner.workspace.root.uri, planner.workspace.root.child("evidence").uri


@pytest.mark.parametrize("name", ["vsepp", "univse"])
def test_transfer_is_measured_as_the_run_would_be_on_other_data(
    planner: Planner, done: dict[str, list[Task]], name: str
) -> None:
    """By the other way through: records and features of the whole other configuration, the run's own vocabulary."""
    task = done[name][0]
    finished, alpha = read_summary(task), "0.75" if name == "univse" else "none"
    assert finished is not None
    trained = load_run(planner.workspace.run(finished["run"]))
    rsums = {"": _rsum(read_table(task, "test", "shared", alpha))}
    for split, changes in STUDY.transfers.items():
        other = pipeline.prepare(override(task.config, changes), planner.workspace)
        codes = encode_split(trained, other, "test")
        rsums[split] = _rsum(read_table(task, split, "shared", alpha))
        assert rsums[split] == pytest.approx(
            retrieve(trained.family, codes.images, codes.captions, codes.owner).metrics()["rsum"]
        )
    assert len(set(rsums.values())) == 3


def _rsum(table: PerImage) -> float:
    hits, queries = counts_of(table, "rsum")
    return float((100 * hits.sum(0) / queries.sum(0)).sum())


def test_results_kept_elsewhere_serve_another_workspace(
    planner: Planner, done: dict[str, list[Task]], tmp_path: Path
) -> None:
    kept = planner.workspace.root.child("evidence").uri
    elsewhere = Planner(STUDY, Workspace.open(str(tmp_path)), planner.given, planner.seeds, kept)
    tasks = elsewhere.arm_tasks(_chosen(elsewhere))
    assert {name: [t.name for t in each] for name, each in tasks.items()} == {
        name: [t.name for t in each] for name, each in done.items()
    }
    assert do(elsewhere, elsewhere.in_order(tasks)) == (True, [])
    assert findings(elsewhere, tasks, "") == findings(planner, done, "")


def test_findings_are_complete_plain_data(planner: Planner, done: dict[str, list[Task]]) -> None:
    found = findings(planner, done, "python jobs/evidence.py")
    assert json.dumps(found, allow_nan=False)  # as the file is written
    assert found["study"] == "miniature"
    assert found["claims_hash"] == registered_hash()
    assert found["seeds"] == 2
    assert found["code"] == [name_of(this_code(preset("vsepp_tiny")))]
    assert found["search"].keys() == {"vsepp", "univse"}
    assert found["alpha"].keys() == {"univse"}
    assert found["alpha"]["univse"] in ALPHAS
    for words in ("shared", "disjoint"):
        assert found["claims"][words].keys() == {claim.name for claim in UNIVSE_CLAIMS}
        for verdict in found["claims"][words].values():
            assert verdict["statement"]
            assert verdict["answer"] in ("holds", "does not hold", "undecided")
        rows = found["table"][words]
        expected = {
            (name, split, alpha)
            for name, arm in STUDY.arms.items()
            for split in (*SPLITS, "drawing", "wording")
            for alpha in arm.alphas or (None,)
        }
        assert {(row["arm"], row["split"], row["alpha"]) for row in rows} == expected
        assert len(rows) == len(expected)
        for row in rows:
            assert row["seconds"][0] > 0
            assert ("attack_object/r1" in row) == (row["split"] in SPLITS)
            for metric in row_metrics() if row["split"] in SPLITS else PLAIN:
                mean, low, high = row[metric]
                assert low <= mean + 1e-3
                assert mean <= high + 1e-3


def test_no_verdict_from_two_seeds_claims_too_much(planner: Planner, done: dict[str, list[Task]]) -> None:
    verdicts = findings(planner, done, "")["claims"]["shared"]
    assert {v["answer"] for v in verdicts.values()} == {"undecided"}  # headline claims ask for ten seeds


@pytest.mark.slow
def test_tasks_run_in_processes_of_their_own(tmp_path: Path) -> None:
    config = override(preset("vsepp_tiny"), {**STUDY.data, "train.epochs": 1})
    kept = str(tmp_path / "kept")
    tasks = [Task("real", override(config, {"seed": seed}), (), (), str(tmp_path), kept) for seed in (0, 1)]
    assert evidence.ProcessPoolExecutor is ProcessPoolExecutor
    said: list[str] = []
    assert run_tasks(tasks, 2, float("inf"), said.append)
    assert len(said) == 2
    assert all(read_summary(task) is not None for task in tasks)
    names = {perform(task) for task in tasks}  # finished runs: measured again, trained no more
    assert {f"{name}.json" for name in names} == {path.name for path in Path(kept).iterdir()}


def test_a_process_that_is_killed_ends_its_own_task_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "perform", killed_tasks.perform)
    config = preset("vsepp_tiny")
    tasks = [
        Task("killed", override(config, {"seed": seed}), (), (), str(tmp_path), str(tmp_path / "kept"))
        for seed in range(3)
    ]
    said: list[str] = []
    assert not run_tasks(tasks, 1, float("inf"), said.append)
    assert [line.split(", ")[0].split("(")[0] for line in said] == [
        "killed seed 0: a process was killed; once more at the end",
        "killed seed 1: done",
        "killed seed 2: done",
        "killed seed 0: failed: BrokenProcessPool",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-0", "0-1", "1-0", "2-0"]
