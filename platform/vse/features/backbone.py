"""The base of backbones: frozen networks with a transform, named outputs, and an identity for fingerprints."""

import functools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from vse.errors import InputError
from vse.features.transforms import Transform
from vse.storage import user_files as named_files

PRECISIONS = ("float32", "bfloat16", "float16")
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

    def prepare(self, device: torch.device, precision: str = "float32") -> "Network":
        """Frozen, in one of PRECISIONS, on a device; returns itself.

        The layout is channels-last, 1.2 to 4 times faster for convolutions.
        """
        self.eval().requires_grad_(False)
        self.dtype: torch.dtype = getattr(torch, precision)
        self.trunk.to(device=device, dtype=self.dtype).to(memory_format=torch.channels_last)
        self.mean, self.std = self.mean.to(device), self.std.to(device)
        return self

    @torch.inference_mode()
    def forward(self, pixels: UInt8[Tensor, "items crops size size 3"]) -> dict[str, Float[Tensor, "items ..."]]:
        """Named features in single precision, one row per picture.

        Normalisation and the mean over crops are in single precision, whatever the trunk computes in, or in double
        precision with it.
        """
        return self.differentiable(pixels)

    def differentiable(
        self, pixels: UInt8[Tensor, "items crops size size 3"] | Float[Tensor, "items crops size size 3"]
    ) -> dict[str, Float[Tensor, "items ..."]]:
        """As `forward`, with a gradient to pixels that are floats (0 to 255) and require one."""
        items, crops = pixels.shape[:2]
        x = pixels.to(self.mean.device).flatten(0, 1).permute(0, 3, 1, 2)  # stays channels last in memory
        wide = torch.promote_types(self.dtype, torch.float32)
        x = (x.to(wide) / 255 - self.mean) / self.std
        features = {}
        for name, value in self.trunk(x.to(self.dtype)).items():
            value = value.to(wide)
            if value.dim() == 4:
                value = value.flatten(2).transpose(1, 2)
            value = value.unflatten(0, (items, crops))
            features[name] = value[:, 0] if crops == 1 else value.mean(1)
        return features


class Backbone(ABC):
    """Base of the components of kind "backbone".

    Construction is cheap and reads no weights; `identity` may hash a file, `load` builds the network. `config` is plain
    data, so another process can rebuild the backbone from it. A network has a `transform`, `shapes` and `load`; a
    reader of ready-made features has none of these.
    """

    config: Any  # the component's own Config
    transform: Transform

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Plain data that changes whenever the features change: architecture, weight hash, transform, revision."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of one row by output; empty if only files define it."""
        return {}

    def load(self, outputs: Sequence[str]) -> Network:
        """The network with these outputs. Raises InputError if its weights cannot be read or do not fit."""
        raise InputError("features.backbone: reads ready-made features and has no network")

    def check(self, outputs: Sequence[str]) -> None:
        """Raises InputError for an output that it lacks, or that its transform makes meaningless."""
        shapes = self.shapes()
        for name in outputs:
            if name not in shapes:
                raise InputError(f"output {name!r}: this backbone has {', '.join(shapes)}")
            if self.transform.num_crops > 1 and len(shapes[name]) > 1:
                raise InputError(
                    f"output {name!r}: a map has no mean over mirrored crops; "
                    "use features.backbone.transform=crop or scale"
                )


def once_in_a_process(
    shapes: Callable[[Any], dict[str, tuple[int, ...]]],
) -> Callable[[Any], dict[str, tuple[int, ...]]]:
    """Decorates `Backbone.shapes`: a forward pass for each configuration, not for each of a job's many runs."""
    known = dict[tuple[type, Any], dict[str, tuple[int, ...]]]()

    @functools.wraps(shapes)
    def kept(self: Backbone) -> dict[str, tuple[int, ...]]:
        key = type(self), self.config
        if key not in known:
            known[key] = shapes(self)
        return dict(known[key])

    return kept


def code_of(backbone: Backbone) -> str:
    """Eight digits over the source file of a backbone."""
    file = sys.modules[type(backbone).__module__].__file__
    assert file is not None
    return named_files.digest(file)[:8]
