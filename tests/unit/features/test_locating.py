"""Image paths before extraction, whichever source they come from."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from vse import registry
from vse.config import override
from vse.errors import InputError
from vse.features.rejects import FileSurvey, TooManyRejects
from vse.features.small_backbone import SmallBackbone
from vse.stages.extract import ExtractionConfig, extract
from vse.storage.folder import Folder

SMALL = SmallBackbone.Config(weights="random")
NAMES = ["A\\0.PNG", "a/1", "/home/ann/a/2.png", "a/3.png"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "data" / "a").mkdir(parents=True)
    for k in range(4):
        Image.new("RGB", (40, 30), (60 * k, 90, 20)).save(tmp_path / "data" / "a" / f"{k}.png")
    return tmp_path / "data"


def write_table(root: Path, names: list[str]) -> dict[str, str]:
    (root / "t.csv").write_text("image,caption\n" + "".join(f"{name},A dog\n" for name in names))
    return {"file": str(root / "t.csv")}


def write_karpathy(root: Path, names: list[str]) -> dict[str, str]:
    images = [{"filename": name, "split": "train", "sentences": [{"raw": "A dog"}]} for name in names]
    (root / "dataset_x.json").write_text(json.dumps({"images": images}))
    return {"root": str(root)}


def write_coco(root: Path, names: list[str]) -> dict[str, str]:
    images = [{"id": k, "file_name": name} for k, name in enumerate(names)]
    captions = [{"id": k, "image_id": k, "caption": "A dog"} for k in range(len(names))]
    (root / "c.json").write_text(json.dumps({"images": images, "annotations": captions}))
    return {"root": str(root), "train": "c.json", "val": "", "train_images": ""}


SOURCES = {"table": write_table, "karpathy": write_karpathy, "coco": write_coco}


@pytest.mark.parametrize("name", SOURCES)
def test_paths_of_any_source_find_their_files(
    name: str, root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="vse.features")
    source = registry.build("source", override(registry.component("source", name).Config(), SOURCES[name](root, NAMES)))
    records, folder = source.describe(), Folder.open(tmp_path / "features")
    before = records.fingerprint
    store = extract(records, SMALL, ["pooled"], folder, root=source.image_root)
    assert len(store.ids) == 4
    assert records.fingerprint == before  # paths stay as they are written
    assert caplog.messages == [
        f"3 of 4 image paths differ from their files in {root}; for one, 'A\\\\0.PNG' is 'a/0.png'"
    ]


def test_missing_images_are_known_before_any_is_read(root: Path, tmp_path: Path) -> None:
    config = override(registry.component("source", "table").Config(), write_table(root, [f"{k}.jpg" for k in range(4)]))
    source, folder = registry.build("source", config), Folder.open(tmp_path / "features")
    with pytest.raises(TooManyRejects, match=r"^4 of 4 images are missing in .*, for example '0\.jpg': no such file"):
        extract(source.describe(), SMALL, ["pooled"], folder, root=source.image_root, keys=source.image_keys)
    assert pq.read_table(folder.local("rejects.parquet")).num_rows == 4


def test_a_few_missing_images_are_one_line_and_rejects(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="vse.features")
    names = [f"a/{k}.png" for k in range(4)] + ["7.png"]
    source = registry.build(
        "source", override(registry.component("source", "table").Config(), write_table(root, names))
    )
    records = source.describe()
    options = ExtractionConfig(max_rejected=0.3)
    store = extract(records, SMALL, ["pooled"], Folder.open(tmp_path / "f"), root=source.image_root, options=options)
    assert store.rejects == {"7.png": "file is missing"}
    (line,) = caplog.messages
    assert line.startswith(
        f"1 of 5 images is missing in {root}, for example '7.png': no file has this or a similar name"
    )


def test_images_of_an_unreadable_format_are_known_before_any_is_read(root: Path, tmp_path: Path) -> None:
    for k in range(4):
        (root / f"{k}.heic").write_bytes(b"\0\0\0\x18ftypheic")
    (root / "4.heic").write_bytes((root / "a" / "1.png").read_bytes())  # a wrong ending
    names = [*(f"{k}.heic" for k in range(5)), *(f"a/{k}.png" for k in range(4))]
    config = override(registry.component("source", "table").Config(), write_table(root, names))
    source, folder = registry.build("source", config), Folder.open(tmp_path / "features")
    reason = "HEIC file, which cannot be read here; convert it to JPEG"
    with pytest.raises(TooManyRejects) as caught:
        extract(source.describe(), SMALL, ["pooled"], folder, root=source.image_root, keys=source.image_keys)
    assert str(caught.value) == (
        f"4 of 9 images cannot be read in {root}, for example '0.heic': {reason}; more than max_rejected=0.05 allows; "
        f"each is listed in {folder}/rejects.parquet"
    )
    options = ExtractionConfig(max_rejected=0.5)
    store = extract(source.describe(), SMALL, ["pooled"], folder, root=source.image_root, options=options)
    assert store.rejects == {f"{k}.heic": reason for k in range(4)}


def test_image_files_in_no_row_are_counted(root: Path) -> None:
    config = override(registry.component("source", "table").Config(), write_table(root, ["a/0.png", "a/1"]))
    source = registry.build("source", config)
    survey = FileSurvey(source.describe(), source.image_root)
    assert survey.unnamed("") == f"2 image files in {root} are not in the table"
    (root / "t.csv").write_text("image,caption\n" + "".join(f"a/{k}.png,A dog\n" for k in range(3)) + "a/3.png,\n")
    source = registry.build("source", config)
    assert FileSurvey(source.describe(), source.image_root).unnamed("") == ""  # a/3.png has a row without a caption


def test_two_images_that_are_one_file_are_refused(root: Path, tmp_path: Path) -> None:
    config = override(registry.component("source", "table").Config(), write_table(root, ["a/0.png", "a\\0.png"]))
    source = registry.build("source", config)
    with pytest.raises(InputError, match=r"a/0\.png: the images 'a/0\.png' and 'a\\\\0\.png' both mean this file"):
        extract(source.describe(), SMALL, ["pooled"], Folder.open(tmp_path / "features"), root=source.image_root)
