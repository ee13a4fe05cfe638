"""What a trial computes: alone, after another process, on a GPU, and at every α."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.levels import slow, slow_but
from tests.unit.stages.test_train import config
from vse.config import to_dict
from vse.evaluation.per_image import per_image
from vse.evaluation.retrieval import retrieve
from vse.evaluation.tasks.retrieval import RetrievalTask
from vse.stages import pipeline
from vse.stages import train as run
from vse.stages import train as worker
from vse.stages.measuring.options import SharedOptions
from vse.stages.measuring.stage import Measured, TaskMeasures
from vse.stages.train import Result, run_training
from vse.stages.trained import encode_split, load_run
from vse.sweeps import trial
from vse.sweeps.trial import TrialSetting, objective_trial
from vse.training.code import this_code
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds


def test_epochs_that_another_process_trains_meanwhile_are_in_the_curve(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waited(*arguments: Any, **named: Any) -> Result:
        run_training(*arguments)
        return run_training(*arguments, **named)

    monkeypatch.setattr(run, "run_training", waited)
    setting = TrialSetting(workspace=workspace.root.uri, parent="", configs={"": to_dict(config())})
    found = objective_trial({"seed": 1, "material": "m"}, setting, "rsum")
    assert (found["trained"], found["trained_by"], len(found["curve"])) == (False, [this_code(config())], 3)
    assert found["curve"][-1] == found["objective"]
    assert found["hits"] in workspace.run(found["run"]).child("evaluation").names()


def test_an_epoch_that_is_told_twice_counts_once() -> None:
    """Killed between checkpoint and journal, a run tells an epoch again where it goes on."""
    curve = trial._Curve(config(), halving=False, name="trial", run="run")
    for epoch, rsum in ((1, 10.0), (2, 20.0), (2, 20.0), (3, 15.0), (1, 10.0)):
        curve.add({"epoch": epoch, "val/rsum": rsum, "train/seconds": 4.0})
    assert (curve.values, curve.seconds) == ([10.0, 20.0, 20.0], 12.0)


@pytest.mark.parametrize(("gpus", "device"), [(0.5, "auto"), *slow([(0.0, "cpu")])])
def test_a_trial_that_holds_a_gpu_measures_on_it(
    gpus: float, device: str, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no GPU here: the options of both measurements are recorded."""
    devices: list[str] = []

    def attacked(folder: Any, place: Workspace, names: Any, options: SharedOptions) -> dict[str, float]:
        devices.append(options.device)
        return {f"val/attack_{attack}/pair_accuracy": 50.0 for attack in trial.ATTACKS}

    def tested(runs: Any, folder: Any, place: Workspace, names: Any, options: SharedOptions) -> Measured:
        devices.append(options.device)
        measures = TaskMeasures(task=RetrievalTask(), values={"test": {"rsum": 300.0}}, table="outcomes.parquet")
        return Measured({"retrieval": measures}, {}, "")

    monkeypatch.setattr("vse.cluster.runtime.gpus", lambda: ["A10G"])
    monkeypatch.setattr(worker, "training_device", lambda train: torch.device("cpu"))
    monkeypatch.setattr(trial, "measure_run", attacked)
    monkeypatch.setattr(trial, "measure", tested)
    data = to_dict(config(train__gpus_per_worker=gpus))
    setting = TrialSetting(workspace=workspace.root.uri, parent="", configs={"": data})
    result = objective_trial({"seed": 1, "material": "m"}, setting, "both")
    assert devices == [device, device]
    assert (result["metrics"]["test/rsum"], result["hits"]) == (300.0, "outcomes.parquet")


@pytest.mark.parametrize("damaged", slow_but([b"", b"<html>", b"flip"], b"flip"))
def test_damaged_hits_are_measured_again(damaged: bytes, workspace: Workspace) -> None:
    run = run_training(config(), workspace)
    numbers, name = trial.measure_test(run.folder, workspace)
    evaluation = run.folder.child("evaluation")
    whole, before = evaluation.read_bytes(name), trial.hits_of(workspace, run.run, name)
    flipped = whole[:99] + bytes([whole[99] ^ 4]) + whole[100:]
    evaluation.write_bytes(name, flipped if damaged == b"flip" else damaged)
    after = trial.hits_of(workspace, run.run, name)
    assert after.keys() == before.keys()
    assert all(np.array_equal(after[key], before[key]) for key in before)
    assert trial.measure_test(run.folder, workspace)[0] == numbers


def test_hits_are_of_the_same_images_as_direct_retrieval(workspace: Workspace) -> None:
    run = run_training(config(), workspace)
    numbers, name = trial.measure_test(run.folder, workspace)
    codes = encode_split(load_run(run.folder), pipeline.prepare(config(), workspace), "test")
    retrieval = retrieve(load_run(run.folder).family, codes.images, codes.captions, codes.caption_to_image)
    assert numbers == {f"test/{metric}": value for metric, value in retrieval.metrics().items()}
    num_images = len(next(iter(codes.images.values())))
    expected = per_image(retrieval, {}, codes.caption_to_image.numpy(), num_images)
    hits = trial.hits_of(workspace, run.run, name)
    assert hits.keys() == expected.keys()
    assert all(np.array_equal(hits[metric], expected[metric]) for metric in expected)
