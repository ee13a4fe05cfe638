"""Losses of codes and their reconstructions, each summed over the items of a batch (jWAE, section 4)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from vse.objectives.objective import products, single


def reconstruction(
    inputs: Float[Tensor, "items dim"], outputs: Float[Tensor, "items dim"], norm: str, mean: bool = False
) -> Float[Tensor, ""]:
    """Σ_i ‖x_i − g(f(x_i))‖ (eq. 6): `l1` Σ|·|, `l2` its Euclidean length, `squared` that length squared ("MSE").

    `mean`: of the dimensions' errors instead of their sum (for `l2`: under the root).
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
    """Σ_l ‖f_v(x_l) − f_t(y_l)‖² over the pairs that are known (eq. 7 times their number); `mean`: over dimensions."""
    distances = (images - captions).square().sum(1) / (images.shape[1] if mean else 1)
    return distances.sum() if paired is None else (distances * paired.to(distances.dtype)).sum()


def generator_loss(logits: Float[Tensor, " items"]) -> Float[Tensor, ""]:
    """−Σ log D(code): the non-saturating loss of an encoder as the generator, against D_JS(F‖P) (section 4.2)."""
    return F.softplus(-logits).sum()


def discriminator_loss(
    prior: Float[Tensor, "items two"], images: Float[Tensor, " items"], captions: Float[Tensor, " items"]
) -> Float[Tensor, ""]:
    """The discriminator's loss: −E log D(z) − E log(1 − D(code)), times the items; 2 log 2 an item is chance.

    At its best it is 2 log 2 − 2 D_JS(½(F_v + F_t)‖P).
    """
    return 0.5 * (F.softplus(-prior).sum() + F.softplus(images).sum() + F.softplus(captions).sum())


def gaussian_divergence(
    mean: Float[Tensor, "items dim"], log_variance: Float[Tensor, "items dim"]
) -> Float[Tensor, ""]:
    """Σ_i D_KL(N(mean_i, exp(log_variance_i)) ‖ N(0, I)) (eq. 2)."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()


SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the kernels' widths, times the mean squared distance


def mean_discrepancy(images: Float[Tensor, "items dim"], captions: Float[Tensor, "items dim"]) -> Float[Tensor, ""]:
    """Squared maximum mean discrepancy between the two sets of codes, every pair of items counted (V-statistic).

    MMD² = E k(v, v') + E k(t, t') − 2 E k(v, t), k the mean of Gaussian kernels exp(−‖a − b‖² / (s·σ²)), σ² the mean
    squared distance of all codes of the batch (no gradient through it). The paper names an MMD loss "for matching text
    and image distributions" (section 5.1) and gives no kernel: kernels and widths are ours.
    """
    num = len(images)
    codes = single(torch.cat([images, captions]))
    squares = codes.square().sum(1)
    distances = (squares[:, None] + squares[None, :] - 2 * products(codes, codes)).clamp_min(0)
    width = distances.detach().mean().clamp_min(1e-16)
    kernel = torch.stack([torch.exp(-distances / (scale * width)) for scale in SCALES]).mean(0)
    blocks = kernel[:num, :num] + kernel[num:, num:] - kernel[:num, num:] - kernel[num:, :num]
    return blocks.sum() / max(num, 1) ** 2
