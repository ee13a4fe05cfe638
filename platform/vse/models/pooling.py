"""From the embeddings of an image's regions to one embedding of the image."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor


def pool_regions(
    regions: Float[Tensor, "batch regions dim"],
    how: str,
    k: int = 10,
    mask: Bool[Tensor, "batch regions"] | None = None,
) -> Float[Tensor, "batch dim"]:
    """Aggregation Ψ of UniVSE (supplement A.2): `avg`, `max`, or `maxk`, the mean of a channel's k largest responses.

    The supplement prints "≤ V_k" where the k largest are meant; ties at the k-th value count once each. `mask` is True
    for regions that exist; with fewer than k of them, all are averaged; without any, the result is zero.
    """
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

    On a CPU, numpy's vectorised partition finds the k-th largest about eight times faster than torch.topk; the gradient
    needs that threshold only. Values tied at the threshold share what is left of the weight.
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
