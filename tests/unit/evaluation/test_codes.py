"""Codes of a split: each item's at its place, whatever block it was encoded in."""

import pytest
import torch
from torch import nn

from vse.data.ragged import Ragged
from vse.evaluation import codes
from vse.evaluation.codes import encode_captions, encode_images
from vse.models.family import Encoded, Family, Inputs
from vse.training.examples import Texts


class Echo(Family):
    """Codes that are the tokens, a number a caption, one a word, and what was read of an image."""

    inputs = Inputs("pooled", components=False)

    def __init__(self):
        super().__init__(None)
        self.weight = nn.Parameter(torch.ones(1))

    def encode_captions(self, batch) -> Encoded:
        tokens = batch["tokens"]
        inside = torch.arange(tokens.shape[1])[None] < batch["lengths"][:, None]
        words = torch.stack([tokens, 2 * tokens], dim=2) * inside[..., None]
        return {"sum": (tokens * inside).sum(1), "words": words.float()}

    def encode_images(self, batch) -> Encoded:
        return {"images": 3 * batch["pooled"].float()}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(codes, "CAPTIONS_AT_ONCE", 3)
    monkeypatch.setattr(codes, "IMAGES_AT_ONCE", 4)


def some_texts(rows):
    nothing = Ragged.of([[] for _ in rows])
    return Texts(Ragged.of(rows), nothing, nothing, Ragged.of([[] for _ in rows], width=3))


@pytest.mark.parametrize("count", [1, 3, 11])
def test_captions_come_back_in_their_order_padded_with_zeros(count):
    rows = [[10 * c + k + 1 for k in range(1 + (7 * c) % 5)] for c in range(count)]
    found = encode_captions(Echo().eval(), some_texts(rows))
    assert found["sum"].tolist() == [sum(row) for row in rows]
    longest = max(map(len, rows))
    assert found["words"].tolist() == [[[w, 2 * w] for w in row] + [[0, 0]] * (longest - len(row)) for row in rows]


def test_images_come_back_in_their_order():
    features = torch.arange(9 * 2, dtype=torch.float16).view(9, 2).numpy()
    assert torch.equal(encode_images(Echo().eval(), features)["images"], 3 * torch.from_numpy(features).float())


def test_nothing_is_no_codes():
    with pytest.raises(AssertionError, match="nothing to encode"):
        encode_captions(Echo().eval(), some_texts([]))
