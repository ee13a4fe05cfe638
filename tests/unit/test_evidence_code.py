"""Results of a study say by which code they are, and its findings which commits these were."""

from dataclasses import replace

from vse.config import override
from vse.evidence import Task, code_of, perform, read_summary
from vse.presets import preset
from vse.report.findings import code_behind
from vse.storage import Folder
from vse.training.code import name_of, this_code, warning
from vse.workspace import Workspace


def test_results_say_by_which_code_they_are(workspace: Workspace) -> None:
    config = override(preset("vsepp_tiny"), {"train.epochs": 1, "model.dim": 16})
    results = workspace.root.child("evidence").uri
    task = Task("planted", config, (), (), workspace.root.uri, results)
    assert (code_of(task), code_behind([task])) == ([], [])  # it is not done
    perform(task)
    summary = read_summary(task)
    assert summary is not None
    mine = this_code(config)
    assert (summary["trained_by"], summary["measured_by"]) == ([mine], mine)
    assert code_of(task) == [mine] * 2
    assert code_behind([task]) == [name_of(mine)]

    theirs = {"digest": "0ther000", "commit": "0123456789", "changed": True}
    other, before = (replace(task, label=label) for label in ("other", "before"))
    told = {"trained_by": [theirs, mine], "measured_by": {**theirs, "changed": False}}
    Folder.open(results).write_json(f"{other.name}.json", {**summary, **told})
    Folder.open(results).write_json(f"{before.name}.json", {"label": "kept before it was told"})
    assert code_behind([task, other, before]) == sorted(
        ["commit 0123456789", "commit 0123456789 with changes", name_of(mine), "not recorded"]
    )
    line = warning({each.name: code_of(each) for each in (task, other, before)}, "results", "remove them")
    assert line.startswith("warning: 1 results are by other code (commit 01234567 with changes, commit 01234567)")
