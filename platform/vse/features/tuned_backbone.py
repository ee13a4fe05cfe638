"""A backbone with the weights of a fine-tuned run, in place of its first weights."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from vse import registry
from vse.config import knob, part, to_dict
from vse.errors import InputError
from vse.features.backbone import REVISION, Backbone, Network
from vse.features.small_backbone import SmallBackbone
from vse.registry import ComponentConfig, register
from vse.storage import user_files as named_files
from vse.storage.weights import read_weights

FILE = "backbone.safetensors"  # in a checkpoint


@register("backbone", "tuned")
class TunedBackbone(Backbone):
    """Outputs and transform are those of the backbone that was trained, `of`."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        weights: str = knob("", "backbone.safetensors of a checkpoint (path or s3://)")
        of: ComponentConfig = part("backbone", default=SmallBackbone.Config(), doc="the network that was trained")

    def __init__(self, config: Config) -> None:
        self.config = config
        if not named_files.is_file(config.weights):
            raise InputError(
                f"features.backbone.weights={config.weights}: no such file; name {FILE} of a fine-tuned checkpoint"
            )
        self.of: Backbone = registry.build("backbone", config.of)
        if not hasattr(self.of, "transform"):
            raise InputError(f"features.backbone.of={registry.name_of('backbone', config.of)}: has no network")
        self.transform = self.of.transform

    def identity(self) -> dict[str, Any]:
        """Names the weights by their SHA-256, regardless of the initial weights of the training."""
        return {
            "backbone": "tuned",
            "of": to_dict(self.config.of) | {"name": registry.name_of("backbone", self.config.of)},
            "weights": named_files.digest(self.config.weights),
            "transform": asdict(self.transform),
            "revision": REVISION,
        }

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """As of the backbone that was trained."""
        return self.of.shapes()

    def load(self, outputs: Sequence[str]) -> Network:
        """The network with these outputs. Its first weights are not read: all of them are replaced.

        Raises InputError if the file cannot be read or does not fit.
        """
        self.check(outputs)
        blank: Backbone = registry.build("backbone", untrained(self.config.of))
        network = blank.load(outputs)
        fill(network, read_weights(self.config.weights), self.config.weights)
        return network


def tuned(config: ComponentConfig, weights: str) -> TunedBackbone.Config:
    """The backbone `config` with tuned weights.

    A weights file of the user is left out of it, because it may be on another machine by now. Published weights stay
    named, because the transform may follow from them.
    """
    if isinstance(config, TunedBackbone.Config):
        return replace(config, weights=weights)
    own = getattr(config, "weights", "")
    return TunedBackbone.Config(weights=weights, of=untrained(config) if named_files.is_file(own) else config)


def untrained(config: ComponentConfig) -> ComponentConfig:
    """The same network with random weights."""
    if isinstance(config, TunedBackbone.Config):
        return untrained(config.of)
    # pyrefly: ignore[unexpected-keyword]  # every backbone with a network has this key
    return replace(config, weights="random")


def fill(network: Network, content: Any, where: str) -> None:
    """Put tuned weights into a network, in place.

    Args:
        network: a network of the same backbone.
        content: mapping of names to tensors, as of its `state_dict`.
        where: the file of the weights, for messages.

    Raises:
        InputError: naming the first key that does not fit.
    """
    own = network.state_dict()
    for key in sorted(own.keys() ^ content.keys()):
        raise InputError(f"{where}: {key} is {'missing' if key in own else 'unknown'}; another network wrote it")
    for key, value in own.items():
        if content[key].shape != value.shape:
            raise InputError(
                f"{where}: {key} has shape {tuple(content[key].shape)}, expected {tuple(value.shape)}; another network "
                "wrote it"
            )
    network.load_state_dict(content)
