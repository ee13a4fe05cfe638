"""Which source reads a folder or file."""

import json
from pathlib import Path

import pytest

from tests import s3
from vse.config import override
from vse.data.source import recognise
from vse.errors import InputError
from vse.registry import build, component
from vse.storage.folder import Folder

SENTENCES = [{"raw": "A dog runs."}]
KARPATHY = {"images": [{"filename": "1.jpg", "split": "test", "sentences": SENTENCES}]}
COCO = {
    "images": [{"id": 1, "file_name": "1.jpg"}],
    "annotations": [{"id": 7, "image_id": 1, "caption": "A dog runs."}],
}
FILES = {
    "karpathy/dataset_mine.json": KARPATHY,
    "coco/annotations/captions_train2014.json": COCO,
    "coco/annotations/captions_val2014.json": {**COCO, "images": [{"id": 1, "file_name": "1.jpg"}]},
    "table/mine.csv": "image,caption,split\n1.jpg,A dog runs.,test\n",
    "precomp/test_caps.txt": "a dog\n",
    "precomp/test_ims.npy": "",
    "others/karpathy.json": KARPATHY,
    "others/coco.json": COCO,
    "others/rows.json": [{"image": "1.jpg", "caption": "A dog runs."}],
    "lines/captions.json": '{"image": "1.jpg", "caption": "A dog runs."}\n\n{"image": "2.jpg", "caption": "A cat."}\n',
}


@pytest.fixture
def there(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("karpathy", "karpathy"),
        ("karpathy/dataset_mine.json", "karpathy"),
        ("coco/annotations/captions_val2014.json", "coco"),
        ("table", "table"),
        ("table/mine.csv", "table"),
        ("precomp", "precomp"),
        ("others/karpathy.json", "karpathy"),
        ("others/coco.json", "coco"),
        ("others/rows.json", "table"),
        ("lines/captions.json", "table"),
    ],
)
def test_a_source_is_told_from_what_lies_there(there: Path, name: str, source: str) -> None:
    found, keys = recognise(str(there / name))
    assert found == source
    config = override(component("source", found).Config(), keys)
    if source != "precomp":
        records = build("source", config).describe()
        assert records.captions[0].text == "A dog runs."


def test_the_files_of_coco_are_those_of_its_splits(there: Path) -> None:
    found, keys = recognise(str(there / "coco"))
    assert (found, keys.pop("root")) == ("coco", str(there / "coco"))
    assert keys == {
        "train": "annotations/captions_train2014.json",
        "train_images": "train2014",
        "val": "annotations/captions_val2014.json",
        "val_images": "val2014",
    }
    file = there / "coco/annotations/captions_val2014.json"
    keys = {"root": str(there / "coco"), "train": "", "val": "", "test": str(file), "test_images": "val2014"}
    assert recognise(str(file)) == ("coco", keys)


def test_a_named_source_is_taken(there: Path) -> None:
    assert recognise(str(there / "others/coco.json"), "table")[0] == "table"
    assert recognise(str(there / "karpathy"), "karpathy") == ("karpathy", {"root": str(there / "karpathy")})


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("absent", "", "no such file or folder"),
        (
            ".",
            "",
            r"no source recognises it; .*\(hf\), dataset_\*\.json \(karpathy\), captions_\*\.json",
        ),
        ("others", "", "holds several tables, coco.json, karpathy.json, rows.json; name one of them"),
        ("table", "scenes", "scenes are rendered, not read"),
        ("precomp/test_ims.npy", "precomp", "is a file; name the folder"),
    ],
)
def test_what_is_not_recognised_is_one_line(there: Path, name: str, source: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        recognise(str(there / name), source)
    assert "\n" not in str(caught.value)


def test_a_home_is_expanded(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(there))
    assert recognise("~/karpathy")[1] == {"root": str(there / "karpathy")}


@pytest.mark.process
def test_data_in_a_bucket_are_recognised() -> None:
    with s3.server() as place:
        folder = Folder.open(s3.address(place, "data"))
        folder.write_json("dataset_mine.json", KARPATHY)
        found, keys = recognise(folder.uri)
        assert (found, keys) == ("karpathy", {"root": folder.uri})
        assert recognise(folder.address("dataset_mine.json"))[0] == "karpathy"
