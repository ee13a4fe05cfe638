"""Siblings and unpaired images: whom a caption meets, and that it does not depend on its batch."""

import dataclasses

import numpy as np
import pytest
import torch

from tests.synthetic import synthetic
from vse.data import keyed
from vse.training.batches import Collator, Siblings, Unpaired, known_images

DATA = synthetic(seed=4, images=12)
EXAMPLES = DATA.examples
ALL = np.arange(len(DATA))


def test_a_sibling_is_another_caption_of_the_image_where_there_is_one():
    siblings, seen = Siblings(EXAMPLES, 3), {}
    counts = np.bincount(EXAMPLES.image)[EXAMPLES.image]
    assert (counts == 1).any()
    for epoch in range(60):
        found = siblings.of(ALL, epoch)
        assert (EXAMPLES.image[found] == EXAMPLES.image).all()
        assert ((found == ALL) == (counts == 1)).all()
        for caption, sibling in zip(ALL.tolist(), found.tolist(), strict=True):
            seen.setdefault(caption, set()).add(sibling)
    assert all(len(seen[c]) == max(counts[c] - 1, 1) for c in ALL)


def test_siblings_do_not_depend_on_the_order_of_captions_in_the_split():
    mixed = np.random.default_rng(0).permutation(len(DATA))
    shuffled = dataclasses.replace(EXAMPLES, image=EXAMPLES.image[mixed])
    found = Siblings(shuffled, 3).of(ALL, 1)
    assert (shuffled.image[found] == shuffled.image).all()


def test_siblings_come_as_vectors():
    collate = Collator(EXAMPLES, "pooled", extras=[Siblings(EXAMPLES, 3)])
    batch = collate(ALL[[5, 0, 5]], 2)
    found = Siblings(EXAMPLES, 3).of(ALL[[5, 0, 5]], 2)
    assert EXAMPLES.texts.sentence is not None
    np.testing.assert_array_equal(batch["sibling"], EXAMPLES.texts.sentence.of(found))
    assert batch["has_sibling"].dtype == torch.bool


@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
def test_known_images_grow_with_the_share(share):
    known = known_images(40, share, 7)
    assert known.sum() == round(40 * share)
    assert not (known & ~known_images(40, min(1.0, share + 0.3), 7)).any()
    assert share == 1 or not np.array_equal(known, known_images(40, share, 8))


def test_unpaired_images_are_dealt_among_unpaired_captions():
    paired = known_images(12, 0.4, 0)[EXAMPLES.image]
    unpaired = Unpaired(EXAMPLES, paired, 5)
    collate = Collator(EXAMPLES, "pooled", extras=[unpaired])
    batch = collate(ALL, 1)
    assert torch.equal(batch["paired"], torch.from_numpy(paired))
    given = batch["image_group"].numpy()
    np.testing.assert_array_equal(given[paired], EXAMPLES.image[paired])
    assert sorted(given[~paired]) == sorted(EXAMPLES.image[~paired])  # each as often as it has captions
    assert (given[~paired] != EXAMPLES.image[~paired]).any()
    np.testing.assert_array_equal(batch["pooled"], EXAMPLES.features["pooled"][given])
    assert not np.array_equal(given, collate(ALL, 2)["image_group"].numpy())
    rows = np.array([7, 2, 11])
    part = collate(rows, 1)
    for name in ("pooled", "image_group", "paired"):
        assert torch.equal(part[name], batch[name][rows])


def test_images_are_dealt_once_an_epoch(monkeypatch):
    unpaired, asked, permutation = Unpaired(EXAMPLES, ALL % 3 == 0, 5), [], keyed.permutation
    monkeypatch.setattr(
        keyed, "permutation", lambda seed, epoch, *rest: asked.append(epoch) or permutation(seed, epoch, *rest)
    )
    for epoch in (1, 1, 2, 2, 1):
        order = permutation(5, epoch, "unpaired", int((ALL % 3 > 0).sum()))
        np.testing.assert_array_equal(unpaired.dealt(epoch), ALL[ALL % 3 > 0][order])
    assert asked == [1, 2, 1]


def test_where_all_pairs_are_known_nothing_is_dealt():
    unpaired = Unpaired(EXAMPLES, np.ones(len(DATA), dtype=bool), 5)
    batch = Collator(EXAMPLES, "pooled", extras=[unpaired])(ALL, 1)
    assert torch.equal(batch["image_group"], torch.from_numpy(EXAMPLES.image))
    assert batch["paired"].all()
