"""Batches: every caption once an epoch, shares that partition, tensors that do not depend on company."""

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse.training.batches import Truth, blocks, epoch_batches, text_batch, windowed_batches, worker_share


@pytest.mark.parametrize(("num", "size"), [(1, 2), (10, 5), (11, 5), (128, 128)])
def test_an_epoch_shows_every_caption_once(num, size):
    batches = epoch_batches(num, size, seed=1, epoch=0)
    assert [len(b) for b in batches[:-1]] == [size] * (len(batches) - 1)
    assert sorted(np.concatenate(batches).tolist()) == list(range(num))
    if num > 5:
        other = np.concatenate(epoch_batches(num, size, seed=1, epoch=1))
        assert not np.array_equal(np.concatenate(batches), other)
        np.testing.assert_array_equal(np.concatenate(epoch_batches(num, num, seed=1, epoch=1)), other)


@pytest.mark.parametrize("num", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_worker_shares_partition_a_batch_in_order(num, world):
    batch = np.arange(100, 100 + num)
    shares = [worker_share(batch, rank, world) for rank in range(world)]
    np.testing.assert_array_equal(np.concatenate(shares), batch)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_text_batch_against_rows():
    texts = synthetic(seed=2).examples.texts
    rows = np.array([4, 0, 4])
    batch = text_batch(texts, rows, components=True)
    for k, r in enumerate(rows):
        length = int(batch["lengths"][k])
        assert batch["tokens"][k, :length].tolist() == texts.tokens.row(r).tolist()
        assert not batch["tokens"][k, length:].any()
        present = batch["relations"][k][batch["relations"][k].any(-1)]
        assert present.tolist() == texts.relations.row(r).tolist()
    assert "objects" not in text_batch(texts, rows, components=False)


def test_negatives_of_a_caption_do_not_depend_on_the_batch():
    data = synthetic(seed=1)
    collate = data.collator(make_family("univse", data.context), make_objective("univse"), seed=7)
    whole = collate(np.arange(len(data)), epoch=3)
    drawn = ("object_negatives", "attribute_word_negatives", "attribute_noun_negatives", "relation_negatives")
    for rows in (np.array([5]), np.arange(len(data))[::-1].copy(), np.array([3, 3, 0])):
        part = collate(rows, epoch=3)
        assert torch.equal(part["sampled_relation"], whole["sampled_relation"][rows])
        for name in drawn:
            width = part[name].shape[1]
            assert torch.equal(part[name], whole[name][rows][:, :width])
            assert not whole[name][rows][:, width:].any()
    assert any(not torch.equal(collate(np.arange(len(data)), 4)[name], whole[name]) for name in drawn)


def test_what_training_drops_is_missing_in_every_epoch_and_batch():
    data = synthetic(seed=4, images=60)
    family, objective = make_family("univse", data.context), make_objective("univse")
    collate, whole = (data.collator(family, objective, drop=drop) for drop in (0.3, 0.0))
    rows = np.arange(len(data))
    first, later, alone = collate(rows, 0), collate(rows, 5), collate(rows[3:4], 2)
    for name in ("attributes", "relations"):
        assert torch.equal(first[name], later[name])
        kept = first[name][3][first[name][3].any(-1)]
        assert torch.equal(alone[name][0][alone[name][0].any(-1)], kept)
        given, left = (batch[name].any(-1).sum().item() for batch in (whole(rows, 0), first))
        assert 0.5 < left / given < 0.9
    assert torch.equal(first["objects"], whole(rows, 0)["objects"])


def test_the_sampled_relation_is_one_of_the_captions_own():
    data = synthetic(seed=4, images=30, share_copied=0)
    collate = data.collator(make_family("univse", data.context), make_objective("univse"))
    seen = set()
    for epoch in range(30):
        batch = collate(np.arange(len(data)), epoch)
        for own, one in zip(batch["relations"].tolist(), batch["sampled_relation"].tolist(), strict=True):
            present = [triple for triple in own if any(triple)]
            assert one in present if present else one == [0, 0, 0]
            if len(present) > 1:
                seen.add(present.index(one))
    assert {0, 1} <= seen


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_dropped_components_leave_no_negatives(share):
    data = synthetic(seed=5, images=60, share_bare=0.0)
    family, objective = make_family("univse", data.context), make_objective("univse")
    rows = np.arange(len(data))
    full, dropped = data.collator(family, objective)(rows, 0), data.collator(family, objective, drop=share)(rows, 0)
    assert torch.equal(full["objects"], dropped["objects"])
    for name, negatives in (("attributes", "attribute_word_negatives"), ("relations", "relation_negatives")):
        kept, present = dropped[name].any(-1), full[name].any(-1)
        assert torch.equal(dropped[name][kept], full[name][kept])
        assert not dropped[negatives][~kept].any()
        assert torch.equal(dropped[negatives][kept], full[negatives][kept])
        rate = 1 - kept.sum().item() / present.sum().item()
        assert abs(rate - share) < (0.12 if share < 1 else 1e-9)
    assert torch.equal(dropped["sampled_relation"].any(-1), dropped["relations"].any(-1).any(-1))


@pytest.mark.parametrize(("images", "window", "block"), [(50, 20, 5), (50, 1000, 5), (7, 3, 4), (33, 8, 8)])
def test_windows_hold_every_caption_once_and_few_images_at_a_time(images, window, block):
    rng = np.random.default_rng(images)
    image = np.repeat(np.arange(images), rng.integers(1, 6, images))
    batches = windowed_batches(image, window, 8, seed=1, epoch=2, block=block)
    order = np.concatenate(batches)
    assert sorted(order.tolist()) == list(range(len(image)))
    assert all(len(batch) == 8 for batch in batches[:-1])
    blocks = image[order] // block
    per_window = max(1, window // block)
    seen, current = [], set()
    for k in blocks.tolist():  # a new block comes only when the window before it is complete
        if k not in current and len(current) == per_window:
            seen.append(current)
            current = set()
        current.add(k)
    whole = [*seen, current]
    assert sum(len(each) for each in whole) == -(-images // block)
    again = windowed_batches(image, window, 8, seed=1, epoch=2, block=block)
    assert all((a == b).all() for a, b in zip(again, batches, strict=True))
    other = np.concatenate(windowed_batches(image, window, 8, seed=1, epoch=3, block=block))
    assert (other != order).any()


def test_no_captions_have_no_windows():
    assert windowed_batches(np.zeros(0, dtype=np.int64), 10, 4, seed=0, epoch=0) == []


def test_truth_comes_as_one_row_a_caption():
    data = synthetic(seed=6)
    truth = np.random.default_rng(0).random((data.examples.num_images, len(data))) < 0.3
    collate = data.collator(make_family("vsepp", data.context), make_objective("vsepp"))
    assert "true_images" not in collate(np.array([0]), 0)
    collate.extras = (Truth(truth),)
    rows = np.array([3, 1])
    np.testing.assert_array_equal(collate(rows, 0)["true_images"].numpy(), truth.T[rows])


def test_blocks_cover_everything_once():
    assert [b.tolist() for b in blocks(5, 2)] == [[0, 1], [2, 3], [4]]
    assert list(blocks(0, 2)) == []
