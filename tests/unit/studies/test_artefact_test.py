"""The artefact test on scenes from end to end, and on files of pairs."""

import json

import pytest

from vse.config import override
from vse.errors import InputError
from vse.presets import preset
from vse.studies.artefact_test import ArtefactTestOptions, measure_artefacts, numbers, read_pairs
from vse.workspace.layout import Workspace

SMALL = {"data.num_train": 20, "data.num_val": 2, "data.num_test": 12, "data.num_shifted": 2}


@pytest.mark.slow
def test_univse_attacks_on_scenes(tmp_path):
    config = override(preset("univse_tiny"), SMALL)
    options = ArtefactTestOptions(splits=("test",), folds=3)
    records, rows = measure_artefacts(config, Workspace.open(str(tmp_path)), options)
    assert [row.paradigm for row in rows[::3]] == ["univse object", "univse attribute", "univse relation"]
    assert rows[0].images == 12
    assert rows[0].text is not None
    assert records.split("test").name == "test"
    assert numbers(rows)["artefacts/univse_object/none/pairs"] == rows[0].pairs


def test_training_captions_are_not_judged(tmp_path):
    with pytest.raises(InputError, match="use other splits"):
        measure_artefacts(preset("univse_tiny"), Workspace.open(str(tmp_path)), ArtefactTestOptions(splits=("train",)))


def test_pairs_of_a_file(tmp_path):
    row = {"image": "i", "caption": "a dog", "adversary": "a cat", "paradigm": "noun", "more": 1}
    path = tmp_path / "pairs.jsonl"
    path.write_text("\ufeff" + json.dumps(row) + "\r\n\n", encoding="utf-8")
    found = list(read_pairs(str(path)))
    assert [(s.image, s.caption, s.adversary, s.paradigm) for s in found] == [("i", "a dog", "a cat", "noun")]
    _, rows = measure_artefacts(
        override(preset("univse_tiny"), SMALL), Workspace.open(str(tmp_path)), ArtefactTestOptions(pairs=str(path))
    )
    assert (rows[0].paradigm, rows[0].pairs, rows[0].images, rows[0].text) == ("noun", 1, 1, None)


NUMBER = '{"image": 1, "caption": "", "adversary": "", "paradigm": ""}'


@pytest.mark.parametrize("line", ["{", "[]", '{"image": "i"}', NUMBER])
def test_other_lines_are_one_clear_line(tmp_path, line):
    path = tmp_path / "pairs.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(
        InputError, match=r"pairs\.jsonl: line 1: expected a pair with image, caption, adversary, paradigm"
    ):
        list(read_pairs(str(path)))
    path.write_bytes(json.dumps({"image": "caf\xe9"}, ensure_ascii=False).encode("latin-1"))
    with pytest.raises(InputError, match=r"pairs\.jsonl: is not UTF-8 text .*; expected JSON lines"):
        list(read_pairs(str(path)))
    with pytest.raises(InputError, match="no such file"):
        list(read_pairs(str(tmp_path / "absent")))
