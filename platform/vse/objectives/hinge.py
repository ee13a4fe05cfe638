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
    """Pairs that are no negatives: captions of the same image, or of the same normalised text.

    Args:
        images: group of the image of each row.
        texts: group of the text of each row.
        other_images: group of the image of each column.
        other_texts: group of the text of each column.
    """
    return (images[:, None] == other_images[None, :]) | (texts[:, None] == other_texts[None, :])


MASKS = ("same", "truth", "none")
ABOUT_MASK = (
    "pairs never used as negatives: of the same image or text (same), also true pairs (truth), or no pair (none)"
)


def excluded_pairs(gathered: Mapping[str, Tensor], mask: str) -> Bool[Tensor, "items items"]:
    """Pairs (image i, caption j) of a batch, besides the diagonal, that are no negatives.

    Items that are not `paired` neither are nor have negatives, since their own pair is not known.

    Args:
        gathered: groups of images and texts, and `true_images` (items, images of the split) for `truth`.
        mask: `same` for captions of one image or one text; `truth` for these and captions that are true of the image,
            which only some data sets know; `none` for no pair, as published.
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
    """Σ_i F_j [m + s_ij − s_ii]₊ + Σ_j F_i [m + s_ij − s_jj]₊ of images i and captions j.

    If all codes are equal, the loss is 2·items·margin under the maximum.

    Args:
        scores: s.
        excluded: pairs that are no negatives; neither is the diagonal.
        margin: m.
        hardest: F is the maximum (hard-negative mining) instead of the sum.
    """
    positives = scores.diagonal()
    excluded = excluded | torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    over_captions = (margin + scores - positives[:, None]).clamp_min(0).masked_fill(excluded, 0)
    over_images = (margin + scores - positives[None, :]).clamp_min(0).masked_fill(excluded, 0)
    if hardest:
        return over_captions.amax(1).sum() + over_images.amax(0).sum()
    return over_captions.sum() + over_images.sum()
