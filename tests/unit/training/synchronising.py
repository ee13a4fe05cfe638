"""What would make the host wait for a GPU, counted on tensors of the CPU that say they are a GPU's."""

import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# Operators whose result, or the size of it, the host has to know before it goes on.
_ASKING = ("_local_scalar_dense", "nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive")
_INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_")
# What torch asks tensors that are on the host wherever the others are: an optimiser's count of steps, and how many
# sequences of a packed batch are still going on.
_ON_THE_HOST = ("/torch/optim/", "/torch/nn/modules/rnn.py", "/torch/nn/utils/rnn.py")


def _where() -> str:
    """The function of the package that asked; empty where torch asks what is on the host."""
    frame, found = sys._getframe(2), ""
    while frame is not None:
        path = frame.f_code.co_filename
        if any(place in path for place in _ON_THE_HOST):
            return ""
        if not found and "/platform/vse/" in path:
            found = f"{path.rpartition('/')[2]}:{frame.f_code.co_name}"
        frame = frame.f_back
    return found or "torch"


class _Operators(TorchDispatchMode):
    def __init__(self, found: Counter[str]) -> None:
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masks = name in _INDEXING and any(i is not None and i.dtype == torch.bool for i in args[1])
        if (name in _ASKING or masks) and (where := _where()):
            self.found[f"{name} in {where}"] += 1
        return func(*args, **(kwargs or {}))


@contextmanager
def synchronisations() -> Generator[Counter[str]]:
    """How often, by operator and place, work within would make the host wait for a GPU.

    Every tensor says it is on a GPU, so that models take their way for one; what is computed is computed on the CPU.
    Reading a tensor and making one of a list show in no operator where both sides are the CPU: these are watched by
    name.
    """
    found: Counter[str] = Counter()

    def counted(owner: Any, name: str, made: bool = False) -> None:
        function = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            if (not made or "device" in kwargs) and (where := _where()):
                found[f"{name} in {where}"] += 1
            return function(*args, **kwargs)

        patch.setattr(owner, name, counting)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("cpu", "numpy", "tolist", "__array__"):
            counted(Tensor, name)
        for name in ("tensor", "as_tensor"):
            counted(torch, name, made=True)
        patch.setattr(Tensor, "is_cuda", property(lambda tensor: True))
        with _Operators(found):
            yield found
