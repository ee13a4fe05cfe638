"""Faults of GPUs: a GPU that torch does not find, and errors of one whose driver or hardware fails."""

import re

from vse.cluster.memory_shortage import memory_shortage
from vse.errors import causes

_SAYS_FAULT = re.compile(r"(?:CUDA error|CUDA driver|cuDNN error)[^\n]{0,200}")
# The code or the settings of a trial cause these on any GPU.
_CAUSED_BY_CODE = re.compile(
    "device-side assert triggered|illegal memory access|misaligned address|invalid (?:configuration )?argument"
    "|NOT_SUPPORTED|BAD_PARAM|INVALID_VALUE|ALLOC_FAILED|out of memory"
)


def has_assigned_gpu() -> bool:
    """Whether Ray assigned a GPU to this actor or task."""
    import ray

    return bool(ray.get_runtime_context().get_assigned_resources().get("GPU"))


def is_assigned_gpu_missing() -> bool:
    """Whether torch does not find the GPU that Ray assigned here, for example because its driver has died."""
    if not has_assigned_gpu():
        return False
    import torch  # slow to import

    return not torch.cuda.is_available()


def gpu_fault(error: BaseException) -> str:
    """The line of CUDA's or cuDNN's error that means that a GPU fails, whatever computes on it; empty if there is none.

    Searches the chain of causes in a process with an assigned GPU, and failures of Ray Train's workers in any process.
    The workers have the GPUs of their training, and Ray Train does not chain their exceptions.
    """
    texts, own = list[str](), has_assigned_gpu()
    for each in causes(error):
        if own:
            texts.append(f"{type(each).__name__}: {each}")
        texts.extend(map(str, getattr(each, "worker_failures", {}).values()))
    lines = [match[0].strip() for text in texts for match in _SAYS_FAULT.finditer(text)]
    # CUDA repeats its error at later calls, so one cause that is no fault of the GPU explains the other lines.
    if any(map(_CAUSED_BY_CODE.search, lines)) or any(map(memory_shortage, texts)):
        return ""
    return next(iter(lines), "")
