"""Transforms against torchvision's preprocessing of the same pictures, bit for bit."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize, TenCrop

from vse.data.images import MAX_PIXELS, UnreadableImage
from vse.features import transforms
from vse.features.transforms import Transform

SIZES = [(320, 240), (240, 320), (224, 224), (86, 500), (301, 257), (256, 255), (30, 40)]


def picture(width, height, seed=0):
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(noise)


def pixels(image):
    return np.asarray(image)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["bilinear", "bicubic"])
def test_crop_is_resize_and_centre_crop(size, name):
    image = picture(*size)
    expected = pixels(Compose([Resize(256, InterpolationMode(name)), CenterCrop(224)])(image))
    ours = Transform(name="crop", size=224, resize=256, interpolation=name)(image)
    assert ours.shape == (1, 224, 224, 3)
    assert np.array_equal(ours[0], expected)


@pytest.mark.parametrize("size", SIZES)
def test_scale_takes_the_whole_picture(size):
    image = picture(*size)
    ours = Transform(name="scale", size=112, resize=112)(image)
    assert np.array_equal(ours[0], pixels(Resize((112, 112))(image)))


@pytest.mark.parametrize("size", SIZES)
def test_ten_crops_are_torchvisions(size):
    image = picture(*size)
    transform = Transform(name="ten_crop", size=64, resize=80)
    expected = [pixels(crop) for crop in TenCrop(64)(Resize(80)(image))]
    ours = transform(image)
    assert transform.num_crops == len(ours) == 10
    key = lambda crop: crop.tobytes()  # noqa: E731
    assert sorted(map(key, ours)) == sorted(map(key, expected))


@pytest.mark.parametrize("size", SIZES)
def test_crop_and_scale_are_both_and_their_mirror_images(size):
    image = picture(*size)
    both = [Transform(name=name, size=64, resize=80)(image)[0] for name in ("crop", "scale")]
    transform = Transform(name="crop_and_scale", size=64, resize=80)
    ours = transform(image)
    assert transform.num_crops == len(ours) == 4
    assert np.array_equal(ours, np.stack([*both, *(square[:, ::-1] for square in both)]))


@pytest.mark.parametrize("size", [(9, 14), (13, 7), (80, 5), (8, 8)])
def test_the_whole_picture_is_spread_evenly(size):
    transform = Transform(name="crop_and_scale", size=6, resize=8)
    squares = np.random.default_rng(4).normal(size=(4, 6, 6, 2))
    squares[[0, 2]] = 0  # the crops, which the transpose of cutting covers
    spread = transform.spread(squares, *size)
    rows, columns = spread.shape[:2]
    fine = np.kron((squares[1] + squares[3][:, ::-1]) / (rows * columns), np.ones((rows, columns, 1)))
    expected = fine.reshape(rows, 6, columns, 6, 2).sum((1, 3))
    assert spread == pytest.approx(expected)
    assert spread.sum() == pytest.approx(squares.sum())
    squares[0] = 1
    crop = Transform(name="crop", size=6, resize=8).spread(squares[:1], *size)
    assert transform.spread(squares, *size) == pytest.approx(expected + crop)


@pytest.mark.parametrize("size", [(1, 60_000), (60_000, 1), (3, 5000)])
def test_a_strip_that_would_grow_beyond_any_picture_is_unreadable(size):
    for name in ("crop", "ten_crop", "crop_and_scale"):
        with pytest.raises(
            UnreadableImage, match=f"{size[0]} x {size[1]} pixels are too narrow.*more than {MAX_PIXELS}"
        ):
            Transform(name=name, size=224, resize=256)(Image.new("RGB", size))
    assert Transform(name="scale", size=64, resize=64)(Image.new("RGB", size)).shape == (1, 64, 64, 3)


def test_strips_up_to_the_limit_are_read(monkeypatch):
    transform, strip = Transform(name="crop", size=8, resize=8), picture(2, 100)
    squares = transform(strip)
    monkeypatch.setattr(transforms, "MAX_PIXELS", 8 * 400)
    assert np.array_equal(transform(strip), squares)
    monkeypatch.setattr(transforms, "MAX_PIXELS", 8 * 400 - 1)
    with pytest.raises(UnreadableImage, match="they become 8 x 400"):
        transform(strip)


def test_published_preprocessing_is_reproduced():
    from torchvision.models import ResNet152_Weights

    from vse.features.backbone import Network
    from vse.features.torchvision_backbone import TorchvisionBackbone

    backbone = TorchvisionBackbone(TorchvisionBackbone.Config(arch="resnet152"))
    image = picture(300, 260)
    seen = []

    class Spy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 2, 1)

        def forward(self, x):
            seen.append(x)
            return {"map": self.conv(x)}

    network = Network(Spy(), backbone.normalisation).prepare(torch.device("cpu"))
    network(torch.from_numpy(backbone.transform(image))[None])
    torch.testing.assert_close(seen[0][0], ResNet152_Weights.DEFAULT.transforms()(image), rtol=0, atol=1e-6)
