"""A pretrained dual encoder as it is: the reference row without training (Radford et al., ICML 2021).

The backbone is the image tower, `text.encoder` the text tower. Ranks do not depend on the model's temperature.
"""

from dataclasses import dataclass

import torch
from torch import nn

from vse.errors import InputError
from vse.models.encoders import unit
from vse.models.family import Batch, Context, Encoded, Family, Inputs
from vse.registry import ComponentConfig, register


@register("family", "clip")
class CLIP(Family):
    """Codes `images` and `captions` (batch, dim) are the unit vectors of both towers. Nothing is trained.

    Args:
        config: without settings.
        context: of the data.
        scale: none; both towers are compared as they are.
    """

    inputs = Inputs(image="pooled", components=False, sentence=True)
    of_one_encoder = True
    by_steps = False

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """`features.backbone` and `text.encoder` name the model."""

    def __init__(self, config: "CLIP.Config", context: Context, scale: str = "none") -> None:
        super().__init__(config)
        images, captions = context.feature_dims["pooled"], context.sentence_dim
        if images != captions:
            raise InputError(
                f"family clip: vectors of images have {images} dimensions and those of captions {captions}; name both "
                "towers of one dual encoder"
            )
        # A family without weights still has a device and a number type.
        self.one = nn.Parameter(torch.ones(()), requires_grad=False)

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim) from projected vectors of the image tower."""
        return {"images": unit(batch["pooled"].to(self.one.dtype))}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim) from vectors of the text tower."""
        return {"captions": unit(batch["sentence"].to(self.one.dtype))}
