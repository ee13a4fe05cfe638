"""Stacked cross attention (Lee et al., 2018, SCAN) between all images and all captions of a block at once.

The published code iterates over captions and stores the attended vectors, images x captions x words x dim. Neither is
necessary: an attended vector is c = Σ_k a_k x_k, so its product with a query is Σ_k a_k (x_k · q), and its length is
‖c‖² = aᵀ G a with the small Gram matrix G of the context. Scores are computed in blocks of captions of similar length.
The backward pass computes them again; if few pairs have a gradient, as under a hinge with the hardest negatives, only
for those.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from vse.models.encoders import epsilon

FEW = 0.1  # share of pairs with a gradient below which they are computed pair by pair
# Similarities per block. A step with 128 images of 36 regions and 128 captions of 20 words in 1,024 dimensions needs
# about 100 MB beyond its inputs, or 50 MB if few pairs have a gradient; the attended vectors alone would need 1,342 MB.
# Twice as many are hardly faster on a CPU and need up to 200 MB; a third as many are a quarter slower.
AT_ONCE = 3 * 2**18
ON_GPU = 8  # factor on a GPU, on which a block takes as long as the host needs to start its kernels


@dataclass(frozen=True)
class Attention:
    """How a query attends to a context, and how the relevance of all queries becomes one score.

    Attributes:
        direction: t2i (words attend to regions) or i2t (regions attend to words).
        softmax: λ₁, inverse temperature of the attention.
        aggregate: lse, mean, max or sum over the queries.
        lse: λ₂ of LogSumExp.
        slope: of negative similarities, 0 as printed, 0.1 in the public code.
    """

    direction: str
    softmax: float
    aggregate: str
    lse: float
    slope: float


def attention_weights(
    raw: Float[Tensor, "contexts k queries l"], context_mask: Bool[Tensor, "contexts k"], how: Attention
) -> Float[Tensor, "contexts k queries l"]:
    """Attention of every query vector over the context.

    Similarities are rectified, divided by their norm over the queries, and softmaxed over the context.

    Args:
        raw: products of context and query vectors, zero for absent ones.
        context_mask: True for context vectors that exist; the others get no weight if any exists.
        how: `slope` of negative similarities and `softmax`, the inverse temperature.

    Returns:
        Weights of shape (contexts, k, queries, l), which sum to 1 over k.
    """
    clipped = F.leaky_relu(raw, how.slope) if how.slope else raw.relu()
    clipped = clipped / (torch.linalg.vector_norm(clipped, dim=-1, keepdim=True) + epsilon(raw.dtype))
    clipped = (how.softmax * clipped).masked_fill(~context_mask[:, :, None, None], torch.finfo(raw.dtype).min)
    return clipped.softmax(1)


def attended_cosine(
    raw: Float[Tensor, "contexts k queries l"],
    gram: Float[Tensor, "contexts k k"],
    weights: Float[Tensor, "contexts k queries l"],
) -> Float[Tensor, "contexts queries l"]:
    """Cosine of every query vector and the context vector that it attends to, Σ_k a_k x_k.

    Args:
        raw: products of context and query vectors, zero for absent ones.
        gram: Gram matrix of each context.
        weights: attention a of `attention_weights`.
    """
    product = (weights * raw).sum(1)
    square = (weights * (gram @ weights.flatten(2)).view_as(weights)).sum(1)
    return product / square.clamp_min(max(epsilon(raw.dtype) ** 2, torch.finfo(raw.dtype).tiny)).sqrt()


def relevance(
    raw: Float[Tensor, "contexts k queries l"],
    gram: Float[Tensor, "contexts k k"],
    context_mask: Bool[Tensor, "contexts k"],
    query_mask: Bool[Tensor, "#contexts queries l"],
    how: Attention,
) -> Float[Tensor, "contexts queries"]:
    """Scores of contexts (k vectors) with groups of queries (l unit vectors).

    Args:
        raw: products of context and query vectors, zero for absent ones.
        gram: Gram matrix of each context.
        context_mask: True for context vectors that exist.
        query_mask: True for queries that exist.
        how: the attention.

    Returns:
        Scores of shape (contexts, queries), 0 for a group without queries.
    """
    cosine = attended_cosine(raw, gram, attention_weights(raw, context_mask, how))
    if how.aggregate in ("lse", "max"):
        shown = cosine.masked_fill(~query_mask, -torch.inf)
        best = shown.amax(-1) if how.aggregate == "max" else (how.lse * shown).logsumexp(-1) / how.lse
        return best.masked_fill(~query_mask.any(-1), 0)
    total = (cosine * query_mask).sum(-1)
    if how.aggregate == "sum":
        return total
    assert how.aggregate == "mean", how.aggregate
    return total / query_mask.sum(-1).clamp_min(1)


def word_shares(words: Float[Tensor, "captions t dim"]) -> Float[Tensor, "captions t"]:
    """1 / n for each of a caption's n words, 0 for its first and last token (markers) and absent ones.

    A caption of markers only counts these.
    """
    present = _present(words)
    inside = present.clone()
    inside[:, 0] = False
    inside[:, :-1] &= present[:, 1:]  # the last token has no next one
    inside[:, -1] = False
    inside = torch.where(inside.any(1, keepdim=True), inside, present).to(words.dtype)
    return inside / inside.sum(1, keepdim=True).clamp_min(1)


def region_attention(
    regions: Float[Tensor, "images r dim"], words: Float[Tensor, "captions t dim"], how: Attention
) -> Float[Tensor, "images captions r"]:
    """How relevant each region is for each caption, a distribution over the regions of an image.

    t2i: the mean attention of the caption's words, its first and last token (markers) left out. i2t: the weight of
    each region in LogSumExp, softmax(λ₂ · cosine of the region and the words that it attends to).

    Args:
        regions: unit vectors, zero if absent.
        words: unit vectors, zero if absent.
        how: the attention.

    Returns:
        Distributions of shape (images, captions, r), zero for absent regions.
    """
    regions_present, words_present = _present(regions), _present(words)
    raw = _products(regions, words, how)
    if how.direction == "t2i":
        weights = attention_weights(raw, regions_present, how)  # (images, regions, captions, words)
        return (weights * word_shares(words)).sum(-1).transpose(1, 2) * regions_present[:, None]
    cosine = attended_cosine(
        raw, words @ words.mT, attention_weights(raw, words_present, how)
    )  # (captions, images, regions)
    logits = (how.lse * cosine).masked_fill(~regions_present[None], torch.finfo(raw.dtype).min)
    return (logits.softmax(-1) * regions_present[None]).transpose(0, 1)


def cross_attention(
    regions: Float[Tensor, "images r dim"], words: Float[Tensor, "captions t dim"], how: Attention
) -> Float[Tensor, "images captions"]:
    """Scores of all pairs of images and captions, computed in single precision at least.

    Args:
        regions: unit vectors, zero if absent.
        words: unit vectors, zero if absent.
        how: the attention.

    Returns:
        Scores of shape (images, captions).
    """
    kind = torch.promote_types(torch.promote_types(regions.dtype, words.dtype), torch.float32)
    with torch.autocast(regions.device.type, enabled=False):
        return _Scores.apply(regions.to(kind), words.to(kind), how)


class _Scores(torch.autograd.Function):
    """Scores without their graph; the backward pass computes each block again with autograd."""

    @staticmethod
    def forward(ctx: Any, regions: Tensor, words: Tensor, how: Attention) -> Tensor:
        lengths, order = _present(words).sum(1).sort()
        longest = lengths.tolist()  # read once: the backward pass uses the same blocks
        ctx.save_for_backward(regions, words, order)
        ctx.how, ctx.longest = how, longest
        scores, grams = regions.new_zeros(len(regions), len(words)), _gram(regions, how)
        there = _present(regions)
        for chosen, some in _blocks(regions, words, order, longest):
            scores[:, chosen] = _score(_products(regions, some, how), _own_gram(grams, some), there, some, how)
        return scores

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, None]:
        regions, words, order = ctx.saved_tensors
        (grad,) = grad_outputs
        pairs = grad[:, order].T.nonzero()
        if len(pairs) <= FEW * grad.numel():
            return (*_pair_gradients(regions, words, ctx.how, grad, pairs, order, ctx.longest), None)
        return (*_block_gradients(regions, words, ctx.how, grad, order, ctx.longest), None)


def _present(vectors: Tensor) -> Tensor:
    return (vectors != 0).any(-1)


def _blocks(regions: Tensor, words: Tensor, order: Tensor, longest: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks of caption numbers and words of similar length, with as little padding as each block allows.

    order: captions from the shortest to the longest; longest: their lengths.
    """
    room = _at_once(regions) // max(1, regions.shape[0] * regions.shape[1])
    size = max(1, room * len(longest) // max(1, sum(longest)))
    for start in range(0, len(longest), size):
        chosen = order[start : start + size]
        yield chosen, words[chosen, : max(1, longest[start + len(chosen) - 1])]


def _at_once(beside: Tensor) -> int:
    return AT_ONCE * (ON_GPU if beside.is_cuda else 1)


def _gram(regions: Tensor, how: Attention) -> Tensor | None:
    return regions @ regions.mT if how.direction == "t2i" else None


def _own_gram(gram: Tensor | None, words: Tensor) -> Tensor:
    return words @ words.mT if gram is None else gram


def _products(regions: Tensor, words: Tensor, how: Attention) -> Tensor:
    """(images, regions, captions, words) for t2i, (captions, words, images, regions) for i2t: context first."""
    context, query = (regions, words) if how.direction == "t2i" else (words, regions)
    return (context.flatten(0, 1) @ query.flatten(0, 1).T).view(*context.shape[:2], *query.shape[:2])


def _score(raw: Tensor, gram: Tensor, there: Tensor, words: Tensor, how: Attention) -> Tensor:
    """(images, captions) of a block; `there` masks the regions that exist."""
    if how.direction == "t2i":
        return relevance(raw, gram, there, _present(words)[None], how)
    return relevance(raw, gram, _present(words), there[None], how).T


def _block_gradients(
    regions: Tensor, words: Tensor, how: Attention, grad: Tensor, order: Tensor, longest: list[int]
) -> tuple[Tensor, Tensor]:
    over_regions, over_words, grams = torch.zeros_like(regions), torch.zeros_like(words), _gram(regions, how)
    there, flat = _present(regions), regions.flatten(0, 1)
    over_gram = torch.zeros(()) if grams is None else torch.zeros_like(grams)
    for chosen, some in _blocks(regions, words, order, longest):
        raw, gram = _products(regions, some, how).requires_grad_(), _own_gram(grams, some).detach().requires_grad_()
        with torch.enable_grad():
            scores = _score(raw, gram, there, some, how)
        over_raw, over_own = torch.autograd.grad(scores, (raw, gram), grad[:, chosen])
        flat_words = some.flatten(0, 1)
        table = over_raw.reshape(len(flat), -1) if how.direction == "t2i" else over_raw.reshape(len(flat_words), -1).T
        over_regions += (table @ flat_words).view_as(regions)
        pulled = (table.T @ flat).view_as(some)
        if how.direction == "t2i":
            over_gram += over_own
        else:
            pulled += (over_own + over_own.mT) @ some
        over_words[chosen, : some.shape[1]] = pulled
    if how.direction == "t2i":
        over_regions += (over_gram + over_gram.mT) @ regions
    return over_regions, over_words


def _pair_gradients(
    regions: Tensor, words: Tensor, how: Attention, grad: Tensor, pairs: Tensor, order: Tensor, longest: list[int]
) -> tuple[Tensor, Tensor]:
    """As `_block_gradients`, for pairs with a gradient only, some dozens at a time.

    pairs: (position of the caption in `order`, image) of each, from the shortest caption to the longest.
    """
    over_regions, over_words = torch.zeros_like(regions), torch.zeros_like(words)
    region_there, word_there = _present(regions), _present(words)
    numbers = (regions.shape[1] + words.shape[1]) * words.shape[2]
    size = max(1, 2 * _at_once(regions) // max(1, numbers))
    parts = pairs.split(size) if len(pairs) else ()
    last = torch.stack([part[-1, 0] for part in parts]).tolist() if parts else []  # read at once
    for part, place in zip(parts, last, strict=True):
        image, caption = part[:, 1], order[part[:, 0]]
        time = max(1, longest[place])
        own_regions = regions[image].requires_grad_()
        own_words = words[caption, :time].requires_grad_()
        here, queried = region_there[image], word_there[caption, :time]
        if how.direction == "i2t":
            here, queried = queried, here
        with torch.enable_grad():
            context, query = (own_regions, own_words) if how.direction == "t2i" else (own_words, own_regions)
            scores = relevance((context @ query.mT)[:, :, None], context @ context.mT, here, queried[:, None], how)
        pulled = torch.autograd.grad(scores, (own_regions, own_words), grad[image, caption][:, None])
        over_regions.index_add_(0, image, pulled[0])
        over_words[:, :time].index_add_(0, caption, pulled[1])
    return over_regions, over_words
