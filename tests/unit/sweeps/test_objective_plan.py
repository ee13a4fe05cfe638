"""What a request for a sweep of trainings means, and what is refused before anything starts."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from vse import presets
from vse.cli.command import Request
from vse.config import override, to_dict
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.sweeps.budget import Resources
from vse.sweeps.estimates import estimate
from vse.sweeps.informed_search import warm_points
from vse.sweeps.job import describe_sweep
from vse.sweeps.ledger import Ledger, open_sweep, sweep_name
from vse.sweeps.objective import ObjectivePlan, ObjectiveSweepOptions, check_point, make_plan
from vse.sweeps.plan import JobOptions, label_of
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds


def describe_plan(asked: Request) -> list[str]:
    return describe_sweep(asked, make_plan)


def request(preset: str = "univse_tiny", workspace: str = "/nowhere", space: str = "eta", **changes: Any) -> Request:
    given = {key.replace("__", "."): value for key, value in changes.items()}
    options = {key: value for key, value in given.items() if key.split(".")[0] in ("sweep", "ray")}
    return Request(
        job="sweep_eta",
        workspace=workspace,
        preset=preset,
        config=override(presets.preset(preset), {key: value for key, value in given.items() if key not in options}),
        options=override(JobOptions(sweep=ObjectiveSweepOptions(space=space)), options),
        changed=frozenset(given),
        tracking=None,
    )


def entered(workspace: Path, plan: ObjectivePlan, values: dict[str, float], **more: Any) -> Folder:
    """A sweep whose trials of some labels have finished."""
    ledger = Ledger(folder := open_sweep(Workspace.open(str(workspace)), plan.name, plan.definition()))
    for point in plan.listed:
        (key,) = point
        if (name := f"{key.rpartition('.')[2]}={point[key]:g}") in values:
            for trial in plan.trials_of(point, "data"):
                ledger.finish(trial, {"objective": values[name], "run": "none", **more}, 10.0)
    return folder


def test_the_sweep_of_the_supplement() -> None:
    plan = make_plan(request("univse_scenes"))
    assert len(plan.listed) == 20
    assert plan.name == "eta-univse_scenes"
    assert plan.seeds == (0,)
    assert {"seed": 0, "material": "m", "objective.eta_c": 0.1} in plan.trials_of(plan.listed[0], "m")
    assert "highest mean over seeds" in plan.definition()["rule"]


@pytest.mark.parametrize(
    ("space", "preset", "count"),
    [
        ("margin", "relational_attention_scenes", 15),
        ("lambdas", "jwae_mh_scenes", 19),
        ("lambdas", "jwae_mse_scenes", 19),
    ],
)
def test_points_that_make_one_configuration_are_one(space: str, preset: str, count: int) -> None:
    """The preset's own value occurs for several keys (margin and structure_margin 0.2; λ1 and λ2 at 1): tried once."""
    plan = make_plan(request(preset, space=space))
    assert len(plan.listed) == count
    made = [json.dumps(to_dict(override(plan.config, point)), sort_keys=True) for point in plan.listed]
    assert len(set(made)) == count


def test_seeds_points_method_and_concurrency_extend_a_sweep_and_do_not_make_it_another() -> None:
    first = make_plan(request(space="eta_joint", sweep__method="random")).definition()
    same: list[dict[str, Any]] = [
        {"sweep__method": "hyperopt"},
        {"sweep__method": "asha", "train__epochs": 2},
        {"sweep__samples": 99},
        {"sweep__seeds": "4,5"},
        {"sweep__concurrency": 1},
        {"sweep__max_seconds": 5},
        {"sweep__run": "failed"},
        {"train__workers": 2},
        {"train__checkpoint_seconds": 7},
    ]
    for each in same:
        assert make_plan(request(space="eta_joint", **{"sweep__method": "random", **each})).definition() == first
    others: list[dict[str, Any]] = [{"optim__lr": 0.5}, {"sweep__objective": "both"}, {"train__epochs": 3}]
    others.append({"train__gpus_per_worker": 1})
    for each in others:
        assert make_plan(request(space="eta_joint", **{"sweep__method": "random", **each})).definition() != first


def test_drawn_points_begin_with_the_initial_ones_and_extend() -> None:
    few = make_plan(request(space="eta_joint", sweep__method="random", sweep__samples=4)).listed
    more = make_plan(request(space="eta_joint", sweep__method="random", sweep__samples=7)).listed
    assert few[0] == {"objective.eta_c": 0.5, "objective.eta_o": 0.5, "objective.eta_a": 0.5, "objective.eta_r": 1.0}
    assert (len(few), len(more)) == (4, 7)
    assert more[:4] == few
    assert make_plan(request(space="eta_joint", sweep__method="hyperopt")).listed == ()


def limit(plan: ObjectivePlan) -> float:
    return plan.budget().left(())


def test_resources_and_the_cap() -> None:
    assert make_plan(request()).need() == Resources(cpus=1)
    shared: dict[str, Any] = {"train__gpus_per_worker": 0.125}
    assert make_plan(request(**shared)).need() == Resources(cpus=1, gpus=0.125)
    assert make_plan(request(**shared)).need().at_once({"CPU": 16, "GPU": 1}) == 8
    assert limit(make_plan(request(**shared, sweep__max_gpu_hours=0.5))) == 0.5 * 3600 / 0.125
    assert limit(make_plan(request(**shared, sweep__max_gpu_hours=0.5, sweep__max_seconds=60))) == 60
    assert limit(make_plan(request())) == float("inf")
    nested = make_plan(request(train__workers=2, train__gpus_per_worker=1))
    assert nested.need() == Resources(cpus=2, gpus=2, workers=2)


@pytest.mark.parametrize(
    ("space", "changes", "message"),
    [
        ("eta", {"seed": 3}, r"seed: a sweep takes its seeds from sweep\.seeds"),
        ("eta", {"sweep__seeds": "1,1"}, "one or more different numbers"),
        ("etta", {}, "did you mean eta"),
        ("eta", {"objective__eta_c": 2.0}, r"objective\.eta_c: is set by you and searched by eta"),
        ("eta", {"sweep__method": "hyperopt"}, "a grid cannot be searched by HyperOpt"),
        ("eta_joint", {}, "has ranges to draw from; use random, hyperopt, optuna or asha"),
        ("eta", {"sweep__max_gpu_hours": 1}, r"take no GPU; use sweep\.max_seconds"),
        ("eta", {"sweep__warm_start": "x"}, "cannot learn from trials"),
        ("eta", {"sweep__method": "asha", "sweep__objective": "pairs"}, "known only when they have ended"),
        ("eta_joint", {"sweep__method": "hyperopt", "sweep__objective": "front"}, "maximises one number"),
        ("eta", {"sweep__method": "asha", "train__workers": 2}, "only stops trials with one worker"),
        ("eta", {"sweep__method": "asha", "train__epochs": 1}, "has 1 epochs in all"),
        ("lambdas", {}, r"objective\.lambda1: no such key"),
    ],
)
def test_refusals_before_anything_starts(space: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        make_plan(request(space=space, **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "method", "message"),
    [
        ("seed", "grid", "seed: a sweep takes its seeds"),
        ("train.threads", "grid", "train.threads: sets the resources of a trial"),
        ("train.epochs", "asha", "train.epochs: asha compares trials of equal length"),
    ],
)
def test_what_no_space_may_search(tmp_path: Path, key: str, method: str, message: str) -> None:
    (tmp_path / "s.py").write_text(f"from ray import tune\nSPACE = {{'{key}': tune.grid_search([1, 2])}}\n")
    with pytest.raises(InputError, match=message):
        make_plan(request(space=str(tmp_path / "s.py"), sweep__method=method))


def test_a_space_whose_files_are_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "from ray import tune\nSPACE = {'text.word_vectors': tune.grid_search(['', 'no.vec'])}\n"
    )
    with pytest.raises(InputError, match=r"s\.py: word_vectors=no\.vec: no\.vec: no such file of word vectors"):
        make_plan(request("vsepp_tiny", space=str(tmp_path / "s.py")))


def test_a_point_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """Each key may do by itself: the margin is the preset's, and so may be the other objective."""
    space = "SPACE = {'objective.margin': 0.1, 'objective': tune.grid_search(['ranking', 'infonce'])}\n"
    (tmp_path / "s.py").write_text(f"from ray import tune\n{space}")
    message = (
        r"s\.py: margin=0\.1 objective=infonce: objective\.margin: no such key.*goes below the choices that have it"
    )
    with pytest.raises(InputError, match=message):
        make_plan(request("vsepp_tiny", space=str(tmp_path / "s.py")))


def test_a_trial_is_called_the_same_before_and_after_it_ran(tmp_path: Path) -> None:
    """A ledger sorts the keys of what it writes."""
    (tmp_path / "s.py").write_text("SPACE = {'optim.lr': 0.1, 'objective.margin': 0.3, 'model.dim': 8}\n")
    plan = make_plan(request("vsepp_tiny", space=str(tmp_path / "s.py")))
    (changes,) = plan.trials_of(plan.listed[0], "data")
    entry = Ledger(Folder.open(tmp_path)).fail(changes, "no")
    listed = describe_plan(request("vsepp_tiny", workspace=str(tmp_path / "w"), space=str(tmp_path / "s.py")))
    assert label_of(entry.changes) == "lr=0.1 margin=0.3 dim=8 seed=0"
    assert f"  {label_of(entry.changes)}: to run" in listed


def test_which_trials_may_run(tmp_path: Path) -> None:
    plan = make_plan(request())
    ledger = Ledger(Folder.open(tmp_path))
    failed, untried = (plan.trials_of(point, "m")[0] for point in plan.listed[:2])
    ledger.fail(failed, "no")
    found = {
        mode: [make_plan(request(sweep__run=mode)).is_pending(ledger.get(changes)) for changes in (failed, untried)]
        for mode in ("all", "new", "failed")
    }
    assert found == {"all": [True, True], "new": [False, True], "failed": [True, False]}


def test_what_asha_ended_early_goes_on_by_another_method(tmp_path: Path) -> None:
    plan = make_plan(request(workspace=str(tmp_path)))
    folder = entered(tmp_path, plan, {"eta_c=0.1": 10.0}, stopped=True)
    (changes,) = plan.trials_of(plan.listed[0], "data")
    assert (plan.whole, plan.value_of(Ledger(folder), plan.listed[0], "data")) == (True, None)
    lines = describe_plan(request(workspace=str(tmp_path)))
    assert "  eta_c=0.1 seed=0: to go on, ended early" in lines
    assert "20 trials to run, 1 finished, 0 failed" in lines
    halved = make_plan(request(sweep__method="asha", workspace=str(tmp_path)))
    assert (halved.whole, halved.value_of(Ledger(folder), plan.listed[0], "data")) == (False, (10.0,))
    lines = describe_plan(request(workspace=str(tmp_path), sweep__method="asha"))
    assert "  eta_c=0.1 seed=0: finished, ended early" in lines
    assert "19 trials to run, 1 finished, 0 failed" in lines
    Ledger(folder).finish(changes, {"objective": 12.0}, 10.0)
    assert plan.value_of(Ledger(folder), plan.listed[0], "data") == (12.0,)


def test_what_was_cut_off_counts_as_spent(tmp_path: Path) -> None:
    plan = make_plan(request(workspace=str(tmp_path), sweep__max_seconds=100))
    folder = entered(tmp_path, plan, {"eta_c=0.1": 10.0})
    Ledger(folder).keep_running([({**plan.listed[1], "seed": 0, "material": "data"}, 70.0, Resources())])
    assert sum(seconds for seconds, _ in Ledger(folder).costs()) == 80.0
    assert any(
        "cap: 100 s of trials, 80 spent" in line
        for line in describe_plan(request(workspace=str(tmp_path), sweep__max_seconds=100))
    )


def test_a_cap_counts_the_gpus_that_earlier_trials_had(tmp_path: Path) -> None:
    """Nine hours of a whole GPU and one of an eighth; now trials take an eighth."""
    asked: dict[str, Any] = {"workspace": str(tmp_path), "sweep__max_gpu_hours": 10}
    plan = make_plan(request(**asked, train__gpus_per_worker=0.125))
    assert plan.definition() == make_plan(request(**asked, train__gpus_per_worker=1)).definition()
    ledger = Ledger(entered(tmp_path, plan, {}))
    first, second = (dict(changes) for point in plan.listed[:2] for changes in plan.trials_of(point, "data"))
    ledger.finish(first, {"metrics": {}}, 9 * 3600.0, Resources(gpus=1))
    ledger.fail(second, "no", 3600.0, plan.need())
    assert plan.budget().left(ledger.costs()) == pytest.approx((10 - 9 - 0.125) * 3600 / 0.125)


def test_initial_points_of_a_search_are_refused_before_anything_starts(tmp_path: Path) -> None:
    """Relational embeddings with pools train with their own objective only."""
    space = "from ray import tune\nSPACE = {'model.structure': tune.choice(['attention', 'pool'])}\n"
    (tmp_path / "s.py").write_text(space)
    asked: dict[str, Any] = {"space": str(tmp_path / "s.py"), "sweep__method": "hyperopt", "objective": "ranking"}
    plan = make_plan(request("relational_attention_scenes", **asked))
    check_point(plan.config, {"model.structure": "attention"})
    with pytest.raises(InputError, match=r"with model\.structure=pool trains with objective=relational only"):
        check_point(plan.config, {"model.structure": "pool"})
    (tmp_path / "s.py").write_text(f"{space}INITIAL = [{{'model.structure': 'pool'}}]\n")
    with pytest.raises(InputError, match=r"with model\.structure=pool trains with objective=relational only"):
        make_plan(request("relational_attention_scenes", **asked))


def test_learning_from_another_sweep(tmp_path: Path) -> None:
    """One weight at a time tells a search of all four; points that lie outside, and other runs, do not."""
    one = make_plan(request(workspace=str(tmp_path)))
    folder = entered(tmp_path, one, {"eta_c=0.1": 10.0, "eta_r=8": 30.0})
    warm: dict[str, Any] = {"sweep__warm_start": folder.name}
    joint = make_plan(request(space="eta_joint", sweep__method="hyperopt", **warm))
    told = warm_points(joint, Workspace.open(str(tmp_path)), joint.mean_of)
    base = {"objective.eta_c": 0.5, "objective.eta_o": 0.5, "objective.eta_a": 0.5, "objective.eta_r": 1.0}
    assert told == [({**base, "objective.eta_c": 0.1}, (10.0,)), ({**base, "objective.eta_r": 8.0}, (30.0,))]
    other = make_plan(request(space="eta_joint", sweep__method="hyperopt", optim__lr=0.5, **warm))
    with pytest.raises(InputError, match=r"its runs have optim\.lr=0\.002, these 0\.5"):
        warm_points(other, Workspace.open(str(tmp_path)), other.mean_of)
    pairs = make_plan(request(space="eta_joint", sweep__method="hyperopt", sweep__objective="pairs", **warm))
    with pytest.raises(InputError, match="maximises rsum, this sweep"):
        warm_points(pairs, Workspace.open(str(tmp_path)), pairs.mean_of)
    moon = make_plan(request(space="eta_joint", sweep__method="hyperopt", sweep__warm_start="moon"))
    with pytest.raises(InputError, match=f"no such sweep; there are {folder.name}"):
        warm_points(moon, Workspace.open(str(tmp_path)), moon.mean_of)
    for damaged in ("null", "[1]", '{"objective": "rsum", "config": 1, "kind": "objective"}', "{"):
        folder.write_text("definition.json", damaged)
        with pytest.raises(InputError, match=r"definition\.json is missing or damaged"):
            warm_points(joint, Workspace.open(str(tmp_path)), joint.mean_of)
    folder.delete("definition.json")
    with pytest.raises(InputError, match=r"definition\.json is missing or damaged"):
        warm_points(joint, Workspace.open(str(tmp_path)), joint.mean_of)


def test_points_that_differ_in_what_is_fixed_here_tell_nothing(tmp_path: Path) -> None:
    """Else those of every rate would be one point, with the mean of their values."""
    both = tmp_path / "both.py"
    both.write_text(
        "from ray import tune\n"
        "SPACE = {'objective.eta_c': tune.uniform(0.1, 8), 'optim.lr': tune.choice([0.002, 0.1])}\n"
    )
    (tmp_path / "one.py").write_text("from ray import tune\nSPACE = {'objective.eta_c': tune.uniform(0.1, 8)}\n")
    plan = make_plan(request(space=str(both), sweep__method="random"))
    folder = open_sweep(Workspace.open(str(tmp_path / "w")), plan.name, plan.definition())
    ledger = Ledger(folder)
    for rate, objective, data in ((0.002, 90.0, "earlier"), (0.002, 30.0, "data"), (0.1, 10.0, "data")):
        (trial,) = plan.trials_of({"objective.eta_c": 1.0, "optim.lr": rate}, data)
        ledger.finish(trial, {"objective": objective}, 1.0)
    warm: dict[str, Any] = {"sweep__method": "hyperopt", "sweep__warm_start": folder.name}
    one = make_plan(request(space=str(tmp_path / "one.py"), **warm))
    assert warm_points(one, Workspace.open(str(tmp_path / "w")), one.mean_of) == [({"objective.eta_c": 1.0}, (30.0,))]


def test_a_dry_run_says_trials_cost_and_resources(tmp_path: Path) -> None:
    asked = request(workspace=str(tmp_path), sweep__seeds="0,1", ray__cpus=2)
    lines = describe_plan(asked)
    assert sum(line.endswith(": to run") for line in lines) == 40
    assert "40 trials to run, 0 finished, 0 failed" in lines
    assert any("cost: unknown" in line for line in lines)
    assert any("a trial takes 1 CPU(s) and 0 GPU(s)" in line for line in lines)
    assert list(tmp_path.iterdir()) == []  # nothing is written
    plan = make_plan(asked)
    folder = entered(tmp_path, plan, {"eta_c=0.1": 10.0, "eta_r=8": 30.0})
    Ledger(folder).fail(plan.trials_of(plan.listed[1], "data")[0], "no")
    lines = describe_plan(request(workspace=str(tmp_path), sweep__seeds="0,1", sweep__max_seconds=100))
    assert "36 trials to run, 4 finished, 1 failed" in lines
    assert any("about 10 s per trial (median of this sweep's finished trials), 0.10 h of trials" in x for x in lines)
    assert any("0.10 h of trials, 3 min side by side" in line for line in lines)  # 18 times two
    assert any("cap: 100 s of trials, 40 spent" in line for line in lines)
    failed = describe_plan(request(workspace=str(tmp_path), sweep__seeds="0,1", sweep__run="failed", ray__cpus=2))
    assert any("0.00 h of trials, 10 s side by side" in line for line in failed)  # one alone takes what it takes
    assert "1 trial to run, 4 finished, 1 failed" in failed


def test_a_cost_from_runs_like_these(tmp_path: Path) -> None:
    asked = request()
    plan, workspace = make_plan(asked), Workspace.open(str(tmp_path))
    for name, changes, seconds in (
        ("alike-1", {"objective.eta_c": 3.0, "seed": 7}, 8.0),
        ("alike-2", {"train.epochs": 4}, 32.0),
        ("alike-3", {}, 10.0),
        ("other", {"optim.lr": 0.5}, 500.0),
    ):
        config = override(plan.config, changes)
        workspace.run(name).write_json("config.json", to_dict(config))
        workspace.run(name).write_json("result.json", {"seconds": seconds, "epochs": config.train.epochs})
    workspace.run("unfinished").write_json("config.json", to_dict(plan.config))
    found = estimate(plan.config, plan.space.keys, workspace, asked)
    assert found.seconds == 10.0  # epochs took 4, 8 and 5 s; a trial has two
    assert "3 runs" in found.source


def test_money_is_hours_of_what_trials_take_at_a_price(tmp_path: Path) -> None:
    """Of GPUs where trials take any, else of CPUs."""
    on_cpus: dict[str, Any] = {"train__workers": 2, "train__threads": 3, "sweep__price": 0.5}
    assert make_plan(request(**on_cpus)).budget().money(7200.0) == pytest.approx(0.5 * 6 * 2)
    on_gpus: dict[str, Any] = on_cpus | {"train__gpus_per_worker": 1, "sweep__max_cost": 8.0}
    plan = make_plan(request(**on_gpus))
    assert plan.budget().money(7200.0) == pytest.approx(0.5 * 2 * 2)
    assert limit(plan) == pytest.approx(8.0 / (0.5 * 2) * 3600)
    assert limit(make_plan(request(**on_gpus, sweep__max_seconds=60))) == 60
    entered(tmp_path, make_plan(request()), {"eta_c=0.1": 10.0})
    lines = describe_plan(request(workspace=str(tmp_path), sweep__price=3.6, sweep__max_cost=0.1, ray__cpus=2))
    assert any(line.startswith("cost: about 10 s per trial") and line.endswith("0.19 of money") for line in lines)
    assert any("cap: 0.1 of money, 0.01 spent" in line for line in lines)


@pytest.mark.parametrize(("gpus", "hour"), [(0.0, "CPU-hour"), (1.0, "GPU-hour")])
def test_a_cap_in_money_needs_a_price(gpus: float, hour: str) -> None:
    with pytest.raises(InputError, match=f"^sweep.max_cost=5: needs sweep.price, the price of a {hour} of trials$"):
        make_plan(request(sweep__max_cost=5, train__gpus_per_worker=gpus))


def test_a_dry_run_of_a_search(tmp_path: Path) -> None:
    lines = describe_plan(
        request(
            workspace=str(tmp_path), space="eta_joint", sweep__method="hyperopt", sweep__samples=9, sweep__seeds="0,1"
        )
    )
    assert "18 trials to run, 0 finished, 0 failed" in lines
    assert any(line == "  8 more points are drawn during the search, at random until 3 have ended" for line in lines)


def test_a_dry_run_tells_each_initial_point_once(tmp_path: Path) -> None:
    """Whole numbers in a space are other text than in a ledger. No more are tried than asked."""
    (tmp_path / "s.py").write_text(
        "from ray import tune\nSPACE = {'objective.eta_c': tune.uniform(0, 8)}\n"
        "INITIAL = [{'objective.eta_c': 1}, {'objective.eta_c': 2}, {'objective.eta_c': 3}]\n"
    )
    asked: dict[str, Any] = {"workspace": str(tmp_path), "space": str(tmp_path / "s.py"), "sweep__method": "hyperopt"}
    ledger = Ledger(entered(tmp_path, plan := make_plan(request(**asked, sweep__samples=2)), {}))
    (trial,) = plan.trials_of({"objective.eta_c": 1.0}, "data")
    ledger.finish(trial, {"objective": 1.0}, 10.0)
    lines = describe_plan(request(**asked, sweep__samples=2))
    assert [line for line in lines if "seed=0" in line] == ["  eta_c=1 seed=0: finished", "  eta_c=2 seed=0: to run"]
    assert "1 trial to run, 1 finished, 0 failed" in lines
    assert "0 trials to run, 1 finished, 0 failed" in describe_plan(request(**asked, sweep__run="failed"))


def test_planning_starts_no_ray() -> None:
    make_plan(request())
    assert not sys.modules["ray"].is_initialized()


def test_the_name_of_the_folder() -> None:
    plan = make_plan(request())
    assert sweep_name(plan.name, plan.definition()).startswith("eta-univse_tiny-")
