"""CCA as the jWAE paper compares with it (Table 3): our reading; every number is ours.

Nothing is trained by steps: objective, rate and epochs of these configurations play no part.
"""

from dataclasses import replace

from vse.data.karpathy import Karpathy
from vse.models.cca import CCA
from vse.objectives.ranking import Ranking
from vse.presets.catalogue import published, variants
from vse.presets.jwae import vgg_and_vectors
from vse.presets.vsepp import COCO, FLICKR30K
from vse.registry import ComponentConfig
from vse.text.sentence.kinds import HGLMM, Mean
from vse.training.config import RunConfig


def _cca(data: Karpathy.Config, sentence: ComponentConfig) -> RunConfig:
    frame = vgg_and_vectors(data, sentence)
    return replace(frame, model=CCA.Config(image="fc1"), objective=Ranking.Config(hinge="sum"))


@variants("cca_scenes", "cca_small", "cca_flickr8k")
@published
def cca_coco() -> RunConfig:
    """CCA (Mean Vector)."""
    return _cca(COCO, Mean.Config())


@published
def cca_flickr30k() -> RunConfig:
    """CCA (Mean Vector); also the row CCA (VGG+w2v) of Table 5."""
    return _cca(FLICKR30K, Mean.Config())


@variants("cca_hglmm_scenes", "cca_hglmm_small", "cca_hglmm_flickr8k")
@published
def cca_hglmm_coco() -> RunConfig:
    """CCA (VGG+HGLMM)."""
    return _cca(COCO, HGLMM.Config())


@published
def cca_hglmm_flickr30k() -> RunConfig:
    """CCA (VGG+HGLMM)."""
    return _cca(FLICKR30K, HGLMM.Config())
