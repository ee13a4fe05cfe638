"""Weights files of backbones, loaded completely or not at all.

Training scripts save weights in several forms: under a key of a checkpoint, with a prefix on every name, with or
without a head. Each must contain the whole trunk; the rest is not needed.
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
_NAMED = 3  # keys in one message


def read_weights(address: str) -> Mapping[str, Any]:
    """The content of a weights file (.safetensors, or what torch.load(weights_only=True) accepts), by path or address.

    Raises InputError if there is no such file, or if it holds anything but plain data by name. Nothing in it is
    executed.
    """
    refuse_placeholder(address)
    path = named_files.local(address)
    if not path.is_file():
        raise InputError(f"{address}: no such weights file")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on old formats, and on files that are refused below
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
    """Load weights into a module built on the meta device, in single precision.

    Keys that the module does not have are ignored, unless they show that the file is of a network with another depth
    or with further layers. One log line lists the renamed and ignored keys.

    Args:
        module: every parameter and buffer of it is set.
        content: a state dict, or a checkpoint that holds one under some key; the names may have a prefix.
        where: the file or name for messages.
        whole: the state dict of the complete network, if `module` is only its trunk.

    Raises:
        InputError: keys are missing, surplus, or of another shape; the message names them.
    """
    expected = module.state_dict()
    whole = expected if whole is None else whole
    state, notes = _unwrapped(content, where)
    prefix = _prefix(state, expected, where)
    kept = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    _check(kept, expected, whole, where)
    notes += [f"removed the prefix {prefix}"] if prefix else []
    if surplus := [
        *(k for k in state if not k.startswith(prefix)),
        *(k for k in kept if not _fits(kept[k], whole.get(k))),
    ]:
        notes.append(f"left out {_named(surplus)}, not needed for features")
    if absent := [key for key in whole if key not in kept and not key.endswith(_COUNTER)]:
        notes.append(f"it lacks {_named(absent)}, not needed for features")
    if notes:
        log.info("%s: %s", where, "; ".join(notes))
    filled = {key: kept[key] if key in kept else torch.zeros((), dtype=torch.int64) for key in expected}
    module.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in filled.items()}, assign=True)


def state_dict_in(content: Mapping[str, Any], where: str) -> dict[str, Tensor]:
    """The state dict in the content of a weights file; InputError, which begins with `where`, if there is none."""
    return _unwrapped(content, where)[0]


def _unwrapped(content: Mapping[str, Any], where: str) -> tuple[dict[str, Tensor], list[str]]:
    """The state dict in the content of a file, and notes for the log."""
    inner = {key: value for key, value in content.items() if isinstance(value, Mapping) and _is_state(value)}
    keys = list(inner) if len(inner) == 1 else [key for key in _WRAPPERS if key in inner]
    tensors = {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
    if tensors and not inner:
        others = [str(key) for key in content if str(key) not in tensors]
        return tensors, [f"left out {_named(others)}, which are not tensors"] if others else []
    if not keys:
        holds = _named([str(key) for key in content]) if content else "nothing"
        choice = f"; save only one of {', '.join(map(str, inner))}" if inner else ""
        raise InputError(f"{where}: expected tensors by name (a state dict), got {holds}{choice}")
    others = [str(key) for key in content if key != keys[0]]
    return dict(inner[keys[0]]), [f"took what is under {keys[0]!r}" + (f", without {_named(others)}" if others else "")]


def _is_state(value: Mapping[Any, Any]) -> bool:
    return bool(value) and all(isinstance(key, str) and isinstance(each, Tensor) for key, each in value.items())


def _prefix(state: Mapping[str, Tensor], expected: Mapping[str, Tensor], where: str) -> str:
    """The prefix of the trunk's names. Raises InputError if there are two complete trunks."""
    first = next(_needed(expected))
    prefixes = [key.removesuffix(first) for key in state if key == first or key.endswith(f".{first}")]
    if "" in prefixes or not prefixes:
        return ""
    complete = [
        prefix for prefix in prefixes if all(_fits(state.get(prefix + key), expected[key]) for key in _needed(expected))
    ]
    if len(complete) > 1:
        names = ", ".join(complete)
        raise InputError(f"{where}: holds several networks of this architecture ({names}); save one alone")
    return (complete or prefixes)[0]


def _needed(expected: Mapping[str, Tensor]) -> Iterator[str]:
    return (key for key in expected if not key.endswith(_COUNTER))


def _fits(value: Tensor | None, expected: Tensor | None) -> bool:
    return value is not None and expected is not None and value.shape == expected.shape


def _check(kept: Mapping[str, Tensor], expected: Mapping[str, Tensor], whole: Mapping[str, Tensor], where: str) -> None:
    """Raises InputError unless all expected keys are there, and no other keys of the same parts of the network."""
    missing = [key for key in _needed(expected) if key not in kept]
    others = [key for key in expected if key in kept and not _fits(kept[key], expected[key])]
    parts = {key.partition(".")[0] for key in expected}
    surplus = [key for key in kept if key not in whole and key.partition(".")[0] in parts]
    faults = [f"{_named(missing)} {'is' if len(missing) == 1 else 'are'} missing"] if missing else []
    if others:
        shapes = (f"{key} has shape {tuple(kept[key].shape)}, expected {tuple(expected[key].shape)}" for key in others)
        faults.append(next(shapes) + (f", and {len(others) - 1} more have other shapes" if others[1:] else ""))
    faults += [f"it has no {_named(surplus)}"] if surplus else []
    if faults:
        raise InputError(f"{where}: not weights of this architecture: {'; '.join(faults)}")


def _named(keys: Sequence[str]) -> str:
    """The first few keys, and how many more there are."""
    more = len(keys) - _NAMED
    return ", ".join(keys[:_NAMED]) + (f" and {more} more" if more > 0 else "")
