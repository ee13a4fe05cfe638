"""Phrase localisation (jWAE, Table 7): the families of the table on phrases and regions.

Published: HGLMM vectors of phrases reduced to 6,000 numbers, 200 or 500 proposals, positive regions at IoU >= 0.7, the
λ's of jWAE-MSE. Fast R-CNN is no backbone here: VGG-19's first fully connected layer reads each region, scaled to its
square. CITE appends the region's geometry. `<system>_localisation_small` is the same on a few scenes, and
`<system>_localisation_photographs` on hundreds of photographs, with EfficientNet-Lite1 and a sentence encoder.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vse.config import override
from vse.data.sources.flickr30k_entities import Flickr30kEntities
from vse.data.sources.phrase_regions import PhraseRegions
from vse.data.sources.scenes import Scenes
from vse.features.timm_backbone import TimmBackbone
from vse.models.cite import CITE, JWAECITE
from vse.objectives.cite import CITELoss, JWAECITELoss
from vse.presets.catalogue import on_scenes, preset, register_preset
from vse.presets.jwae import jwae_mse_hglmm_coco, vgg_and_vectors
from vse.presets.two_branches import embedding_network_hglmm_coco, similarity_network_coco
from vse.text.encoder import TransformersEncoder
from vse.text.sentence.kinds import HGLMM, EncoderSentence
from vse.training.config import FeatureConfig, OptimConfig, RunConfig

_OWN = {"data.own_negatives": 10}
_CONCEPTS = {"data.geometry": True, **_OWN}
_OWN_ALONE = {"objective.batch_negatives": False}
_DROPOUT = {"model.dropout": 0.3}
_SMALL_CONCEPTS = {"model.joint_dim": 256, "model.concept_dim": 64, "model.weight_dim": 256}


def _localised(config: RunConfig) -> RunConfig:
    """A system of sentences and images on the phrases and regions of Flickr30k Entities."""
    data = PhraseRegions.Config(of=Flickr30kEntities.Config())
    return override(replace(config, data=data), {"features.backbone.transform": "scale", "train.select": "last"})


def _on_few_scenes(name: str) -> RunConfig:
    """The same on a few scenes, with jittered boxes for proposals."""
    config = preset(name)
    few = Scenes.Config(num_train=200, num_val=50, num_test=100, num_shifted=0)
    data = replace(config.data, of=few, number=50)  # pyrefly: ignore[unexpected-keyword]  # a data set of regions
    # with own negatives R@1 of CITE is 64 and not 82, of Similarity Network 44 and not 64 (100 test scenes, one seed)
    return override(replace(on_scenes(config), data=data), {"data.own_negatives": 0, "train.epochs": 8})


def _on_photographs(name: str, own: Mapping[str, Any] = MappingProxyType({})) -> RunConfig:
    """The same on hundreds of photographs.

    Dropout, and whether the other pairs of a batch are negatives besides the regions of the phrase's own photograph,
    were chosen on 100 validation photographs.

    Args:
        name: preset of the system on Flickr30k Entities.
        own: changes of this system.
    """
    config = preset(name)
    backbone = TimmBackbone.Config(arch="tf_efficientnet_lite1", transform="scale")
    text = replace(
        config.text, word_vectors="", sentence=EncoderSentence.Config(), encoder=TransformersEncoder.Config()
    )
    shared = {
        "data.regions": "pooled",
        "data.geometry": True,
        "data.background": 200,
        "data.most": 2,
        "data.complete": ("val", "test"),
        "model.image": "pooled",
        "model.dim": 256,
        "model.hidden_dim": 256,
        "optim.lr": 3e-4,
        "optim.schedule": "constant",
        "train.epochs": 12,
        "train.evaluate_every": 12,  # ranks all regions of all photographs, which takes longer than an epoch
    }
    return override(replace(config, features=FeatureConfig(backbone=backbone), text=text), {**shared, **own})


@register_preset()
def embedding_network_localisation_flickr30k() -> RunConfig:
    """Embedding Network of Table 7."""
    return override(_localised(embedding_network_hglmm_coco()), {"model.siblings": False, **_OWN})


@register_preset()
def similarity_network_localisation_flickr30k() -> RunConfig:
    """Similarity Network of Table 7."""
    return override(_localised(similarity_network_coco()), _OWN)


@register_preset()
def jwae_mse_localisation_flickr30k() -> RunConfig:
    """jWAE-MSE of Table 7."""
    return _localised(jwae_mse_hglmm_coco())


@register_preset()
def cite_localisation_flickr30k() -> RunConfig:
    """CITE of Table 7."""
    frame = replace(
        vgg_and_vectors(HGLMM.Config()),
        model=CITE.Config(image="fc1"),
        objective=CITELoss.Config(),
        optim=OptimConfig(lr=1e-4),
    )
    return override(_localised(frame), _CONCEPTS)


@register_preset()
def jwae_mse_cite_localisation_flickr30k() -> RunConfig:
    """jWAE-MSE+CITE of Table 7."""
    objective = JWAECITELoss.Config(lambda1=1.0, lambda2=1.0, lambda3=0.2, lambda4=0.2)
    model = JWAECITE.Config(image="fc1")
    return override(_localised(replace(jwae_mse_hglmm_coco(), model=model, objective=objective)), _CONCEPTS)


@register_preset()
def embedding_network_localisation_small() -> RunConfig:
    """Embedding Network on regions of a few scenes."""
    return _on_few_scenes("embedding_network_localisation_flickr30k")


@register_preset()
def similarity_network_localisation_small() -> RunConfig:
    """Similarity Network on regions of a few scenes."""
    return _on_few_scenes("similarity_network_localisation_flickr30k")


@register_preset()
def jwae_mse_localisation_small() -> RunConfig:
    """jWAE-MSE on regions of a few scenes."""
    return _on_few_scenes("jwae_mse_localisation_flickr30k")


@register_preset()
def cite_localisation_small() -> RunConfig:
    """CITE on regions of a few scenes."""
    return _on_few_scenes("cite_localisation_flickr30k")


@register_preset()
def jwae_mse_cite_localisation_small() -> RunConfig:
    """jWAE-MSE+CITE on regions of a few scenes."""
    return _on_few_scenes("jwae_mse_cite_localisation_flickr30k")


@register_preset()
def embedding_network_localisation_photographs() -> RunConfig:
    """Embedding Network on regions of hundreds of photographs, with negatives of the phrase's own photograph alone."""
    return _on_photographs("embedding_network_localisation_flickr30k", {**_OWN_ALONE, **_DROPOUT})


@register_preset()
def similarity_network_localisation_photographs() -> RunConfig:
    """Similarity Network on regions of hundreds of photographs."""
    return _on_photographs("similarity_network_localisation_flickr30k", _DROPOUT)


@register_preset()
def jwae_mse_localisation_photographs() -> RunConfig:
    """jWAE-MSE on regions of hundreds of photographs."""
    return _on_photographs("jwae_mse_localisation_flickr30k")


@register_preset()
def cite_localisation_photographs() -> RunConfig:
    """CITE on regions of hundreds of photographs."""
    return _on_photographs("cite_localisation_flickr30k", {**_DROPOUT, **_SMALL_CONCEPTS})


@register_preset()
def jwae_mse_cite_localisation_photographs() -> RunConfig:
    """jWAE-MSE+CITE on regions of hundreds of photographs, with negatives of the phrase's own photograph alone."""
    return _on_photographs("jwae_mse_cite_localisation_flickr30k", {**_OWN_ALONE, **_SMALL_CONCEPTS})
