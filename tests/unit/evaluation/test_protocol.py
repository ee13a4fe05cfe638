"""Folds and caption choices."""

import numpy as np
import pytest

from vse.errors import InputError
from vse.evaluation.protocol import PUBLISHED, Protocol, complete_images


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


def test_chosen_images_keep_their_captions():
    caption_to_image = np.array([3, 0, 1, 3, 2, 2, 2, 4])
    protocol = Protocol(name="p", num_images=4, captions_per_image=2, chosen=(2, 3, 4))
    (fold,) = protocol.select(caption_to_image, 5)
    assert fold.images.tolist() == [2, 3]
    assert fold.captions.tolist() == [0, 3, 4, 5]
    assert fold.caption_to_image.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("least", [1, 2, 3])
def test_complete_images_by_a_loop(seed, least):
    rng = np.random.default_rng(seed)
    caption_to_image = rng.permutation(np.repeat(np.arange(9), [1, 2, 5, 0, 3, 1, 1, 4, 2]))
    made = {name: rng.integers(0, len(caption_to_image), 60) for name in ("noun", "numeral")}

    def enough(caption):
        return all(sum(int(each == caption) for each in rows) >= least for rows in made.values())

    wanted = [
        image
        for image in range(9)
        if (own := np.flatnonzero(caption_to_image == image)).size and all(enough(caption) for caption in own)
    ]
    assert complete_images(caption_to_image, made, least).tolist() == wanted
