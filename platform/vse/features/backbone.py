"""What a backbone is: a frozen network with a transform, named outputs, and an identity that enters fingerprints."""

import pickle
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, UInt8
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from vse import named_files
from vse.errors import InputError, first_line
from vse.features.transforms import Transform

REVISION = 1  # raise it when the same backbone and weights would give other features


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Per-channel mean and standard deviation of pixels scaled to [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def check(self, where: str) -> "Normalisation":
        """Raises InputError unless there are three of each and no deviation is zero."""
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise InputError(f"{where}: mean and std need three numbers each, std above zero")
        return self


class Network(nn.Module):
    """A trunk with its normalisation: 8-bit squares in, named float features out, averaged over a picture's crops.

    The trunk maps (items, 3, size, size) to a dict of maps (items, channels, height, width) or vectors (items,
    channels); maps leave as (items, regions, channels), regions in row-major order.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, trunk: nn.Module, normalisation: Normalisation) -> None:
        super().__init__()
        self.trunk = trunk
        self.register_buffer("mean", torch.tensor(normalisation.mean).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(normalisation.std).view(1, 3, 1, 1))

    def prepare(self, device: torch.device) -> "Network":
        """Frozen, in single precision, on a device; returns itself.

        The layout is channels-last, 1.2 to 4 times faster for convolutions.
        """
        self.eval().requires_grad_(False)
        self.trunk.to(device=device, dtype=torch.float32).to(memory_format=torch.channels_last)
        self.mean, self.std = self.mean.to(device), self.std.to(device)
        return self

    @torch.inference_mode()
    def forward(self, pixels: UInt8[Tensor, "items crops size size 3"]) -> dict[str, Float[Tensor, "items ..."]]:
        """Named features in single precision, one row per picture."""
        items, crops = pixels.shape[:2]
        x = pixels.to(self.mean.device).flatten(0, 1).permute(0, 3, 1, 2)  # stays channels last in memory
        x = (x.float() / 255 - self.mean) / self.std
        features = {}
        for name, value in self.trunk(x).items():
            if value.dim() == 4:
                value = value.flatten(2).transpose(1, 2)
            value = value.unflatten(0, (items, crops))
            features[name] = value[:, 0] if crops == 1 else value.mean(1)
        return features


class Backbone(ABC):
    """Base of the components of kind "backbone".

    Making one is cheap and reads no weights; `identity` may hash a file, `load` builds the network. `config` is plain
    data, so a backbone is rebuilt in another process from it. A network has a `transform`, `shapes` and `load`; what
    reads features that others made has none of these.
    """

    config: Any  # the component's own Config
    transform: Transform

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Plain data that changes whenever the features would: architecture, weight hash, transform, revision."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Named outputs and the shape of one row of each; empty where only the files say."""
        return {}

    def load(self, outputs: Sequence[str]) -> Network:
        """The network with these outputs. Raises InputError where its weights cannot be read or do not fit."""
        raise InputError("features.backbone: reads ready-made features and has no network")

    def check(self, outputs: Sequence[str]) -> None:
        """Raises InputError that names an output it lacks, or one that its transform makes meaningless."""
        known = self.shapes()
        for name in outputs:
            if name not in known:
                raise InputError(f"output {name!r}: this backbone has {', '.join(known)}")
            if self.transform.num_crops > 1 and len(known[name]) > 1:
                raise InputError(
                    f"output {name!r}: a map has no mean over mirrored crops; "
                    "use features.backbone.transform=crop or scale"
                )


def code_of(backbone: Backbone) -> str:
    """Eight digits over the file that a backbone is written in."""
    file = sys.modules[type(backbone).__module__].__file__
    assert file is not None
    return named_files.digest(file)[:8]


def read_state_dict(address: str) -> dict[str, Tensor]:
    """Tensors of a weights file (.safetensors, or what torch.load(weights_only=True) accepts), by path or address.

    Raises InputError where there is none, or where it holds anything but tensors by name; nothing in it is executed.
    """
    path = named_files.local(address)
    if not path.is_file():
        raise InputError(f"{address}: no such weights file")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Detected pickle protocol")  # the refusal below says enough
            state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, SafetensorError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        reason = first_line(error)
        if isinstance(error, pickle.UnpicklingError):  # torch's own advice is to trust the file
            reason = "it holds more than tensors, and a pickle may run code; expected a state dict or .safetensors"
        raise InputError(f"{address}: not a file of weights that can be read safely ({reason[:120]})") from None
    if not isinstance(state, Mapping) or not all(isinstance(v, Tensor) for v in state.values()):
        raise InputError(f"{address}: expected tensors by name (a state dict), got {type(state).__name__}")
    return dict(state)


def load_weights(module: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Put weights into a module built on the meta device, in single precision.

    Raises InputError naming the first key that is missing, surplus, or of another shape.
    """
    state = dict(state)
    for key, expected in module.state_dict().items():
        if key.endswith("num_batches_tracked"):
            state.setdefault(key, torch.zeros((), dtype=torch.int64))  # older files lack it and inference ignores it
        if key not in state:
            raise InputError(f"{where}: not weights of this architecture, {key} is missing")
        if state[key].shape != expected.shape:
            found, wanted = tuple(state[key].shape), tuple(expected.shape)
            raise InputError(f"{where}: not weights of this architecture, {key} has shape {found}, expected {wanted}")
    surplus = [key for key in state if key not in module.state_dict()]
    if surplus:
        raise InputError(f"{where}: not weights of this architecture, it has no {surplus[0]}")
    module.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in state.items()}, assign=True)
