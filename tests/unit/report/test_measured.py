"""No two ways of measuring share a name, and a run's own numbers are those of its kept weights as configured."""

from pathlib import Path
from typing import Any

import pytest

from vse.config import override, to_dict
from vse.evaluation.tasks.attacks import AttacksTask
from vse.evaluation.tasks.caption_pairs import CaptionPairsTask
from vse.evaluation.tasks.retrieval import RetrievalTask
from vse.presets import preset
from vse.report.measured import RunNumbers, altered, grouped, journal_label, named
from vse.stages.measuring.options import MeasureOptions, Size
from vse.stages.measuring.plan import REVISION
from vse.stages.measuring.stage import measure_run
from vse.stages.train import run_training
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace


def options(**changes: Any) -> dict[str, Any]:
    return to_dict(MeasureOptions(**changes))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, ""),
        ({"splits": ("test", "shifted"), "device": "cuda", "drop_seed": 3}, ""),
        ({"protocol": "coco_5k"}, ""),  # which metrics have in their names
        ({"alpha": 0.0}, "alpha-0"),
        ({"components": ("object", "relation")}, "components-object-relation"),
        ({"folds": 5}, "folds-5"),
        ({"on": ("path=s3://b/f30k?region=x",), "folds": 5}, "on-f30k_folds-5"),
        ({"on": ("limit=9", "path=a/dataset_f30k.json")}, "on-dataset_f30k-9"),
        ({"drop_components": 0.3}, "drop-0.3"),
        ({"alpha": 0.6, "drop_components": 0.3, "drop_seed": 2}, "alpha-0.6_drop-0.3-seed-2"),
    ],
)
def test_what_was_altered_stands_before_the_name(changes: dict[str, Any], name: str) -> None:
    assert altered(options(**changes)) == name
    assert journal_label("test", options(**changes)) == (f"{name}/test" if name else "test")


def test_pairs_have_the_name_of_their_file() -> None:
    files = ("a/swap att.json", "s3://b/add_obj.json")
    assert CaptionPairsTask(CaptionPairsTask.Config(files=files)).label == "pairs/swap_att-add_obj"


def test_no_evaluation_takes_a_name_that_training_has_for_its_epochs() -> None:
    labels = {"train": "measured/train", "val": "measured/val", "test": "test"}
    assert {label: journal_label(label, options()) for label in labels} == labels
    assert journal_label("val/coco_5k", options(protocol="coco_5k")) == "measured/val/coco_5k"
    assert journal_label("val", options(alpha=0.6)) == "alpha-0.6/val"


def known(run: Folder) -> dict[str, float]:
    return named(RunNumbers(run).metrics)


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    folder = Folder.open(tmp_path / "run")
    folder.write_json("result.json", {"metrics": {"val/rsum": 310.0, "train/loss": 1.0}})
    return folder


def write(run: Folder, name: str, rsum: float, more: dict[str, Any] | None = None, **changes: Any) -> None:
    """An evaluation as it is kept."""
    content = {
        "task": "retrieval",
        "revision": [REVISION, RetrievalTask.revision],
        "met": {},
        "options": {**options(**changes), "retrieval": {}},
        "sizes": {},
        "metrics": {"test": {"rsum": rsum}},
        **(more or {}),
    }
    run.child("evaluation").write_json(f"measures-retrieval-{name}.json", content)


@pytest.mark.parametrize(
    "changes", [{"alpha": 0.6}, {"components": ("object",)}, {"folds": 5}, {"drop_components": 0.3}]
)
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_an_altered_measurement_is_no_number_of_the_run(run: Folder, changes: dict[str, Any], names: str) -> None:
    write(run, names[0], 300.0)
    write(run, names[1], 250.0, **changes)
    assert known(run) == {"val/rsum": 310.0, "test/rsum": 300.0}


def test_numbers_of_another_revision_are_not_the_runs(run: Folder) -> None:
    write(run, "a", 300.0)
    write(run, "b", 290.0, {"revision": [REVISION - 1, 1]})
    write(run, "c", 280.0, {"revision": [REVISION, 0]})
    assert known(run)["test/rsum"] == 300.0


def test_sizes_are_those_of_the_runs_numbers(run: Folder) -> None:
    def size(images: int) -> dict[str, Any]:
        return {"sizes": {"test": {"images": images, "captions": 5 * images, "folds": 1}}}

    write(run, "b", 300.0, size(6))
    write(run, "c", 300.0, size(7), folds=5)
    assert RunNumbers(run).sizes == {"test": Size(6, 30)}


def test_an_evaluation_of_validation_stands_beside_that_of_the_kept_epoch(run: Folder) -> None:
    sizes = {"sizes": {"val": {"images": 6, "captions": 30, "folds": 1}}}
    write(run, "a", 300.0, {"metrics": {"val": {"rsum": 313.0}}, **sizes}, splits=("val",))
    assert known(run) == {"val/rsum": 310.0, "measured/val/rsum": 313.0}
    assert RunNumbers(run).sizes == {"measured/val": Size(6, 30)}


def test_two_files_of_pairs_are_two_numbers(run: Folder) -> None:
    for name, value in (("a", 70.0), ("b", 60.0)):
        more = {"task": "caption_pairs", "revision": [REVISION, CaptionPairsTask.revision]}
        config = {"options": {**options(), "caption_pairs": {"files": [f"{name}.json"]}}}
        write(run, name, 0.0, {**more, **config, "metrics": {f"pairs/{name}": {"mean": value, "swap": value}}})
    found = {f"pairs/{name}/{metric}": v for name, v in (("a", 70.0), ("b", 60.0)) for metric in ("mean", "swap")}
    assert known(run) == {"val/rsum": 310.0, **found}


@pytest.mark.seconds
def test_numbers_of_earlier_weights_are_not_the_runs(tmp_path: Path) -> None:
    sizes = {"data.num_train": 40, "data.num_val": 4, "data.num_test": 5, "data.num_shifted": 4, "train.epochs": 1}
    place = Workspace.open(str(tmp_path))
    run = run_training(override(preset("vsepp_tiny"), sizes), place).folder
    found = measure_run(run, place, ["retrieval"])
    assert known(run)["test/rsum"] == found["test/rsum"]
    assert RunNumbers(run).sizes["test"].images == 5
    (name,) = [each for each in run.child("evaluation").names() if each.startswith("measures")]
    kept = run.child("evaluation").read_json(name)
    before = {**kept, "weights": ["0" * 64], "metrics": {"test": {"rsum": -1.0}}}
    run.child("evaluation").write_json("measures-zzz.json", before)
    assert known(run)["test/rsum"] == found["test/rsum"]


def test_of_two_measurements_of_one_name_the_one_asked_for_last_counts(run: Folder) -> None:
    write(run, "ffff", 10.0, {"asked": 100.0})
    write(run, "0000", 90.0, {"asked": 200.0})
    assert known(run)["test/rsum"] == 90.0
    write(run, "ffff", 10.0, {"asked": 300.0})  # as asking for the first again does
    assert known(run)["test/rsum"] == 10.0
    write(run, "eeee", 50.0, {"revision": [REVISION - 1, 1], "asked": 400.0})
    assert known(run)["test/rsum"] == 10.0


def test_headings_are_tasks_and_splits_with_validation_last(run: Folder) -> None:
    write(run, "a", 300.0, {"metrics": {"test": {"t2i/r1": 20.0, "rsum": 300.0}, "shifted": {"rsum": 200.0}}})
    attacked = {"test": {"attack_relation/r1": 1.0}}
    config = {"options": {**options(), "attacks": {"words": ["shared"]}}}
    revision = [REVISION, AttacksTask.revision]
    write(run, "b", 0.0, {"task": "attacks", "revision": revision, "metrics": attacked, **config})
    found = grouped(RunNumbers(run).metrics)
    assert list(found) == ["retrieval: test", "retrieval: shifted", "retrieval: val", "attacks: test"]
    assert [key.metric.label for key in found["retrieval: test"]] == ["rsum", "sentence → image, R@1"]
