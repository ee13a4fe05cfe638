"""What can be known before any stage runs is told then, by the stages and by dry runs alike."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.levels import slow_but
from tests.unit.stages.test_pipeline import dry_run
from vse.config import override
from vse.data.sources.scenes import Scenes
from vse.errors import InputError
from vse.presets import preset
from vse.registry import build
from vse.stages import pipeline
from vse.stages.describe import trainable
from vse.stages.extract import check_features
from vse.stages.local_inputs import records_to_train
from vse.stages.pipeline import check
from vse.sweeps.trial import SPLITS
from vse.workspace.layout import Workspace

SMALL = {"data.num_train": 8, "data.num_val": 4, "data.num_test": 4, "data.num_shifted": 2}
NETWORK = {"features.backbone": "torchvision", "features.backbone.arch": "mobilenet_v2"}


@pytest.fixture(autouse=True)
def nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vse.stages.extract.extract", lambda *a, **k: pytest.fail("extracted first"))
    monkeypatch.setattr("vse.stages.parse.parse_captions", lambda *a, **k: pytest.fail("parsed first"))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "captions.txt").write_text("A dog runs on the beach.\n")
    (tmp_path / "empty.vec").write_text("")
    (tmp_path / "blank").mkdir()
    (tmp_path / "blank" / "meta.json").write_text("{}")
    torch.save({"features.0.weight": torch.zeros(3)}, tmp_path / "other.pt")
    (tmp_path / "text.pt").write_text("<html>not found</html>")
    return tmp_path


CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "parser": ("univse_tiny", {"text.parser.pipeline": "en_core_web_xx"}, r"^text\.parser\.pipeline=en_core_web_xx: "),
    "parser folder": ("univse_tiny", {"text.parser.pipeline": "FILES/blank"}, r"^text\.parser\.pipeline=.*/blank: "),
    "sentences for nobody": (
        "vsepp_tiny",
        {"text.sentence": "mean"},
        r"^text\.sentence=mean: family vsepp reads no vectors of captions; leave it out$",
    ),
    "vectors": ("vsepp_tiny", {"text.word_vectors": "FILES/no.vec"}, "no.vec: no such file of word vectors"),
    "no vectors": ("vsepp_tiny", {"text.word_vectors": "FILES/captions.txt"}, "captions.txt: line 1: expected a word"),
    "empty vectors": ("vsepp_tiny", {"text.word_vectors": "FILES/empty.vec"}, "empty.vec: file is empty"),
    "lexicon": ("vsec_small", {"text.contrast.lexicon": "FILES"}, "no WordNet database here"),
    "concreteness": ("vsec_small", {"text.contrast.concreteness": "FILES/no.txt"}, "no.txt: cannot be read"),
    "weights": ("vsepp_tiny", {**NETWORK, "features.backbone.weights": "FILES/other.pt"}, "not weights of this arch"),
    "text as weights": (
        "vsepp_tiny",
        {**NETWORK, "features.backbone.weights": "FILES/text.pt"},
        "text.pt: is an HTML",
    ),
    "output": ("jwae_mse_small", {"model.image": "fc1"}, "output 'fc1': this backbone has"),
}


@pytest.mark.seconds
@pytest.mark.parametrize("case", slow_but(CASES, "parser", "vectors", "lexicon", "weights"))
def test_what_is_wrong_is_told_first_and_by_a_dry_run_alike(files: Path, case: str) -> None:
    name, changes, said = CASES[case]
    given = {key: value.replace("FILES", str(files)) for key, value in changes.items()}
    config, told = override(preset(name), {**SMALL, **given}), set[str]()
    for ask in (lambda: pipeline.prepare(config, Workspace.open(str(files / "space"))), lambda: dry_run(config)):
        with pytest.raises(InputError, match=said) as caught:
            ask()
        assert "\n" not in str(caught.value)
        told.add(str(caught.value))
    assert len(told) == 1


def test_a_parser_is_looked_for_only_where_captions_are_parsed() -> None:
    config = override(preset("vsepp_tiny"), {"text.parser.pipeline": "en_core_web_xx"})
    check(config)
    for asked in ({"parsed": True}, {"contrast": True}):
        with pytest.raises(InputError, match="en_core_web_xx"):
            check(config, **asked)


def test_a_disk_without_room_is_told_before_features_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, place = override(preset("vsepp_tiny"), SMALL), Workspace.open(str(tmp_path / "not" / "yet"))
    disk = SimpleNamespace(f_bavail=1, f_frsize=1024, f_blocks=100)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    with pytest.raises(
        InputError, match=r"^--workspace .*: features of 18 images take about 0\.0 GiB, and its disk has"
    ):
        pipeline.prepare(config, place)
    disk.f_blocks = 0  # a file system that does not say
    records = build("source", config.data).describe()
    check_features(config, records, ("pooled",), place)


def test_a_split_that_a_job_measures_is_missed_first() -> None:
    records = Scenes(Scenes.Config(num_train=4, num_val=2, num_test=0, num_shifted=2)).describe()
    assert trainable(records, ("val",)) is records
    with pytest.raises(InputError, match="no split 'test'; it has train, val, shifted"):
        trainable(records, ("val", "test"))
    config = override(preset("univse_tiny"), {**SMALL, "data.num_test": 0})
    assert dry_run(config)
    with pytest.raises(InputError, match="no split 'test'"):
        records_to_train(config, parsed=True, splits=SPLITS)
