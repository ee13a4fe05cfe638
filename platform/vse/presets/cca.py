"""CCA as the jWAE paper compares with it (Table 3): our reading; every number is ours.

Nothing is trained by steps: objective, rate and epochs of these configurations play no part.
"""

from dataclasses import replace

from vse.models.cca import CCA
from vse.objectives.ranking import Ranking
from vse.presets.catalogue import on_photographs, register_preset
from vse.presets.jwae import vgg_and_vectors
from vse.registry import ComponentConfig
from vse.text.encoder import TransformersEncoder
from vse.text.sentence.kinds import HGLMM, EncoderSentence, Mean
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


@register_preset()
def cca_encoder_flickr8k() -> RunConfig:
    """CCA on Flickr8k with vectors of a pretrained sentence encoder, named by `text.encoder.model`.

    The root of the image features, their 256 components, the ridge and the power were chosen on the 100 validation
    images of a Flickr8k of 600 training images, MobileNetV2 and all-MiniLM-L6-v2.
    """
    frame = on_photographs(cca_coco())
    return replace(
        frame,
        features=replace(frame.features, scale="root"),
        text=replace(
            frame.text, word_vectors="", sentence=EncoderSentence.Config(), encoder=TransformersEncoder.Config()
        ),
        model=CCA.Config(dim=256, image_components=256, ridge=1.0, power=1.0),
    )
