"""VSE-infinity (Chen et al., 2021); its paper is not among ours, so values are those of its public code."""

from dataclasses import replace

from vse.data.sources.precomp import Precomp
from vse.features.arrays import ReadyMade
from vse.models.vse_infinity import VSEInfinity
from vse.objectives.ranking import Ranking
from vse.presets.catalogue import Changes, ablates, register_preset
from vse.presets.scan import scan_encoder
from vse.presets.vsepp import vsepp_coco
from vse.training.config import FeatureConfig, OptimConfig, RunConfig, TrainConfig


@register_preset("vse_infinity_scenes", "vse_infinity_small", "vse_infinity_flickr8k")
def vse_infinity_coco() -> RunConfig:
    """Region features and a GRU: AdamW 5e-4 divided by ten at epoch 15 of 25, decay 0.01, first epoch with the sum.

    The decay is AdamW's default, which the code's branch with a GRU leaves (1e-4 is that of BERT); ours: of matrices
    alone.
    """
    return replace(
        vsepp_coco(),
        data=Precomp.Config(),
        features=FeatureConfig(backbone=ReadyMade.Config(width=2048), scale="none"),
        model=VSEInfinity.Config(),
        objective=Ranking.Config(warmup=1),
        optim=OptimConfig(lr=5e-4, weight_decay=0.01),
        train=TrainConfig(epochs=25),
    )


@ablates("vse_infinity", "vse_infinity_encoder_flickr8k")
def vse_infinity_encoder() -> Changes:
    """Ours: on the word states of a pretrained encoder, named by `text.encoder.model`; trained as SCAN on them."""
    return scan_encoder()
