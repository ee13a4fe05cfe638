"""Frozen states of a pretrained text encoder in place of word vectors."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse.models.encoders import WordTable, linear_xavier
from vse.models.family import Batch, Context, FeatureScale
from vse.models.gru import WordStates, within
from vse.models.noise import KeyedDropout

TEXTS = ("words", "states", "projected")
TEXT = (
    "what is read of a caption: word vectors and a GRU, states of text.encoder and a GRU, or projected: states without "
    "a GRU"
)


class EncodedWords(nn.Module):
    """States of words, centred and divided by their mean deviation over the training captions.

    A word has another state in every caption, so each occurrence is a row of its own.

    Args:
        dim: of a state.
        dropout: of the states.
        stream: of dropout.
    """

    def __init__(self, dim: int, dropout: float = 0.0, stream: int = 0) -> None:
        super().__init__()
        self.dim = dim
        self.scale, self.dropout = FeatureScale(dim, "standardize", images=False), KeyedDropout(dropout, stream)

    def forward(self, batch: Batch) -> Float[Tensor, "batch time dim"]:
        """States in the order of `tokens`, zero for a word without one."""
        states = batch["states"]
        return self.dropout(self.scale(states) * (states != 0).any(-1, keepdim=True), batch.get("draw"))

    def rows(self, batch: Batch) -> tuple[Float[Tensor, "words dim"], Int[Tensor, "batch time"]]:
        """States as a table of words, and the row numbers of every caption, as a GRU over word tables reads them."""
        states = self(batch)
        number = 1 + torch.arange(states.shape[0] * states.shape[1], device=states.device)
        nothing = states.new_zeros(1, self.dim)  # row 0, so that a worker without captions has a table too
        return torch.cat([nothing, states.flatten(0, 1)]), number.view(states.shape[:2])


class ProjectedStates(nn.Module):
    """A linear layer over rows of a table, in place of a GRU; arguments as of `WordStates`."""

    def __init__(self, input_dim: int, dim: int) -> None:
        super().__init__()
        self.project = linear_xavier(input_dim, dim)

    def forward(
        self,
        table: Float[Tensor, "words input"],
        sequences: Int[Tensor, "batch time"],
        lengths: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch time dim"]:
        """The projected row of every word.

        Args:
            table: vectors of distinct words.
            sequences: row numbers of `table`.
            lengths: of the sequences.

        Returns:
            Vectors of shape (batch, time, dim), zero after each length.
        """
        rows = F.embedding(sequences, self.project(table))
        return rows * within(lengths, sequences.shape[1])[..., None]


def word_layers(context: Context, config: Any) -> tuple[WordTable | EncodedWords, WordStates | ProjectedStates]:
    """(table or encoder states that a family reads for words, layer that computes a state at every word).

    Args:
        context: of the data.
        config: of the family, with `dim`, `text` (one of `TEXTS`), `word_dim` and `fixed_words`.
    """
    if config.text == "words":
        words: WordTable | EncodedWords = WordTable(context, config.word_dim, config.fixed_words)
    else:
        words = EncodedWords(context.sentence_dim)
    return words, (ProjectedStates if config.text == "projected" else WordStates)(words.dim, config.dim)
