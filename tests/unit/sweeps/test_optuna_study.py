"""A sweep's ledger as a study that Optuna reads back."""

from pathlib import Path
from typing import Any

import pytest
from ray import tune

from vse.errors import InputError
from vse.storage.folder import Folder
from vse.sweeps.ledger import DEFINITION, Ledger
from vse.sweeps.optuna_study import export_study
from vse.sweeps.space import Space

pytestmark = pytest.mark.seconds

optuna = pytest.importorskip("optuna")

SPACE = Space(
    "here",
    {
        "optim.lr": tune.loguniform(1e-4, 1e-2),
        "train.epochs": tune.randint(2, 9),
        "sizes": tune.choice([[1], [1, 2]]),
        "objective.margin": 0.2,
        "structure": tune.choice(
            [{"model.kind": "plain"}, {"model.kind": "pool", "model.weight": tune.quniform(0.0, 1.0, 0.25)}]
        ),
    },
)


def sweep(folder: Path, **changes: Any) -> Folder:
    place = Folder.open(folder / "eta-univse-01234567")
    definition = {"kind": "objective", "space": SPACE.describe(), "objective": "rsum", "rule": "the highest mean"}
    place.write_json(DEFINITION, {**definition, **changes})
    return place


def point(lr: float, **more: Any) -> dict[str, Any]:
    own = {"optim.lr": lr, "train.epochs": 8, "sizes": [1, 2], "objective.margin": 0.2, "model.kind": "plain"}
    return {**own, **more}


def result(value: float, curve: tuple[float, ...] = (), **more: Any) -> dict[str, Any]:
    return {"objective": value, "metrics": {"test/rsum": value + 1}, "run": "a-run", "curve": list(curve), **more}


@pytest.mark.seconds
def test_points_become_trials(tmp_path: Path) -> None:
    folder = sweep(tmp_path)
    ledger = Ledger(folder)
    for seed, value in ((0, 300.0), (1, 310.0)):
        ledger.finish({**point(0.001), "seed": seed}, result(value, (100.0, value)), 60.0)
    ledger.finish({**point(0.002, **{"model.kind": "pool", "model.weight": 0.75}), "seed": 0}, result(320.0), 9.0)
    ledger.finish({**point(0.003), "seed": 0}, result(200.0, (150.0, 200.0), stopped=True), 5.0)
    ledger.fail({**point(0.004), "seed": 0}, "ValueError: no")
    file = tmp_path / "study.db"
    assert export_study(folder, file) == 4
    (name,) = optuna.get_all_study_names(f"sqlite:///{file}")
    study = optuna.load_study(study_name=name, storage=f"sqlite:///{file}")
    assert name == folder.name
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE", "PRUNED", "FAIL"]
    assert study.best_value == 320.0
    first, second = study.trials[:2]
    assert first.value == 305.0
    assert first.intermediate_values == {1: 100.0, 2: 305.0}
    assert first.params == {"optim.lr": 0.001, "train.epochs": 8, "sizes": "[1, 2]", "model.kind": "plain"}
    assert first.user_attrs["metric: test/rsum"] == 306.0
    assert first.user_attrs["objective.margin"] == 0.2
    assert first.user_attrs["seeds"] == [0, 1]
    assert first.duration.total_seconds() == pytest.approx(120)
    assert second.params["model.weight"] == 0.75
    assert study.trials[3].user_attrs["error, seed 0"] == "ValueError: no"
    assert second.distributions["optim.lr"] == optuna.distributions.FloatDistribution(1e-4, 1e-2, log=True)
    assert second.distributions["train.epochs"] == optuna.distributions.IntDistribution(2, 8)
    assert optuna.importance.get_param_importances(study, params=["optim.lr"])
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["study.db"]


def test_results_on_earlier_data_are_left_out(tmp_path: Path) -> None:
    folder, file = sweep(tmp_path), tmp_path / "study.db"
    ledger = Ledger(folder)
    for material, value in (("before", 100.0), ("after", 300.0)):
        ledger.finish({**point(0.001), "seed": 0, "material": material}, result(value), 1.0)
    ledger.finish({**point(0.002), "seed": 0, "material": "before"}, result(500.0), 1.0)
    ledger.finish({**point(0.003), "seed": 0, "material": "after"}, result(310.0), 1.0)
    assert export_study(folder, file) == 2
    (name,) = optuna.get_all_study_names(f"sqlite:///{file}")
    study = optuna.load_study(study_name=name, storage=f"sqlite:///{file}")
    assert [(trial.value, trial.user_attrs["seeds"]) for trial in study.trials] == [(300.0, [0]), (310.0, [0])]


def test_a_front_has_two_values(tmp_path: Path) -> None:
    folder = sweep(tmp_path, objective="front")
    ledger = Ledger(folder)
    for rate, rsum, pairs in ((0.001, 300.0, 60.0), (0.002, 270.0, 70.0), (0.003, 240.0, 65.0)):
        metrics = {"val/rsum": rsum, "val/attack/pair_accuracy": pairs}
        ledger.finish({**point(rate), "seed": 0}, result((rsum / 6 + pairs) / 2, (rsum,), metrics=metrics), 9.0)
    file = tmp_path / "study.db"
    assert export_study(folder, file) == 3
    study = optuna.load_study(study_name=folder.name, storage=f"sqlite:///{file}")
    assert [trial.values for trial in study.trials] == [[50.0, 60.0], [45.0, 70.0], [40.0, 65.0]]
    assert {trial.params["optim.lr"] for trial in study.best_trials} == {0.001, 0.002}
    assert study.metric_names == ["validation rsum / 6", "pair accuracy on validation"]


def test_refusals(tmp_path: Path) -> None:
    folder = sweep(tmp_path)
    with pytest.raises(InputError, match="no trial has ended yet"):
        export_study(folder, tmp_path / "study.db")
    Ledger(folder).finish({**point(0.001), "seed": 0}, result(300.0), 60.0)
    (tmp_path / "taken.db").write_text("something")
    with pytest.raises(InputError, match=r"taken\.db: exists"):
        export_study(folder, tmp_path / "taken.db")
    with pytest.raises(InputError, match="has no objective to export"):
        export_study(sweep(tmp_path / "alpha", kind="alpha"), tmp_path / "study.db")
    folder.delete(DEFINITION)
    with pytest.raises(InputError, match="missing or damaged"):
        export_study(folder, tmp_path / "study.db")
