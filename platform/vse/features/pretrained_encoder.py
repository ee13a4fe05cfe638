"""The base of backbones from libraries of pretrained networks: settings, transform, identity, random weights.

A network is built by its library and filled by `load`. Its own transform and normalisation apply unless the
configuration replaces them, and both are part of the identity, as is the digest of the weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import floor, isqrt
from typing import Any

import torch
from torch import Tensor, nn

from vse import registry
from vse.config import fingerprint, knob
from vse.errors import InputError
from vse.features.backbone import REVISION, Backbone, Network, Normalisation, once_in_a_process
from vse.features.transforms import FILTERS, NAMES, Transform
from vse.registry import ComponentConfig
from vse.storage import user_files as named_files


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderConfig(ComponentConfig):
    """The keys that all of them have; a default of none means as published with the network."""

    weights: str = knob("default", "default: as published; a weights file (path or s3://); or random")
    transform: str | None = knob(None, "crop, scale, ten_crop or crop_and_scale; default as published")
    size: int | None = knob(None, "side of the square the network reads, in pixels; default as published", low=8)
    resize: int | None = knob(None, "shorter side before the crop; default as published", low=1)
    mean: tuple[float, ...] | None = knob(None, "per-channel mean of pixels in [0, 1]; default as published")
    std: tuple[float, ...] | None = knob(None, "per-channel standard deviation; default as published", above=0)
    seed: int = knob(0, "seed of random weights", low=0, only="weights=random")


@dataclass(frozen=True, kw_only=True, slots=True)
class Preprocessing:
    """The published transform of a network.

    Attributes:
        mode: crop, scale, or another name that only a message shows.
        size: side of the square in pixels.
        share: size / shorter side before the crop.
        interpolation: of FILTERS.
        normalisation: of pixels.
    """

    mode: str
    size: int
    share: float
    interpolation: str
    normalisation: Normalisation


def grid_tokens(tokens: Tensor, prefix: int) -> Tensor | None:
    """Tokens (items, tokens, channels) without their prefix, or None if the rest is no square of at least 2 x 2."""
    side = isqrt(max(0, tokens.shape[1] - prefix))
    return tokens[:, prefix:] if side > 1 and side * side == tokens.shape[1] - prefix else None


class EncoderTrunk(nn.Module, ABC):
    """Base of the trunks: computes the requested outputs."""

    def __init__(self, outputs: Sequence[str]) -> None:
        super().__init__()
        self.outputs = tuple(outputs)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """The outputs by name; outputs that the network lacks are omitted."""
        features = self.features(x)
        return {name: features[name] for name in self.outputs if name in features}

    @abstractmethod
    def features(self, x: Tensor) -> dict[str, Tensor]:
        """`pooled` (items, channels), and `map`, as (items, channels, height, width) or (items, regions, channels)."""


class PretrainedEncoder(Backbone):
    """Outputs: `map` (regions, channels), patch tokens or last convolution, and `pooled` (channels), the vector of the
    whole image as the network itself pools it."""

    def __init__(self, config: Any) -> None:
        self.config, self.name = config, registry.name_of("backbone", config)
        weights, names = config.weights, self._published_names()
        if weights not in ("default", "random", *names) and not named_files.is_file(weights):
            others = "".join(f", {name}" for name in names)
            raise InputError(f"features.backbone.weights={weights}: no such file, nor one of default, random{others}")
        published = self._preprocessing()
        self.transform = self._transform(published)
        chosen = Normalisation(config.mean or published.normalisation.mean, config.std or published.normalisation.std)
        self.normalisation = chosen.check(f"backbone {self.name}")

    def _transform(self, published: Preprocessing) -> Transform:
        name, size = self.config.transform or published.mode, self.config.size or published.size
        if name not in NAMES:
            expected = f"expected one of {', '.join(NAMES)}"
            if self.config.transform is None:
                expected = f"the published one of this network cannot be reproduced; choose one of {', '.join(NAMES)}"
            raise InputError(f"features.backbone.transform={name}: {expected}")
        if published.interpolation not in FILTERS:
            raise InputError(f"backbone {self.name}: its interpolation {published.interpolation} is not supported")
        resize = self.config.resize or (size if name == "scale" else floor(size / published.share))
        if name != "scale" and resize < size:
            raise InputError(f"features.backbone.resize={resize}: must be at least features.backbone.size={size}")
        return Transform(name=name, size=size, resize=resize, interpolation=published.interpolation)

    @property
    def key(self) -> str:
        """The setting that messages about the network name."""
        return f"features.backbone.arch={getattr(self.config, 'arch', '')}"

    def _published_names(self) -> Sequence[str]:
        """Names of several published weights of the network, besides `default`."""
        return ()

    @abstractmethod
    def _preprocessing(self) -> Preprocessing:
        """The published transform. Raises InputError for a network that the library does not have."""

    @abstractmethod
    def _published_files(self) -> list[str]:
        """Paths of the published weights on this machine, downloaded if necessary."""

    @abstractmethod
    def _network(self) -> Any:
        """Plain data that names the network: its architecture and arguments."""

    @abstractmethod
    def _build(self, outputs: Sequence[str]) -> EncoderTrunk:
        """The trunk with untrained weights."""

    @abstractmethod
    def _filled(self, outputs: Sequence[str], files: Sequence[str]) -> EncoderTrunk:
        """The trunk with the content of weights files. Raises InputError if they do not fit."""

    @cached_property
    def _files(self) -> list[str]:
        """Weights files; none for random weights."""
        if self.config.weights == "random":
            return []
        return [self.config.weights] if named_files.is_file(self.config.weights) else self._published_files()

    def identity(self) -> dict[str, Any]:
        """Names the weights by their SHA-256, whatever they are called; downloads published ones."""
        digests = [named_files.digest(file) for file in self._files]
        several = digests[0] if len(digests) == 1 else fingerprint(digests)
        return {
            "backbone": self.name,
            "network": self._network(),
            "weights": several if digests else f"random-{self.config.seed}",
            "transform": asdict(self.transform),
            "normalisation": asdict(self.normalisation),
            "revision": REVISION,
        }

    @once_in_a_process
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Computed by a forward pass on the meta device."""
        side = self.transform.size
        with torch.device("meta"), torch.inference_mode():
            trunk = self._build(("map", "pooled")).eval()
            try:
                rows = trunk(torch.empty(1, 3, side, side))
            except (RuntimeError, ValueError, AssertionError) as error:
                reason = str(error).partition("\n")[0][:160]
                raise InputError(f"{self.key}: does not read squares of {side} pixels ({reason})") from None
        return {
            k: tuple(v.flatten(2).transpose(1, 2).shape[1:] if v.dim() == 4 else v.shape[1:]) for k, v in rows.items()
        }

    def load(self, outputs: Sequence[str]) -> Network:
        """The network with these outputs. Raises InputError if its weights cannot be read or do not fit."""
        self.check(outputs)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            trunk = self._filled(outputs, self._files) if self._files else self._build(outputs)
        return Network(trunk.eval(), self.normalisation)
