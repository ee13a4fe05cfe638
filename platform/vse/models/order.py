"""Order-embeddings (Vendrov et al., 2016) and Order++ (Faghri et al., 2018): a caption lies above its image.

The codes are VSE++'s; the score says how far a caption's coordinates stick out over the image's. Both published forms
are here: the original paper's negative sum of squares, and the root of it that the code of VSE++ takes.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vse.config import knob
from vse.models.family import Batch, Context, Encoded
from vse.models.vsepp import VSEPP
from vse.registry import register

AT_ONCE = 2**20  # numbers of one block of images x captions x dim


class _Violation(torch.autograd.Function):
    """E_ij = Σ_d max(0, s_jd − v_id)² in blocks of captions, computed again in the backward pass to save memory."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, captions: Tensor) -> Tensor:
        ctx.save_for_backward(images, captions)
        blocks = [_excess(images, some).square().sum(-1) for some in captions.split(_block(images))]
        return torch.cat(blocks, dim=1)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor]:
        images, captions = ctx.saved_tensors
        size, over_images, over_captions = _block(images), torch.zeros_like(images), []
        for some, grad in zip(captions.split(size), grad_outputs[0].split(size, dim=1), strict=True):
            pull = _excess(images, some) * (2 * grad[..., None])
            over_images -= pull.sum(1)
            over_captions.append(pull.sum(0))
        return over_images, torch.cat(over_captions)


def _block(images: Tensor) -> int:
    return max(1, AT_ONCE // max(1, images.numel()))


def _excess(images: Tensor, captions: Tensor) -> Tensor:
    return (captions[None] - images[:, None]).clamp_min(0)


def order_violation(
    images: Float[Tensor, "images dim"], captions: Float[Tensor, "captions dim"]
) -> Float[Tensor, "images captions"]:
    """Order violation E_ij = ‖max(0, s_j − v_i)‖² (Vendrov et al.; the caption is the more general term).

    Args:
        images: codes v.
        captions: codes s.

    Returns:
        Violations of shape (images, captions).
    """
    kind = torch.promote_types(images.dtype, captions.dtype)  # autocast may have lowered the precision of one
    return _Violation.apply(images.to(kind), captions.to(kind))


def order_scores(
    images: Float[Tensor, "images dim"], captions: Float[Tensor, "captions dim"], form: str
) -> Float[Tensor, "images captions"]:
    """Scores from the order violation E.

    Args:
        images: codes v.
        captions: codes s.
        form: `squared` for −E, or `root` for −√E, whose gradient at zero is zero.

    Returns:
        Scores of shape (images, captions).
    """
    violation = order_violation(images, captions)
    if form == "squared":
        return -violation
    assert form == "root", form
    kept = violation == 0
    return -violation.masked_fill(kept, 1).sqrt().masked_fill(kept, 0)


@register("family", "order")
class Order(VSEPP):
    """Codes `images` and `captions` (batch, dim) are unit vectors, by default of absolute values.

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    pairwise = frozenset({"captions"})

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(VSEPP.Config):
        """VSE++'s sizes; `form` and `absolute` as in the original paper."""

        form: str = knob("squared", "score: negative squared violation, or its root", choices=("squared", "root"))
        absolute: bool = knob(True, "take absolute values of both codes, after normalisation")

    def __init__(self, config: "Order.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config, context, scale)
        self.form, self.absolute = config.form, config.absolute

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim)."""
        return self._positive(super().encode_images(batch))

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim)."""
        return self._positive(super().encode_captions(batch))

    def _positive(self, codes: Encoded) -> Encoded:
        return {name: code.abs() for name, code in codes.items()} if self.absolute else codes

    def score_parts(self, images: Batch, captions: Batch) -> dict[str, Tensor]:
        """score (images, captions): the negative violation, at most 0."""
        return {"score": order_scores(images["images"], captions["captions"], self.form)}
