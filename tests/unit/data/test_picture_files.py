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


def test_what_is_passed_over_is_told_in_one_line(tmp_path: Path) -> None:
    for name in ("a.png", "b.heic", "c.HEIC", "d.txt", "e", "f.\x1b[2J", ".g.heic"):
        (tmp_path / name).write_bytes(b"x")
    assert picture_files(str(tmp_path), "images") == (
        ["a.png"],
        f"images={tmp_path}: passed over 2 x .heic (pictures that cannot be read here; convert them, for instance "
        "to JPEG) and 2 x without a usual ending, 1 x .txt (no pictures)",
    )
    for name in ("b.heic", "c.HEIC", "d.txt", "e", "f.\x1b[2J"):
        (tmp_path / name).unlink()
    assert picture_files(str(tmp_path), "images") == (["a.png"], "")
    for ending in "abcdefg":
        (tmp_path / f"a.{ending}").write_bytes(b"x")
    assert "1 x .e, ... (no pictures" in picture_files(str(tmp_path), "images")[1]


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
        with pytest.raises(InputError, match=r"^images=s3://.*: holds no picture file"):
            picture_files(s3.address(place, "nothing"), "images")


def test_what_is_no_folder_of_pictures_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    (tmp_path / "a.png").write_bytes(b"x")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.HEIC").write_bytes(b"x")
    for name, words in (
        ("absent", "no such folder"),
        ("a.png", "no such folder"),
        ("empty", r"holds no picture file \(\.avif, [^)]*\)$"),
        ("photos", r"holds no picture file \(.*\), but 1 x \.heic \(pictures that cannot be read here; "),
    ):
        with pytest.raises(InputError, match=rf"^images={tmp_path / name}: {words}"):
            picture_files(str(tmp_path / name), "images")
