"""Addresses to pixels: what a single picture can do wrong is a reject with its reason, and the others come through."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vse.errors import CredentialsError, InputError, StorageError
from vse.features import decoding
from vse.features.decoding import decode
from vse.features.transforms import Transform

CROP = Transform(name="crop", size=224, resize=256)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, size in (("good.png", (300, 200)), ("strip.png", (1, 60_000)), ("last.png", (40, 50))):
        Image.new("RGB", size, "red").save(tmp_path / name)
    return tmp_path


def test_a_strip_that_cannot_be_resized_is_a_reject(root: Path) -> None:
    decoded = decode(["a", "b", "c", "d"], ["good.png", "strip.png", "none.png", "last.png"], str(root), CROP)
    assert decoded.ids == ["a", "d"]
    assert decoded.pixels.shape == (2, 1, 224, 224, 3)
    assert np.unique(decoded.pixels).tolist() == [0, 255]
    assert [image for image, _ in decoded.rejects] == ["b", "c"]
    assert "1 x 60000 pixels are too narrow" in decoded.rejects[0][1]


@pytest.mark.parametrize("step", ["open_image", "transform"])
def test_a_picture_for_which_memory_is_too_small_is_a_reject(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(self: Transform, image: Image.Image) -> np.ndarray:
        raise MemoryError

    if step == "transform":
        monkeypatch.setattr(Transform, "__call__", full)
    else:
        monkeypatch.setattr(decoding, "open_image", full)
    decoded = decode(["a"], ["good.png"], str(root), CROP)
    assert decoded.rejects == [("a", "needs more memory than there is")]
    assert decoded.pixels.shape == (0, 1, 224, 224, 3)


def test_only_a_row_that_leads_outside_is_a_reject_and_not_who_is_let_in(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = decode(["a", "b"], ["good.png", "../secret.png"], str(root), CROP)
    assert [(image, "leaves its root" in why) for image, why in decoded.rejects] == [("b", True)]
    for error in (CredentialsError("s3://b: no credentials"), InputError("s3://b/x: denied"), StorageError("stale")):

        def refuse(uri: str, root: str, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(decoding, "open_image", refuse)
        with pytest.raises(type(error)):
            decode(["a"], ["good.png"], str(root), CROP)
