import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.shared import SHARED
from vse.config import override
from vse.data.images import open_image
from vse.data.karpathy import Karpathy
from vse.data.sources import rejects
from vse.errors import InputError


def _entry(name: str, split: str, sentences: list[str], first: int, **more: Any) -> dict[str, Any]:
    said = [{"raw": text, "sentid": first + k, "tokens": []} for k, text in enumerate(sentences)]
    return {"filename": name, "split": split, "sentences": said, **more}


DATA = {
    "dataset": "tiny",
    "images": [
        _entry("a.jpg", "train", ["A cat .", " Two\n cats  sit "], 0),
        _entry("b.jpg", "restval", ["A dog"], 2),
        _entry("c.jpg", "test", ["A bird", "", "Birds", " \t"], 3),
        _entry("d.jpg", "val", ["   "], 9),
    ],
}


def _source(tmp_path: Path, data: Any = DATA, **config: Any) -> Karpathy:
    (tmp_path / "dataset_tiny.json").write_text(data if isinstance(data, str) else json.dumps(data))
    return Karpathy(Karpathy.Config(root=str(tmp_path), **config))


def test_records(tmp_path: Path) -> None:
    records = _source(tmp_path).describe()
    assert records.name == "tiny"
    assert [(i.id, i.uri, i.split) for i in records.images] == [
        ("a.jpg", "a.jpg", "train"),
        ("b.jpg", "b.jpg", "train"),
        ("c.jpg", "c.jpg", "test"),
    ]
    assert [(c.id, c.image, c.text) for c in records.captions] == [
        ("0", "a.jpg", "A cat ."),
        ("1", "a.jpg", "Two cats sit"),
        ("2", "b.jpg", "A dog"),
        ("3", "c.jpg", "A bird"),
        ("5", "c.jpg", "Birds"),
    ]
    assert [(r.id, r.reason) for r in rejects(records)] == [
        ("4", "caption without a word"),
        ("6", "caption without a word"),
        ("9", "caption without a word"),
        ("d.jpg", "image without a caption"),
    ]


def test_restval_can_be_left_out_and_coco_ids_win(tmp_path: Path) -> None:
    data = copy.deepcopy(DATA)
    data["images"][0] |= {"cocoid": 4711, "filepath": "val2014"}
    records = _source(tmp_path, data, restval=False).describe()
    assert [(i.id, i.uri) for i in records.images] == [("4711", "val2014/a.jpg"), ("c.jpg", "c.jpg")]


def test_sentences_may_lack_their_ids(tmp_path: Path) -> None:
    data = copy.deepcopy(DATA)
    for image in data["images"][:2]:
        for sentence in image["sentences"]:
            del sentence["sentid"]
    records = _source(tmp_path, data).describe()
    assert [(c.id, c.text) for c in records.captions][:4] == [
        ("a.jpg#0", "A cat ."),
        ("a.jpg#1", "Two cats sit"),
        ("b.jpg#0", "A dog"),
        ("3", "A bird"),
    ]


def test_image_root(tmp_path: Path) -> None:
    source = _source(tmp_path)
    assert source.image_root == str(tmp_path)
    (tmp_path / "images").mkdir()
    assert source.image_root == str(tmp_path / "images")
    assert Karpathy(override(source.config, {"images": "photos"})).image_root == str(tmp_path / "photos")


def test_moving_the_folder_changes_no_fingerprint(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert _source(tmp_path / "one").describe().fingerprint == _source(tmp_path / "two").describe().fingerprint


def _broken(change: Any) -> Any:
    data = copy.deepcopy(DATA)
    change(data)
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (json.dumps(DATA)[:200], "not whole JSON"),
        ("[]", "expected an object with 'images'"),
        ("{}", "lacks the key 'images'"),
        (_broken(lambda d: d["images"].append(d["images"][0])), "image id 'a.jpg' appears twice"),
        (_broken(lambda d: d["images"][1]["sentences"][0].update(sentid=0)), "caption id '0' appears twice"),
        (_broken(lambda d: d["images"][1].pop("filename")), r"images\[1\]: lacks the key 'filename'"),
        (_broken(lambda d: d["images"][1].pop("split")), r"images\[1\]: lacks the key 'split'"),
        (_broken(lambda d: d["images"][1].update(split="dev")), "unknown split 'dev'"),
        (_broken(lambda d: d["images"][0]["sentences"][1].pop("raw")), r"images\[0\].sentences\[1\]: lacks the key"),
        (_broken(lambda d: d["images"][0]["sentences"][1].update(raw=3)), "'raw' must be str, got int"),
        (_broken(lambda d: d["images"].insert(0, "a.jpg")), r"images\[0\]: expected an object"),
        (_broken(lambda d: d["images"].clear()), "holds no image with a caption"),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path: Path, data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        _source(tmp_path, data).describe()
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_finding_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.root: name the folder"):
        Karpathy(Karpathy.Config()).describe()
    with pytest.raises(InputError, match="no such folder"):
        Karpathy(Karpathy.Config(root=str(tmp_path / "none"))).describe()
    with pytest.raises(InputError, match=r"expected one dataset_\*\.json, found none"):
        Karpathy(Karpathy.Config(root=str(tmp_path))).describe()
    with pytest.raises(InputError, match="cannot be read"):
        Karpathy(Karpathy.Config(root=str(tmp_path), file="x.json")).describe()
    source = _source(tmp_path)
    (tmp_path / "dataset_other.json").write_text("{}")
    with pytest.raises(InputError, match="dataset_other"):
        source.describe()
    assert Karpathy(override(source.config, {"file": "dataset_tiny.json"})).describe().images


@pytest.mark.skipif(SHARED is None, reason="no real photographs on this machine")
def test_real_photographs() -> None:
    assert SHARED is not None
    source = Karpathy(Karpathy.Config(root=str(SHARED / "data/flickr8k_800"), folds=5, fold=1))
    records = source.describe()
    assert {name: len(records.split(name).images) for name in records.split_names} == {
        "train": 560,
        "test": 100,
        "val": 140,
    }
    assert len(records.captions) == 4000
    assert open_image(records.images[0].uri, source.image_root).mode == "RGB"
