"""CCA as the jWAE paper compares with it (Table 3): our reading; every number is ours.

Nothing is trained by steps: objective, rate and epochs of these configurations play no part.
"""

from dataclasses import replace

from vse.models.cca import CCA
from vse.objectives.ranking import Ranking
from vse.presets.catalogue import register_preset
from vse.presets.jwae import vgg_and_vectors
from vse.registry import ComponentConfig
from vse.text.sentence.kinds import HGLMM, Mean
from vse.training.config import RunConfig


def _cca(sentence: ComponentConfig) -> RunConfig:
    frame = vgg_and_vectors(sentence)
    return replace(frame, model=CCA.Config(image="fc1"), objective=Ranking.Config(hinge="sum"))


@register_preset("cca_scenes", "cca_small", "cca_flickr8k", "cca_flickr30k")
def cca_coco() -> RunConfig:
    """CCA (Mean Vector); on Flickr30k also the row CCA (VGG+w2v) of Table 5."""
    return _cca(Mean.Config())


@register_preset("cca_hglmm_scenes", "cca_hglmm_small", "cca_hglmm_flickr8k", "cca_hglmm_flickr30k")
def cca_hglmm_coco() -> RunConfig:
    """CCA (VGG+HGLMM)."""
    return _cca(HGLMM.Config())
