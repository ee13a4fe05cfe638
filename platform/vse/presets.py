"""Complete run configurations by name: one per published setting, and small ones that run on a laptop.

`<family>_<source>`. A number that its paper gives is that number here; others are this project's and say so.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import vse.data
import vse.features.backbones
import vse.language.parser  # noqa: F401  (components register themselves)
from vse.config import from_dict, override
from vse.data.karpathy import Karpathy
from vse.data.scenes.source import Scenes
from vse.errors import InputError
from vse.features.small_backbone import SmallBackbone
from vse.features.torchvision_backbone import TorchvisionBackbone
from vse.language.parser import Parser
from vse.models.univse import UniVSE
from vse.models.vsepp import VSEPP
from vse.objectives.ranking import Ranking
from vse.objectives.univse import UniVSELoss
from vse.training.config import FeatureConfig, OptimConfig, RunConfig, TextConfig, TrainConfig

_PRESETS: dict[str, Callable[[], RunConfig]] = {}


def names() -> tuple[str, ...]:
    """Names of all presets, sorted."""
    return tuple(sorted(_PRESETS))


def preset(name: str) -> RunConfig:
    """The preset of that name; raises InputError that lists them."""
    if name not in _PRESETS:
        raise InputError(f"preset {name!r}: unknown; known are {', '.join(names())}")
    return _PRESETS[name]()


def from_data(data: Mapping[str, Any], where: str = "configuration") -> RunConfig:
    """A run configuration as `to_dict` wrote it. Any preset serves as the frame: the data name everything."""
    return from_dict(vsepp_tiny(), data, where)


def _preset(make: Callable[[], RunConfig]) -> Callable[[], RunConfig]:
    _PRESETS[make.__name__] = make
    return make


def small(config: RunConfig) -> RunConfig:
    """A published configuration made to run in a minute or so on two cores: sizes and schedules shrunk together.

    Dimensions fall to a quarter; the schedule keeps its shape over 12 epochs; everything else stays.
    """
    epochs = 12
    share = epochs / config.train.epochs
    changes: dict[str, object] = {
        "train.epochs": epochs,
        "optim.every": max(1, round(config.optim.every * share)),
        "model.dim": max(64, config.model.dim // 4),  # type: ignore[attr-defined]  # every family has it
    }
    return override(config, changes)


@_preset
def vsepp_coco() -> RunConfig:
    """VSE++ as published, frozen ResNet-152: 1024-d, words 300-d, Adam 2e-4 divided by ten at epoch 15 of 30."""
    return RunConfig(
        data=Karpathy.Config(file="dataset_coco.json"),
        features=FeatureConfig(backbone=TorchvisionBackbone.Config(arch="resnet152"), scale="l2"),
        text=TextConfig(parser=Parser.Config(), min_count=4),
        model=VSEPP.Config(),
        objective=Ranking.Config(),
    )


@_preset
def univse_coco() -> RunConfig:
    """UniVSE as published (§3.5, A.1-A.3): Adam 1e-3 for six epochs, then halved at each down to 1e-5.

    Ours where the paper is silent: 13 epochs (at the 13th the rate reaches its floor), margin 0.2, clip 2.0. The fixed
    GloVe vectors of A.3 are named by `text.word_vectors`.
    """
    return replace(
        vsepp_coco(),
        features=FeatureConfig(backbone=TorchvisionBackbone.Config(arch="resnet152"), scale="none"),
        model=UniVSE.Config(),
        objective=UniVSELoss.Config(),
        optim=OptimConfig(lr=1e-3, schedule="halving", every=6),
        train=TrainConfig(epochs=13),
    )


def _only(*components: str) -> RunConfig:
    """UniVSE trained with the contrastive samples of some component types only (§4.3, Table 3)."""
    weights = {"object": ("eta_o",), "attribute": ("eta_a",), "relation": ("eta_r",)}
    off = {f"objective.{eta}": 0.0 for kind, etas in weights.items() if kind not in components for eta in etas}
    return override(univse_coco(), {"model.components": components, **off})


@_preset
def univse_obj_coco() -> RunConfig:
    """UniVSE_obj of Table 3: contrastive samples of nouns only."""
    return _only("object")


@_preset
def univse_attr_coco() -> RunConfig:
    """UniVSE_attr of Table 3: contrastive samples of attribute-noun pairs only."""
    return _only("attribute")


@_preset
def univse_rel_coco() -> RunConfig:
    """UniVSE_rel of Table 3: contrastive samples of relational triples only."""
    return _only("relation")


@_preset
def vsepp_scenes() -> RunConfig:
    """VSE++ on rendered scenes with the shipped backbone; sizes and schedule are ours.

    The first half of training sums over negatives: with the hardest alone, scenes that differ in one word keep the loss
    near its collapsed value for most of a run (validation rsum 378 to 435 over rates; 450 with ten such epochs).
    """
    return RunConfig(
        data=Scenes.Config(),
        features=FeatureConfig(backbone=SmallBackbone.Config()),
        text=TextConfig(parser=Parser.Config()),
        model=VSEPP.Config(dim=256, word_dim=128),
        objective=Ranking.Config(warmup=15),
        optim=OptimConfig(lr=2e-3, schedule="cosine"),
        train=TrainConfig(epochs=30),
    )


@_preset
def vsepp_maxk_scenes() -> RunConfig:
    """Control: VSE++ with UniVSE's image side, a 1x1 convolution and max-10 pooling."""
    return override(vsepp_scenes(), {"model.image": "map"})


@_preset
def univse_scenes() -> RunConfig:
    """UniVSE on rendered scenes with the shipped backbone; sizes and schedule are ours."""
    return replace(
        vsepp_scenes(),
        model=UniVSE.Config(dim=256, basic_dim=128, modifier_dim=64),
        objective=UniVSELoss.Config(warmup=15, temperature=0.1),
    )


@_preset
def vsepp_flickr8k() -> RunConfig:
    """VSE++ on Flickr8k (or a part of it) with a MobileNetV2; sizes and schedule are ours."""
    return replace(
        vsepp_scenes(),
        data=Karpathy.Config(),
        features=FeatureConfig(backbone=TorchvisionBackbone.Config(arch="mobilenet_v2")),
        text=TextConfig(parser=Parser.Config(), min_count=2),
        model=VSEPP.Config(dim=256, word_dim=300),
        optim=OptimConfig(lr=1e-3, schedule="cosine"),
        train=TrainConfig(epochs=15),
        objective=Ranking.Config(warmup=5),
    )


@_preset
def univse_flickr8k() -> RunConfig:
    """UniVSE on Flickr8k (or a part of it) with a MobileNetV2; sizes and schedule are ours."""
    return replace(
        vsepp_flickr8k(),
        model=UniVSE.Config(dim=256, basic_dim=300),
        objective=UniVSELoss.Config(warmup=5, temperature=0.1),
    )


@_preset
def vsepp_tiny() -> RunConfig:
    """Seconds, for tests: VSE++ on 60 scenes."""
    return override(vsepp_scenes(), _TINY)


@_preset
def univse_tiny() -> RunConfig:
    """Seconds, for tests: UniVSE on 60 scenes."""
    return override(univse_scenes(), {**_TINY, "model.modifier_dim": 16, "model.basic_dim": 32})


_TINY: dict[str, object] = {
    "data.num_train": 60,
    "data.num_val": 20,
    "data.num_test": 30,
    "data.num_shifted": 30,
    "model.dim": 64,
    "train.epochs": 2,
    "objective.warmup": 1,
    "train.batch_size": 64,
}
