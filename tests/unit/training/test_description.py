"""The description of a training: what was asked, what came out, how to run it again."""

from pathlib import Path

from tests.unit.stages.test_train import config
from vse.storage.folder import Folder
from vse.training.run_journal import Origin, describe_beginning, describe_result, keep_origin, what_is_trained
from vse.workspace.journal import Journal, read


def told(run: Folder, parent: str = "") -> dict[str, str]:
    journal = Journal(run.local("journal.jsonl"))
    describe_beginning(journal, config(), run, "data set a_b: train 3 images", parent)
    metrics = {"val/rsum": 312.34, "val/i2t/r1": 30.0, "val/t2i/r1": 20.0, "val/other": 1.0}
    describe_result(journal, run, {"best": 2, "epochs": 3, "seconds": 4.4, "metrics": metrics})
    return read(journal.path).texts


def test_a_training_says_its_parts(tmp_path: Path) -> None:
    run = Folder.open(tmp_path / "my work" / "runs" / "x-s1-01234567")
    keep_origin(run, Origin("vsepp_small", ("optim.lr", "train.epochs")))
    texts = told(run)
    assert texts["headline"] == "**validation rsum 312.3 at epoch 2 of 3**"
    assert "a&#95;b" in texts["asked"]
    assert "Preset vsepp&#95;small &#43;2 keys" in texts["asked"]
    command = f"python jobs/train.py --preset vsepp_small optim.lr={config().optim.lr} train.epochs=3 seed="
    assert command in texts["commands"]
    assert f"--workspace '{tmp_path / 'my work'}'" in texts["commands"]
    assert f"python jobs/evaluate.py run=x-s1-01234567 --workspace '{tmp_path / 'my work'}'" in texts["commands"]
    assert "rsum 312.3, R@1 i2t 30.0, R@1 t2i 20.0" in texts["result"]
    assert "after 4 s of training" in texts["result"]
    assert "[config.json](artifact:config.json)" in texts["result"]


def test_a_sweeps_training_is_run_again_from_its_configuration(tmp_path: Path) -> None:
    run = Folder.open(tmp_path / "runs" / "x-s1-01234567")
    texts = told(run, parent="alpha-x-89abcdef")
    assert "Part of [alpha-x-89abcdef](run:alpha-x-89abcdef)" in texts["asked"]
    words = texts["commands"].replace("\\\n", " ").split()
    assert words[words.index("--preset") + 1] == str(tmp_path / "runs" / "x-s1-01234567" / "config.json")


def test_the_line_of_a_training_names_family_data_and_seed() -> None:
    assert what_is_trained(config()).startswith("train vsepp on scenes with seed")
