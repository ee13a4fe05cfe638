"""A GPU for tests: a true one where there is one, elsewhere a double, whose tensors say that they are there and refuse
what tensors of a GPU refuse.

The double's values are held and computed by the CPU, so results can be compared with those of a CPU. What it finds: a
tensor of the CPU among those of the GPU, one made on the wrong side, one read as an array before it came back. What it
does not: numerics of other kernels, memory, streams, and torch's allowances for copies within an operator, which are
errors here.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

_OPS = torch.ops.aten
_COPIES = (_OPS.copy_.default, _OPS._to_copy.default)
# torch wants the lengths of packed sequences on the CPU wherever their words are, and leaves them there
_PACKING = (_OPS._pack_padded_sequence.default, _OPS._pack_padded_sequence_backward.default)


class _Backend(_DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


TRUE = torch.cuda.is_available()
"""Whether it is a true one; there is no double beside it, since autograd knows one kind of accelerator."""

if not TRUE:  # when this is imported, which is before any test runs: autograd counts devices once, at its first pass
    _setup_privateuseone_for_python_backend("gpu", backend_module=_Backend())
DEVICE = torch.device("cuda" if TRUE else "gpu", 0)


class OnGPU(Tensor):
    """A tensor of the GPU. `held`: its values."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "OnGPU":
        there = Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        there.held = held
        return there

    is_cuda = property(lambda self: True)  # pyrefly: ignore[bad-override]  # models ask by this

    def tolist(self) -> Any:
        """As torch's, which knows no subclasses."""
        return self.cpu().tolist()

    def __repr__(self, **_: Any) -> str:
        return f"OnGPU({self.held})"

    @classmethod
    # pyrefly: ignore[bad-override]  # torch declares its own as switched off
    def __torch_dispatch__(cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatch(operator, args, kwargs or {})


class _Making(TorchDispatchMode):
    """Operators that have no tensor yet, only a device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatch(func, args, kwargs or {})


class _FromLists(TorchFunctionMode):
    """What torch makes of lists and arrays, and moves by itself where no mode sees it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and (target := kwargs.pop("device", None)) is not None:
            return func(*args, **kwargs).to(target)
        return func(*args, **kwargs)


def _dispatch(operator: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    target = torch.device(kwargs["device"]) if kwargs.get("device") is not None else None
    if operator is _OPS.is_pinned.default:
        return True  # the double reads all memory of the host as if it were
    if kwargs.get("pin_memory"):
        kwargs = kwargs | {"pin_memory": False}
    if not any(isinstance(tensor, OnGPU) for tensor in tensors) and (target is None or target.type == "cpu"):
        return operator(*args, **kwargs)
    if operator._can_decompose():  # in inference mode these come as they are
        with _Making():
            return operator.decompose(*args, **kwargs)
    if operator not in (*_COPIES, *_PACKING):
        for tensor in tensors:
            if not isinstance(tensor, OnGPU) and tensor.ndim:
                raise RuntimeError(f"{operator}: a tensor {tuple(tensor.shape)} of the CPU among those of the GPU")
    here, named = tree_map_only(OnGPU, lambda tensor: tensor.held, (args, kwargs))
    result = operator(*here, **(named | ({} if target is None else {"device": torch.device("cpu")})))
    if operator is _OPS.copy_.default:
        return args[0]
    if target is not None and target.type == "cpu":
        return result
    if operator is _OPS._pack_padded_sequence.default:
        return OnGPU(result[0]), result[1]
    return return_and_correct_aliasing(operator, args, kwargs, tree_map_only(Tensor, OnGPU, result))


def _without_gradients(mode: Any) -> None:
    mode.without = torch.no_grad()
    mode.without.__enter__()


def _with_gradients(mode: Any, *error: Any) -> None:
    mode.without.__exit__(*error)


@contextmanager
def a_gpu() -> Generator[torch.device]:
    """The device of the GPU, for as long as the context lasts."""
    if TRUE:
        yield DEVICE
        return
    inference = torch.inference_mode  # views of what it made are no subclass's afterwards; no gradients is enough here
    with (
        patch.multiple(inference, __enter__=_without_gradients, __exit__=_with_gradients),
        _FromLists(),
        _Making(),
        enable_python_dispatcher(),
    ):
        yield DEVICE
