"""Aggregation Φ of a caption's semantic components into one vector (UniVSE §3.2, supplement A.2 and Table 3)."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


class Aggregation(nn.Module):
    """`avg`, `sum` (equal to avg once normalised), `max` per channel, `gru` over an arbitrary order, `attention`.

    Self-attention is the single-hop form of Lin et al. (2017): weights softmax(w₂ · tanh(W₁ u)). The order that the GRU
    sees is a fixed shuffle by the components' own numbers, so that it does not depend on the batch.
    """

    def __init__(self, how: str, dim: int) -> None:
        super().__init__()
        self.how = how
        if how == "gru":
            self.gru = nn.GRU(dim, dim, batch_first=True)
        elif how == "attention":
            self.hidden, self.weight = nn.Linear(dim, dim // 2, bias=False), nn.Linear(dim // 2, 1, bias=False)

    def forward(
        self, items: Float[Tensor, "batch items dim"], mask: Bool[Tensor, "batch items"]
    ) -> Float[Tensor, "batch dim"]:
        """Zero where a caption has no component."""
        shown = items * mask[..., None]
        if self.how in ("avg", "sum") or items.shape[1] == 0:
            total = shown.sum(1)
            return total / mask.sum(1, keepdim=True).clamp_min(1) if self.how == "avg" else total
        some = mask.any(1, keepdim=True)
        if self.how == "max":
            largest = items.masked_fill(~mask[..., None], -torch.inf).amax(1)
            return torch.where(some, largest, torch.zeros_like(largest))
        if self.how == "attention":
            scores = self.weight(torch.tanh(self.hidden(items))).squeeze(-1).masked_fill(~mask, -1e9)
            return (F.softmax(scores, dim=1)[..., None] * shown).sum(1)
        assert self.how == "gru", self.how
        # The key is a hash-like function of the item itself; absent items sort behind all present ones.
        key = torch.sin(items.detach().double() @ torch.arange(1, items.shape[2] + 1, device=items.device).double())
        order = key.masked_fill(~mask, torch.inf).argsort(1)
        ordered = torch.gather(shown, 1, order[..., None].expand_as(shown))
        states = self.gru(ordered)[0]
        last = (mask.sum(1) - 1).clamp_min(0)
        return states[torch.arange(len(states), device=states.device), last] * some
