"""The catalogue of complete run configurations: by name, from data, and shrunk by one transform.

`<system>_<data set>`. A number that its paper gives is that number in the preset; others are this project's and say so.
In one thing all depart from papers and public codes, which take every other pair of a batch for a negative: captions of
the same image or text are not negatives (`objective.mask=none` is as published).
"""

import difflib
import functools
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

from vse import registry
from vse.config import flatten, from_dict, override
from vse.data.sources.karpathy import Karpathy
from vse.data.sources.scenes import Scenes
from vse.errors import LISTED, PRESET, Hint, UnknownError
from vse.features.small_backbone import SmallBackbone
from vse.features.torchvision_backbone import TorchvisionBackbone
from vse.registry import ComponentConfig
from vse.training.config import FeatureConfig, RunConfig, TextConfig
from vse.training.inputs import OWN_CAPTIONS

Changes = Mapping[str, object]
Make = Callable[[], RunConfig]

FLICKR30K: Changes = {"data.file": "dataset_flickr30k.json"}
WORD_STATES: Changes = {  # of `text.encoder.model`
    "text.sentence": "states",
    "text.encoder": "transformers",
    "text.word_vectors": "",
}
DROPOUT = 0.5  # on photographs
_PRESETS: "dict[str, functools._lru_cache_wrapper[RunConfig]]" = {}
_SMALLEST = {"model.dim": 64}  # other sizes do not fall below 32


def _add(name: str, make: Callable[[], RunConfig]) -> None:
    assert name not in _PRESETS, f"preset {name!r} is taken"
    _PRESETS[name] = functools.cache(make)  # configurations are immutable


def register_preset(
    *twins: str, flickr30k: Changes = FLICKR30K, flickr8k: Changes = MappingProxyType({})
) -> Callable[[Make], Make]:
    """Decorator: registers a preset under the name of the function, and the same system on other data.

    Args:
        *twins: full names of presets that follow from this one, so that a text search for any name ends at its
            definition. `<system>_scenes` trains on rendered scenes (`on_scenes`), `<system>_small` on a few of them
            (`on_few_scenes` of the preset `<system>_scenes`), `<system>_flickr8k` on Flickr8k (`on_photographs`), and
            `<system>_flickr30k` on Flickr30k.
        flickr30k: keys in which `<system>_flickr30k` differs from this preset.
        flickr8k: keys in which `<system>_flickr8k` differs from what `on_photographs` makes of this preset.
    """

    def decorate(make: Make) -> Make:
        _add(make.__name__, make)
        for name in twins:
            system, _, data = name.rpartition("_")
            makers: dict[str, Make] = {
                "scenes": lambda: on_scenes(make()),
                "small": lambda system=system: on_few_scenes(preset(f"{system}_scenes")),
                "flickr8k": lambda: override(on_photographs(make()), flickr8k),
                "flickr30k": lambda: override(make(), flickr30k),
            }
            _add(name, makers[data])
        return make

    return decorate


def ablates(system: str, *names: str) -> Callable[[Callable[[], Changes]], Callable[[], Changes]]:
    """Decorator: the function returns the keys in which some presets differ from those of another system.

    Args:
        system: the system they differ from. Each preset is made from the one for the same data: `vse_coco` from
            `vsepp_coco`, and `vse_small` from `vse_scenes`.
        *names: of the presets.
    """

    def decorate(make: Callable[[], Changes]) -> Callable[[], Changes]:
        for name in names:
            ablated, _, data = name.rpartition("_")
            if data == "small":
                _add(name, lambda scenes=f"{ablated}_scenes": on_few_scenes(preset(scenes)))
            else:
                _add(name, lambda whole=f"{system}_{data}": override(preset(whole), make()))
        return make

    return decorate


def names() -> tuple[str, ...]:
    """Names of all presets, sorted, those of other installed packages included."""
    registry.load_extensions("preset")
    return tuple(sorted(_PRESETS))


def preset(name: str) -> RunConfig:
    """The preset of that name. Raises UnknownError with the most similar names."""
    if name not in _PRESETS:
        registry.check_extension("preset", name)
    if name in _PRESETS:
        return _PRESETS[name]()
    near = [Hint(each, {PRESET: each}) for each in difflib.get_close_matches(name, names(), n=2 * LISTED)]
    every = f"--help lists all {len(names())}"
    raise UnknownError(PRESET, f"preset {name!r}: unknown", near, every, always=True, most=LISTED)


def from_data(data: Mapping[str, Any], where: str = "configuration") -> RunConfig:
    """A run configuration as `to_dict` wrote it. Any preset can be the base, because the data have every key."""
    return from_dict(_PRESETS["vsepp_tiny"](), data, where)


def small(config: RunConfig, epochs: int = 12) -> RunConfig:
    """A published configuration made to run in a minute or so on two cores: sizes and schedules shrunk together.

    Dimensions (`model.…dim`) fall to a quarter; the schedule keeps its shape over `epochs`; everything else stays.
    """
    share = epochs / config.train.epochs
    changes: dict[str, object] = {
        "train.epochs": epochs,
        "optim.every": max(1, round(config.optim.every * share)),
        "optim.milestones": tuple(max(1, round(milestone * share)) for milestone in config.optim.milestones),
    }
    for key, value in flatten(config).items():
        if key.startswith("model.") and key.endswith("dim") and isinstance(value, int):
            changes[key] = min(value, max(_SMALLEST.get(key, 32), value // 4))
    return override(config, changes)


def on_scenes(config: RunConfig) -> RunConfig:
    """A published configuration on rendered scenes: small, with the shipped backbone and no vectors from outside.

    Its 15 epochs are about 300 steps, where the published ones are 100,000: the rate is ten times as high and falls
    along a cosine, and a hinge with the hardest negatives sums over them for the first half (measured on VSE++).
    """
    features = FeatureConfig(backbone=SmallBackbone.Config())
    return _moved(config, Scenes.Config(), features, "", 1, {"optim.lr": 10 * config.optim.lr}, warmup=8)


def on_few_scenes(config: RunConfig) -> RunConfig:
    """A configuration of scenes with so few of them that any system is trained within 40 s on two cores."""
    few = {"data.num_train": 200, "data.num_val": 50, "data.num_test": 100, "data.num_shifted": 100, "train.epochs": 8}
    if getattr(config.objective, "warmup", 0):
        few["objective.warmup"] = 4
    return override(config, few)


def on_photographs(config: RunConfig) -> RunConfig:
    """A published configuration on Flickr8k, or a part of it, with a MobileNetV2: as on scenes, five times the rate.

    Against overfitting, words start from vectors of the training captions, and families that have dropout use it.
    """
    features = FeatureConfig(backbone=TorchvisionBackbone.Config(arch="mobilenet_v2"))
    changes = {"optim.lr": 5 * config.optim.lr}
    if hasattr(config.model, "dropout"):
        changes["model.dropout"] = DROPOUT
    return _moved(config, Karpathy.Config(), features, OWN_CAPTIONS, 2, changes, warmup=5)


def _moved(
    config: RunConfig,
    data: ComponentConfig,
    features: FeatureConfig,
    word_vectors: str,
    min_count: int,
    changes: Mapping[str, object],
    warmup: int,
) -> RunConfig:
    changes = {**changes, "optim.schedule": "cosine"}
    if getattr(config.model, "image", "") == "fc1":  # neither backbone has fully connected layers to read
        changes["model.image"] = "pooled"
    keys = {field.name for field in fields(config.objective)}
    if "balance" in keys:  # by candidate nearly all draws are nouns, and the kinds of VSE-C could not be told apart
        changes["objective.balance"] = "paradigm"
    if "warmup" in keys and getattr(config.objective, "hinge", "") == "hardest":
        changes["objective.warmup"] = warmup
    needs = registry.component("family", registry.name_of("family", config.model)).requires(config.model)
    text = TextConfig(
        parser=config.text.parser,
        sentence=config.text.sentence,
        min_count=min_count,
        word_vectors="" if needs.states else OWN_CAPTIONS if needs.sentence else word_vectors,
    )
    moved = replace(config, data=data, features=features, text=text)
    return override(small(moved, epochs=15), changes)


TINY: dict[str, object] = {
    "data.num_train": 60,
    "data.num_val": 20,
    "data.num_test": 30,
    "data.num_shifted": 30,
    "model.dim": 64,
    "train.epochs": 2,
    "objective.warmup": 1,
    "train.batch_size": 64,
}
