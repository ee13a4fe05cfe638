"""The shipped small backbone: a plain convolutional network, trained on object labels of rendered scenes.

112 pixels become a 7×7 map of 128 channels. `jobs/pretrain_backbone.py` makes the weights: scenes of the split
`pretrain` (no split of any experiment shares its seeds), drawn in the plain style only, without captions. Shipped
weights have their batch normalisation folded into the convolutions.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vse.config import knob
from vse.errors import InputError
from vse.features.backbone import REVISION, Backbone, Network, Normalisation
from vse.features.transforms import Transform
from vse.registry import ComponentConfig, register
from vse.storage import user_files as named_files
from vse.storage.weights import load_weights, read_weights

SHIPPED = Path(__file__).with_name("small_backbone.safetensors")
SIZE = 112
STRIDE = 16
LAYERS = ((24, 4, 2), (64, 4, 2), (96, 4, 2), (96, 3, 1), (128, 4, 2), (128, 3, 1))  # channels, kernel, stride
CHANNELS = LAYERS[-1][0]
NORMALISATION = Normalisation((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def convolutions(*, normalised: bool) -> nn.Sequential:
    """The layers of `LAYERS`, each rectified, with batch normalisation before that while training.

    Kernels of even width keep the cells of the map centred on their squares of the picture.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    channels = 3
    for number, (width, kernel, stride) in enumerate(LAYERS, start=1):
        layers[f"conv{number}"] = nn.Conv2d(channels, width, kernel, stride, padding=1, bias=not normalised)
        if normalised:
            layers[f"norm{number}"] = nn.BatchNorm2d(width)
        layers[f"relu{number}"] = nn.ReLU(inplace=True)
        channels = width
    return nn.Sequential(layers)


def fold(trained: nn.Sequential) -> dict[str, Tensor]:
    """Weights for `convolutions(normalised=False)` that compute what the trained network does in evaluation."""
    state = {}
    modules = dict(trained.named_children())
    for name, conv in modules.items():
        if isinstance(conv, nn.Conv2d):
            norm = modules[name.replace("conv", "norm")]
            assert isinstance(norm, nn.BatchNorm2d)
            assert norm.running_mean is not None
            assert norm.running_var is not None
            scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
            state[f"{name}.weight"] = (conv.weight * scale[:, None, None, None]).detach()
            state[f"{name}.bias"] = (norm.bias - norm.running_mean * scale).detach()
    return state


class _Trunk(nn.Module):
    def __init__(self, layers: nn.Sequential, outputs: Sequence[str]) -> None:
        super().__init__()
        self.layers, self.outputs = layers, tuple(outputs)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        grid = self.layers(x)
        features = {"map": grid, "pooled": grid.mean((2, 3))}
        return {name: features[name] for name in self.outputs}


@register("backbone", "small")
class SmallBackbone(Backbone):
    """Outputs: `map` (49, 128) and `pooled` (128), its mean."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """`random` weights are a control: an untrained network."""

        weights: str = knob("shipped", "shipped, random, or a weights file of this architecture (path or s3://)")
        seed: int = knob(0, "seed of random weights", low=0, only="weights=random")

    def __init__(self, config: Config) -> None:
        self.config = config
        self.transform = Transform(name="scale", size=SIZE, resize=SIZE)
        if config.weights not in ("shipped", "random") and not named_files.is_file(config.weights):
            raise InputError(f"features.backbone.weights={config.weights}: no such file, nor shipped or random")

    @cached_property
    def _file(self) -> str | None:
        return {"shipped": str(SHIPPED), "random": None}.get(self.config.weights, self.config.weights)

    def identity(self) -> dict[str, Any]:
        """Names the weights by their SHA-256."""
        return {
            "backbone": "small",
            "weights": f"random-{self.config.seed}" if self._file is None else named_files.digest(self._file),
            "transform": asdict(self.transform),
            "normalisation": asdict(NORMALISATION),
            "revision": REVISION,
        }

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Fixed by the architecture."""
        return {"map": ((SIZE // STRIDE) ** 2, CHANNELS), "pooled": (CHANNELS,)}

    def load(self, outputs: Sequence[str]) -> Network:
        """Raises InputError if a weights file does not fit."""
        self.check(outputs)
        if self._file is None:
            layers = _random(self.config.seed)
        else:
            with torch.device("meta"):
                layers = convolutions(normalised=False)
            load_weights(layers, read_weights(self._file), self.config.weights)
        return Network(_Trunk(layers, outputs), NORMALISATION)


def _random(seed: int) -> nn.Sequential:
    """He's initialisation, which keeps the scale of rectified maps from layer to layer."""
    layers = convolutions(normalised=False)
    generator = torch.Generator().manual_seed(seed)
    for module in layers:
        if isinstance(module, nn.Conv2d):
            assert module.bias is not None
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(module.bias)
    return layers
