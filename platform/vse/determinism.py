"""Reproducible arithmetic: IEEE float32 and deterministic algorithms."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch


def use_reproducible_arithmetic(device: torch.device) -> None:
    """Set precision and algorithms of torch, for training, evaluation, served models and extraction.

    By default, torch computes cuDNN's recurrent networks and convolutions in TF32. With its ten bits of mantissa, the
    scores of one caption in two blocks differ by a hundred times the tolerance of ties (`vse.evaluation.metrics`), so
    TF32 is switched off. Half precision (autocast) is not affected.

    cuDNN uses deterministic algorithms and no benchmarking. On a GPU, every operator of torch that has a deterministic
    algorithm uses it (backward passes of gather and indexing, index_add, cuBLAS with workspaces of fixed size). Other
    operators warn and may differ in the last bits from run to run. On a CPU, results depend only on the number of
    threads.
    """
    cudnn: Any = torch.backends.cudnn
    deterministic: Any = torch.utils.deterministic
    torch.backends.cuda.matmul.allow_tf32 = cudnn.allow_tf32 = False
    cudnn.rnn.fp32_precision = cudnn.conv.fp32_precision = "ieee"  # the flags above do not set these
    cudnn.benchmark, cudnn.deterministic = False, True
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first called
        deterministic.fill_uninitialized_memory = False  # a debugging aid that costs time
        torch.use_deterministic_algorithms(True, warn_only=True)


@contextmanager
def repeatable(device: torch.device) -> Generator[None]:
    """A context for backward passes: on a GPU, operators without a deterministic algorithm raise.

    Fused attention uses its deterministic algorithm only if torch may raise, not if it only warns.
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
