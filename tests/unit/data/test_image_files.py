"""Image paths of other machines: the file that is plainly meant, one reason for those that mean none."""

import unicodedata
from pathlib import Path

import pytest
from PIL import Image

from tests import s3
from vse.data.image_files import Located, locate, unnamed_files
from vse.data.images import UnreadableImage, open_image
from vse.data.places import AddressError
from vse.errors import InputError
from vse.storage.folder import Folder

FILES = ("000.jpg", "sub/001.JPG", "sub/c\u00e9.png", "both/x.png", "both/x.jpg", "A.png", "a.png")


@pytest.fixture
def root(tmp_path: Path) -> str:
    for file in FILES:
        (tmp_path / "root" / file).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 3)).save(tmp_path / "root" / file)
    (tmp_path / "secret.png").write_bytes((tmp_path / "root/a.png").read_bytes())
    return str(tmp_path / "root")


MEANT = {
    "000.JPG": "000.jpg",
    "000": "000.jpg",
    "sub\\001.JPG": "sub/001.JPG",
    "Sub\\001": "sub/001.JPG",
    "SUB/001.jpg": "sub/001.JPG",
    "/home/ann/pictures/000.jpg": "000.jpg",
    "/home/ann/pictures/sub/001.jpg": "sub/001.JPG",
    "file:///home/ann/sub/001.JPG": "sub/001.JPG",
    "C:\\Users\\ann\\000.jpg": "000.jpg",
    "\\\\server\\share\\sub\\001.JPG": "sub/001.JPG",
    "images/000.jpg": "000.jpg",
    unicodedata.normalize("NFD", "sub/C\u00c9.PNG"): "sub/c\u00e9.png",
    "both/x.PNG": "both/x.png",
}


@pytest.mark.parametrize("uri", MEANT)
def test_the_file_that_a_path_means(root: str, uri: str) -> None:
    assert locate(root, [uri]) == Located({uri: MEANT[uri]}, {})
    assert open_image(uri, root).size == (2, 3)


def test_files_as_they_are_written_are_left_alone(root: str) -> None:
    written = [*FILES, f"{root}/000.jpg", "./a.png", unicodedata.normalize("NFD", "sub/c\u00e9.png"), "scene:x"]
    assert [locate(root, [uri]) for uri in written] == [Located({}, {})] * len(written)


MISSING = {
    "https://example.org/000.jpg": "it is a web address; images are not downloaded",
    "both/X": "it may mean 'both/x.jpg' or 'both/x.png'",
    "001.jpg": "no such file, but 'sub/001.JPG' exists",
    "000.png": "no such file, but '000.jpg' exists",
    "/home/ann/7.jpg": "it is a path of another machine",
    "D:\\7.jpg": "it is a path of another machine",
    "../secret.png": "it leaves this folder",
    "s3://other/000.jpg": "it leaves this folder",
    "7.jpg": "no file has this or a similar name",
}


@pytest.mark.parametrize("uri", MISSING)
def test_the_reason_that_a_path_is_no_file(root: str, uri: str) -> None:
    located = locate(root, [uri])
    assert not located.elsewhere
    assert located.missing[uri].startswith(MISSING[uri])
    with pytest.raises((UnreadableImage, AddressError)):
        open_image(uri, root)


def test_the_most_frequent_reason_comes_first(root: str) -> None:
    uris = ["7.jpg", "https://example.org/1.jpg", "000.png", "https://example.org/2.jpg"]
    assert next(iter(locate(root, uris).missing)) == "https://example.org/1.jpg"


@pytest.mark.parametrize(
    "uris", [["000.jpg", "000.JPG"], ["sub\\001.jpg", "sub/001.jpg"], ["train/000.jpg", "val/000.jpg"]]
)
def test_one_file_for_two_images_is_refused(root: str, uris: list[str]) -> None:
    with pytest.raises(InputError, match=r"root/.*: the images .* and .* both mean this file; name it one way"):
        locate(root, uris)


@pytest.mark.parametrize("way", ["{}", "file://{}"])
def test_an_absolute_and_a_relative_path_are_one_image(root: str, way: str) -> None:
    """It would be in two splits."""
    both = ["000.jpg", way.format(f"{root}/000.jpg"), "sub/001.JPG", way.format(f"{root}/sub/001.JPG")]
    with pytest.raises(
        InputError, match=r"000\.jpg: .* both mean this file; name it one way \(2 files have two names\)$"
    ):
        locate(root, both)


def test_a_link_that_leads_out_is_not_what_a_path_means(root: str, tmp_path: Path) -> None:
    (Path(root) / "out.png").symlink_to(tmp_path / "secret.png")
    for uri in ("OUT.PNG", "out.png"):
        assert not locate(root, [uri]).elsewhere
    advice = f"it is a symbolic link that leads out; data.links={tmp_path} allows links into that folder"
    assert locate(root, ["out.png"]).missing == {"out.png": advice}
    with pytest.raises(UnreadableImage):
        open_image("OUT.PNG", root)


def test_folders_with_too_many_files_are_not_searched(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vse.data.image_files._MOST", 3)
    assert locate(root, ["000.JPG", "7.jpg"]) == Located({}, {})


def test_image_files_that_no_address_means(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(root, "notes.txt").touch()
    Path(root, ".thumbnails").mkdir()
    Path(root, ".thumbnails", "a.png").touch()
    Path(root, "workspace").mkdir()
    Path(root, "workspace", "figure.png").touch()
    uris = ["./000.jpg", f"{root}/a.png", f"file://{root}/A.png", unicodedata.normalize("NFD", "sub/c\u00e9.png")]
    without = f"{root}/workspace"
    assert unnamed_files(root, uris, locate(root, uris), without) == 3  # sub/001.JPG, both/x.png, both/x.jpg
    more = [*uris, "SUB/001.jpg", "7.jpg"]
    assert unnamed_files(root, more, locate(root, more), without) == 2
    assert unnamed_files(root, more, locate(root, more)) == 3
    monkeypatch.setattr("vse.data.image_files._COUNTED", 3)
    assert unnamed_files(root, uris, locate(root, uris), without) == 0


def test_on_s3(root: str, s3_server: str) -> None:
    there = Folder.open(s3.address(s3_server, "photographs/other-names"))
    there.write_bytes("000.jpg", (Path(root) / "000.jpg").read_bytes())
    located = locate(there.uri, ["x\\000.JPG", "7.jpg"])
    assert located.elsewhere == {"x\\000.JPG": "000.jpg"}
    assert list(located.missing) == ["7.jpg"]
    assert unnamed_files(there.uri, ["x\\000.JPG"], located) == 0
    assert unnamed_files(there.uri, ["7.jpg"], locate(there.uri, ["7.jpg"])) == 1
    both = ["000.jpg", f"{there.uri.partition('?')[0]}/000.jpg"]
    assert [locate(there.uri, [uri]).missing for uri in both] == [{}, {}]
    with pytest.raises(InputError, match="both mean this file"):
        locate(there.uri, both)
    assert open_image("x\\000.JPG", there.uri).size == (2, 3)
