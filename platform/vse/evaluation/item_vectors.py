"""One vector for each image or caption, whatever codes a family has of it: neighbours within a modality need one."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vse.evaluation.retrieval import Encoded
from vse.models.family import Family

Side = Literal["images", "captions"]
_SETS = {"images": "regions", "captions": "words"}


@runtime_checkable
class Mixes(Protocol):
    """A family whose caption vector is a mix of two codes at inference (UniVSE: u_cap of u_sent and u_comp)."""

    @property
    def alpha(self) -> Tensor | float: ...

    def mix(self, sentences: Tensor, bags: Tensor, alpha: Tensor | float) -> Tensor:
        """The caption vector.

        Args:
            sentences: u_sent, (captions, dim).
            bags: u_comp, (captions, dim).
            alpha: Weight of u_sent, from 0 to 1.
        """
        ...


def alpha_of(family: object) -> float | None:
    """The learned or configured weight of u_sent; None if the family has none."""
    return float(torch.as_tensor(family.alpha).detach()) if isinstance(family, Mixes) else None


def item_vectors(
    family: object, codes: Encoded, side: Side, settings: Mapping[str, Any] | None = None
) -> Float[Tensor, "items dim"]:
    """Unit vectors of images or captions, zero for an item whose codes are zero.

    The code of the item; of a family that mixes two codes of a caption, the mix; of a family that has a code for every
    region or word alone (SCAN), the mean over its regions or words, in which padding is zero.

    Args:
        family: The model.
        codes: Of the items, (items, dim) or (items, regions or words, dim) each.
        side: What the items are.
        settings: Of inference that are not as configured, such as UniVSE's α.
    """
    if side == "captions" and isinstance(family, Mixes):
        alpha = (settings or {}).get("alpha", family.alpha)
        vectors = family.mix(codes["sentences"], codes["bags"], alpha)
    elif side in codes:
        vectors = codes[side]
    else:
        several = codes[_SETS[side]].float()
        vectors = several.sum(1) / (several != 0).any(-1).sum(1, keepdim=True).clamp_min(1)
    return F.normalize(vectors.float(), dim=-1)


def scores_by_product(family: Family) -> bool:
    """Whether the family's score is the inner product of one vector of an image and one of a caption."""
    return isinstance(family, Mixes) or type(family).score_parts is Family.score_parts
