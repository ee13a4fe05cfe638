"""Tasks have a name of everything that makes them, and say by which code they are."""

import dataclasses

from tests.unit.studies.miniature import chosen_of, search
from vse.config import override
from vse.presets import preset
from vse.storage.folder import Folder
from vse.studies.findings import code_behind
from vse.studies.performing import perform
from vse.studies.planner import Planner
from vse.studies.tasks import Task, code_of, read_summary
from vse.training.code import name_of, this_code, warning
from vse.workspace.layout import Workspace


def test_names_are_stable_and_tell_tasks_apart(planner: Planner, done: dict[str, list[Task]]) -> None:
    every = [*search(planner), *(task for tasks in done.values() for task in tasks)]
    assert len({task.name for task in every}) == len(every)
    again = [*search(planner), *(t for tasks in planner.arm_tasks(chosen_of(planner)).values() for t in tasks)]
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


def test_results_say_by_which_code_they_are(workspace: Workspace) -> None:
    config = override(preset("vsepp_tiny"), {"train.epochs": 1, "model.dim": 16})
    results = workspace.root.child("evidence").uri
    task = Task("planted", config, (), (), workspace.root.uri, results)
    assert (code_of(task), code_behind([task])) == ([], [])  # it is not done
    perform(task)
    summary = read_summary(task)
    assert summary is not None
    mine = this_code(config)
    assert (summary["epochs"], summary["best_epoch"]) == (1, 1)
    assert (summary["trained_by"], summary["measured_by"]) == ([mine], mine)
    assert code_of(task) == [mine] * 2
    assert code_behind([task]) == [name_of(mine)]

    theirs = {"digest": "0ther000", "commit": "0123456789", "changed": True}
    other, before = (dataclasses.replace(task, label=label) for label in ("other", "before"))
    told = {"trained_by": [theirs, mine], "measured_by": {**theirs, "changed": False}}
    Folder.open(results).write_json(f"{other.name}.json", {**summary, **told})
    Folder.open(results).write_json(f"{before.name}.json", {"label": "kept before it was told"})
    assert code_behind([task, other, before]) == sorted(
        ["commit 0123456789", "commit 0123456789 with changes", name_of(mine), "not recorded"]
    )
    line = warning({each.name: code_of(each) for each in (task, other, before)}, "results", "remove them")
    assert line.startswith(
        "warning: 1 results were made with other code (commit 01234567 with changes, commit 01234567)"
    )
