"""Rows of every worker in one tensor, with gradients that flow back to the worker they belong to."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def world() -> tuple[int, int]:
    """(rank, number of workers) of the default process group; (0, 1) without one."""
    if not dist.is_available() or not dist.is_initialized():
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int]) -> Tensor:
        rank = dist.get_rank()
        ctx.span = (sum(sizes[:rank]), sizes[rank])
        longest = max(sizes)
        padded = rows.new_zeros((longest, *rows.shape[1:]))
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        # Every worker's losses may depend on these rows: their gradients add up. A loss that all workers compute whole
        # therefore counts once a worker, which the averaging of parameter gradients (DDP) takes back exactly.
        grad = grad_outputs[0].contiguous()
        dist.all_reduce(grad)
        start, size = ctx.span
        return grad[start : start + size], None


def gather(encoded: Mapping[str, Tensor], names: frozenset[str]) -> dict[str, Tensor]:
    """The named tensors with the rows of every worker, in rank order.

    Workers may hold different numbers of rows. The returned dict has only the names that `encoded` has.
    """
    rank, workers = world()
    present = sorted(names & encoded.keys())
    if workers == 1:
        return {name: encoded[name] for name in present}
    num = torch.tensor([len(encoded["image_group"])], device=encoded["image_group"].device)
    counts = [torch.empty_like(num) for _ in range(workers)]
    dist.all_gather(counts, num)
    sizes = [int(c) for c in counts]
    everyone = {}
    for name in present:
        rows = encoded[name]
        assert len(rows) == sizes[rank], f"{name}: {len(rows)} rows, the batch has {sizes[rank]}"
        if rows.dtype == torch.bool:
            everyone[name] = _GatherRows.apply(rows.to(torch.uint8), sizes).bool()
        else:
            everyone[name] = _GatherRows.apply(rows, sizes)
    return everyone
