"""Pixels of training batches: one row per distinct image, the same whoever decodes them."""

import pickle

import numpy as np
import pytest
import torch

from vse.data.records import Image
from vse.errors import InputError
from vse.features.augmentation import Augmentation
from vse.features.decoding import read_squares
from vse.features.transforms import Transform
from vse.training.pixels import PIXEL_ROW, PIXELS, Pictures, PixelBatches


@pytest.fixture
def pictures(tmp_path):
    from PIL import Image as Picture

    rng = np.random.default_rng(0)
    for k in range(7):
        Picture.fromarray(rng.integers(0, 256, (30 + k, 40, 3), dtype=np.uint8)).save(tmp_path / f"{k}.png")
    images = tuple(Image(id=f"image {k}", uri=f"{k}.png", split="train") for k in range(7))
    transform = Transform(name="crop", size=16, resize=18)
    return Pictures(images, str(tmp_path), transform, Augmentation(crop_area=0.2, flip=True), seed=3)


def test_a_batch_holds_each_image_once(pictures):
    rows = torch.tensor([4, 1, 4, 6, 1])
    batch = PixelBatches(pictures)(rows, 2)
    assert batch[PIXELS].shape == (3, 1, 16, 16, 3)
    assert batch[PIXELS].dtype == torch.uint8
    for row, place in zip(rows.tolist(), batch[PIXEL_ROW].tolist(), strict=True):
        assert np.array_equal(batch[PIXELS][place].numpy(), pictures.augmented([row], 2)[0])


def test_augmentation_depends_on_seed_epoch_and_image_alone(pictures):
    whole = pictures.augmented(range(7), 1)
    other = pickle.loads(pickle.dumps(pictures))
    assert np.array_equal(other.augmented([6, 2], 1), whole[[6, 2]])
    fewer = Pictures(pictures.images[3:], pictures.root, pictures.transform, pictures.augmentation, pictures.seed)
    assert np.array_equal(fewer.augmented(range(4), 1), whole[3:])
    assert not np.array_equal(pictures.augmented(range(7), 2), whole)
    seeded = Pictures(pictures.images, pictures.root, pictures.transform, pictures.augmentation, 4)
    assert not np.array_equal(seeded.augmented(range(7), 1), whole)


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("rows", [[], [3], [0, 1, 2, 3, 4, 5, 6]])
def test_threads_change_nothing(pictures, threads, rows):
    one, several = (PixelBatches(pictures, n)(torch.tensor(rows, dtype=torch.int64), 0) for n in (1, threads))
    assert torch.equal(one[PIXELS], several[PIXELS])
    assert torch.equal(one[PIXEL_ROW], several[PIXEL_ROW])


def test_plain_squares_are_those_of_extraction(pictures):
    plain = pictures.plain([2, 0])
    for square, row in zip(plain, (2, 0), strict=True):
        expected = read_squares(pictures.images[row].uri, pictures.root, pictures.transform)
        assert np.array_equal(square, expected)


def test_an_image_that_is_gone_is_named(pictures, tmp_path):
    (tmp_path / "5.png").unlink()
    with pytest.raises(InputError, match=r"image 'image 5': could be read .* file is missing; restore the file"):
        PixelBatches(pictures, 3)(torch.arange(7), 0)
