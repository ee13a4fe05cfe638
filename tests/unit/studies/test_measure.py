"""The tables of a training agree with the other ways to the same numbers."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.asked import asked
from tests.unit.studies.miniature import ALPHAS, SPLITS, STUDY, summary, workspace_of
from vse.adversaries.attacks import contrast_classes
from vse.adversaries.univse.generate import WORDS
from vse.config import override
from vse.evaluation.attacks import attack
from vse.evaluation.per_image import PerImage, counts_of
from vse.evaluation.retrieval import count_retrieval, retrieve
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.attack import contrast_split, first_of_each
from vse.stages.measuring.stage import measure_run
from vse.stages.trained import encode_adversaries, encode_split, load_run
from vse.storage.folder import Folder
from vse.studies.findings import PLAIN, Results
from vse.studies.planner import Planner
from vse.studies.runner import perform
from vse.studies.study import Study, StudyArm
from vse.studies.trainings import Training, TrainingArchive
from vse.studies.univse_claims import UNIVSE_CLAIMS
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.slow  # nine trainings

DATA: dict[str, Any] = {"data.num_train": 40, "data.num_val": 6, "data.num_test": 6, "data.num_shifted": 5}


def test_tables_agree_with_the_measures_of_the_run(planner: Planner, done: dict[str, list[Training]]) -> None:
    for name, alpha in (("vsepp", "none"), ("univse", "0.75")):
        training, workspace = done[name][0], workspace_of(planner)
        run = workspace.run(summary(planner, training)["run"])
        found = measure_run(run, workspace, *asked(splits=SPLITS))
        for split in SPLITS:
            for words, behind in (("shared", ""), ("disjoint", "/disjoint")):
                table = planner.archive.table(training, split, words, alpha)
                for kind in ("object", "attribute", "relation"):
                    hits, number = counts_of(table, f"attack_{kind}/pair_accuracy")
                    assert 100 * hits.sum() / number.sum() == pytest.approx(
                        found[f"{split}/attack_{kind}{behind}/pair_accuracy"]
                    )
    assert {float(alpha) for alpha in summary(planner, done["univse"][0])["alphas"]} == set(ALPHAS)


@pytest.mark.parametrize("name", ["vsepp", "univse"])
def test_transfer_is_measured_as_the_run_would_be_on_other_data(
    planner: Planner, done: dict[str, list[Training]], name: str
) -> None:
    """By the other way through: records and features of the whole other configuration, the run's own vocabulary."""
    training, workspace, alpha = done[name][0], workspace_of(planner), "0.75" if name == "univse" else "none"
    trained = load_run(workspace.run(summary(planner, training)["run"]))
    rsums = {"": _rsum(planner.archive.table(training, "test", "shared", alpha))}
    for split, changes in STUDY.transfers.items():
        other = pipeline.prepare(override(training.config, changes), workspace)
        codes = encode_split(trained, other, "test")
        rsums[split] = _rsum(planner.archive.table(training, split, "shared", alpha))
        assert rsums[split] == pytest.approx(
            retrieve(trained.family, codes.images, codes.captions, codes.caption_to_image).metrics()["rsum"]
        )
    assert len(set(rsums.values())) == 3


def _rsum(table: PerImage) -> float:
    hits, queries = counts_of(table, "rsum")
    return float((100 * hits.sum(0) / queries.sum(0)).sum())


def test_where_pairs_are_scored_one_by_one_not_all_adversaries_meet_all_images(tmp_path: Path) -> None:
    workspace, archive = Workspace.open(str(tmp_path / "ws")), TrainingArchive(Folder.open(tmp_path / "results"))
    config = override(preset("scan_t2i_avg_scenes"), {**DATA, "train.epochs": 1, "model.dim": 32})
    training = Training("scan", config, splits=SPLITS, contrast=2)
    finished, tables = perform(training, workspace.root.uri)
    archive.add(training, finished, tables)
    trained = load_run(workspace.run(finished["run"]))
    material = pipeline.prepare(config, workspace, parsed=True)
    codes = encode_split(trained, material, "test")
    counter = count_retrieval(trained.family, codes.images, codes.captions, codes.caption_to_image.cpu().numpy())
    for words in WORDS:
        drawn = contrast_split(config, workspace, material, "test", words)
        sets = encode_adversaries(trained, first_of_each(drawn, tuple(contrast_classes()), 2), material)
        table = archive.table(training, "test", words, "none")
        assert {"attack_object/r1", "own_pool_noun/r1"} <= table.keys()
        assert all(len(each.caption) for each in sets.values())
        for name, each in sets.items():
            among_all, _ = attack(trained.family, codes.images, counter, each)
            hits, queries = counts_of(table, f"attack_contrast_{name}/pair_accuracy")
            assert hits.sum() / queries.sum() == pytest.approx(among_all.wins.mean().item())
            assert f"attack_contrast_{name}/r1" not in table
        assert not any("attack" in name or "own" in name for name in archive.table(training, "shifted", words, "none"))
    arms = {"scan": StudyArm(preset="scan_t2i_avg_scenes", family="")}
    study = Study(
        name="miniature", data=DATA, arms=arms, search={}, splits=SPLITS, seeds=2, claims=UNIVSE_CLAIMS, contrast=2
    )
    rows = Results(Planner(study, archive, {}, 2), {"scan": [training, training]}).table("shared")
    at = {row["split"]: row for row in rows if row["split"] in SPLITS}
    assert {"attack_object/r1", "own_pool_noun/r1", "attack_contrast_noun/pair_accuracy"} <= at["test"].keys()
    assert "attack_contrast_noun/r1" not in at["test"]
    assert {name for name in at["shifted"] if "/" in name} == set(PLAIN) - {"rsum"}
