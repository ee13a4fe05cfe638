import copy
import json
from pathlib import Path
from typing import Any

import pytest

from vse.data.coco import Coco
from vse.data.sources import rejects
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
        (json.dumps(TRAIN)[:150], "t.json: is not whole JSON"),
        (_broken(lambda d: d.pop("annotations")), "lacks the key 'annotations'"),
        (
            _broken(lambda d: d["images"].append({"id": 4, "file_name": "x"})),
            r"images\[2\]: image id '4' appears twice",
        ),
        (_broken(lambda d: d["annotations"][1].update(id=1)), r"annotations\[1\]: caption id '1' appears twice"),
        (_broken(lambda d: d["annotations"][1].update(image_id=7)), "points to image '7', which is not in this file"),
        (_broken(lambda d: d["annotations"][1].pop("caption")), r"annotations\[1\]: lacks the key 'caption'"),
        (_broken(lambda d: d["images"][0].update(id=True)), "'id' must be int or str, got bool"),
        (_broken(lambda d: d["images"][0].update(id=7)), "appears twice|not in this file"),
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
