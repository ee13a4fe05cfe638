"""CITE (Plummer et al., ECCV 2018): a similarity of phrase and region through concepts that the phrase weighs.

Two branches give unit vectors v of a region and t of a phrase. Their element-wise product passes a layer, then K
parallel layers, the concepts; their outputs are summed with weights softmax(u), where u is a third branch over the
phrase; a last layer gives the score. K = 4, the widths and λ = 5e-5 of ‖u‖₁ are those of the released code. Ours: no
batch normalisation, so that a code does not depend on the batch, and other pairs of a batch as negatives.

jWAE-MSE+CITE (Mahajan et al., ICCV 2019, Table 7) takes the codes of jWAE's autoencoders for the branches. The paper
does not say how the losses are joined: ours is their sum.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse.config import knob
from vse.models.encoders import two_layers, unit
from vse.models.family import Batch, Context, Encoded, Family
from vse.models.jwae import JWAE
from vse.models.two_branches import BranchConfig, TwoBranches
from vse.registry import ComponentConfig, register

NUMBERS_AT_ONCE = 2**24  # of the layer before the concepts, 64 MB in single precision


@dataclass(frozen=True, kw_only=True)
class ConceptConfig:
    """Keys of the layers that score a pair."""

    concepts: int = knob(4, "parallel layers that the phrase weighs (released code)", low=1)
    joint_dim: int = knob(1024, "layer before the concepts (released code)", low=1)
    concept_dim: int = knob(256, "outputs of each concept (released code)", low=1)
    weight_dim: int = knob(1024, "hidden layer of the concepts' weights (released code)", low=1)


class ConceptScore(nn.Module):
    """s = wᵀ Σ_k softmax(u)_k ReLU(C_k ReLU(A (v ⊙ t))) of a region v and a phrase t with concept logits u.

    Args:
        dim: of v and t.
        sentence_dim: length of a phrase's vector, from which u is computed.
        config: widths and number of concepts.
    """

    def __init__(self, dim: int, sentence_dim: int, config: ConceptConfig) -> None:
        super().__init__()
        self.num, self.width = config.concepts, config.concept_dim
        self.weigh = two_layers(sentence_dim, config.weight_dim, config.concepts)
        self.joint = nn.Linear(dim, config.joint_dim)
        self.concepts = nn.Linear(config.joint_dim, config.concepts * config.concept_dim)
        self.last = nn.Linear(config.concept_dim, 1, bias=False)  # the logistic loss has a bias

    def forward(
        self,
        regions: Float[Tensor, "regions dim"],
        phrases: Float[Tensor, "phrases dim"],
        logits: Float[Tensor, "phrases concepts"],
    ) -> Float[Tensor, "regions phrases"]:
        """Scores of every pair, in blocks of regions.

        Args:
            regions: v.
            phrases: t.
            logits: u.
        """
        weights = logits.softmax(dim=1)
        rows = max(1, NUMBERS_AT_ONCE // max(1, len(phrases) * self.joint.out_features))
        blocks = regions[:, None].split(rows)
        return torch.cat([self._of_products(block * phrases[None], weights, "rpkw,pk->rpw") for block in blocks])

    def of_lists(
        self,
        regions: Float[Tensor, "phrases listed dim"],
        phrases: Float[Tensor, "phrases dim"],
        logits: Float[Tensor, "phrases concepts"],
    ) -> Float[Tensor, "phrases listed"]:
        """Scores of every phrase with its own regions.

        Args:
            regions: v of the regions that are listed for each phrase.
            phrases: t.
            logits: u.
        """
        return self._of_products(regions * phrases[:, None], logits.softmax(dim=1), "plkw,pk->plw")

    def _of_products(self, products: Tensor, weights: Tensor, weighted_sum: str) -> Tensor:
        concepts = self.concepts(self.joint(products).relu()).relu().unflatten(-1, (self.num, self.width))
        return self.last(torch.einsum(weighted_sum, concepts, weights)).squeeze(-1)


class ScoredByConcepts(Family):
    """Scores of pairs by `ConceptScore`, from `images`, `captions` and `concepts`."""

    pairwise = frozenset({"captions", "concepts"})
    score: ConceptScore

    def score_parts(self, images: Batch, captions: Batch) -> dict[str, Tensor]:
        """score: the logit of every pair (images, captions)."""
        return {"score": self.score(images["images"], captions["captions"], captions["concepts"])}

    def listed_scores(self, images: Encoded, captions: Encoded) -> Float[Tensor, "captions listed"]:
        """The logits of each caption with its own list."""
        return self.score.of_lists(images["images"], captions["captions"], captions["concepts"])


@register("family", "cite")
class CITE(ScoredByConcepts, TwoBranches):
    """Codes `images` and `captions` (batch, dim) are unit vectors, `concepts` (batch, K) logits of their weights.

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig, BranchConfig, ConceptConfig):
        """Sizes of the released code."""

        dim: int = knob(1024, "outputs of both branches (released code)", low=1)
        hidden_dim: int = knob(1024, "first layer of each branch (released code)", low=1)
        image: str = knob("pooled", "which image features", choices=("pooled", "fc1"))

    def __init__(self, config: "CITE.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config, context, scale)
        self.score = ConceptScore(config.dim, context.sentence_dim, config)

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim) from features (batch, channels)."""
        return {"images": unit(self.branch_of_images(batch))}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim) and concepts (batch, K) from sentence vectors (batch, length)."""
        concepts = self.score.weigh(batch["sentence"].to(next(self.text.parameters()).dtype))
        return {"captions": unit(self.branch_of_captions(batch)), "concepts": concepts}


@register("family", "jwae_cite")
class JWAECITE(ScoredByConcepts, JWAE):
    """jWAE with fixed sentence vectors whose pairs are scored as by CITE; adds `concepts` (batch, K).

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    unit_codes = False

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(JWAE.Config, ConceptConfig):
        """Keys of jWAE, and those of CITE."""

        text: str = knob("sentence", "one fixed vector per phrase", choices=("sentence",))

    def __init__(self, config: "JWAECITE.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config, context, scale)
        self.score = ConceptScore(config.dim, context.sentence_dim, config)

    def forward(self, batch: Batch, phase: str = "") -> Encoded:
        """As of jWAE, with the concepts in the encoders' phase.

        `scored_by` (parameters,) is of no loss: the step scores pairs after `forward`, and DDP takes a parameter for
        unused if no output of `forward` depends on it.
        """
        encoded = super().forward(batch, phase)
        if "judged_prior" in encoded:
            return encoded
        scored_by = torch.stack([parameter.flatten()[0] for parameter in self.score.parameters()])
        return encoded | self._concepts(batch) | {"scored_by": scored_by}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim), unit vectors, and concepts (batch, K)."""
        return super().encode_captions(batch) | self._concepts(batch)

    def _concepts(self, batch: Batch) -> Encoded:
        return {"concepts": self.score.weigh(self._sentences(batch))}
