"""The archive of trainings: names, content and bytes, other processes, other code."""

import dataclasses
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.studies.miniature import chosen_of
from vse.config import override, to_dict
from vse.errors import DamagedError
from vse.presets import preset
from vse.storage.folder import Folder
from vse.studies.findings import code_behind
from vse.studies.planner import Planner
from vse.studies.runner import perform
from vse.studies.tables import Key, alpha_key, pack
from vse.studies.trainings import ARCHIVE, Training, TrainingArchive
from vse.training.code import name_of, this_code, warning
from vse.workspace.layout import Workspace

PLANTED = Training("planted", preset("vsepp_tiny"))


@pytest.fixture
def archive(tmp_path: Path) -> TrainingArchive:
    return TrainingArchive(Folder.open(tmp_path))


def planted(training: Training, **more: Any) -> dict[str, Any]:
    return {"label": training.label, "configuration": to_dict(training.config), **more}


@pytest.mark.slow
def test_names_are_stable_and_distinct(planner: Planner, done: dict[str, list[Training]]) -> None:
    every = [*planner.search(), *(training for trainings in done.values() for training in trainings)]
    assert len({training.name for training in every}) == len(every)
    again = [*planner.search(), *(t for trainings in planner.arms(chosen_of(planner)).values() for t in trainings)]
    assert [training.name for training in again] == [training.name for training in every]
    first = every[0]
    others = [
        dataclasses.replace(first, splits=("test",)),
        dataclasses.replace(first, alphas=(1.0,)),
        dataclasses.replace(first, config=override(first.config, {"seed": 7})),
        dataclasses.replace(first, transfers=(("drawing", (("data.drawing", "second"),)),)),
    ]
    assert len({first.name, *(other.name for other in others)}) == 5


def test_tables_are_read_by_key(archive: TrainingArchive) -> None:
    rng = np.random.default_rng(0)
    tables = {
        Key(split, words, alpha, metric): np.stack([rng.random(4), rng.integers(0, 5, 4).astype(float)], axis=1)
        for split in ("test", "a|b")
        for words in ("shared", "disjoint")
        for alpha in (alpha_key(0.75), alpha_key(None))
        for metric in ("t2i/r1", "i2t/r1")
    }
    archive.add(PLANTED, planted(PLANTED), pack(tables))
    for key in tables:
        found = TrainingArchive(archive.folder).table(PLANTED, key.split, key.words, key.alpha)
        assert list(found) == ["t2i/r1", "i2t/r1"]
        np.testing.assert_array_equal(found[key.metric], tables[key])


def test_alpha_has_one_name() -> None:
    assert [alpha_key(each) for each in (None, 0.75, 1.0, 0.6)] == ["none", "0.75", "1", "0.6"]


def test_bytes_do_not_depend_on_order_or_time(tmp_path: Path) -> None:
    trainings = [dataclasses.replace(PLANTED, label=label) for label in "abc"]
    for name, ordered in (("one", trainings), ("two", reversed(trainings))):
        archive = TrainingArchive(Folder.open(tmp_path / name))
        for training in ordered:
            archive.add(training, planted(training), b"table")
    assert (tmp_path / "one" / ARCHIVE).read_bytes() == (tmp_path / "two" / ARCHIVE).read_bytes()


def test_recorded_settings_identify_a_training_whose_fingerprint_changed(archive: TrainingArchive) -> None:
    archive.add(PLANTED, planted(PLANTED))
    file = archive.folder.local(ARCHIVE)
    recorded = zipfile.ZipFile(file).read(f"{PLANTED.name}.json")
    with zipfile.ZipFile(file, "w") as renamed:
        renamed.writestr("planted-0ther000.json", recorded.replace(b'"patience": 0,', b""))  # a setting added since
    again = TrainingArchive(archive.folder)
    assert again.summary(PLANTED) is not None
    for other in (
        dataclasses.replace(PLANTED, config=override(PLANTED.config, {"optim.lr": 1.0})),
        dataclasses.replace(PLANTED, splits=("test",)),
        dataclasses.replace(PLANTED, label="other"),
    ):
        assert again.summary(other) is None
    with zipfile.ZipFile(file, "w") as unknown:
        unknown.writestr("planted-0ther000.json", recorded.replace(b'"patience"', b'"patients"'))
    assert TrainingArchive(archive.folder).summary(PLANTED) is None


def test_what_another_process_added_stays(archive: TrainingArchive) -> None:
    other, theirs = TrainingArchive(archive.folder), dataclasses.replace(PLANTED, label="theirs")
    archive.add(PLANTED, planted(PLANTED))
    other.add(theirs, planted(theirs))
    again = TrainingArchive(archive.folder)
    assert all(again.summary(training) is not None for training in (PLANTED, theirs))


def test_a_write_that_fails_leaves_the_file(archive: TrainingArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.add(PLANTED, planted(PLANTED))
    before = archive.folder.read_bytes(ARCHIVE)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        archive.add(dataclasses.replace(PLANTED, label="other"), planted(PLANTED))
    assert archive.folder.read_bytes(ARCHIVE) == before


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).write_bytes(b"no zip")
    with pytest.raises(DamagedError, match=r"trainings\.zip: damaged or not a file of trainings"):
        TrainingArchive(Folder.open(tmp_path))


def test_results_name_the_code_behind_them(workspace: Workspace, archive: TrainingArchive) -> None:
    config = override(preset("vsepp_tiny"), {"train.epochs": 1, "model.dim": 16})
    training = Training("planted", config)
    assert (archive.code_of(training), code_behind(archive, [training])) == ([], [])  # it is not done
    summary, tables = perform(training, workspace.root.uri)
    archive.add(training, summary, tables)
    mine = this_code(config)
    assert (summary["epochs"], summary["best_epoch"]) == (1, 1)
    assert (summary["trained_by"], summary["measured_by"]) == ([mine], mine)
    assert archive.code_of(training) == [mine] * 2
    assert code_behind(archive, [training]) == [name_of(mine)]

    theirs = {"digest": "0ther000", "commit": "0123456789", "changed": True}
    other, before = (dataclasses.replace(training, label=label) for label in ("other", "before"))
    codes = {"trained_by": [theirs, mine], "measured_by": {**theirs, "changed": False}}
    archive.add(other, planted(other, **codes))
    archive.add(before, planted(before))
    every = (training, other, before)
    assert code_behind(archive, every) == sorted(
        ["commit 0123456789", "commit 0123456789 with changes", name_of(mine), "not recorded"]
    )
    line = warning({each.name: archive.code_of(each) for each in every}, "results", "remove them")
    assert line.startswith(
        "warning: 1 results were computed with other code (commit 01234567 with changes, commit 01234567)"
    )
