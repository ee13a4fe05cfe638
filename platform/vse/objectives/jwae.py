"""The objective of jWAE (Mahajan et al., ICCV 2019), eqs. 6 to 9, and of its ablations.

How terms of one batch of B captions weigh against each other is not settled by the paper: eq. 6 prints sums for the
reconstructions and, beside them, divergences, which are means; eq. 1 a sum, eq. 7 a mean. With `reduction=sum` every
term is summed over the batch. With `mean` every term but the hinge is a mean over it, as in the released code: beside
the summed hinge each λ then weighs B times less, 128 times in the published batches; with squared errors (eq. 8)
everything is divided by B alike. Where only N_S of a batch's captions have a known image, eq. 7 stays their mean: its
weight against the reconstructions of all B does not fall with N_S (with `sum` it enters as B / N_S times their sum).
The hinge of eqs. 1 and 9 has no such mean and sums over the known pairs.
`errors=mean` takes the mean of squared errors over dimensions as well, as the ready-made loss of a framework would: the
regulariser then weighs as many times more as there are dimensions.
With sums, standardised sentence vectors of D numbers cost about D at first, image features of unit length about one:
λ₂ then outweighs λ₁ by that, and the regulariser moves texts little (300 against 0.1 a caption for word2vec's means).
Features that are standardised instead, as for small data, have a length of about √D: there λ₁ weighs so much more.
"""

from dataclasses import dataclass
from types import MappingProxyType

from torch import Tensor

from vse.config import knob
from vse.objectives.autoencoding import (
    discriminator_loss,
    gaussian_divergence,
    generator_loss,
    mean_discrepancy,
    next_word_loss,
    reconstruction,
    squared_distance,
)
from vse.objectives.hinge_objective import HingeConfig
from vse.objectives.matching import MATCHES, MatchingObjective
from vse.objectives.objective import Encoded, batch_scores
from vse.registry import register


@register("objective", "jwae")
class JWAELoss(MatchingObjective):
    """`sent` (eq. 1) or `mse` (eq. 7); reconstructions `image`, `text`; `gauss_image`, `gauss_text`; `mmd`; and
    `discriminator`, which its own phase descends."""

    gathers = frozenset({"images", "captions", "scores", "image_codes", "caption_codes"})
    local = frozenset({"mse", "image", "text", "gauss_image", "gauss_text", "discriminator"})
    matching = frozenset({"sent", "mse"})
    sole = MappingProxyType({"jwae": {}, "jwae_scan": {}})
    families = frozenset(sole)
    semi_supervised = True

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(HingeConfig):
        """Published for jWAE-MH: λ₁ = 0.5, λ₂ = 0.005, λ₃ = λ₄ = 0.01; for jWAE-MSE: 1, 1, 0.2, 0.2."""

        match: str = knob(
            "hinge",
            "known pairs: max-margin hinge (eq. 9), squared error (eq. 8); ours: InfoNCE or the sigmoid loss",
            choices=(*MATCHES, "mse"),
        )
        lambda1: float = knob(0.5, "weight of the images' reconstruction", low=0)
        lambda2: float = knob(0.005, "weight of the text's reconstruction", low=0)
        lambda3: float = knob(0.01, "weight of the images' Gaussian regulariser", low=0)
        lambda4: float = knob(0.01, "weight of the text's Gaussian regulariser", low=0)
        norm: str = knob("l2", "norm of the images' reconstruction error", choices=("l1", "l2", "squared"))
        reduction: str = knob(
            "sum", "all terms but the hinge over the batch: sum, or the released code's mean", choices=("sum", "mean")
        )
        errors: str = knob("sum", "errors over dimensions: sum as in eqs. 6 and 7, or mean", choices=("sum", "mean"))
        mmd: float = knob(0.0, "weight of the discrepancy between the codes of images and text (MMD-MSE)", low=0)

    def __init__(self, config: "JWAELoss.Config") -> None:
        super().__init__(config, config.match)
        self.config = config
        self.averaged = self.local | {"mmd"} if config.reduction == "mean" else frozenset()
        self.balanced = frozenset({"mse"} - self.averaged)

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        if "judged_prior" in encoded:
            judged = (encoded[f"judged_{who}"] for who in ("prior", "images", "captions"))
            return {"discriminator": discriminator_loss(*judged)}
        losses = {**self._matching(encoded, gathered, epoch), **self._reconstructions(encoded)}
        if "fooling_images" in encoded:
            losses["gauss_image"] = generator_loss(encoded["fooling_images"])
            losses["gauss_text"] = generator_loss(encoded["fooling_captions"])
        if "image_log_variance" in encoded:
            losses["gauss_image"] = gaussian_divergence(encoded["image_mean"], encoded["image_log_variance"])
            losses["gauss_text"] = gaussian_divergence(encoded["caption_mean"], encoded["caption_log_variance"])
        if self.config.mmd:
            codes = gathered["image_codes"], gathered["caption_codes"]
            losses["mmd"] = mean_discrepancy(*codes) * len(codes[0])
        return losses

    def weights(self, epoch: int) -> dict[str, float]:
        config = self.config
        return {
            "sent": 1.0,
            "mse": 1.0,
            "image": config.lambda1,
            "text": config.lambda2,
            "gauss_image": config.lambda3,
            "gauss_text": config.lambda4,
            "mmd": config.mmd,
            "discriminator": 1.0,
        }

    def _matching(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        if self.config.match == "mse":
            codes = encoded["image_codes"], encoded["caption_codes"]
            return {"mse": squared_distance(*codes, encoded.get("paired"), self.config.errors == "mean")}
        scores, known = batch_scores(gathered), gathered.get("paired")
        return {"sent": self.matched(scores, self.excluded(gathered), gathered, epoch, known)}

    def _reconstructions(self, encoded: Encoded) -> dict[str, Tensor]:
        mean = self.config.errors == "mean"
        image = reconstruction(encoded["image_inputs"], encoded["image_outputs"], self.config.norm, mean)
        if "next_words" in encoded:
            return {"image": image, "text": next_word_loss(encoded["next_word_logits"], encoded["next_words"])}
        return {
            "image": image,
            "text": reconstruction(encoded["sentence_inputs"], encoded["sentence_outputs"], "squared", mean),
        }
