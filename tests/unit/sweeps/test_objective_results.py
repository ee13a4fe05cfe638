"""From a ledger to results: points over seeds, the choice, what is left out, and the preset of the best."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.sweeps.test_objective_plan import request
from vse import presets
from vse.cli.command import _load
from vse.config import override
from vse.errors import InputError
from vse.report.response import lines_of
from vse.storage.folder import Folder
from vse.sweeps.ledger import Ledger
from vse.sweeps.objective import ObjectivePlan, make_plan
from vse.sweeps.objective_results import headline, judged, preset_file, response_results
from vse.sweeps.plan import SweepCall
from vse.sweeps.trial import mean_pairs, objective_of
from vse.workspace.layout import Workspace


def results(plan: ObjectivePlan, ledger: Ledger) -> Any:
    return response_results(plan, call(ledger), plan.points_in(ledger))


def call(ledger: Ledger) -> SweepCall:
    workspace = Workspace.open(str(ledger.folder.local().parent))
    return SweepCall(request=request(), workspace=workspace, folder=ledger.folder, ledger=ledger, material="m")


def finished(objective: float, **more: Any) -> dict[str, Any]:
    metrics = {"val/rsum": objective, "test/rsum": objective - 5}
    found = {"objective": objective, "metrics": metrics, "epochs": 2, "run": f"run-{objective}", "seconds": 3.0}
    return {**found, "trained": True, **more}


@pytest.fixture
def plan() -> ObjectivePlan:
    return make_plan(request(sweep__seeds="0,1"))


@pytest.fixture
def ledger(tmp_path: Path, plan: ObjectivePlan) -> Ledger:
    """Points 0 and 1 whole, 2 with one seed and the highest number, 3 ended early, 4 failed."""
    ledger = Ledger(Folder.open(tmp_path / "sweep"))
    trials = [plan.trials_of(point, "m") for point in plan.listed]
    for seed in (0, 1):
        ledger.finish(trials[0][seed], finished(100.0 + seed), 4.0)
        ledger.finish(trials[1][seed], finished(110.0 + seed), 4.0)
        ledger.finish(trials[3][seed], finished(300.0, stopped=True, epochs=1), 1.0)
    ledger.finish(trials[2][0], finished(200.0), 4.0)
    ledger.fail(trials[4][0], "Traceback\nValueError: no luck", 2.0)
    return ledger


def test_points_have_their_seeds_and_the_best_is_a_complete_one(
    tmp_path: Path, plan: ObjectivePlan, ledger: Ledger
) -> None:
    found = results(plan, ledger)
    assert [p.label for p in found.points] == ["eta_c=0.1", "eta_c=1", "eta_c=4", "eta_c=2"]
    assert found.best == 1
    assert found.points[1].metrics["objective"] == [110.0, 111.0]
    assert found.points[1].values["objective.eta_o"] == 0.5  # of keys that this point leaves alone
    assert [p.label for p in found.complete] == ["eta_c=0.1", "eta_c=1"]
    assert found.failed == {"eta_c=8 seed=0": "ValueError: no luck"}
    assert found.seconds == 4 * 5 + 3.0 * 2 + 2.0
    shown = headline(found)
    assert (shown["best"], shown["objective"], shown["failed"]) == ("eta_c=1", 110.5, 1)
    assert shown["test/rsum"] == 105.5
    assert judged(found, plan, Workspace.open(str(tmp_path))).claims == {}  # not all arms are there


def test_a_key_that_one_alternative_sets_is_varied_though_it_has_one_value_there(tmp_path: Path) -> None:
    """Else the two would be taken to differ in their objective alone."""
    choice = "{'objective': 'infonce'}, {'objective': 'sigmoid', 'objective.mask': 'none'}"
    (tmp_path / "s.py").write_text(f"from ray import tune\nSPACE = {{'loss': tune.grid_search([{choice}])}}\n")
    plan = make_plan(request("vsepp_tiny", space=str(tmp_path / "s.py")))
    ledger = Ledger(Folder.open(tmp_path / "sweep"))
    for point in plan.listed:
        ledger.finish(plan.trials_of(point, "m")[0], finished(100.0), 1.0)
    found = results(plan, ledger)
    assert found.keys == ["objective", "objective.mask"]
    assert [p.values["objective.mask"] for p in found.points] == ["same", "none"]
    assert lines_of(found, "objective") == []


def test_a_point_is_the_preset_only_where_all_that_the_space_sets_is_as_there(tmp_path: Path) -> None:
    """What is constant in a space is not varied, but need not be what the preset has."""
    for margin, there in ((0.3, False), (0.2, True)):
        file = tmp_path / f"s{margin}.py"
        domains = f"'objective.eta_c': tune.grid_search([0.5, 2.0]), 'objective.margin': {margin}"
        file.write_text(f"from ray import tune\nSPACE = {{{domains}}}\n")
        plan = make_plan(request(space=str(file)))
        ledger = Ledger(Folder.open(tmp_path / f"sweep{margin}"))
        for point in plan.listed:
            ledger.finish(plan.trials_of(point, "m")[0], finished(100.0), 4.0)
        found = results(plan, ledger)
        assert found.base == {"objective.eta_c": 0.5, "objective.margin": 0.2}
        assert (found.at_base() is not None) == there


@pytest.mark.seconds
def test_claims_are_answered_from_the_file_that_the_ledger_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was trained again has the outcomes of both checkpoints, sorted by a hash."""
    plan, workspace = make_plan(request(sweep__seeds="0")), Workspace.open(str(tmp_path))
    ledger, tables, rsums = Ledger(workspace.sweep("eta")), dict[str, Any](), list[float]()
    for k, point in enumerate(plan.listed):
        names = [f"outcomes-retrieval-{k:04x}000{digit}.parquet" for digit in (1, 2)]
        for name in names:
            share = (50 + k if name == names[k % 2] else 10) / 100
            counts = np.array([[100 * share, 100.0]] * 3)
            tables[name] = {f"{way}/r{n}": counts for way in ("i2t", "t2i") for n in (1, 5, 10)}
        rsums.append(6 * (50 + k))
        (trial,) = plan.trials_of(point, "m")
        ledger.finish(trial, finished(100.0, run=f"run-{k}", hits=names[k % 2]), 4.0)
    monkeypatch.setattr("vse.sweeps.objective_results.hits_of", lambda workspace, run, name: tables[name])
    found = results(plan, ledger)
    assert found.points[1].hits == {"0": "outcomes-retrieval-00010002.parquet"}
    (verdict,) = judged(found, plan, workspace).claims.values()
    assert len(rsums) == 20
    assert verdict["mean"] == pytest.approx(np.mean(rsums))


def test_a_draw_that_misses_the_end_of_its_range_counts(tmp_path: Path) -> None:
    """3 * 0.1 > 0.3, as ledgers hold it that were written when draws were not moved into their range."""
    (tmp_path / "s.py").write_text("from ray import tune\nSPACE = {'objective.margin': tune.quniform(0.1, 0.3, 0.1)}\n")
    plan = make_plan(request(space=str(tmp_path / "s.py"), sweep__method="random", sweep__samples=3))
    assert {point["objective.margin"] for point in plan.listed} <= {0.1, 0.2, 0.3}
    ledger = Ledger(Folder.open(tmp_path / "sweep"))
    for k, objective in ((2, 300.0), (1, 300.0), (3, 400.0)):
        (trial,) = plan.trials_of({"objective.margin": k * 0.1}, "m")
        ledger.finish(trial, finished(objective), 4.0)
    found = results(plan, ledger)
    assert [point.label for point in found.points] == ["margin=0.2", "margin=0.1", "margin=0.3"]
    assert headline(found)["objective"] == 400.0


def test_only_the_seeds_that_were_asked_for(tmp_path: Path, ledger: Ledger) -> None:
    found = results(make_plan(request(sweep__seeds="0")), ledger)
    assert found.points[found.best].label == "eta_c=2"
    assert all(p.seeds == [0] for p in found.points)


def test_results_survive_their_file_and_tell_when_they_change(
    tmp_path: Path, plan: ObjectivePlan, ledger: Ledger
) -> None:
    from vse.report.response import from_dict

    found = results(plan, ledger)
    assert from_dict(json.loads(json.dumps(found.to_dict()))) == found
    before = plan.outcome(call(ledger)).digest
    assert plan.outcome(call(Ledger(ledger.folder))).digest == before
    ledger.finish(plan.trials_of(plan.listed[2], "m")[1], finished(200.0), 4.0)
    assert plan.outcome(call(ledger)).digest != before
    assert results(plan, ledger).points[3].label == "eta_c=2"


@pytest.mark.parametrize(
    ("preset", "changes", "user"),
    [
        ("univse_tiny", {"objective.eta_c": 4.0}, {"train.epochs": 5, "optim.lr": 1e-3}),
        ("vsepp_tiny", {"objective": "infonce", "optim.schedule": "step"}, {}),
        ("univse_tiny", {}, {}),
        ("vsec_noun_coco", {"text.contrast.held_out": True}, {}),  # its default, and not the preset's
    ],
)
def test_the_best_preset_is_that_configuration(
    tmp_path: Path, preset: str, changes: dict[str, Any], user: dict[str, Any]
) -> None:
    asked = request(preset, space="eta" if preset == "univse_tiny" else "eta_joint")
    config = override(presets.preset(preset), user)
    file = tmp_path / "best.json"
    file.write_text(preset_file(asked, config, changes))
    loaded, _, changed = _load(str(file), "univse_scenes", None, presets)
    assert loaded == override(config, changes)
    assert json.loads(file.read_text())["preset"] == preset
    assert "data.num_train" not in changed  # what is as in the preset is not repeated


def test_objectives() -> None:
    metrics = {"val/rsum": 300.0}
    metrics |= {f"val/attack_{n}/pair_accuracy": v for n, v in (("object", 60), ("attribute", 70), ("relation", 80))}

    def value(objective: str, **changes: float) -> float:
        found = metrics | {f"val/attack_{name}/pair_accuracy": number for name, number in changes.items()}
        return objective_of(found | mean_pairs(found), objective)

    assert value("rsum") == 300.0
    assert value("pairs") == 70.0
    assert value("both") == (50.0 + 70.0) / 2
    with pytest.raises(InputError, match=r"sweep\.objective=pairs: nan"):
        value("pairs", object=float("nan"))
    del metrics["val/attack_object/pair_accuracy"]  # the split has no such adversaries
    assert value("pairs") == 75.0
    with pytest.raises(InputError, match=r"sweep\.objective=both: nan"):
        objective_of({"val/rsum": 300.0}, "both")
