"""Files of weights, and how they get into a network: whole, or not at all.

Files come as training scripts leave them: under a key of a checkpoint, with a prefix on every name, with a head for
other classes or without one. All of these hold a whole trunk, and nothing else of them is needed.
"""

import logging
import pickle
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from vse.errors import InputError, first_line
from vse.storage import user_files as named_files
from vse.storage.user_files import refuse_placeholder

log = logging.getLogger(__name__)

_WRAPPERS = ("state_dict", "model")  # which of several state dicts in a checkpoint is meant
_COUNTER = "num_batches_tracked"  # older files lack it, and inference ignores it
_NAMED = 3  # keys that a line names


def read_weights(address: str) -> Mapping[str, Any]:
    """What a weights file holds (.safetensors, or what torch.load(weights_only=True) accepts), by path or address.

    Raises InputError if there is none, or where it holds anything but plain data by name; nothing in it is executed.
    """
    refuse_placeholder(address)
    path = named_files.local(address)
    if not path.is_file():
        raise InputError(f"{address}: no such weights file")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old formats, and of those that are refused below
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, SafetensorError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        reason = first_line(error)
        if isinstance(error, pickle.UnpicklingError):  # torch's own advice is to trust the file
            reason = "it holds more than tensors, and a pickle may run code; expected a state dict or .safetensors"
        raise InputError(f"{address}: not a file of weights that can be read safely ({reason[:120]})") from None
    if not isinstance(content, Mapping):
        raise InputError(f"{address}: expected tensors by name (a state dict), got {type(content).__name__}")
    return content


def load_weights(
    module: nn.Module, content: Mapping[str, Any], where: str, whole: Mapping[str, Tensor] | None = None
) -> None:
    """Put weights into a module built on the meta device, in single precision.

    Keys outside of the module are left out, unless they would belong to it: of another depth, or with layers it lacks.
    One line is logged that says what was renamed or left out.

    Args:
        module: what is to be filled, all of it.
        content: a state dict, or a checkpoint with one under a key; its names may have a prefix.
        where: the file or name for messages.
        whole: the state dict of the network that `module` is the trunk of, if it is not all of it.

    Raises:
        InputError: naming the keys that are missing, surplus, or of another shape.
    """
    expected = module.state_dict()
    whole = expected if whole is None else whole
    state, told = _unwrapped(content, where)
    prefix = _prefix(state, expected, where)
    kept = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    _check(kept, expected, whole, where)
    told += [f"removed the prefix {prefix}"] if prefix else []
    if surplus := [
        *(k for k in state if not k.startswith(prefix)),
        *(k for k in kept if not _fits(kept[k], whole.get(k))),
    ]:
        told.append(f"left out {_named(surplus)}, not needed for features")
    if absent := [key for key in whole if key not in kept and not key.endswith(_COUNTER)]:
        told.append(f"it lacks {_named(absent)}, not needed for features")
    if told:
        log.info("%s: %s", where, "; ".join(told))
    filled = {key: kept[key] if key in kept else torch.zeros((), dtype=torch.int64) for key in expected}
    module.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in filled.items()}, assign=True)


def _unwrapped(content: Mapping[str, Any], where: str) -> tuple[dict[str, Tensor], list[str]]:
    """The state dict in what a file holds, and what to say of it."""
    inner = {key: value for key, value in content.items() if isinstance(value, Mapping) and _is_state(value)}
    keys = list(inner) if len(inner) == 1 else [key for key in _WRAPPERS if key in inner]
    tensors = {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
    if tensors and not inner:
        others = [str(key) for key in content if str(key) not in tensors]
        return tensors, [f"left out {_named(others)}, no tensors"] if others else []
    if not keys:
        holds = _named([str(key) for key in content]) if content else "nothing"
        choice = f"; which of {', '.join(map(str, inner))} is meant? save that alone" if inner else ""
        raise InputError(f"{where}: expected tensors by name (a state dict), found {holds}{choice}")
    others = [str(key) for key in content if key != keys[0]]
    return dict(inner[keys[0]]), [f"took what is under {keys[0]!r}" + (f", without {_named(others)}" if others else "")]


def _is_state(value: Mapping[Any, Any]) -> bool:
    return bool(value) and all(isinstance(key, str) and isinstance(each, Tensor) for key, each in value.items())


def _prefix(state: Mapping[str, Tensor], expected: Mapping[str, Tensor], where: str) -> str:
    """What stands before the names of the trunk. Raises InputError if two trunks are whole."""
    first = next(key for key in expected if not key.endswith(_COUNTER))
    found = [key.removesuffix(first) for key in state if key == first or key.endswith(f".{first}")]
    if "" in found or not found:
        return ""
    whole = [
        prefix for prefix in found if all(_fits(state.get(prefix + key), expected[key]) for key in _needed(expected))
    ]
    if len(whole) > 1:
        raise InputError(f"{where}: holds several networks of this architecture ({', '.join(whole)}); save one alone")
    return (whole or found)[0]


def _needed(expected: Mapping[str, Tensor]) -> Iterator[str]:
    return (key for key in expected if not key.endswith(_COUNTER))


def _fits(value: Tensor | None, expected: Tensor | None) -> bool:
    return value is not None and expected is not None and value.shape == expected.shape


def _check(kept: Mapping[str, Tensor], expected: Mapping[str, Tensor], whole: Mapping[str, Tensor], where: str) -> None:
    """Raises InputError unless all that is expected is there and nothing else belongs to the same parts of it."""
    missing = [key for key in _needed(expected) if key not in kept]
    others = [key for key in expected if key in kept and not _fits(kept[key], expected[key])]
    parts = {key.partition(".")[0] for key in expected}
    surplus = [key for key in kept if key not in whole and key.partition(".")[0] in parts]
    wrong = [f"{_named(missing)} {'is' if len(missing) == 1 else 'are'} missing"] if missing else []
    if others:
        shapes = (f"{key} has shape {tuple(kept[key].shape)}, expected {tuple(expected[key].shape)}" for key in others)
        wrong.append(next(shapes) + (f", and {len(others) - 1} more have other shapes" if others[1:] else ""))
    wrong += [f"it has no {_named(surplus)}"] if surplus else []
    if wrong:
        raise InputError(f"{where}: not weights of this architecture: {'; '.join(wrong)}")


def _named(keys: Sequence[str]) -> str:
    """The first few keys, and how many more there are."""
    more = len(keys) - _NAMED
    return ", ".join(keys[:_NAMED]) + (f" and {more} more" if more > 0 else "")
