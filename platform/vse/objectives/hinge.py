"""The bidirectional hinge with in-batch negatives (VSE++; UniVSE eq. 1; VSE-C eq. 1)."""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def same_meaning(
    images: Int[Tensor, " rows"],
    texts: Int[Tensor, " rows"],
    other_images: Int[Tensor, " columns"],
    other_texts: Int[Tensor, " columns"],
) -> Bool[Tensor, "rows columns"]:
    """Pairs that must not serve as negatives: captions of the same image, or of the same normalised text."""
    return (images[:, None] == other_images[None, :]) | (texts[:, None] == other_texts[None, :])


MASKS = ("same", "truth", "none")
ABOUT_MASK = (
    "pairs never used as negatives: of the same image or text (same), also true pairs (truth), or no pair (none)"
)


def excluded_pairs(gathered: Mapping[str, Tensor], mask: str) -> Bool[Tensor, "items items"]:
    """Pairs (image i, caption j) of a batch that are no negatives, beside the diagonal.

    `same`: captions of one image or of one text; `none`: no pair, as published; `truth`: also every caption that is
    true of the image, which only a data set that knows can say (`true_images` (items, images of the split)). Items
    that are not `paired` are nobody's negatives and have none: a pair of their own is not known.
    """
    images, texts = gathered["image_group"], gathered["text_group"]
    if mask == "none":
        excluded = torch.zeros(len(images), len(images), dtype=torch.bool, device=images.device)
    else:
        excluded = same_meaning(images, texts, images, texts)
    if mask == "truth":
        excluded = excluded | gathered["true_images"][:, images].T
    if "paired" in gathered:
        excluded = excluded | ~(gathered["paired"][:, None] & gathered["paired"][None, :])
    return excluded


def bidirectional_hinge(
    scores: Float[Tensor, "items items"], excluded: Bool[Tensor, "items items"], margin: float, hardest: bool
) -> Float[Tensor, ""]:
    """Σ_i F_j [m + s_ij − s_ii]₊ + Σ_j F_i [m + s_ij − s_jj]₊, rows images, columns captions.

    F is the maximum (`hardest`, the published hard-negative mining) or the sum. `excluded` pairs and the diagonal are
    no negatives. All codes equal: exactly 2·items·margin under the maximum.
    """
    positives = scores.diagonal()
    excluded = excluded | torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    over_captions = (margin + scores - positives[:, None]).clamp_min(0).masked_fill(excluded, 0)
    over_images = (margin + scores - positives[None, :]).clamp_min(0).masked_fill(excluded, 0)
    if hardest:
        return over_captions.amax(1).sum() + over_images.amax(0).sum()
    return over_captions.sum() + over_images.sum()
