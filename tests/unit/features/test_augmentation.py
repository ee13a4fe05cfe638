"""Random crops and mirroring: what they keep, that they belong to a key, and what they leave alone."""

import math

import numpy as np
import pytest
from PIL import Image

from vse.data import keyed
from vse.features.augmentation import RATIO, Augmentation, part_of
from vse.features.transforms import Transform

TRANSFORM = Transform(name="crop", size=16, resize=18)


def picture(width=40, height=30):
    """Red is the column and green the row of a pixel."""
    rows, columns = np.mgrid[:height, :width]
    return Image.fromarray(np.stack([columns, rows, 0 * rows], -1).astype(np.uint8))


@pytest.mark.parametrize(("width", "height"), [(40, 30), (30, 40), (500, 375), (64, 64)])
@pytest.mark.parametrize("area", [0.08, 0.5, 0.9])
def test_parts_have_the_area_and_the_ratio_that_are_asked_for(width, height, area):
    draws = keyed.uniform(keyed.keys(0, 0, "test", np.arange(300)), 40)
    boxes = np.array([part_of(width, height, area, each) for each in draws])
    columns, rows = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2] <= width).all()
    assert (boxes[:, 3] <= height).all()
    slack = 1 / np.minimum(columns, rows)  # sides are whole pixels
    assert (columns * rows >= width * height * area * (1 - 2 * slack)).all()
    assert (columns / rows <= RATIO[1] * (1 + 2 * slack)).all()
    assert (columns / rows >= RATIO[0] * (1 - 2 * slack)).all()
    if area == 0.08:
        assert (columns * rows).min() < 0.2 * width * height
        assert (columns * rows).max() > 0.8 * width * height
        assert len({tuple(box) for box in boxes.tolist()}) > 250


@pytest.mark.parametrize(("width", "height", "expected"), [(1000, 10, (493, 0, 506, 10)), (9, 300, (0, 144, 9, 156))])
def test_a_strip_gives_the_largest_allowed_part_of_its_middle(width, height, expected):
    draws = keyed.uniform(keyed.keys(0, 0, "test", np.arange(1)), 40)[0]
    left, top, right, bottom = part_of(width, height, 0.9, draws)
    assert (left, top, right, bottom) == expected
    assert math.isclose((right - left) / (bottom - top), RATIO[0] if height > width else RATIO[1], rel_tol=0.05)


def test_a_square_belongs_to_its_key():
    change = Augmentation(crop_area=0.3, flip=True)
    one = change(picture(), TRANSFORM, 5)
    assert one.shape == (1, 16, 16, 3)
    assert np.array_equal(one, change(picture(), TRANSFORM, 5))
    assert not np.array_equal(one, change(picture(), TRANSFORM, 6))


def test_a_square_is_the_part_of_its_key_resized():
    """The mean of the columns and rows that a square shows is the middle of its part."""
    change = Augmentation(crop_area=0.3, flip=False)
    for key in range(20):
        left, top, right, bottom = part_of(40, 30, 0.3, keyed.uniform(np.array([key], dtype=np.uint64), 41)[0, 1:])
        square = change(picture(), TRANSFORM, key)[0].astype(float)
        assert square[..., 0].mean() == pytest.approx((left + right - 1) / 2, abs=0.6)
        assert square[..., 1].mean() == pytest.approx((top + bottom - 1) / 2, abs=0.6)


def test_half_of_the_pictures_are_mirrored():
    plain, mirrored = Augmentation(crop_area=1, flip=False), Augmentation(crop_area=1, flip=True)
    own = TRANSFORM(picture())
    squares = [mirrored(picture(), TRANSFORM, key) for key in range(200)]
    turned = [np.array_equal(square, own[:, :, ::-1]) for square in squares]
    assert all(np.array_equal(square, own) != other for square, other in zip(squares, turned, strict=True))
    assert 70 < sum(turned) < 130
    assert all(np.array_equal(plain(picture(), TRANSFORM, key), own) for key in range(20))
