import contextlib
import errno
import io
import os
import pickle
import re
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from tests import s3
from tests.shared import SHARED
from vse.data import images
from vse.data.images import UnreadableImage, local_file, open_image, opened_rgb
from vse.data.scenes.render import render
from vse.errors import InputError, StorageError
from vse.storage.folder import Folder

RED = (200, 30, 40)


def _save(path: Path, picture: PIL.Image.Image, **options: Any) -> str:
    picture.save(path, **options)
    return path.name


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK", "RGBA", "LA", "P", "1", "I;16", "I", "F", "YCbCr"])
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    grey = np.tile(np.linspace(0, 255, 12).astype(np.uint8), (8, 1))
    if mode == "I;16":
        picture = PIL.Image.fromarray(grey.astype(np.uint16) * 257)
    elif mode in ("I", "F", "P"):
        picture = PIL.Image.fromarray(grey).convert(mode)
    else:
        picture = PIL.Image.fromarray(np.dstack([grey] * 3)).convert(mode)
    suffix = {"CMYK": "jpg", "YCbCr": "jpg", "F": "tiff", "I": "tiff"}.get(mode, "png")
    name = _save(tmp_path / f"x.{suffix}", picture)
    opened = open_image(name, str(tmp_path))
    assert opened.mode == "RGB"
    assert opened.size == (12, 8)
    if mode != "1":
        np.testing.assert_allclose(np.asarray(opened)[:, :, 0], grey, atol=12)


def test_dark_sixteen_bit_pictures_stay_dark(tmp_path: Path) -> None:
    name = _save(tmp_path / "d.png", PIL.Image.fromarray(np.full((4, 4), 200, dtype=np.uint16)))
    assert np.asarray(open_image(name, str(tmp_path))).max() == 1


def test_float_shares_of_one(tmp_path: Path) -> None:
    name = _save(tmp_path / "f.tiff", PIL.Image.fromarray(np.array([[0, 0.5, 1.0]], dtype=np.float32)))
    assert np.asarray(open_image(name, str(tmp_path)))[0, :, 0].tolist() == [0, 128, 255]


def test_transparency_shows_white(tmp_path: Path) -> None:
    layer = PIL.Image.new("RGBA", (4, 4), (*RED, 0))
    layer.putpixel((0, 0), (*RED, 255))
    for picture, name in ((layer, "a.png"), (layer.quantize(4), "p.png")):
        pixels = np.asarray(open_image(_save(tmp_path / name, picture), str(tmp_path)))
        assert tuple(pixels[3, 3]) == (255, 255, 255)
        np.testing.assert_allclose(pixels[0, 0], RED, atol=2)


def test_palette_with_a_transparent_entry(tmp_path: Path) -> None:
    picture = PIL.Image.new("P", (3, 3), 1)
    picture.putpalette([0, 0, 0, *RED])
    name = _save(tmp_path / "t.gif", picture, transparency=1)
    assert np.asarray(open_image(name, str(tmp_path))).min() == 255


def test_images_of_pillow_that_cannot_be_decoded_say_why(tmp_path: Path) -> None:
    stream = io.BytesIO()
    PIL.Image.effect_noise((60, 60), 50).save(stream, "JPEG")
    (tmp_path / "a.jpg").write_bytes(stream.getvalue())
    with PIL.Image.open(tmp_path / "a.jpg") as closed:
        pass
    cases = {
        "cannot be decoded: OSError: image file is truncated": PIL.Image.open(
            io.BytesIO(stream.getvalue()[: len(stream.getvalue()) // 2])
        ),
        "its file was closed before it was read; call load() first": closed,
        "cannot be decoded: ValueError: conversion from La": PIL.Image.new("LA", (4, 4)).convert("La"),
        "has no pixels": PIL.Image.new("RGB", (0, 10)),
    }
    for told, picture in cases.items():
        with pytest.raises(UnreadableImage, match=f"^{re.escape(told)}"):
            opened_rgb(picture)
    assert opened_rgb(PIL.Image.open(tmp_path / "a.jpg")).mode == "RGB"


def test_exif_rotation_is_applied(tmp_path: Path) -> None:
    picture = PIL.Image.new("RGB", (10, 4))
    picture.paste(RED, (0, 0, 5, 4))
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # turn by a quarter clockwise to see it upright
    opened = open_image(_save(tmp_path / "e.png", picture, exif=exif), str(tmp_path))
    assert opened.size == (4, 10)
    assert opened.getpixel((0, 0)) == RED
    assert opened.getpixel((0, 9)) == (0, 0, 0)


def _jpeg() -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    out = io.BytesIO()
    PIL.Image.fromarray(noise).save(out, "JPEG")
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "missing"),
        (b"", "empty"),
        (b"hello, no image here", "not an image"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "Git LFS pointer.*git lfs pull"),
        (b"<!DOCTYPE html><title>404</title>", "HTML or XML page"),
        (_jpeg()[:700], "cannot be decoded"),
        (b"\x89PNG\r\n\x1a\n" + b"\x00" * 40, "image|decoded"),
    ],
)
def test_bad_files_are_unreadable_with_a_reason(tmp_path: Path, data: bytes | None, reason: str) -> None:
    if data is not None:
        (tmp_path / "x.jpg").write_bytes(data)
    with pytest.raises(UnreadableImage, match=reason) as caught:
        open_image("x.jpg", str(tmp_path))
    assert "\n" not in caught.value.reason
    assert pickle.loads(pickle.dumps(caught.value)).reason == caught.value.reason


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.EMFILE, errno.ETIMEDOUT, errno.ENOMEM])
def test_what_ails_the_machine_is_no_fault_of_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A file server that is away for a minute must not cost a thousand pictures for good."""
    (tmp_path / "x.jpg").write_bytes(_jpeg())

    def fails(place: str) -> None:
        raise OSError(number, os.strerror(number), place)

    monkeypatch.setattr(images.os, "stat", fails)
    with pytest.raises(StorageError, match=r"x\.jpg: cannot be read now: "):
        images._read(str(tmp_path / "x.jpg"))
    number = errno.EACCES
    with pytest.raises(UnreadableImage, match="file cannot be read: Permission denied"):
        images._read(str(tmp_path / "x.jpg"))


def test_every_truncation_and_damage_is_unreadable_or_a_picture(tmp_path: Path) -> None:
    whole = _jpeg()
    rng = np.random.default_rng(1)
    for k in range(60):
        data = bytearray(whole[: rng.integers(1, len(whole))] if k % 2 else whole)
        for at in rng.integers(0, len(data), 20):
            data[at] = rng.integers(0, 256)
        (tmp_path / "x.jpg").write_bytes(bytes(data))
        with contextlib.suppress(UnreadableImage):  # any other exception fails the test
            assert open_image("x.jpg", str(tmp_path)).mode == "RGB"


def test_decompression_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = _save(tmp_path / "b.png", PIL.Image.new("1", (300, 300)))
    monkeypatch.setattr(images, "MAX_PIXELS", 80_000)
    with pytest.raises(UnreadableImage, match="pixels"):
        open_image(name, str(tmp_path))
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(UnreadableImage, match="pixels"):
        open_image(name, str(tmp_path))


@pytest.mark.parametrize("uri", ["../secret.png", "a/../../secret.png", "/etc/passwd", "file:///etc/passwd", ".."])
def test_a_path_cannot_leave_its_root(tmp_path: Path, uri: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(InputError, match="leaves its root"):
        open_image(uri, str(root))


def test_absolute_paths_and_file_addresses(tmp_path: Path) -> None:
    path = tmp_path / "with space.png"
    PIL.Image.new("RGB", (2, 3), RED).save(path)
    for uri, root in (
        (str(path), ""),
        (path.as_uri(), ""),
        (str(path), str(tmp_path)),
        (path.name, tmp_path.as_uri()),
        (f"sub/../{path.name}", str(tmp_path)),
    ):
        assert open_image(uri, root).size == (2, 3)


ACCENTED = "Caf\u00e9/\ud55c Gr\u00f6\u00dfe.png"


@pytest.mark.parametrize(("on_disk", "listed"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_name_in_the_other_form_of_unicode_is_found(tmp_path: Path, on_disk: Any, listed: Any) -> None:
    """A Mac decomposes accented letters and Korean syllables, others compose them."""
    there, asked = (unicodedata.normalize(form, ACCENTED) for form in (on_disk, listed))
    (tmp_path / there).parent.mkdir()
    PIL.Image.new("RGB", (2, 3), RED).save(tmp_path / there)
    for uri, root in ((asked, str(tmp_path)), (str(tmp_path / asked), str(tmp_path)), (str(tmp_path / asked), "")):
        assert open_image(uri, root).size == (2, 3)
    with pytest.raises(UnreadableImage, match="missing"):
        open_image(f"{asked}2", str(tmp_path))
    PIL.Image.new("RGB", (5, 6), RED).save(tmp_path / unicodedata.normalize(listed, "\u00e9.png"))
    PIL.Image.new("RGB", (7, 8), RED).save(tmp_path / unicodedata.normalize(on_disk, "\u00e9.png"))
    assert open_image(unicodedata.normalize(listed, "\u00e9.png"), str(tmp_path)).size == (5, 6)  # its own comes first


@pytest.mark.process
def test_a_name_in_the_other_form_of_unicode_is_found_on_s3(tmp_path: Path) -> None:
    PIL.Image.new("RGB", (2, 3), RED).save(tmp_path / "x.png")
    with s3.server() as place:
        root = s3.address(place, "photos")
        Folder.open(root).write_bytes(unicodedata.normalize("NFC", "\u00e9.png"), (tmp_path / "x.png").read_bytes())
        assert open_image(unicodedata.normalize("NFD", "\u00e9.png"), root).size == (2, 3)


def test_the_other_form_of_a_name_cannot_leave_its_root_either(tmp_path: Path) -> None:
    root = tmp_path / unicodedata.normalize("NFD", "Caf\u00e9")
    root.mkdir()
    PIL.Image.new("RGB", (2, 3), RED).save(tmp_path / "secret.png")
    (root / unicodedata.normalize("NFC", "\u00e9.png")).symlink_to(tmp_path / "secret.png")
    for uri in (unicodedata.normalize("NFD", "\u00e9.png"), str(root / "no.png")):
        with pytest.raises(UnreadableImage, match="missing"):
            open_image(uri, str(root))


def test_a_folder_a_pipe_and_a_null_byte_are_unreadable(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    for uri in (".", "pipe.png", "a\0b.png"):
        with pytest.raises(UnreadableImage):
            open_image(uri, str(tmp_path))


def test_a_link_to_content_of_git_annex_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "x.jpg").symlink_to(".git/annex/objects/a/SHA256E-s5--00.jpg")
    (tmp_path / "y.jpg").symlink_to("absent.jpg")
    for name, reason in (("x.jpg", "git-annex pointer.*git annex get"), ("y.jpg", images.MISSING)):
        with pytest.raises(UnreadableImage, match=reason):
            open_image(name, str(tmp_path))


def test_scene_addresses_are_rendered() -> None:
    uri = "scene:seed=0,split=train,index=0,drawing=plain,size=112"
    np.testing.assert_array_equal(np.asarray(open_image(uri)), render(uri))
    with pytest.raises(InputError, match="not a scene address"):
        open_image("scene:nonsense")


def test_the_file_of_an_image(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    PIL.Image.new("RGB", (3, 2)).save(file)
    assert local_file("a.png", str(tmp_path)) == str(file)
    assert local_file("a.png#xywh=percent:0,0,50,50", str(tmp_path)) == str(file)
    assert local_file("b.png", str(tmp_path)) == ""
    assert local_file("a.png", "s3://bucket/photographs") == ""
    assert local_file("scene:seed=0,split=test,index=0,drawing=plain,size=112") == ""


@pytest.mark.skipif(SHARED is None, reason="no real photographs on this machine")
def test_real_photographs() -> None:
    assert SHARED is not None
    root = SHARED / "data/flickr8k_800/images"
    for path in sorted(root.iterdir())[:20]:
        picture = open_image(path.name, str(root))
        assert picture.mode == "RGB"
        assert min(picture.size) > 50
