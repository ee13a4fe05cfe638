"""Low-rank adapters (LoRA; Hu et al., 2022) of a backbone: trained in place of its weights, which stay as they are."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from vse.errors import InputError
from vse.storage.hub import optional_package

_PART, _BASE, _NAME = ".lora_", ".base_layer.", "default"  # of names of weights, as peft chooses them


def add_adapters(network: nn.Module, rank: int, alpha: float, seed: int) -> int:
    """Add adapters to the linear layers of a network, in place, so that they are its only trainable parameters.

    A layer with weights W (out, in) then computes with W + (alpha / rank) B A, with B (out, rank) zero at first and A
    (rank, in) random. The fused query-key-value weights of `nn.MultiheadAttention` (open_clip) are not adapted.

    Args:
        network: its own weights are frozen.
        rank: of the adapters, at least 1.
        alpha: their scale, before it is divided by the rank.
        seed: of A. The global random state does not change.

    Returns:
        The number of adapted layers.

    Raises:
        InputError: peft is not installed, or the network has no linear layer.
    """
    layers = check_adapted(network, rank)
    from peft import LoraConfig, inject_adapter_in_model

    # pyrefly: ignore[bad-argument-type]  # a float is as good
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=layers)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, network)
    return len(layers)


def check_adapted(network: nn.Module, rank: int) -> list[str]:
    """The names of the linear layers that adapters are added to.

    Raises:
        InputError: peft is not installed, or the network has no linear layer.
    """
    optional_package("peft", f"train.lora_rank={rank}", extra="lora")
    attention = tuple(f"{name}." for name, m in network.named_modules() if isinstance(m, nn.MultiheadAttention))
    layers = [
        name
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith(attention)
    ]
    if not layers:
        raise InputError(
            f"train.lora_rank={rank}: this backbone has no linear layers to adapt; use train.lora_rank=0, which trains "
            "all its weights"
        )
    return layers


def is_adapter(name: str) -> bool:
    """Whether the weights of this name belong to an adapter."""
    return _PART in name


def adapter_state(network: nn.Module) -> dict[str, Tensor]:
    """The adapters' weights by name."""
    return {name: value for name, value in network.state_dict().items() if is_adapter(name)}


def merged_state(network: nn.Module) -> dict[str, Tensor]:
    """The weights of the network without adapters that computes the same, up to rounding."""
    state = {name.replace(_BASE, "."): v for name, v in network.state_dict().items() if not is_adapter(name)}
    for name, module in network.named_modules():
        difference: Any = getattr(module, "get_delta_weight", None)
        if difference is not None:
            state[f"{name}.weight"] = state[f"{name}.weight"] + difference(_NAME).detach()
    return state


def load_adapters(network: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Set the adapters' weights.

    Args:
        network: with adapters.
        state: the result of `adapter_state` of an equal network.
        where: the file of the weights, for errors.

    Raises:
        InputError: a key is missing, unknown or of another shape; the first one is named.
    """
    own = adapter_state(network)
    for key in sorted(own.keys() ^ state.keys()):
        raise InputError(f"{where}: {key} is {'missing' if key in own else 'unknown'}; another network wrote it")
    for key, value in own.items():
        if state[key].shape != value.shape:
            raise InputError(f"{where}: {key} has shape {tuple(state[key].shape)}, expected {tuple(value.shape)}")
    network.load_state_dict(dict(state), strict=False)
