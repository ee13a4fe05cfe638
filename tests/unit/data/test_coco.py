import copy
import json
import pickle
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from vse.config import override
from vse.data.images import open_image
from vse.data.places import AddressError
from vse.data.source import rejects
from vse.data.sources.coco import Coco
from vse.errors import InputError

TRAIN = {
    "images": [{"id": 9, "file_name": "9.jpg"}, {"id": 4, "file_name": "4.jpg"}],
    "annotations": [
        {"id": 1, "image_id": 4, "caption": "A cup."},
        {"id": 2, "image_id": 9, "caption": "A boat."},
        {"id": 3, "image_id": 4, "caption": "A white cup.\n"},
        {"id": 5, "image_id": 9, "caption": ""},
    ],
}
VAL = {
    "images": [{"id": 7, "file_name": "7.jpg"}],
    "annotations": [{"id": 6, "image_id": 7, "caption": "A kite"}],
}


def _source(tmp_path: Path, train: Any = TRAIN, val: Any = VAL) -> Coco:
    for name, data in (("t.json", train), ("v.json", val)):
        (tmp_path / name).write_text(data if isinstance(data, str) else json.dumps(data))
    return Coco(Coco.Config(root=str(tmp_path), train="t.json", val="v.json"))


def test_records_are_grouped_by_image(tmp_path: Path) -> None:
    source = _source(tmp_path)
    records = source.describe()
    assert [(i.id, i.uri, i.split) for i in records.images] == [
        ("9", "train2017/9.jpg", "train"),
        ("4", "train2017/4.jpg", "train"),
        ("7", "val2017/7.jpg", "val"),
    ]
    assert [(c.id, c.image, c.text) for c in records.captions] == [
        ("2", "9", "A boat."),
        ("1", "4", "A cup."),
        ("3", "4", "A white cup."),
        ("6", "7", "A kite"),
    ]
    assert [r.id for r in rejects(records)] == ["5"]
    assert source.image_root == str(tmp_path)


def _broken(change: Any) -> Any:
    data = copy.deepcopy(TRAIN)
    change(data)
    return data


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (json.dumps(TRAIN)[:150], "t.json: is not complete JSON"),
        (_broken(lambda d: d.pop("annotations")), "lacks the key 'annotations'"),
        (
            _broken(lambda d: d["images"].append({"id": 4, "file_name": "x"})),
            r"images\[2\]: image id '4' appears twice",
        ),
        (_broken(lambda d: d["annotations"][1].update(image_id=7)), "points to image '7', which is not in this file"),
        (_broken(lambda d: d["annotations"][1].pop("caption")), r"annotations\[1\]: lacks the key 'caption'"),
        (_broken(lambda d: d["images"][0].update(id=True)), "'id' must be a whole number or text, got True"),
        (_broken(lambda d: d["images"][0].pop("id")), r"images\[0\]: lacks the key 'id'"),
        (_broken(lambda d: d["images"][0].pop("file_name")), r"images\[0\]: lacks the key 'file_name'"),
        (_broken(lambda d: d["images"][0].update(id=7)), "points to image '9', which is not in this file"),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path: Path, train: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _source(tmp_path, train).describe()


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name at least one"):
        Coco(Coco.Config(root=str(tmp_path), train="", val="")).describe()
    with pytest.raises(InputError, match="cannot be read"):
        Coco(Coco.Config(root=str(tmp_path))).describe()


def _url(data: Any) -> None:
    for image in data["images"]:
        image["coco_url"] = f"http://images.cocodataset.org/train2017/{image.pop('file_name')}"


@pytest.mark.parametrize(
    "change",
    [
        _url,
        lambda d: [
            image.update(file_name=None, coco_url=f"http://c/{image['file_name']}?x=1") for image in d["images"]
        ],
        lambda d: [a.update(image_id=str(a["image_id"])) for a in d["annotations"]],
        lambda d: [a.update(image_id=f"{a['image_id']:012}") for a in d["annotations"]],
        lambda d: [a.update(image_id=float(a["image_id"]), id=str(a["id"])) for a in d["annotations"]],
        lambda d: [image.update(id=float(image["id"])) for image in d["images"]],
    ],
    ids=["url", "null name", "text", "padded", "float", "float image"],
)
def test_other_spellings_give_the_same_records(tmp_path: Path, change: Any) -> None:
    assert _source(tmp_path, _broken(change)).describe().fingerprint == _source(tmp_path).describe().fingerprint


def test_padded_ids_of_images_are_found_by_number_and_kept(tmp_path: Path) -> None:
    train = _broken(lambda d: [image.update(id=f"{image['id']:04}") for image in d["images"]])
    records = _source(tmp_path, train).describe()
    assert [(c.id, c.image) for c in records.captions][:3] == [("2", "0009"), ("1", "0004"), ("3", "0004")]
    train["images"].append({"id": "4", "file_name": "other.jpg"})
    records = _source(tmp_path, train).describe()  # as it is written comes first
    assert [(c.id, c.image) for c in records.captions][1:3] == [("1", "4"), ("3", "4")]
    train["images"][2]["id"] = "04"
    with pytest.raises(InputError, match="points to image '4', which is not in this file"):
        _source(tmp_path, train).describe()  # either may be meant


@pytest.mark.parametrize(
    ("train", "val"),
    [
        (_broken(lambda d: d["annotations"][1].update(id=1)), VAL),
        (TRAIN, {**VAL, "annotations": [{"id": 1, "image_id": 7, "caption": "A kite"}]}),
        (_broken(lambda d: [a.pop("id") for a in d["annotations"]]), VAL),
        (_broken(lambda d: [a.update(id=None) for a in d["annotations"]]), VAL),
    ],
    ids=["in a file", "in each file", "absent", "null"],
)
def test_captions_without_ids_of_their_own_are_called_after_their_image(tmp_path: Path, train: Any, val: Any) -> None:
    records = _source(tmp_path, train, val).describe()
    assert [(c.id, c.text) for c in records.captions][:3] == [
        ("9#0", "A boat."),
        ("4#0", "A cup."),
        ("4#1", "A white cup."),
    ]


def test_null_captions_are_rejects(tmp_path: Path) -> None:
    train = _broken(lambda d: d["annotations"][0].update(caption=None))
    found = rejects(_source(tmp_path, train).describe())
    assert [(r.id, r.reason) for r in found] == [("1", "caption is null"), ("5", "caption without a word")]


def test_image_ids_that_begin_anew_follow_their_split(tmp_path: Path) -> None:
    val = json.loads(json.dumps(VAL).replace('"id": 7', '"id": 9').replace('"image_id": 7', '"image_id": 9'))
    records = _source(tmp_path, TRAIN, val).describe()
    assert [(i.id, i.uri) for i in records.images] == [
        ("train/9", "train2017/9.jpg"),
        ("train/4", "train2017/4.jpg"),
        ("val/9", "val2017/7.jpg"),
    ]
    assert [(c.id, c.image) for c in records.captions][-1] == ("6", "val/9")


@pytest.mark.parametrize("folder", ["train2017", "./train2017"])
def test_one_image_in_two_splits_is_refused(tmp_path: Path, folder: str) -> None:
    _source(tmp_path, TRAIN, TRAIN)
    source = Coco(Coco.Config(root=str(tmp_path), train="t.json", val="v.json", val_images=folder))
    with pytest.raises(InputError, match=r"v\.json: images\[0\]: image '9' .* in the split train as well"):
        source.describe()


def _photo(folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    PIL.Image.new("RGB", (4, 4)).save(folder / name)


@pytest.mark.parametrize("how", ["links", "path", "upwards", "home"])
def test_folders_of_images_may_lie_elsewhere(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root, away = tmp_path / "coco", tmp_path / "away"
    root.mkdir()
    for split, name in (("train2017", "9.jpg"), ("val2017", "7.jpg")):
        _photo(away / split, name)
        if how == "links":
            (root / split).symlink_to(away / split)
    monkeypatch.setenv("HOME", str(tmp_path))
    before = {"links": "", "path": f"{away}/", "upwards": "../away/", "home": "~/away/"}[how]
    folders = {f"{split}_images": f"{before}{split}2017" for split in ("train", "val")}
    base = _source(root)
    source = Coco(override(base.config, folders))
    records = source.describe()
    for image in (records.images[0], records.images[-1]):
        assert open_image(image.uri, source.image_root).size == (4, 4)
        assert open_image(image.uri, pickle.loads(pickle.dumps(source.image_root))).size == (4, 4)
    if how == "links":
        assert records.fingerprint == base.describe().fingerprint == "c2e2f990"
    (away / "train2017" / "out.jpg").symlink_to(tmp_path / "secret.jpg")
    with pytest.raises(AddressError, match=r"leaves its root .* through a symbolic link"):
        open_image(f"{folders['train_images'].replace('~', str(tmp_path))}/out.jpg", source.image_root)
    with pytest.raises(AddressError, match="leaves its root"):
        open_image("../away/secret.jpg", source.image_root)
