"""Folds and caption choices."""

import numpy as np
import pytest

from vse.errors import InputError
from vse.evaluation.protocol import PUBLISHED, Protocol


def test_folds_are_consecutive_and_renumbered():
    caption_to_image = np.array([0, 0, 1, 2, 2, 2, 3, 4])
    first, second = Protocol(name="p", num_images=4, folds=2).select(caption_to_image, 5)
    assert first.images.tolist() == [0, 1]
    assert first.captions.tolist() == [0, 1, 2]
    assert second.images.tolist() == [2, 3]
    assert second.captions.tolist() == [3, 4, 5, 6]
    assert second.caption_to_image.tolist() == [0, 0, 0, 1]


def test_first_captions_of_each_image_in_any_order():
    caption_to_image = np.array([2, 0, 2, 0, 2, 1])
    (fold,) = Protocol(name="p", captions_per_image=2).select(caption_to_image, 3)
    assert fold.captions.tolist() == [0, 1, 2, 3, 5]


def test_too_small_or_indivisible():
    with pytest.raises(InputError, match="needs 5000 images"):
        list(PUBLISHED["coco_1k_folds"].select(np.arange(10), 10))
    with pytest.raises(InputError, match="cannot be divided"):
        list(Protocol(name="p", folds=3).select(np.arange(10), 10))
