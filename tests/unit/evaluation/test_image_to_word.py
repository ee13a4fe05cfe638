"""Average precision of images from blocks of scores."""

import weakref

import pytest
import torch

from vse.evaluation.average_precision import average_precision
from vse.evaluation.probes import alignment
from vse.evaluation.tasks.image_to_word import SHOWN_WORDS, ranked


@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_blocks_give_what_the_whole_matrix_gives(size, monkeypatch):
    """Bit for bit, and a block is gone before the next one is computed."""
    monkeypatch.setattr(alignment, "BLOCK", size)
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(14, 23, generator=generator)
    positive = torch.rand(14, 23, generator=generator) < 0.3
    positive[:, 5] = True
    labelled = positive | (torch.rand(14, 23, generator=generator) < 0.6)

    def blocks():
        last = None
        for rows in scores.split(size):
            assert last is None or last() is None
            block = rows.clone()
            last = weakref.ref(block)
            yield block
            del block

    precision, words = ranked(blocks(), labelled, positive)
    whole = scores.masked_fill(~labelled, -torch.inf)
    assert torch.equal(precision, average_precision(whole, positive))
    shown = whole.gather(1, words)
    assert torch.equal(shown, whole.sort(dim=1, descending=True).values[:, :SHOWN_WORDS])
