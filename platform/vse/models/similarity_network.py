"""The Similarity Network of Wang et al. (TPAMI 2019), with which the jWAE paper compares: a classifier of pairs.

Our reading of a paper that is not among our sources: two branches of two linear layers, the element-wise product of
their outputs, and two linear layers from it to a logit; no batch normalisation. Every default is ours.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse.config import knob
from vse.models.family import Batch, Context, Encoded
from vse.models.two_branches import BranchConfig, TwoBranches
from vse.registry import ComponentConfig, register

PRODUCTS_AT_ONCE = 2**25  # numbers of one block of products, 128 MB in single precision


@register("family", "similarity_network")
class SimilarityNetwork(TwoBranches):
    """Codes `images` and `captions` (batch, dim) are not normalised; the score is the logit that they belong together.

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    pairwise = frozenset({"captions"})

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig, BranchConfig):
        """All ours."""

        dim: int = knob(512, "outputs of the branches before the product", low=1)
        hidden_dim: int = knob(1024, "first layer of each branch", low=1)
        product_dim: int = knob(256, "layer between the product and the logit", low=1)
        image: str = knob("pooled", "which image features", choices=("pooled", "fc1"))

    def __init__(self, config: "SimilarityNetwork.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config, context, scale)
        # The logit has no bias: the logistic loss has one, and ranking needs none.
        self.judge = nn.Sequential(
            nn.Linear(config.dim, config.product_dim), nn.ReLU(), nn.Linear(config.product_dim, 1, bias=False)
        )

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim) from features (batch, channels)."""
        return {"images": self.branch_of_images(batch)}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim) from sentence vectors (batch, length)."""
        return {"captions": self.branch_of_captions(batch)}

    def score_parts(self, images: Batch, captions: Batch) -> dict[str, Tensor]:
        """score: the logit of every pair (images, captions), in blocks of images."""
        v, t = images["images"], captions["captions"]
        rows = max(1, PRODUCTS_AT_ONCE // max(1, t.numel()))
        blocks = [self.judge(block[:, None] * t[None]).squeeze(-1) for block in v.split(rows)]
        return {"score": torch.cat(blocks)}

    def listed_scores(self, images: Encoded, captions: Encoded) -> Float[Tensor, "captions listed"]:
        """The logits of each caption with its own list."""
        return self.judge(images["images"] * captions["captions"][:, None]).squeeze(-1)
