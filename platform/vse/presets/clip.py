"""A pretrained dual encoder as a reference row: nothing is trained, so objective, rate and epochs play no part."""

from dataclasses import replace

from vse.data.sources.karpathy import Karpathy
from vse.features.open_clip_backbone import OpenClipBackbone
from vse.models.clip import CLIP
from vse.objectives.ranking import Ranking
from vse.presets.catalogue import register_preset
from vse.presets.vsepp import vsepp_coco
from vse.text.open_clip_encoder import OpenClipEncoder
from vse.text.sentence.kinds import EncoderSentence
from vse.training.config import FeatureConfig, RunConfig, TextConfig

ARCH, WEIGHTS = "ViT-B-32", "laion2b_s34b_b79k"


@register_preset()
def clip_flickr8k() -> RunConfig:
    """OpenCLIP's ViT-B/32 of LAION-2B; `features.backbone` and `text.encoder` name any other dual encoder."""
    frame = vsepp_coco()
    return replace(
        frame,
        data=Karpathy.Config(),
        features=FeatureConfig(backbone=OpenClipBackbone.Config(arch=ARCH, weights=WEIGHTS), scale="none"),
        text=TextConfig(
            parser=frame.text.parser,
            sentence=EncoderSentence.Config(),
            encoder=OpenClipEncoder.Config(arch=ARCH, weights=WEIGHTS),
        ),
        model=CLIP.Config(),
        objective=Ranking.Config(hinge="sum"),
        train=replace(frame.train, epochs=1),
    )
