"""The objective of jWAE (Mahajan et al., ICCV 2019), eqs. 6 to 9, and of its ablations.

The paper leaves open how the terms of a batch of B captions are weighted: eq. 6 prints sums for the reconstructions
next to divergences, which are means; eq. 1 is a sum, eq. 7 a mean. With `reduction=sum` every term is summed over the
batch. With `mean`, every term but the hinge is a mean over it, as in the released code. Next to the summed hinge each λ
then weighs B times less (128 in the published batches); with squared errors (eq. 8) all terms are divided by B.

If only N_S captions of a batch have a known image, eq. 7 stays their mean, so that its weight against the
reconstructions of all B does not fall with N_S (with `sum` it enters as B / N_S times their sum). The hinge of eqs. 1
and 9 sums over the known pairs. `errors=mean` also takes the mean of squared errors over dimensions, as the loss of a
framework would: the regulariser then weighs more by the number of dimensions.

With sums, standardised sentence vectors of D numbers cost about D at first, and image features of unit length about
one. λ₂ then outweighs λ₁ by that factor, and the regulariser moves texts little (300 against 0.1 per caption for the
means of word2vec). Standardised features, as for small data, have a length of about √D, so that λ₁ weighs more.
"""

from dataclasses import dataclass
from types import MappingProxyType

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from vse.config import knob
from vse.errors import InputError
from vse.objectives.matching import MATCHES, MatchingObjective
from vse.objectives.objective import Encoded, batch_scores, products, single
from vse.objectives.ranking import HingeConfig
from vse.registry import register

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the kernels' widths, times the mean squared distance


def reconstruction(
    inputs: Float[Tensor, "items dim"], outputs: Float[Tensor, "items dim"], norm: str, mean: bool = False
) -> Float[Tensor, ""]:
    """Reconstruction error Σ_i ‖x_i − g(f(x_i))‖ (eq. 6).

    Args:
        inputs: x.
        outputs: g(f(x)).
        norm: `l1`, `l2`, or `squared`, the square of `l2` ("MSE").
        mean: of the errors over dimensions instead of their sum (for `l2` under the root).
    """
    difference = inputs - outputs
    share = 1 / inputs.shape[1] if mean else 1.0
    if norm == "l1":
        return share * difference.abs().sum()
    squared = share * difference.square().sum(1)
    if norm == "squared":
        return squared.sum()
    assert norm == "l2", norm
    return squared.clamp_min(1e-16).sqrt().sum()  # no gradient where the error is exactly zero


def next_word_loss(logits: Float[Tensor, "words vocabulary"], words: Int[Tensor, " words"]) -> Float[Tensor, ""]:
    """−Σ_j Σ_m log p(w_m | w_<m, f_t(y_j)) (eq. 5) over all words of all captions."""
    return F.cross_entropy(logits, words, reduction="sum")


def squared_distance(
    images: Float[Tensor, "items dim"],
    captions: Float[Tensor, "items dim"],
    paired: Tensor | None = None,
    mean: bool = False,
) -> Float[Tensor, ""]:
    """Σ_l ‖f_v(x_l) − f_t(y_l)‖² over known pairs (eq. 7 times their number).

    Args:
        images: codes f_v(x).
        captions: codes f_t(y).
        paired: which are known pairs; None for all.
        mean: over dimensions instead of the sum.
    """
    distances = (images - captions).square().sum(1) / (images.shape[1] if mean else 1)
    return distances.sum() if paired is None else (distances * paired.to(distances.dtype)).sum()


def generator_loss(logits: Float[Tensor, " items"]) -> Float[Tensor, ""]:
    """−Σ log D(code), the non-saturating loss of an encoder as the generator (section 4.2)."""
    return F.softplus(-logits).sum()


def discriminator_loss(
    prior: Float[Tensor, "items two"], images: Float[Tensor, " items"], captions: Float[Tensor, " items"]
) -> Float[Tensor, ""]:
    """Loss of the discriminator: −E log D(z) − E log(1 − D(code)), times the items (section 4.2).

    Chance is 2 log 2 per item, the optimum 2 log 2 − 2 D_JS(½(F_v + F_t)‖P).

    Args:
        prior: logits of samples z of the prior.
        images: logits of codes of images.
        captions: logits of codes of captions.
    """
    return 0.5 * (F.softplus(-prior).sum() + F.softplus(images).sum() + F.softplus(captions).sum())


def gaussian_divergence(
    mean: Float[Tensor, "items dim"], log_variance: Float[Tensor, "items dim"]
) -> Float[Tensor, ""]:
    """Σ_i D_KL(N(mean_i, exp(log_variance_i)) ‖ N(0, I)) (eq. 2)."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()


def mean_discrepancy(images: Float[Tensor, "items dim"], captions: Float[Tensor, "items dim"]) -> Float[Tensor, ""]:
    """Squared maximum mean discrepancy between two sets of codes (V-statistic).

    MMD² = E k(v, v') + E k(t, t') − 2 E k(v, t), where k is the mean of Gaussian kernels exp(−‖a − b‖² / (s·σ²)) and σ²
    the mean squared distance of all codes of the batch, without gradient. The paper names an MMD loss "for matching
    text and image distributions" (section 5.1) without a kernel: kernels and widths are ours.
    """
    num = len(images)
    codes = single(torch.cat([images, captions]))
    squares = codes.square().sum(1)
    distances = (squares[:, None] + squares[None, :] - 2 * products(codes, codes)).clamp_min(0)
    width = distances.detach().mean().clamp_min(1e-16)
    kernel = torch.stack([torch.exp(-distances / (scale * width)) for scale in SCALES]).mean(0)
    blocks = kernel[:num, :num] + kernel[num:, num:] - kernel[:num, num:] - kernel[num:, :num]
    return blocks.sum() / max(num, 1) ** 2


@register("objective", "jwae")
class JWAELoss(MatchingObjective):
    """Losses `sent` (eq. 1) or `mse` (eq. 7), the reconstructions `image` and `text`, the regularisers `gauss_image`
    and `gauss_text` (eq. 6), `mmd`, and `discriminator`, which has its own phase.

    Args:
        config: keys below `objective.`.
    """

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
            "loss of known pairs: hinge (eq. 9), squared error (eq. 8); ours: InfoNCE or the sigmoid loss",
            choices=(*MATCHES, "mse"),
        )
        lambda1: float = knob(0.5, "weight of the images' reconstruction", low=0)
        lambda2: float = knob(0.005, "weight of the text's reconstruction", low=0)
        lambda3: float = knob(
            0.01,
            "weight of the images' Gaussian regulariser",
            low=0,
            only="model.regularizer=adversary|vae or model=jwae_scan",
        )
        lambda4: float = knob(
            0.01,
            "weight of the text's Gaussian regulariser",
            low=0,
            only="model.regularizer=adversary|vae or model=jwae_scan",
        )
        norm: str = knob(
            "l2", "norm of the images' reconstruction error", choices=("l1", "l2", "squared"), only="lambda1>0"
        )
        reduction: str = knob(
            "sum",
            "over the batch, for all terms but the hinge: sum, or the released code's mean",
            choices=("sum", "mean"),
        )
        errors: str = knob(
            "sum",
            "errors over dimensions: sum as in eqs. 6 and 7, or mean",
            choices=("sum", "mean"),
            only="lambda1>0 or model.text=sentence lambda2>0 or match=mse",
        )
        mmd: float = knob(0.0, "weight of the discrepancy between the codes of images and text (MMD-MSE)", low=0)

    def __init__(self, config: "JWAELoss.Config") -> None:
        super().__init__(config, config.match)
        self.averaged = self.local | {"mmd"} if config.reduction == "mean" else frozenset()
        self.balanced = frozenset({"mse"} - self.averaged)

    def check(self, model: object) -> None:
        config, regularizer = self.config, getattr(model, "regularizer", "")
        weighed = [f"objective.{name}={getattr(config, name):g}" for name in ("lambda3", "lambda4")]
        if regularizer == "none" and (config.lambda3 or config.lambda4):
            raise InputError(
                f"{weighed[0]}, {weighed[1]}: model.regularizer=none has no Gaussian regulariser to weigh; add "
                "objective.lambda3=0 objective.lambda4=0"
            )
        if regularizer != "vae" and not (regularizer == "none" or config.lambda3 or config.lambda4):
            instead = "model.regularizer=none" if regularizer else "objective.lambda3 and objective.lambda4 above 0"
            raise InputError(
                f"{weighed[0]}, {weighed[1]}: the discriminator would train without effect on the codes; use {instead}"
            )
        if config.match == "mse" and config.hinge != type(config)().hinge:
            raise InputError(f"objective.hinge={config.hinge}: objective.match=mse has no negatives; use match=hinge")

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
        scores, paired = batch_scores(gathered), gathered.get("paired")
        return {"sent": self.matched(scores, self.excluded(gathered), gathered, epoch, paired)}

    def _reconstructions(self, encoded: Encoded) -> dict[str, Tensor]:
        mean = self.config.errors == "mean"
        image = reconstruction(encoded["image_inputs"], encoded["image_outputs"], self.config.norm, mean)
        if "next_words" in encoded:
            return {"image": image, "text": next_word_loss(encoded["next_word_logits"], encoded["next_words"])}
        return {
            "image": image,
            "text": reconstruction(encoded["sentence_inputs"], encoded["sentence_outputs"], "squared", mean),
        }
