"""Pictures of a folder by their endings, wherever it lies."""

from pathlib import Path

import pytest

from tests import s3
from vse.data.picture_files import picture_files
from vse.errors import InputError
from vse.storage import Folder

THERE = ["B.JPG", "a.png", "deep/er/c.webp", "deep/with, comma.jpeg", "ünï.gif"]
OTHERS = [".hidden.png", ".thumbnails/d.png", "deep/notes.txt", "deep/.DS_Store", "png", "e.png.part"]


def fill(folder: Folder) -> None:
    for path in (*THERE, *OTHERS):
        *steps, name = path.split("/")
        folder.child(*steps).write_bytes(name, b"x")


def test_pictures_at_any_depth_in_order(tmp_path: Path) -> None:
    fill(Folder.open(tmp_path / "set"))
    assert picture_files(str(tmp_path / "set"), "images") == sorted(THERE)
    assert picture_files(f"{tmp_path}/set/", "images") == sorted(THERE)


def test_pictures_on_s3() -> None:
    with s3.server() as place:
        address = s3.address(place, "pictures")
        fill(Folder.open(address))
        assert picture_files(address, "images") == sorted(THERE)
        with pytest.raises(InputError, match=r"^images=s3://.*: holds no picture file"):
            picture_files(s3.address(place, "nothing"), "images")


def test_what_is_no_folder_of_pictures_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    (tmp_path / "a.png").write_bytes(b"x")
    for name, words in (
        ("absent", "no such folder"),
        ("a.png", "no such folder"),
        ("empty", r"holds no picture file \(\.bmp, "),
    ):
        with pytest.raises(InputError, match=rf"^images={tmp_path / name}: {words}"):
            picture_files(str(tmp_path / name), "images")
