"""Aggregation Φ of a caption's semantic components into one vector (UniVSE §3.2, supplement A.2 and Table 3)."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


class Aggregation(nn.Module):
    """`avg`, `sum` (equal to avg once normalised), `max` per channel, `gru` over an arbitrary order, `attention`.

    Self-attention is the single-hop form of Lin et al. (2017): weights softmax(w₂ · tanh(W₁ u)). The order that the GRU
    sees is a fixed shuffle by the components' own numbers, so that neither the batch nor rounding can change it.
    """

    def __init__(self, how: str, dim: int) -> None:
        super().__init__()
        self.how = how
        if how == "gru":
            self.gru = nn.GRU(dim, dim, batch_first=True)
        elif how == "attention":
            self.hidden, self.weight = nn.Linear(dim, dim // 2, bias=False), nn.Linear(dim // 2, 1, bias=False)

    def forward(
        self,
        items: Float[Tensor, "batch items dim"],
        mask: Bool[Tensor, "batch items"],
        numbers: Int[Tensor, "batch items"],
    ) -> Float[Tensor, "batch dim"]:
        """Zero where a caption has no component; equal components have equal `numbers`."""
        if not mask.numel():
            # One absent component instead of none: every parameter stays in the graph, as distributed training asks.
            size = (max(1, len(items)), max(1, items.shape[1]))
            absent = items.new_zeros(*size, items.shape[2]), mask.new_zeros(size), numbers.new_zeros(size)
            return self(*absent)[: len(items)]
        shown = items * mask[..., None]
        if self.how in ("avg", "sum"):
            total = shown.sum(1)
            return total / mask.sum(1, keepdim=True).clamp_min(1) if self.how == "avg" else total
        some = mask.any(1, keepdim=True)
        if self.how == "max":
            largest = items.masked_fill(~mask[..., None], -torch.inf).amax(1)
            return torch.where(some, largest, torch.zeros_like(largest))
        if self.how == "attention":
            scores = self.weight(torch.tanh(self.hidden(items))).squeeze(-1)
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            return (F.softmax(scores, dim=1)[..., None] * shown).sum(1)
        assert self.how == "gru", self.how
        # Absent items sort behind all present ones.
        keys = shuffled(numbers).masked_fill(~mask, torch.iinfo(torch.int64).max)
        order = torch.argsort(keys, dim=1, stable=True)
        ordered = torch.gather(shown, 1, order[..., None].expand_as(shown))
        states = self.gru(ordered)[0]
        last = (mask.sum(1) - 1).clamp_min(0)
        return states[torch.arange(len(states), device=states.device), last] * some


def shuffled(numbers: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    """A pseudo-random key of each number: two rounds of multiplying and folding, in wrapping 64-bit arithmetic."""
    for _ in range(2):
        numbers = numbers * -7046029254386353131
        numbers = numbers ^ (numbers >> 32)
    return numbers
