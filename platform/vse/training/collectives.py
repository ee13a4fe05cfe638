"""What workers do together: gather the rows of all, with gradients to their owners, and fail as one."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")


class PeerFailed(RuntimeError):  # noqa: N818  (reads as the finding it is)
    """Another worker failed; its text says which and why."""


def world() -> tuple[int, int]:
    """(rank, number of workers) of the default process group; (0, 1) without one."""
    if not dist.is_available() or not dist.is_initialized():
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def together(work: Callable[[], T], *alike: type[Exception]) -> T:
    """`work()` on every worker; returns when all are done. Where it fails on one, it fails on all.

    Without this, a worker that alone finds an error (rank 0, where only it writes) leaves the others waiting for it in
    their next collective until that times out. Errors of the types `alike`, made from one text, are raised as such on
    every worker; of any other, the others raise PeerFailed.
    """
    workers = world()[1]
    if workers == 1:
        return work()
    error: Exception | None = None
    result: T | None = None
    try:
        result = work()
    except Exception as failure:
        error = failure
    messages: list[Any] = [None] * workers
    message = None if error is None else (_kind(error, alike), type(error).__name__, str(error))
    dist.all_gather_object(messages, message)
    if error is not None:
        raise error
    for other, trouble in enumerate(messages):
        if trouble is not None:
            kind, name, text = trouble
            raise PeerFailed(f"worker {other}: {name}: {text}") if kind is None else alike[kind](text)
    return result  # pyrefly: ignore[bad-return]  # no error: work() returned it


def told_by_first(value: T) -> T:
    """Worker 0's value, on every worker."""
    values = [value]
    if world()[1] > 1:
        dist.broadcast_object_list(values, 0)
    return values[0]


def _kind(error: Exception, alike: tuple[type[Exception], ...]) -> int | None:
    return next((number for number, kind in enumerate(alike) if isinstance(error, kind)), None)


def add_up(numbers: Iterable[Tensor]) -> None:
    """Make each tensor, in place, the sum of every worker's."""
    if world()[1] > 1:
        for each in numbers:
            dist.all_reduce(each)


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


def gather(
    encoded: Mapping[str, Tensor], names: frozenset[str], ragged: frozenset[str] = frozenset()
) -> dict[str, Tensor]:
    """The named tensors with the rows of every worker, in rank order; gradients return to the worker that has the row.

    Args:
        encoded: this worker's tensors. Workers may hold different numbers of rows, which are counted by `image_group`.
        names: which are gathered; names that `encoded` lacks are left out.
        ragged: tensors whose second dimension, a time, may differ between workers. They are padded with zeros to the
            longest.
    """
    rank, workers = world()
    present = sorted(names & encoded.keys())
    if workers == 1:
        return {name: encoded[name] for name in present}
    over_time = [name for name in present if name in ragged]
    sizes, longest = _sizes(encoded["image_group"], [encoded[name].shape[1] for name in over_time])
    gathered = {}
    for name in present:
        rows = encoded[name]
        if name in ragged:
            missing = longest[over_time.index(name)] - rows.shape[1]
            rows = torch.cat([rows, rows.new_zeros(len(rows), missing, *rows.shape[2:])], dim=1)
        assert len(rows) == sizes[rank], f"{name}: {len(rows)} rows, the batch has {sizes[rank]}"
        if rows.dtype == torch.bool:
            gathered[name] = _GatherRows.apply(rows.to(torch.uint8), sizes).bool()
        else:
            gathered[name] = _GatherRows.apply(rows, sizes)
    return gathered


def _sizes(group: Tensor, times: list[int]) -> tuple[list[int], list[int]]:
    """(rows of every worker, the longest of each time), in one exchange of which a GPU reads the result once."""
    own = torch.tensor([len(group), *times], device=group.device)
    gathered = [torch.empty_like(own) for _ in range(world()[1])]
    dist.all_gather(gathered, own)
    rows, *longest = torch.stack(gathered, dim=1).tolist()
    return rows, [max(each) for each in longest]
