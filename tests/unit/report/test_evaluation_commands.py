"""The commands of a report repeat the evaluations that its numbers are from."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.unit.report.test_measured import write
from vse.config import from_dict, override, to_dict
from vse.evaluation import tasks
from vse.report.evaluation_commands import evaluation_commands
from vse.report.measured import RunNumbers
from vse.stages.measuring.options import MeasureOptions
from vse.storage.folder import Folder


def kept(task: str, **changes: Any) -> tuple[str, dict[str, Any]]:
    """A task with its options as an evaluation keeps them: its own and those of all tasks."""
    given = to_dict(override(MeasureOptions(device="auto"), changes))
    return task, {key: value for key, value in given.items() if key == task or key not in tasks.names()}


def repeated(command: str) -> tuple[list[str], MeasureOptions]:
    """The tasks and options of a command."""
    _, _, run, *rest = shlex.split(command)
    assert run == "run=a run"
    keys = dict(part.split("=", 1) for part in rest)
    measured = {key.removeprefix("measure."): value for key, value in keys.items() if key != "tasks"}
    return keys.get("tasks", "retrieval,attacks").split(","), override(MeasureOptions(), measured)


@pytest.mark.parametrize(
    ("evaluations", "arguments"),
    [
        ([], [""]),
        ([kept("attacks"), kept("retrieval")], [""]),
        ([kept("retrieval")], [" tasks=retrieval"]),
        (
            [kept("unified_retrieval", **{"unified_retrieval.least": 4}), kept("contrast")],
            [" tasks=contrast,unified_retrieval measure.unified_retrieval.least=4"],
        ),
        (
            [kept("retrieval", protocol="coco_1k_folds"), kept("attacks"), kept("retrieval")],
            [" tasks=retrieval measure.protocol=coco_1k_folds", ""],
        ),
        (
            [kept("attacks", **{"attacks.words": "published"}), kept("attacks", **{"attacks.words": "shared"})],
            [f" tasks=attacks measure.attacks.words={words}" for words in ("published", "shared")],
        ),
        ([kept("retrieval", splits="val"), kept("retrieval", splits="val")], [" tasks=retrieval measure.splits=val"]),
    ],
)
def test_commands_name_the_tasks_and_the_keys_that_differ(evaluations: list[Any], arguments: list[str]) -> None:
    commands = evaluation_commands("b", evaluations, ["--workspace", "my work"])
    assert commands == [f"python jobs/evaluate.py run=b{each} --workspace 'my work'" for each in arguments]


def test_a_command_is_read_as_the_options_that_it_was_made_from() -> None:
    changes = {
        "protocol": "coco_5k",
        "drop_seed": 3,
        "adversaries.pools.minimum": 7,
        "adversaries.contrast.leak": True,
        "selection.images": 100,
        "visual_parsing.excluded": "",
        "visual_parsing.captions": "a b.json,c.json",
        "zero_shot.templates": '["a photo of a {}, cropped.", "a {}"]',
        "unified_retrieval.frequent": 12,
    }
    given = [kept(task, **changes) for task in ("zero_shot", "visual_parsing", "unified_retrieval")]
    (command,) = evaluation_commands("a run", given)
    named, measured = repeated(command)
    assert named == ["unified_retrieval", "visual_parsing", "zero_shot"]
    assert measured == override(MeasureOptions(), changes)
    for _, of_task in given:
        assert from_dict(measured, {**of_task, "device": "cpu"}) == measured


def test_evaluations_are_of_the_numbers_that_a_report_shows(tmp_path: Path) -> None:
    run = Folder.open(tmp_path)
    write(run, "b", 300.0, {"asked": 1.0}, drop_seed=1)  # replaced by the next one, with the same metric
    write(run, "c", 290.0, {"asked": 2.0})
    write(run, "a", 250.0, {"asked": 3.0}, alpha=0.4)  # altered, so it is no number of the run
    write(run, "d", 0.0, {"asked": 0.5, "metrics": {"test/coco_5k": {"rsum": 400.0}}}, protocol="coco_5k")
    evaluations = RunNumbers(run).evaluations
    assert [(task, given["protocol"], given["drop_seed"]) for task, given in evaluations] == [
        ("retrieval", "coco_5k", 0),
        ("retrieval", "", 0),
    ]
    assert RunNumbers(Folder.open(tmp_path / "other")).evaluations == []


def test_a_command_holds_no_credential() -> None:
    evaluation = kept("caption_pairs", **{"caption_pairs.files": "s3://user:hunter22@host/pairs.json"})
    (command,) = evaluation_commands("a", [evaluation])
    assert "hunter22" not in command
    assert "[hidden]" in command
