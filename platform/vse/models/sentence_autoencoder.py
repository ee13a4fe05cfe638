"""Sentences to codes and back with recurrent networks (jWAE, section 4.2 and eq. 5)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse.models import noise
from vse.models.gru import within
from vse.text.vocabulary import UNKNOWN

NONE = -100  # no word, which a cross entropy leaves out
DROPPED = 911  # stream of word dropout


class BidirectionalEncoder(nn.Module):
    """A two-layer bidirectional GRU; its last states of both directions through one linear layer are the code."""

    def __init__(self, word_dim: int, gru_dim: int, dim: int) -> None:
        super().__init__()
        self.gru = nn.GRU(word_dim, gru_dim, num_layers=2, bidirectional=True, batch_first=True)
        self.project = nn.Linear(2 * gru_dim, dim)

    def forward(
        self, words: Float[Tensor, "batch time word"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch dim"]:
        """Codes of word vectors; what lies behind a sentence's length is not read."""
        if len(words) == 0:  # encode something and keep nothing: every parameter stays in the graph
            return self(words.sum((0, 1))[None, None], lengths.new_ones(1))[:0]
        packed = nn.utils.rnn.pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states = self.gru(packed)[1]
        return self.project(torch.cat([states[-2], states[-1]], dim=1))


class WordDecoder(nn.Module):
    """A GRU that starts from the code as its hidden state and says each next word, given the words before it.

    Words it reads are dropped to <unk> at rate `dropout` while training, so that it has to read the code.
    """

    def __init__(self, word_dim: int, dim: int, vocabulary_size: int, dropout: float) -> None:
        super().__init__()
        self.gru = nn.GRU(word_dim, dim, batch_first=True)
        self.words = nn.Linear(dim, vocabulary_size)
        self.dropout = dropout

    def read(self, tokens: Int[Tensor, "batch time"], draw: Int[Tensor, " batch"]) -> Int[Tensor, "batch time"]:
        """The tokens as the decoder reads them: some are unknown in training; <start> stays."""
        if not self.training or not self.dropout or tokens.shape[1] == 0:
            return tokens
        dropped = noise.uniform(draw, tokens.shape[1], DROPPED) < self.dropout
        dropped[:, 0] = False
        return tokens.masked_fill(dropped & (tokens != 0), UNKNOWN)

    def forward(
        self,
        words: Float[Tensor, "batch time word"],
        tokens: Int[Tensor, "batch time"],
        lengths: Int[Tensor, " batch"],
        codes: Float[Tensor, "batch dim"],
    ) -> tuple[Float[Tensor, "words vocabulary"], Int[Tensor, " words"]]:
        """(logits of every next word, the next words) of all sentences in one list; lengths are at least 2.

        On a GPU the list goes on behind the sentences' ends, where the next word is NONE.
        """
        if len(words) == 0:
            two = words.sum((0, 1)).expand(1, 2, -1)
            logits, targets = self(two, tokens.new_zeros(1, 2), lengths.new_full((1,), 2), codes.sum(0)[None])
            return logits[:0], targets[:0]
        if words.is_cuda:  # packing would want the lengths on the host, and stop the GPU
            inside = within(lengths - 1, tokens.shape[1] - 1)
            states = self.gru(words[:, :-1], codes[None].contiguous())[0]
            return self.words(states.flatten(0, 1)), tokens[:, 1:].masked_fill(~inside, NONE).flatten()
        before, after = lengths - 1, tokens[:, 1:]
        packed = nn.utils.rnn.pack_padded_sequence(words[:, :-1], before, batch_first=True, enforce_sorted=False)
        targets = nn.utils.rnn.pack_padded_sequence(after, before, batch_first=True, enforce_sorted=False)
        states = self.gru(packed, codes[None].contiguous())[0]
        return self.words(states.data), targets.data
