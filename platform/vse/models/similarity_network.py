"""The Similarity Network of Wang et al. (TPAMI 2019), to which the jWAE paper compares: pairs are classified.

Our reading of a paper that is not among our sources: two branches of two fully connected layers, the element-wise
product of their outputs, and two fully connected layers on it to one logit; no batch normalisation. Defaults are ours.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vse.config import knob
from vse.models.branches import two_layers
from vse.models.family import Batch, Context, Encoded, Family, FeatureScale, Inputs
from vse.registry import ComponentConfig, register

PRODUCTS_AT_ONCE = 2**25  # numbers of one block of products, 128 MB in single precision


@register("family", "similarity_network")
class SimilarityNetwork(Family):
    """`images` and `captions` (batch, dim) are no unit vectors; the score is the logit that they belong together."""

    pairwise = frozenset({"captions"})
    unit_codes = False

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """All ours."""

        dim: int = knob(512, "outputs of the branches, which are multiplied", low=1)
        hidden_dim: int = knob(1024, "first layer of each branch", low=1)
        product_dim: int = knob(256, "layer between the product and the logit", low=1)
        image: str = knob("pooled", "which image features", choices=("pooled", "fc1"))

    @classmethod
    def requires(cls, config: "SimilarityNetwork.Config") -> Inputs:
        return Inputs(image=config.image, components=False, sentence=True)

    def __init__(self, config: "SimilarityNetwork.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__()
        self.inputs = self.requires(config)
        channels = context.feature_dims[config.image]
        self.scale = FeatureScale(channels, scale)
        self.image = two_layers(channels, config.hidden_dim, config.dim)
        # Vectors as they are: standardised ones learn worse (rsum 213 against 239 on scenes, one seed).
        self.text = two_layers(context.sentence_dim, config.hidden_dim, config.dim)
        # no bias of the logit: the logistic loss has one, and no ranking needs it
        self.judge = nn.Sequential(
            nn.Linear(config.dim, config.product_dim), nn.ReLU(), nn.Linear(config.product_dim, 1, bias=False)
        )

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim) from features (batch, channels)."""
        features = batch[self.inputs.image].to(next(self.image.parameters()).dtype)
        return {"images": self.image(self.scale(features))}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim) from sentence vectors (batch, length)."""
        vectors = batch["sentence"].to(next(self.text.parameters()).dtype)
        return {"captions": self.text(vectors)}

    def score_parts(self, images: Batch, captions: Batch) -> dict[str, Tensor]:
        """score: the logit of every pair (images, captions), in blocks of images."""
        v, t = images["images"], captions["captions"]
        rows = max(1, PRODUCTS_AT_ONCE // max(1, t.numel()))
        blocks = [self.judge(block[:, None] * t[None]).squeeze(-1) for block in v.split(rows)]
        return {"score": torch.cat(blocks)}
