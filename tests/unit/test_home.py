"""`~` in every key that is a path: what is read, and where results are written."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import photographs
from tests.unit.text.lexicon import database
from vse import registry
from vse.adversaries.caption_pairs import read_pairs
from vse.config import override
from vse.storage import user_files as named_files
from vse.studies import artefact_test as artefacts
from vse.text.lexicon.concreteness import read_scores
from vse.text.lexicon.wordnet import read_sense_counts, read_wordnet, single_words
from vse.text.word_vector_training import read_captions

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = photographs.write(tmp_path / "home" / "tiny")
    np.save(folder / "train_ims.npy", np.arange(8, dtype=np.float32).reshape(2, 4))
    (folder / "train_caps.txt").write_text("A dog\nTwo dogs\n")
    coco = {"images": [{"id": 1, "file_name": "1.png"}], "annotations": [{"id": 1, "image_id": 1, "caption": "A dog"}]}
    (folder / "captions_train.json").write_text(json.dumps(coco))
    return folder


@pytest.mark.parametrize(
    ("source", "settings"),
    [
        ("karpathy", {"root": "~/tiny"}),
        ("karpathy", {"root": "~/tiny", "file": "~/tiny/dataset_tiny.json", "images": "~/tiny/images"}),
        ("table", {"file": "~/tiny/captions.csv"}),
        ("table", {"file": "captions.csv", "root": "~/tiny"}),
        ("precomp", {"root": "~/tiny"}),
        ("coco", {"root": "~/tiny", "train": "~/tiny/captions_train.json", "val": ""}),
    ],
)
def test_sources(home: Path, source: str, settings: dict[str, Any]) -> None:
    config = override(registry.component("source", source).Config(), settings)
    built = registry.build("source", config)
    assert built.describe().images
    assert built.image_root in (str(home), str(home / "images"))


@pytest.mark.parametrize(
    ("read", "content"),
    [
        (lambda path: list(artefacts.read_pairs(path)), ""),
        (lambda path: list(read_captions(path)), "A dog\n"),
        (read_pairs, json.dumps([{"image": "1", "caption": "A dog", "negative": "A cat"}])),
        (read_scores, "dog\t4.9\n"),
        (lambda path: named_files.ends(path, 2), "A dog\n"),
        (named_files.digest, "A dog\n"),
    ],
)
def test_files(home: Path, read: Callable[[str], Any], content: str) -> None:
    (home / "file.txt").write_text(content)
    read("~/tiny/file.txt")


def test_a_wordnet_database(home: Path) -> None:
    database.write(home)
    assert read_wordnet("~/tiny").fingerprint == read_wordnet(str(home)).fingerprint
    assert read_sense_counts("~/tiny") == read_sense_counts(str(home))
    assert single_words("~/tiny") == single_words(str(home))


def test_no_job_opens_an_option_without_expanding_it() -> None:
    for file in sorted((REPOSITORY / "jobs").glob("*.py")):
        assert not re.search(r"\bPath\((options|request|config)\.", file.read_text()), file.name
