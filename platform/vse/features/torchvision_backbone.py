"""Classification networks of torchvision as backbones: resnet152, vgg19, mobilenet_v2 and their relatives."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from vse.config import knob
from vse.errors import InputError
from vse.features.backbone import REVISION, Backbone, Network, Normalisation, once_in_a_process
from vse.features.gradient_checkpointing import blocks_of
from vse.features.transforms import NAMES, Transform
from vse.registry import ComponentConfig, register
from vse.storage import user_files as named_files
from vse.storage.weights import load_weights, read_weights

# torchvision takes a second to import, and a run on the small backbone never needs it: it is imported where it is used.

IMAGENET = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
FAMILIES = ("alexnet", "convnext", "densenet", "efficientnet", "mnasnet", "mobilenet", "resnet", "resnext")
FAMILIES += ("shufflenet", "squeezenet", "vgg", "wide_resnet")


class _Trunk(nn.Module):
    """The nodes of a network that lead to the outputs, and the mean over its map."""

    def __init__(self, extractor: nn.Module, outputs: Sequence[str], activation: bool) -> None:
        super().__init__()
        self.extractor, self.outputs, self.activation = extractor, tuple(outputs), activation

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        features = self.extractor(x)
        if "map" in features:
            # DenseNet's last normalisation is followed by a ReLU that is no module
            grid = features["map"].relu() if self.activation else features["map"]
            features = {**features, "map": grid, "pooled": grid.mean((2, 3))}
        return {name: features[name] for name in self.outputs}


@register("backbone", "torchvision")
class TorchvisionBackbone(Backbone):
    """Outputs: `map` (regions, channels) of the last convolution, `pooled` (channels) its mean; and `fc1`, `fc2`
    (4096), the rectified hidden layers of AlexNet and VGG (jWAE, section 5.1, reads VGG-19's first)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """`resize`, `mean` and `std` default to what the published weights were trained with."""

        unknown_name_key: ClassVar[tuple[str, str] | None] = ("arch", "a network goes by")

        arch: str = knob("resnet152", "name of a torchvision classification network")
        weights: str = knob(
            "default", "default, a name of published weights, a state-dict file (path or s3://), or random"
        )
        transform: str = knob(
            "crop", "crop, scale (whole picture, thesis), or the mean over ten_crop or crop_and_scale", choices=NAMES
        )
        size: int = knob(224, "side of the square the network reads, in pixels", low=32)
        resize: int | None = knob(None, "shorter side before the crop; default as published or 256/224 of size", low=1)
        mean: tuple[float, ...] | None = knob(None, "per-channel mean of pixels in [0, 1]; default as published")
        std: tuple[float, ...] | None = knob(None, "per-channel standard deviation; default as published", above=0)
        seed: int = knob(0, "seed of random weights", low=0, only="weights=random")

    def __init__(self, config: Config) -> None:
        self.config = config
        if not config.arch.startswith(FAMILIES) or config.arch not in _architectures():
            raise InputError(
                f"features.backbone.arch={config.arch}: expected a torchvision network of {', '.join(FAMILIES)}"
            )
        preset = self._published.transforms() if self._published else None
        as_published = preset is not None and preset.crop_size[0] == config.size
        published = preset.resize_size[0] if preset is not None and as_published else round(config.size * 256 / 224)
        resize = config.resize or published
        if config.transform != "scale" and resize < config.size:
            raise InputError(
                f"features.backbone.resize={resize}: must be at least features.backbone.size={config.size}"
            )
        interpolation = preset.interpolation.value if preset is not None else "bilinear"
        self.transform = Transform(name=config.transform, size=config.size, resize=resize, interpolation=interpolation)
        trained = Normalisation(tuple(preset.mean), tuple(preset.std)) if preset is not None else IMAGENET
        normalisation = Normalisation(config.mean or trained.mean, config.std or trained.std)
        self.normalisation = normalisation.check(f"backbone of {config.arch}")

    @cached_property
    def _published(self) -> Any:
        """The published weights of the configuration; None for a file or random weights."""
        from torchvision import models

        published: Any = models.get_model_weights(self.config.arch)
        if self.config.weights == "default":
            return published.DEFAULT
        if self.config.weights in published.__members__:
            return published[self.config.weights]
        if self.config.weights == "random" or named_files.is_file(self.config.weights):
            return None
        choices = ", ".join(published.__members__)
        raise InputError(
            f"features.backbone.weights={self.config.weights}: no such file, nor one of default, random, {choices}"
        )

    def identity(self) -> dict[str, Any]:
        """Published weights are named by their address, which carries their hash; a file by its SHA-256."""
        if self._published:
            weights = self._published.url.rsplit("/", 1)[-1]
        elif self.config.weights == "random":
            weights = f"random-{self.config.seed}"
        else:
            weights = named_files.digest(self.config.weights)
        return {
            "backbone": "torchvision",
            "arch": self.config.arch,
            "weights": weights,
            "transform": asdict(self.transform),
            "normalisation": asdict(self.normalisation),
            "revision": REVISION,
        }

    @once_in_a_process
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Computed by a forward pass on the meta device."""
        model = _empty(self.config.arch)
        trunk = self._trunk(model, ("map", "pooled", *_hidden(model)))
        with torch.device("meta"):
            rows = trunk(torch.empty(1, 3, self.config.size, self.config.size))
        return {
            k: tuple(v.flatten(2).transpose(1, 2).shape[1:] if v.dim() == 4 else v.shape[1:]) for k, v in rows.items()
        }

    def load(self, outputs: Sequence[str]) -> Network:
        """Downloads published weights unless torch has a copy; raises InputError if that fails."""
        from torchvision import models

        self.check(outputs)
        if self.config.weights == "random":
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.config.seed)
                model = models.get_model(self.config.arch, weights=None)
            return Network(self._trunk(model.eval(), outputs), self.normalisation)
        model = _empty(self.config.arch)
        trunk = self._trunk(model, outputs)
        content = self._download() if self._published else read_weights(self.config.weights)
        load_weights(trunk.extractor, content, self.config.weights, model.state_dict())
        return Network(trunk, self.normalisation)

    def _download(self) -> dict[str, Tensor]:
        try:
            return dict(self._published.get_state_dict(progress=False, check_hash=True, weights_only=True))
        except OSError as error:  # urllib's errors are OSErrors
            raise InputError(
                f"features.backbone.weights={self.config.weights}: cannot be downloaded ({error}); "
                "give a local state-dict file"
            ) from None

    def _trunk(self, model: nn.Module, outputs: Sequence[str]) -> _Trunk:
        from torchvision.models.feature_extraction import create_feature_extractor

        hidden = _hidden(model)
        nodes = {hidden[name]: name for name in outputs if name in hidden}
        if "map" in outputs or "pooled" in outputs:
            nodes[_map_node(model, self.config.size, self.config.arch)] = "map"
        with warnings.catch_warnings():
            # the two traces are compared by torchvision, and dropout outside of training differs by design
            warnings.filterwarnings("ignore", message="NOTE: The nodes obtained by tracing")
            # blocks stay modules, so that gradient checkpointing finds them
            blocks = {"leaf_modules": list({type(block) for block in blocks_of(model)})}
            extractor = create_feature_extractor(model, return_nodes=nodes, tracer_kwargs=blocks)
        return _Trunk(extractor, outputs, self.config.arch.startswith("densenet"))


def _architectures() -> list[str]:
    from torchvision import models

    return models.list_models(module=models)


def _empty(arch: str) -> nn.Module:
    """The network without storage for its weights."""
    from torchvision import models

    with torch.device("meta"):
        return models.get_model(arch, weights=None).eval()


def _hidden(model: nn.Module) -> dict[str, str]:
    """Output name -> node of the rectified hidden layers of a classifier with several 4096-wide ones (AlexNet, VGG)."""
    classifier = model.get_submodule("classifier") if hasattr(model, "classifier") else nn.Identity()
    wide = isinstance(classifier, nn.Sequential) and sum(isinstance(m, nn.Linear) for m in classifier) == 3
    if not wide:
        return {}
    assert isinstance(classifier, nn.Sequential)
    rectified = [k for k, m in enumerate(classifier) if isinstance(m, nn.ReLU)]
    return {f"fc{n}": f"classifier.{k}" for n, k in enumerate(rectified, start=1)}


def _map_node(model: nn.Module, size: int, arch: str) -> str:
    """The last stage whose output still has a grid of cells, pooling and classifier apart."""
    seen: list[str] = []

    def note(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.dim() == 4 and min(output.shape[2:]) > 1:
                seen.append(name)

        return hook

    stages = [(n, m) for n, m in model.named_children() if n not in ("avgpool", "classifier", "fc")]
    probe = _empty(arch)
    hooks = [probe.get_submodule(name).register_forward_hook(note(name)) for name, _ in stages]
    probe(torch.empty(1, 3, size, size, device="meta"))
    for hook in hooks:
        hook.remove()
    if not seen:
        raise InputError(
            f"features.backbone.arch={arch}: its last convolution leaves no grid at {size} pixels; "
            "raise features.backbone.size"
        )
    return seen[-1]
