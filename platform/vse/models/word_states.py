"""A word in its sentence: the states of a bidirectional GRU at that word, mean of both directions (SCAN)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse.models.gru import PrefixGRU, reversed_rows, within


class WordStates(nn.Module):
    """`dim` units in each direction; captions that begin or end alike share what they share."""

    def __init__(self, input_dim: int, dim: int) -> None:
        super().__init__()
        self.forward_gru, self.backward_gru = PrefixGRU(input_dim, dim), PrefixGRU(input_dim, dim)

    def forward(
        self,
        table: Float[Tensor, "words input"],
        sequences: Int[Tensor, "batch time"],
        lengths: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch time dim"]:
        """States of sequences of row numbers of `table`, zero behind each length; lengths are at least 1."""
        forward = self.forward_gru.states(table, sequences, lengths)
        backward = self.backward_gru.states(table, reversed_rows(sequences, lengths), lengths)
        place = (lengths[:, None] - 1 - torch.arange(sequences.shape[1], device=lengths.device)).clamp_min(0)
        turned = backward.gather(1, place[..., None].expand_as(backward))
        return (forward + turned * within(lengths, sequences.shape[1])[..., None]) / 2
