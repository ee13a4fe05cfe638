"""Pictures of a folder by their endings, wherever it lies."""

from pathlib import Path

import PIL.Image
import pytest

from tests import s3
from vse.data.image_files import ENDINGS, picture_files
from vse.data.images import open_image
from vse.errors import InputError
from vse.storage.folder import Folder

THERE = ["B.JPG", "f.AVIF", "g.jp2", "a.png", "deep/er/c.webp", "deep/with, comma.jpeg", "ünï.gif"]
OTHERS = [".hidden.png", ".thumbnails/d.png", "deep/notes.txt", "deep/.DS_Store", "png", "e.png.part"]


def fill(folder: Folder) -> None:
    for path in (*THERE, *OTHERS):
        *steps, name = path.split("/")
        folder.child(*steps).write_bytes(name, b"x")


def test_pictures_at_any_depth_in_order(tmp_path: Path) -> None:
    fill(Folder.open(tmp_path / "set"))
    assert picture_files(str(tmp_path / "set"), "images")[0] == sorted(THERE)
    assert picture_files(f"{tmp_path}/set/", "images")[0] == sorted(THERE)


def test_skipped_files_are_one_line(tmp_path: Path) -> None:
    for name in ("a.png", "b.heic", "c.HEIC", "d.txt", "e", "f.\x1b[2J", ".g.heic"):
        (tmp_path / name).write_bytes(b"x")
    assert picture_files(str(tmp_path), "images") == (
        ["a.png"],
        f"images={tmp_path}: skipped 2 .heic files (unsupported format; convert to JPEG) and 3 files that are not "
        "images",
    )
    for name in ("b.heic", "c.HEIC", "d.txt", "e", "f.\x1b[2J"):
        (tmp_path / name).unlink()
    assert picture_files(str(tmp_path), "images") == (["a.png"], "")
    for ending in ("cr2", "dng", "heic", "jxl", "nef", "svg"):
        (tmp_path / f"a.{ending}").write_bytes(b"x")
    assert ".nef file, ... (unsupported" in picture_files(str(tmp_path), "images")[1]
    assert picture_files(str(tmp_path), "images")[1].startswith(f"images={tmp_path}: skipped 1 .")


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_ending_is_of_a_format_that_is_read(tmp_path: Path, ending: str) -> None:
    PIL.Image.new("L", (20, 10), 200).save(tmp_path / f"a{ending}")
    assert open_image(f"a{ending}", str(tmp_path)).size == (20, 10)


@pytest.mark.process
def test_pictures_on_s3() -> None:
    with s3.server() as place:
        address = s3.address(place, "pictures")
        fill(Folder.open(address))
        assert picture_files(address, "images")[0] == sorted(THERE)
        with pytest.raises(InputError, match=r"^images=s3://.*: holds no image file"):
            picture_files(s3.address(place, "nothing"), "images")


def test_what_is_no_folder_of_pictures_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    (tmp_path / "a.png").write_bytes(b"x")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.HEIC").write_bytes(b"x")
    for name, words in (
        ("absent", "no such folder"),
        ("a.png", "no such folder"),
        ("empty", r"holds no image file \(\.avif, [^)]*\)$"),
        ("photos", r"holds no image file \(.*\), but 1 \.heic file \(unsupported format; convert to JPEG\)$"),
    ):
        with pytest.raises(InputError, match=rf"^images={tmp_path / name}: {words}"):
            picture_files(str(tmp_path / name), "images")
