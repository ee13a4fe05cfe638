"""Two branches over fixed vectors, of an image and of a caption, whose pairs a network scores."""

from typing import Any

from torch import Tensor

from vse.models.encoders import two_layers
from vse.models.family import Batch, Context, Family, FeatureScale, Inputs


class TwoBranches(Family):
    """Base of the families that score pairs of branch outputs: two linear layers for each side.

    Args:
        config: sizes and settings, among them `image`, `hidden_dim` and `dim`.
        context: of the data.
        scale: of image features (see `FeatureScale`). Sentence vectors have none: standardised ones learn worse
            (rsum 213 against 239 on scenes, one seed).
    """

    unit_codes = False

    @classmethod
    def requires(cls, config: Any) -> Inputs:
        return Inputs(image=config.image, components=False, sentence=True)

    def __init__(self, config: Any, context: Context, scale: str = "standardize") -> None:
        super().__init__(config)
        channels = context.feature_dims[config.image]
        self.scale = FeatureScale(channels, scale)
        self.image = two_layers(channels, config.hidden_dim, config.dim)
        self.text = two_layers(context.sentence_dim, config.hidden_dim, config.dim)

    def branch_of_images(self, batch: Batch) -> Tensor:
        """(batch, dim) from features (batch, channels)."""
        return self.image(self.scale(batch[self.inputs.image].to(next(self.image.parameters()).dtype)))

    def branch_of_captions(self, batch: Batch) -> Tensor:
        """(batch, dim) from sentence vectors (batch, length)."""
        return self.text(batch["sentence"].to(next(self.text.parameters()).dtype))
