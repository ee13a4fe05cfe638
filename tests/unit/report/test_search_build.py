"""Small copies of pictures on the page of a search."""

import base64
import io
from pathlib import Path

import pytest
from PIL import Image

from vse.report.search_page import thumbnail


def picture_of(uri: str) -> Image.Image:
    head, data = uri.split(",", 1)
    assert head == "data:image/jpeg;base64"
    return Image.open(io.BytesIO(base64.b64decode(data)))


@pytest.mark.parametrize(("size", "expected"), [((1000, 500), (100, 50)), ((30, 90), (30, 90)), ((5, 4000), (1, 100))])
def test_a_picture_keeps_its_form_and_is_never_enlarged(
    tmp_path: Path, size: tuple[int, int], expected: tuple[int, int]
) -> None:
    Image.new("RGBA", size, (250, 10, 10, 255)).save(tmp_path / "a.png")
    small = picture_of(thumbnail("a.png", str(tmp_path), 100))
    assert small.size == expected
    # pyrefly: ignore[not-iterable]  # a tuple, of RGB
    red, green, blue = small.convert("RGB").resize((1, 1)).getpixel((0, 0))
    assert (red > 230, green < 30, blue < 30) == (True, True, True)


def test_a_scene_is_drawn_and_what_cannot_be_shown_is_nothing(tmp_path: Path) -> None:
    assert picture_of(thumbnail("scene:seed=3,split=test,index=0,drawing=plain,size=112", "")).size == (112, 112)
    (tmp_path / "broken.png").write_bytes(b"no picture")
    for uri in ("absent.png", "broken.png", "train_ims.npy#17", "../elsewhere.png"):
        assert thumbnail(uri, str(tmp_path)) == ""
