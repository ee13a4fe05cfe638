"""A network that predicts the vector of a word that is left out of a caption, from the other words and the image.

VSE-C, section 4.4 and Figure 4: one GRU reads the words before the blank, another those after it, and a two-layer MLP
predicts from their last states and the image's feature. The loss is one minus the cosine. Word vectors are frozen, on
both sides. The paper does not give the sizes; 512 units in each GRU, AdamW and 10 epochs of batches of 128 are the
released code's, whose prediction is one linear layer.
"""

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse.data import keyed
from vse.data.ragged import Ragged
from vse.evaluation.metrics import Ranks, ranks_among
from vse.evaluation.probes.blanks import Blanks, drawn_blanks
from vse.evaluation.probes.runner import arrays_of, as_tensor, digits_of, load_arrays, reproducible
from vse.evaluation.work import Arrays, Work
from vse.models.encoders import distinct, two_layers
from vse.models.gru import PrefixGRU

REVISION = 1
FORMS = ("mlp", "linear")
BATCH, RATE, DECAY = 128, 1e-3, 1e-4  # released code
BLOCK = 512  # blanks whose scores are in memory at once
NO_VECTOR = -2.0  # score of a word without a vector: below every cosine
NEVER = 1_000_000  # words above an answer without a vector: among the first k it would be right in a small vocabulary


@dataclass(frozen=True, kw_only=True, slots=True)
class FillingSettings:
    """How the prediction is made (`mlp` or `linear`), units of each GRU and of the hidden layer, and epochs."""

    form: str = "mlp"
    dim: int = 512
    epochs: int = 10


class Contexts(NamedTuple):
    """Words before and after blanks (batch, time) with their lengths, and image vectors."""

    before: Tensor
    before_lengths: Tensor
    after: Tensor
    after_lengths: Tensor
    images: Tensor


class BlankFiller(nn.Module):
    """Predicts word vectors (batch, word_dim) of blanks.

    Args:
        word_dim: Dimension of a word's vector.
        image_dim: Dimension of an image's vector.
        settings: Form and sizes.
    """

    def __init__(self, word_dim: int, image_dim: int, settings: FillingSettings) -> None:
        super().__init__()
        inputs = 2 * settings.dim + image_dim
        self.markers = nn.Parameter(torch.randn(2, word_dim))
        self.before, self.after = PrefixGRU(word_dim, settings.dim), PrefixGRU(word_dim, settings.dim)
        self.output: nn.Module = (
            nn.Linear(inputs, word_dim) if settings.form == "linear" else two_layers(inputs, settings.dim, word_dim)
        )

    def forward(self, table: Float[Tensor, "words word_dim"], contexts: Contexts) -> Float[Tensor, "batch word_dim"]:
        """Predicted vectors. `table`: frozen vectors of the vocabulary and of an unknown word; markers come next."""
        words, (before, after) = distinct(contexts.before, contexts.after)
        rows = F.embedding(words, torch.cat([table, self.markers]))
        states = self.before(rows, before, contexts.before_lengths), self.after(rows, after, contexts.after_lengths)
        return self.output(torch.cat([*states, contexts.images], dim=1))


@dataclass(frozen=True, eq=False)
class BlankProbe(Work):
    """Training data of the network.

    Args:
        images: (images, image_dim) of the training images.
        image: (captions,) the image of each training caption.
        tokens: Words of the training captions, as in `Blanks`; so are `caption` and `position`.
        caption: (blanks,) ascending.
        position: (blanks,).
        words: (vocabulary, word_dim), zero for a word without a vector, which is no answer in training.
        settings: Of the network.
    """

    images: np.ndarray
    image: np.ndarray
    tokens: Ragged
    caption: np.ndarray
    position: np.ndarray
    words: np.ndarray
    settings: FillingSettings

    @cached_property
    def digits(self) -> str:
        """Fingerprint of data and settings."""
        arrays = {name: getattr(self, name) for name in ("images", "image", "caption", "position", "words")}
        arrays |= {"tokens": self.tokens.values, "offsets": self.tokens.offsets}
        return digits_of(["blanks", REVISION, asdict(self.settings)], arrays)

    def network(self) -> BlankFiller:
        """An untrained network of these sizes."""
        return BlankFiller(self.words.shape[1], self.images.shape[1], self.settings)

    def table(self, device: torch.device) -> Float[Tensor, "words word_dim"]:
        """Vectors of the vocabulary, and zeros for an unknown word."""
        return as_tensor(np.concatenate([self.words, np.zeros_like(self.words[:1])]), device)

    def compute(self, number: int, device: torch.device) -> Arrays:
        """Train with the seed `number`."""
        blanks = Blanks(self.tokens, self.caption, self.position, np.zeros_like(self.caption), len(self.words))
        usable = np.flatnonzero(self.words[blanks.answer].any(1))
        with reproducible(number, device):
            network, table = self.network().to(device), self.table(device)
            optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
            for epoch in range(self.settings.epochs):
                drawn = usable[drawn_blanks(self.caption[usable], number, epoch)]
                order = drawn[keyed.permutation(number, epoch, "order of blanks", len(drawn))]
                for rows in np.split(order, range(BATCH, len(order), BATCH)) if len(order) else ():
                    images = self.images[self.image[self.caption[rows]]]
                    predicted = network(table, contexts_of(blanks, rows, images, device))
                    loss = cosine_loss(predicted, table[torch.from_numpy(blanks.answer[rows]).to(device)])
                    optimizer.zero_grad(set_to_none=True)
                    loss.backward()
                    optimizer.step()
            return arrays_of(network)

    @torch.inference_mode()
    def ranks(
        self,
        trained: Arrays,
        blanks: Blanks,
        images: Float[np.ndarray, "captions image_dim"],
        device: torch.device,
        nearest: int = 0,
    ) -> tuple[Ranks, Int[np.ndarray, "blanks nearest"]]:
        """Ranks of the words that were left out, among the vocabulary by cosine, and the words that are nearest.

        Args:
            trained: A trained network.
            blanks: Of other captions, with the same vocabulary.
            images: The vector of each caption's image.
            device: Where to compute.
            nearest: How many words to return for each blank; a smaller vocabulary returns all.
        """
        network = self.network()
        load_arrays(network, trained)
        network, table = network.to(device).eval(), self.table(device)
        vectors, absent = F.normalize(table[:-1], dim=1), ~table[:-1].any(1)
        nearest = min(nearest, len(self.words))
        parts, top = list[Ranks](), [np.zeros((0, nearest), dtype=np.int64)]
        for start in range(0, len(blanks), BLOCK):
            rows = np.arange(start, min(start + BLOCK, len(blanks)))
            predicted = network(table, contexts_of(blanks, rows, images[blanks.caption[rows]], device))
            scores = (F.normalize(predicted, dim=1) @ vectors.T).masked_fill(absent, NO_VECTOR).cpu()
            answer = torch.from_numpy(blanks.answer[rows])
            ranks = ranks_among(scores, F.one_hot(answer, len(self.words)).bool())
            above = ranks.above.masked_fill(absent.cpu()[answer], NEVER)
            parts.append(replace(ranks, above=above))
            top.append(scores.topk(nearest, dim=1).indices.numpy())
        return joined_ranks(parts), np.concatenate(top)


def contexts_of(blanks: Blanks, rows: Int[np.ndarray, " batch"], images: np.ndarray, device: torch.device) -> Contexts:
    """What the network reads of some blanks.

    Args:
        blanks: The blanks of a split.
        rows: Which of them.
        images: (batch, image_dim), the vector of the image of each of these blanks.
        device: Where the tensors are made.
    """
    before, before_lengths, after, after_lengths = (
        torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in blanks.contexts(rows)
    )
    return Contexts(before, before_lengths, after, after_lengths, as_tensor(images, device))


def cosine_loss(predicted: Float[Tensor, "batch dim"], target: Float[Tensor, "batch dim"]) -> Float[Tensor, ""]:
    """One minus the cosine, mean over the batch."""
    return (1 - F.cosine_similarity(predicted, target, dim=1)).mean()


def joined_ranks(parts: list[Ranks]) -> Ranks:
    """Ranks of consecutive blocks of queries as one."""
    empty = torch.zeros(0, dtype=torch.int64)

    def column(name: str) -> Tensor:
        return torch.cat([empty, *(getattr(part, name) for part in parts)])

    above = column("above")
    return Ranks(
        queries=torch.arange(len(above)),
        above=above,
        tied_negatives=column("tied_negatives"),
        tied_positives=column("tied_positives"),
    )
