"""Pooling of the embeddings of regions (or words) into one embedding of the image (or caption)."""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vse.models.gru import states_in_graph, within

TEMPERATURE = 0.1  # of GPO's softmax over positions, as in the public code


def pool_regions(
    regions: Float[Tensor, "batch regions dim"],
    how: str,
    k: int = 10,
    mask: Bool[Tensor, "batch regions"] | None = None,
) -> Float[Tensor, "batch dim"]:
    """Aggregation Ψ of UniVSE (supplement A.2), channel by channel.

    The supplement prints "≤ V_k" where it means the k largest. Ties at the k-th value count once each.

    Args:
        regions: embeddings of regions.
        how: `avg`, `max`, or `maxk`, the mean of the k largest responses.
        k: of `maxk`; an image with fewer regions averages all of them.
        mask: True for regions that exist; None if all do.

    Returns:
        Embeddings of shape (batch, dim); zero for an image without regions.
    """
    if not regions.shape[1]:  # as in a worker's share without any caption; parameters stay in the graph
        return regions.sum(1)
    if mask is None:
        if how == "avg":
            return regions.mean(1)
        if how == "max":
            return regions.amax(1)
        assert how == "maxk", how
        return _MeanOfLargest.apply(regions, min(k, regions.shape[1]))
    counts = mask.sum(1).clamp_min(1)
    if how == "avg":
        return (regions * mask[..., None]).sum(1) / counts[:, None]
    lowest = torch.where(mask.any(1), -torch.inf, 0.0).to(regions.dtype)[:, None, None]
    hidden = torch.where(mask[..., None], regions, lowest)
    if how == "max":
        return hidden.amax(1)
    assert how == "maxk", how
    largest = hidden.topk(min(k, regions.shape[1]), dim=1).values
    present = torch.arange(largest.shape[1], device=regions.device)[None, :] < counts[:, None]
    kept = torch.where(present[..., None], largest, torch.zeros_like(largest))
    return kept.sum(1) / present.sum(1, keepdim=True)


class _MeanOfLargest(torch.autograd.Function):
    """Mean of the k largest along dimension 1.

    On a CPU, NumPy's vectorised partition finds the k-th largest about eight times faster than `torch.topk`; the
    gradient needs that threshold only. Values tied at the threshold share the remaining weight.
    """

    @staticmethod
    def forward(ctx: Any, regions: Tensor, k: int) -> Tensor:
        num = regions.shape[1]
        if regions.is_cuda or regions.dtype == torch.bfloat16:
            largest = regions.topk(k, dim=1, sorted=False).values
            threshold = largest.amin(1)
        else:
            # Always a copy: the partition is in place.
            columns = np.array(regions.detach().numpy().transpose(0, 2, 1), order="C")
            columns.partition(num - k, axis=2)
            largest = torch.from_numpy(columns[:, :, num - k :]).transpose(1, 2)
            threshold = torch.from_numpy(columns[:, :, num - k].copy())
        ctx.save_for_backward(regions, threshold)
        ctx.k = k
        return largest.mean(1)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        (grad,) = grad_outputs
        regions, threshold = ctx.saved_tensors
        k = ctx.k
        chosen = regions >= threshold[:, None]
        share = (grad / k)[:, None]
        if not chosen.is_cuda and int(chosen.sum()) == k * threshold.numel():
            return chosen * share, None
        above = regions > threshold[:, None]
        tied = chosen & ~above
        left = (k - above.sum(1, keepdim=True)).to(grad.dtype) / tied.sum(1, keepdim=True)
        return (above + tied * left) * share, None


class GPO(nn.Module):
    """Generalised pooling operator (Chen et al., 2021, VSE-infinity): pooled_d = Σ_k θ_k · (k-th largest of channel d).

    θ = softmax over k of MLP(BiGRU(p_1 … p_K)) depends on the number K of items alone. Mean, maximum and max-k pooling
    are special cases.

    Args:
        position_dim: dimension of the sine and cosine codes p_k of the position; published: 32.
        hidden: state of the GRU in each direction; published: 32.
    """

    def __init__(self, position_dim: int = 32, hidden: int = 32) -> None:
        super().__init__()
        self.position_dim = position_dim
        self.gru = nn.GRU(position_dim, hidden, batch_first=True, bidirectional=True)
        self.score = nn.Linear(hidden, 1, bias=False)

    def weights(
        self, sizes: Int[Tensor, " sizes"], longest: int, falling: bool = False
    ) -> Float[Tensor, "sizes longest"]:
        """θ for several numbers of items.

        Args:
            sizes: numbers of items, at least 1, on the CPU.
            longest: the largest size.
            falling: whether sizes are sorted from the largest to the smallest.

        Returns:
            Weights of shape (sizes, longest), zero after each size.
        """
        weight = self.score.weight
        places = place_codes(longest, self.position_dim, weight.device).to(weight.dtype).expand(len(sizes), -1, -1)
        packed = nn.utils.rnn.pack_padded_sequence(places, sizes, batch_first=True, enforce_sorted=falling)
        states = nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=longest)[0]
        absent = (torch.arange(longest)[None, :] >= sizes[:, None]).to(weight.device, non_blocking=True)
        return torch.softmax(self._scores(states).masked_fill(absent, -torch.inf), dim=1)

    def weights_of(self, number: int) -> Float[Tensor, "1 number"]:
        """θ for one number of items; without padding, cuDNN starts fewer kernels."""
        weight = self.score.weight
        places = place_codes(number, self.position_dim, weight.device).to(weight.dtype)[None]
        return torch.softmax(self._scores(self.gru(places)[0]), dim=1)

    def weights_in_graph(
        self, sizes: Int[Tensor, " sizes"], longest: int | torch.SymInt
    ) -> Float[Tensor, "sizes longest"]:
        """As `weights`, without packed sequences, for an exported graph."""
        weight = self.score.weight
        places = place_codes(longest, self.position_dim, weight.device).to(weight.dtype).expand(sizes.shape[0], -1, -1)
        absent = ~within(sizes, longest)
        return torch.softmax(
            self._scores(states_in_graph(self.gru, places, sizes)).masked_fill(absent, -torch.inf), dim=1
        )

    def _scores(self, states: Float[Tensor, "sizes longest both"]) -> Float[Tensor, "sizes longest"]:
        forward, backward = states.chunk(2, dim=-1)
        return self.score((forward + backward) / 2).squeeze(-1) / TEMPERATURE

    def forward(
        self, items: Float[Tensor, "batch items dim"], mask: Bool[Tensor, "batch items"] | None = None
    ) -> Float[Tensor, "batch dim"]:
        """Pooled items; zero if there are none. `mask` is True for items that exist."""
        if not items.shape[1]:  # one absent item, so that every parameter stays in the graph
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
        if torch.onnx.is_in_onnx_export():
            theta = self.weights_in_graph(counts.clamp_min(1), longest)
        elif items.is_cuda and mask is None:
            theta = self.weights_of(longest).expand(batch, -1)
        elif items.is_cuda:  # θ for every possible number of items: reading the numbers would stop the GPU
            every = self.weights(torch.arange(longest, 0, -1), longest, falling=True)
            theta = F.embedding(longest - counts.clamp_min(1), every)
        else:
            # At least one size, so that every parameter is in the graph of an empty batch too.
            sizes, which = torch.unique(torch.cat([counts.clamp_min(1), counts.new_ones(1)]), return_inverse=True)
            theta = self.weights(sizes, longest)[which[:-1]]
        return torch.einsum("bk,bkd->bd", theta.to(ranked.dtype), ranked)


def descending(items: Float[Tensor, "batch items dim"]) -> Float[Tensor, "batch items dim"]:
    """Every channel's responses in descending order, with gradient.

    On a CPU, NumPy's vectorised sort takes a third of torch's time.
    """
    if items.is_cuda or torch.onnx.is_in_onnx_export() or items.dtype not in (torch.float32, torch.float64):
        return items.sort(dim=1, descending=True).values
    channels = items.transpose(1, 2).contiguous()
    order = torch.from_numpy(np.argsort(channels.detach().numpy(), axis=-1)).flip(-1)
    return channels.gather(-1, order).transpose(1, 2)


def place_codes(num: int | torch.SymInt, dim: int, device: torch.device | None = None) -> Float[Tensor, "num dim"]:
    """Sine and cosine codes of the positions 0 … num − 1 (Vaswani et al., 2017), float64.

    Args:
        num: number of positions; a symbol in an exported graph.
        dim: dimension of a code.
        device: where the codes are made; None for torch's default device.
    """
    angles = torch.arange(num, dtype=torch.float64, device=device)[:, None] * torch.exp(
        torch.arange(0, dim, 2, dtype=torch.float64, device=device) * (-math.log(10_000.0) / dim)
    )
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :dim]
