"""The Embedding Network of Wang et al. (TPAMI 2019), with which the jWAE paper compares: two branches of fixed vectors.

Our reading of a paper that is not among our sources: two linear layers per branch with a ReLU between them, unit
length, and no batch normalisation, so that a code does not depend on the batch. Every default is ours.
"""

from dataclasses import dataclass

from vse.config import knob
from vse.models.encoders import unit
from vse.models.family import Batch, Encoded, Inputs
from vse.models.two_branches import BranchConfig, TwoBranches
from vse.registry import ComponentConfig, register


@register("family", "embedding_network")
class EmbeddingNetwork(TwoBranches):
    """Codes `images` and `captions` (batch, dim) are unit vectors.

    Training adds `siblings` (batch, dim), codes of another caption of the image, and `has_sibling` (batch,).

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    unit_codes = True
    text_scale = "standardize"

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig, BranchConfig):
        """All ours."""

        dim: int = knob(512, "dimension of the joint space", low=1)
        hidden_dim: int = knob(2048, "first layer of each branch", low=1)
        image: str = knob("pooled", "which image features", choices=("pooled", "fc1"))
        siblings: bool = knob(
            True,
            "read another caption of each image, for the neighbourhood constraint",
            only="objective=embedding_network",
        )

    @classmethod
    def requires(cls, config: "EmbeddingNetwork.Config") -> Inputs:
        return Inputs(image=config.image, components=False, sentence=True, siblings=config.siblings)

    def forward(self, batch: Batch, phase: str = "") -> Encoded:
        """Codes of both sides and of siblings, if the batch has any (zero if `has_sibling` is False)."""
        encoded = {**self.encode_images(batch), **self.encode_captions(batch)}
        if "sibling" in batch:
            siblings = unit(self.text(batch["sibling"], batch.get("draw")))
            has = batch["has_sibling"]
            encoded |= {"siblings": siblings * has[:, None].to(siblings.dtype), "has_sibling": has}
        return encoded

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim) from features (batch, channels)."""
        return {"images": unit(self.branch_of_images(batch))}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim) from sentence vectors (batch, length)."""
        return {"captions": unit(self.branch_of_captions(batch))}
