"""The generalised pooling operator (Chen et al., 2021, VSE-infinity): learned weights over sorted responses.

Beyond the papers of this project. Mean, maximum and max-k pooling are special cases of it.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

TEMPERATURE = 0.1  # of the softmax over places, as in the public code


class GPO(nn.Module):
    """pooled_d = Σ_k θ_k · (k-th largest response of channel d).

    θ = softmax over k of MLP(BiGRU(p_1 … p_K)) depends on the number K of items alone; p_k are sine and cosine codes of
    the place. Sizes as published: both 32.
    """

    def __init__(self, position_dim: int = 32, hidden: int = 32) -> None:
        super().__init__()
        self.position_dim = position_dim
        self.gru = nn.GRU(position_dim, hidden, batch_first=True, bidirectional=True)
        self.score = nn.Linear(hidden, 1, bias=False)

    def weights(
        self, sizes: Int[Tensor, " sizes"], longest: int, falling: bool = False
    ) -> Float[Tensor, "sizes longest"]:
        """θ for each number of items, zero behind it; sizes are at least 1, on the CPU. `falling`: none is larger than
        the one before it."""
        weight = self.score.weight
        places = place_codes(longest, self.position_dim, weight.device).to(weight.dtype).expand(len(sizes), -1, -1)
        packed = nn.utils.rnn.pack_padded_sequence(places, sizes, batch_first=True, enforce_sorted=falling)
        states = nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=longest)[0]
        absent = (torch.arange(longest)[None, :] >= sizes[:, None]).to(weight.device, non_blocking=True)
        return torch.softmax(self._scores(states).masked_fill(absent, -torch.inf), dim=1)

    def weights_of(self, number: int) -> Float[Tensor, "1 number"]:
        """θ for one number of items. Without padding cuDNN has fewer kernels to start."""
        weight = self.score.weight
        places = place_codes(number, self.position_dim, weight.device).to(weight.dtype)[None]
        return torch.softmax(self._scores(self.gru(places)[0]), dim=1)

    def _scores(self, states: Float[Tensor, "sizes longest both"]) -> Float[Tensor, "sizes longest"]:
        forward, backward = states.chunk(2, dim=-1)
        return self.score((forward + backward) / 2).squeeze(-1) / TEMPERATURE

    def forward(
        self, items: Float[Tensor, "batch items dim"], mask: Bool[Tensor, "batch items"] | None = None
    ) -> Float[Tensor, "batch dim"]:
        """`mask` is True for items that exist; without any the result is zero."""
        if not items.shape[1]:  # a place for nothing: every parameter stays in the graph
            return self(F.pad(items, (0, 0, 0, 1)), torch.zeros(len(items), 1, dtype=torch.bool, device=items.device))
        batch, longest = items.shape[:2]
        if mask is None:
            counts = torch.full((batch,), longest, device=items.device)
            ranked = descending(items)
        else:
            counts = mask.sum(1)
            ranked = descending(items.masked_fill(~mask[..., None], -torch.inf))
            behind = torch.arange(longest, device=items.device)[None, :] >= counts[:, None]
            ranked = ranked.masked_fill(behind[..., None], 0)
        if items.is_cuda and mask is None:
            theta = self.weights_of(longest).expand(batch, -1)
        elif items.is_cuda:  # which numbers there are is not known before a GPU has counted: θ of all that may be
            every = self.weights(torch.arange(longest, 0, -1), longest, falling=True)
            theta = F.embedding(longest - counts.clamp_min(1), every)
        else:
            # One size at least, so that every parameter is in the graph of an empty batch too.
            sizes, which = torch.unique(torch.cat([counts.clamp_min(1), counts.new_ones(1)]), return_inverse=True)
            theta = self.weights(sizes, longest)[which[:-1]]
        return torch.einsum("bk,bkd->bd", theta.to(ranked.dtype), ranked)


def descending(items: Float[Tensor, "batch items dim"]) -> Float[Tensor, "batch items dim"]:
    """Every channel's responses, the largest first; the gradient goes back to where a response came from.

    On CPUs NumPy finds the order: its vector instructions take a third of torch's time, which was half of a step.
    """
    if items.is_cuda or items.dtype not in (torch.float32, torch.float64):
        return items.sort(dim=1, descending=True).values
    channels = items.transpose(1, 2).contiguous()
    order = torch.from_numpy(np.argsort(channels.detach().numpy(), axis=-1)).flip(-1)
    return channels.gather(-1, order).transpose(1, 2)


def place_codes(num: int, dim: int, device: torch.device | None = None) -> Float[Tensor, "num dim"]:
    """Sine and cosine codes of the places 0 … num − 1 (Vaswani et al., 2017), float64."""
    angles = torch.arange(num, dtype=torch.float64, device=device)[:, None] * torch.exp(
        torch.arange(0, dim, 2, dtype=torch.float64, device=device) * (-math.log(10_000.0) / dim)
    )
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :dim]
