"""The retrieval task: blocks, pairs and folds against whole matrices."""

import numpy as np
import pytest
import torch

from tests.levels import slow_but
from tests.unit.evaluation.contexts import evaluate_retrieval
from tests.unit.evaluation.models import Cosine, unit
from vse.errors import Diverged
from vse.evaluation import retrieval
from vse.evaluation.metrics import RetrievalCounter, ranks_among
from vse.evaluation.protocol import Protocol
from vse.evaluation.retrieval import (
    Blocks,
    ScoresParts,
    count_retrieval,
    num_items,
    pair_parts,
    retrieve,
    score_matrix,
    slice_items,
)


def planted(num_images=37, seed=0, width=16):
    """Images and captions (0 to 6 an image, shuffled) that lie near their image."""
    generator = torch.Generator().manual_seed(seed)
    caption_to_image = torch.randint(0, num_images - 1, (3 * num_images,), generator=generator)
    images = torch.randn(num_images, width, generator=generator)
    captions = images[caption_to_image] + 1.5 * torch.randn(len(caption_to_image), width, generator=generator)
    return {"v": unit(images)}, {"u": unit(captions)}, caption_to_image.numpy()


def test_pairs_are_the_entries_of_the_whole_matrix():
    images, captions, caption_to_image = planted(200)
    pairs = pair_parts(Cosine(), images, captions, torch.as_tensor(caption_to_image))["cosine"]
    whole = images["v"] @ captions["u"].T
    assert pairs.shape == (1, len(caption_to_image))
    torch.testing.assert_close(pairs[0], whole[caption_to_image, torch.arange(len(caption_to_image))])


@pytest.mark.parametrize("blocks", [Blocks(), Blocks(images=3, captions=5), Blocks(images=100, captions=1)])
def test_blocks_give_the_ranks_of_the_whole_matrix(blocks):
    images, captions, caption_to_image = planted()
    whole = images["v"] @ captions["u"].T
    columns = torch.arange(len(caption_to_image))
    counter = RetrievalCounter(whole[caption_to_image, columns], torch.as_tensor(caption_to_image), len(whole))
    counter.add(whole, slice(0, len(whole)), slice(0, len(caption_to_image)))
    assert retrieve(Cosine(), images, captions, caption_to_image, blocks=blocks).metrics() == counter.result().metrics()


@pytest.mark.parametrize("workers", [1, 2, 3, 40])
def test_counts_of_workers_that_share_the_blocks_add_up(workers):
    images, captions, caption_to_image = planted()
    blocks = Blocks(images=10, captions=25)
    scored, adds = [], RetrievalCounter.add
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RetrievalCounter, "add", lambda self, *block: (scored.append(block[1:]), adds(self, *block))[1])
        counters = [
            count_retrieval(Cosine(), images, captions, caption_to_image, blocks=blocks, share=(k, workers))
            for k in range(workers)
        ]
    assert len(scored) == len({str(block) for block in scored}) == 4 * 5  # 37 images, 111 captions
    first, *others = counters
    with torch.inference_mode():
        for counter in others:
            for mine, theirs in zip(first.counts(), counter.counts(), strict=True):
                mine += theirs
    assert first.result().metrics() == retrieve(Cosine(), images, captions, caption_to_image, blocks=blocks).metrics()


@pytest.mark.seconds
@pytest.mark.parametrize("length", slow_but([1.0, 300.0], 1.0))
@pytest.mark.parametrize(
    "blocks",
    slow_but([Blocks(), Blocks(images=7, captions=11), Blocks(images=1, captions=3)], Blocks(images=7, captions=11)),
)
def test_captions_that_say_the_same_tie_whatever_the_scale_and_the_blocks(length, blocks):
    """Every caption is there twice, its copy with another image: no tile of a product must part the two."""
    images, captions, caption_to_image = planted(60, width=1024)
    doubled = {"u": torch.cat([captions["u"], captions["u"]])}
    owners = np.concatenate([caption_to_image, (caption_to_image + 1) % 59])
    found = retrieve(Cosine(), {"v": length * images["v"]}, doubled, owners, blocks=blocks)
    exact = (images["v"].double() @ doubled["u"].double().T).mul_(1e5).round_()  # copies are equal to the last bit
    own = torch.as_tensor(owners)[None] == torch.arange(60)[:, None]
    assert torch.equal(found.i2t.tied_negatives, ranks_among(exact, own).tied_negatives)
    assert torch.equal(found.i2t.above, ranks_among(exact, own).above)


def test_knobs_reach_combine():
    images, captions, caption_to_image = planted()
    flipped = retrieve(Cosine(), images, captions, caption_to_image, settings={"sign": -1.0}).metrics()
    assert flipped["i2t/r1"] < retrieve(Cosine(), images, captions, caption_to_image).metrics()["i2t/r1"]


@pytest.mark.parametrize("blocks", [Blocks(), Blocks(images=3, captions=5), Blocks(images=100, captions=1)])
def test_the_matrix_has_the_score_of_every_pair(blocks, monkeypatch):
    images, captions, _ = planted()
    monkeypatch.setattr(retrieval, "Blocks", lambda: blocks)
    expected = torch.tensor([[-float(v.double() @ u.double()) for u in captions["u"]] for v in images["v"]])
    found = score_matrix(Cosine(), images, captions, settings={"sign": -1.0})
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_is_refused(value):
    images, captions, _ = planted()
    images["v"][3, 2] = value
    with pytest.raises(Diverged, match="so the training has diverged"):
        score_matrix(Cosine(), images, captions)


def test_folds_are_averaged_and_named():
    images, captions, caption_to_image = planted(40)
    result = evaluate_retrieval(
        Cosine(), images, captions, caption_to_image, Protocol(name="halves", split="val", folds=2)
    )
    halves = []
    for first, last in ((0, 20), (20, 40)):
        chosen = np.flatnonzero((caption_to_image >= first) & (caption_to_image < last))
        halves.append(
            retrieve(
                Cosine(),
                slice_items(images, slice(first, last)),
                slice_items(captions, chosen),
                caption_to_image[chosen] - first,
            ).metrics()
        )
    assert {each.fold for each in result.queries} == {0, 1}
    assert result.metrics["val/i2t/r1"] == pytest.approx((halves[0]["i2t/r1"] + halves[1]["i2t/r1"]) / 2)
    recalls = [f"val/{way}/r{k}" for way in ("i2t", "t2i") for k in (1, 5, 10)]
    assert result.metrics["val/rsum"] == pytest.approx(sum(result.metrics[name] for name in recalls))
    ranks = [f"val/{way}/{name}" for way in ("i2t", "t2i") for name in ("medr", "meanr")]
    assert set(result.metrics) == {*recalls, *ranks, "val/rsum"}


def test_items_must_agree_on_their_number():
    with pytest.raises(AssertionError, match="disagree"):
        num_items({"a": torch.zeros(2), "b": torch.zeros(3)})
    assert isinstance(Cosine(), ScoresParts)
