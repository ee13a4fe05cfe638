"""How this process computes: float32 as IEEE has it, and the same algorithms every time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def use_reproducible_arithmetic(device: torch.device) -> None:
    """Set what torch leaves to the GPU, for training, evaluation, served models and extraction alike.

    Single precision is full single precision: torch's default gives cuDNN's recurrent networks and convolutions TF32,
    whose ten bits of mantissa put one caption's scores in two blocks a hundred times further apart than ties may be
    (`vse.evaluation.metrics`). What is said of half precision (autocast) stays.

    cuDNN takes deterministic algorithms, never the fastest of a trial. Where `device` is a GPU, so does every operator
    of torch that has one (backward passes of gather and indexing, index_add, cuBLAS with workspaces of a fixed size);
    an operator without one warns and may differ in the last bits from run to run. On a CPU nothing is left to choose:
    its results depend on the number of threads alone.
    """
    cudnn: Any = torch.backends.cudnn
    deterministic: Any = torch.utils.deterministic
    torch.backends.cuda.matmul.allow_tf32 = cudnn.allow_tf32 = False
    cudnn.rnn.fp32_precision = cudnn.conv.fp32_precision = "ieee"  # which the flags above leave undecided
    cudnn.benchmark, cudnn.deterministic = False, True
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first called
        deterministic.fill_uninitialized_memory = False  # a help in finding errors, and not free
        torch.use_deterministic_algorithms(True, warn_only=True)


@contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """For backward passes: on a GPU an operator that has no deterministic algorithm raises. What was set before holds
    again afterwards.

    Fused attention has one and takes it only where torch may raise; where torch only warns, it takes the other.
    """
    if device.type != "cuda":
        yield
        return
    enabled = torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=only_warned)
