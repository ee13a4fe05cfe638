import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.shared import SHARED
from vse.config import override
from vse.data.images import open_image
from vse.data.source import rejects
from vse.data.sources.karpathy import Karpathy
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
        (json.dumps(DATA)[:200], "not complete JSON"),
        ("[]", "expected an object with 'images'"),
        ("{}", "lacks the key 'images'"),
        (_broken(lambda d: d["images"].append(d["images"][0])), "image id 'a.jpg' appears twice"),
        (
            _broken(lambda d: d["images"][1]["sentences"][0].update(sentid=0.5)),
            "'sentid' must be a whole number or text",
        ),
        (_broken(lambda d: d["images"][1]["sentences"][0].update(sentid=True)), "'sentid' must be .*, got True"),
        (_broken(lambda d: d["images"][1].update(cocoid=[1])), "'cocoid' must be a whole number or text"),
        (_broken(lambda d: d["images"][1].update(filepath=2014)), "'filepath' must be str, got int"),
        (_broken(lambda d: d["images"][1].pop("filename")), r"images\[1\]: lacks the key 'filename'"),
        (_broken(lambda d: d["images"][1].pop("split")), r"images\[1\]: lacks the key 'split'"),
        (_broken(lambda d: d["images"][1].update(split="rest")), "unknown split 'rest'; expected one of .*restval"),
        (_broken(lambda d: d["images"][0]["sentences"][1].clear()), r"images\[0\].sentences\[1\]: lacks the key 'raw'"),
        (
            _broken(lambda d: d["images"][0]["sentences"].append("text")),
            r"sentences\[2\]: expected an object with 'raw'",
        ),
        (_broken(lambda d: d["images"][0]["sentences"].append({"tokens": ["a", 1]})), "'tokens' must be str, got int"),
        (_broken(lambda d: d["images"][0]["sentences"].append({"tokens": "a b"})), "'tokens' must be list, got str"),
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 3\n",
            "is a Git LFS pointer, .*`git lfs pull`",
        ),
        (b"<!DOCTYPE html><html>Caf\xe9</html>", "is an HTML or XML page left by a failed download"),
        (b"", "file is empty; copy or download it again"),
    ],
)
def test_what_was_never_downloaded(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "dataset_made.json").write_bytes(content)
    with pytest.raises(InputError, match=rf"dataset_made\.json: {message}"):
        Karpathy(Karpathy.Config(root=str(tmp_path))).describe()


def test_finding_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.root: name the folder"):
        Karpathy(Karpathy.Config()).describe()
    with pytest.raises(InputError, match="no such folder"):
        Karpathy(Karpathy.Config(root=str(tmp_path / "none"))).describe()
    with pytest.raises(InputError, match=r"expected one dataset_\*\.json, found none"):
        Karpathy(Karpathy.Config(root=str(tmp_path))).describe()
    with pytest.raises(InputError, match="cannot be read"):
        Karpathy(Karpathy.Config(root=str(tmp_path), file="x.json")).describe()
    (tmp_path / "captions.csv").write_text("image,caption\na.jpg,A dog\n")
    line = f"data.root={tmp_path}: this folder holds captions.csv; add data=table data.file=captions.csv"
    with pytest.raises(InputError, match=f"^{line}$"):
        Karpathy(Karpathy.Config(root=str(tmp_path))).describe()
    line = "data.file=captions.csv: is no JSON file of Karpathy's splits; add data=table"
    with pytest.raises(InputError, match=f"^{line}$"):
        Karpathy(Karpathy.Config(root=str(tmp_path), file="captions.csv")).describe()
    source = _source(tmp_path)
    (tmp_path / "dataset_other.json").write_text("{}")
    with pytest.raises(InputError, match="dataset_other"):
        source.describe()
    assert Karpathy(override(source.config, {"file": "dataset_tiny.json"})).describe().images


def _captions(tmp_path: Path, change: Any) -> list[tuple[str, str]]:
    records = _source(tmp_path, _broken(change)).describe()
    return [(c.id, c.text) for c in records.captions]


PLAIN = [("0", "A cat ."), ("1", "Two cats sit"), ("2", "A dog"), ("3", "A bird"), ("5", "Birds")]
BY_IMAGE = [("a.jpg#0", "A cat ."), ("a.jpg#1", "Two cats sit"), ("b.jpg#0", "A dog"), ("c.jpg#0", "A bird")]


def _sentids(data: Any, give: Any) -> None:
    for image in data["images"]:
        for k, sentence in enumerate(image["sentences"]):
            sentence["sentid"] = give(k, sentence["sentid"])


@pytest.mark.parametrize("give", [lambda k, n: float(n), lambda k, n: str(n)], ids=["float", "text"])
def test_sentence_ids_may_be_numbers_of_any_kind(tmp_path: Path, give: Any) -> None:
    assert _captions(tmp_path, lambda d: _sentids(d, give)) == PLAIN


@pytest.mark.parametrize(
    "give",
    [lambda k, n: None, lambda k, n: k, lambda k, n: float("nan"), lambda k, n: 7],
    ids=["null", "k", "NaN", "one"],
)
def test_sentences_without_ids_of_their_own_are_called_after_their_image(tmp_path: Path, give: Any) -> None:
    found = _captions(tmp_path, lambda d: _sentids(d, give))
    assert found == [*BY_IMAGE, ("c.jpg#2", "Birds")]


def test_split_names_of_others(tmp_path: Path) -> None:
    names = {"train": "Train", "val": "dev", "test": "TEST", "restval": "restval"}
    data = _broken(lambda d: [image.update(split=names[image["split"]]) for image in d["images"]])
    assert _source(tmp_path, data).describe().fingerprint == _source(tmp_path).describe().fingerprint


def test_tokens_stand_in_for_a_raw_sentence(tmp_path: Path) -> None:
    def change(data: Any) -> None:
        data["images"][0]["sentences"][0] |= {"raw": None, "tokens": ["a", "cat", "sits"]}
        data["images"][1]["sentences"][0] = {"tokens": ["a", "dog"], "sentid": 2}

    assert _captions(tmp_path, change) == [("0", "a cat sits"), PLAIN[1], ("2", "a dog"), *PLAIN[3:]]


def test_null_sentences_are_rejects(tmp_path: Path) -> None:
    data = _broken(lambda d: d["images"][0]["sentences"].append({"raw": None, "sentid": 77}))
    records = _source(tmp_path, data).describe()
    assert [(c.id, c.text) for c in records.captions] == PLAIN
    assert ("77", "caption is null") in [(r.id, r.reason) for r in rejects(records)]


def test_one_file_name_in_two_folders_is_two_images(tmp_path: Path) -> None:
    def change(data: Any) -> None:
        for image, place in zip(data["images"], ("x", "y", "", None), strict=True):
            image |= {"filename": "1.jpg" if place else image["filename"], "filepath": place, "url": None, "imgid": 7}

    records = _source(tmp_path, _broken(change)).describe()
    assert [(i.id, i.uri) for i in records.images] == [("x/1.jpg",) * 2, ("y/1.jpg",) * 2, ("c.jpg",) * 2]
    records = _source(tmp_path, _broken(change), restval=False).describe()
    assert [(i.id, i.uri) for i in records.images] == [("1.jpg", "x/1.jpg"), ("c.jpg", "c.jpg")]
    with pytest.raises(InputError, match=r"image id 'x/1.jpg' appears twice"):
        _source(tmp_path, _broken(lambda d: [change(d), d["images"].append(d["images"][0])])).describe()


@pytest.mark.parametrize("coco", [42, 42.0, "42"])
def test_coco_ids_may_be_numbers_of_any_kind(tmp_path: Path, coco: Any) -> None:
    records = _source(tmp_path, _broken(lambda d: d["images"][0].update(cocoid=coco))).describe()
    assert records.images[0].id == "42"


def test_what_was_read_before_keeps_its_fingerprint(tmp_path: Path) -> None:
    data = _broken(lambda d: d["images"][2].update(filepath="val2014", cocoid=4711))
    assert _source(tmp_path, data).describe().fingerprint == "47c1ab5f"


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


def test_words_of_adversaries_are_counted_with_restval(tmp_path: Path) -> None:
    """Runs with and without these images meet the same adversaries."""
    configs = [_source(tmp_path, restval=restval, limit=5).with_all_captions() for restval in (True, False)]
    assert configs[0] == configs[1]
    assert [image.id for image in Karpathy(configs[1]).describe().split("train").images] == ["a.jpg", "b.jpg"]
