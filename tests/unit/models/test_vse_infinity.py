"""Size augmentation of VSE-infinity."""

import torch

from tests.synthetic import make_family, synthetic
from vse.models import noise
from vse.models.vse_infinity import REGIONS, WORDS
from vse.text.vocabulary import END, START, UNKNOWN

DATA = synthetic(seed=5)


def test_a_region_is_left_of_every_image_that_has_any():
    """Two of twelve regions are there: both are drawn in 4 % of draws, and then the first stays."""
    family, images = make_family("vse_infinity", DATA.context), 500
    there = torch.zeros(12, dtype=torch.bool)
    there[[3, 8]] = True
    features = torch.randn(images, 12, 5, dtype=torch.float64) * there[:, None]
    draw = noise.keys(0, torch.arange(images))
    texts = {"tokens": torch.tensor([[1, 5, 2]] * images), "lengths": torch.full((images,), 3)}
    codes = family({"map": features, "draw": draw, **texts})["images"]
    torch.testing.assert_close(codes.norm(dim=1), torch.ones(images, dtype=torch.float64))
    drawn = noise.uniform(draw, 12, REGIONS)[:, there] < family.augment
    both = drawn.all(1)
    assert 5 <= int(both.sum()) <= 40
    alone = features[both] * (torch.arange(12) == 3)[:, None]
    torch.testing.assert_close(codes[both], family.encode_images({"map": alone})["images"])
    one = drawn[:, 1] & ~drawn[:, 0]
    alone = features[one] * (torch.arange(12) == 3)[:, None]
    torch.testing.assert_close(codes[one], family.encode_images({"map": alone})["images"])


def test_an_image_without_regions_stays_without():
    family = make_family("vse_infinity", DATA.context)
    batch = {"map": torch.zeros(2, 4, 5, dtype=torch.float64), "draw": noise.keys(0, torch.arange(2))}
    texts = {"tokens": torch.tensor([[1, 5, 2]] * 2), "lengths": torch.full((2,), 3)}
    assert not family({**batch, **texts})["images"].any()


def test_hidden_words_are_read_as_unknown_ones():
    """A fifth of the words between <start> and <end>, each by its own draw; in evaluation none."""
    family, captions = make_family("vse_infinity", DATA.context), 2000
    lengths = torch.arange(captions) % 5 + 3
    tokens = torch.zeros(captions, 7, dtype=torch.long)
    for row, length in enumerate(lengths.tolist()):
        tokens[row, :length] = torch.tensor([START, *[4 + (row + k) % 5 for k in range(length - 2)], END])
    draw = noise.keys(1, torch.arange(captions))
    batch = {"map": torch.ones(captions, 4, 5, dtype=torch.float64), "draw": draw, "tokens": tokens, "lengths": lengths}
    numbers, expected, hidden, words = noise.uniform(draw, 7, WORDS), tokens.clone(), 0, 0
    for row in range(captions):
        for place in range(1, int(lengths[row]) - 1):
            words += 1
            if numbers[row, place] < 0.2:
                expected[row, place] = UNKNOWN
                hidden += 1
    assert 0.18 < hidden / words < 0.22
    read = family.encode_captions({"tokens": expected, "lengths": lengths})["captions"]
    torch.testing.assert_close(family(batch)["captions"], read)
    family.eval()
    torch.testing.assert_close(family(batch)["captions"], family.encode_captions(batch)["captions"])
