"""Studies of families that score every pair by itself."""

from pathlib import Path
from typing import Any

import pytest

from vse import pipeline
from vse.adversaries import contrast_split, first_of_each
from vse.config import override
from vse.evaluation.attacks import attack
from vse.evaluation.per_image import counts_of
from vse.evaluation.retrieval import count_retrieval
from vse.evidence import WORDS, Planner, Task, perform, read_summary, read_table
from vse.language.contrast.rules import CLASSES
from vse.presets import preset
from vse.report.findings import PLAIN, Results
from vse.report.studies import Study, StudyArm
from vse.trained import encode_adversaries, encode_split, load_run
from vse.workspace import Workspace

SPLITS = ("test", "shifted")
DATA: dict[str, Any] = {"data.num_train": 40, "data.num_val": 6, "data.num_test": 6, "data.num_shifted": 5}


def test_where_pairs_are_scored_one_by_one_not_all_adversaries_meet_all_images(tmp_path: Path) -> None:
    workspace, results = Workspace.open(str(tmp_path / "ws")), str(tmp_path / "results")
    config = override(preset("scan_t2i_avg_scenes"), {**DATA, "train.epochs": 1, "model.dim": 32})
    task = Task("scan", config, (), SPLITS, workspace.root.uri, results, contrast=2)
    perform(task)
    summary = read_summary(task)
    assert summary is not None
    trained = load_run(workspace.run(summary["run"]))
    material = pipeline.prepare(config, workspace, parsed=True)
    codes = encode_split(trained, material, "test")
    counter = count_retrieval(trained.family, codes.images, codes.captions, codes.owner.cpu().numpy())
    for words in WORDS:
        drawn = contrast_split(config, workspace, material, "test", words)
        sets = encode_adversaries(trained, first_of_each(drawn, tuple(CLASSES), 2), material)
        table = read_table(task, "test", words, "none")
        assert {"attack_object/r1", "own_pool_noun/r1"} <= table.keys()
        assert all(len(each.caption) for each in sets.values())
        for name, each in sets.items():
            among_all = attack(trained.family, codes.images, counter, each)
            hits, queries = counts_of(table, f"attack_contrast_{name}/pair_accuracy")
            assert hits.sum() / queries.sum() == pytest.approx(among_all.wins.mean().item())
            assert f"attack_contrast_{name}/r1" not in table
        assert not any("attack" in name or "own" in name for name in read_table(task, "shifted", words, "none"))
    arms = {"scan": StudyArm(preset="scan_t2i_avg_scenes", family="")}
    study = Study(name="miniature", data=DATA, arms=arms, search={}, splits=SPLITS, seeds=2, contrast=2)
    rows = Results(Planner(study, workspace, {}, 2, results), {"scan": [task, task]}).table("shared")
    at = {row["split"]: row for row in rows if row["split"] in SPLITS}
    assert {"attack_object/r1", "own_pool_noun/r1", "attack_contrast_noun/pair_accuracy"} <= at["test"].keys()
    assert "attack_contrast_noun/r1" not in at["test"]
    assert {name for name in at["shifted"] if "/" in name} == set(PLAIN) - {"rsum"}
