"""Bidirectional retrieval of encoded images and captions, block by block."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse.evaluation.metrics import Retrieval, RetrievalCounter, Ties, refuse_infinite

Encoded = Mapping[str, Tensor]
"""Named tensors whose first dimension runs over items (images or captions)."""

PAIRS_AT_ONCE = 128  # true pairs are read off small blocks: about one per cent of the whole product at 5,000 images
PAIRS_ON_GPU = 2048  # eight per cent, but an eighth of the time that starting the kernels of smaller blocks takes


@runtime_checkable
class ScoresParts(Protocol):
    """What retrieval needs of a family.

    `score_parts` gives named matrices images x captions; a part with one row holds one value per caption.
    `combine(parts, **settings)` must work element by element, because true pairs are combined as a single row.
    """

    def score_parts(self, images: Encoded, captions: Encoded) -> dict[str, Tensor]: ...

    @property
    def combine(self) -> Callable[..., Tensor]: ...


BYTES_A_SCORE = 48  # on a GPU: two parts, their mix with a temporary, an ensemble's sum, flags and counts
LARGEST = 2**26  # scores of a block; more leave the rate of a GPU as it is
MOST_CAPTIONS = 2**14  # of a block; families that compare pair by pair hold a row of them at once


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocks:
    """Items per block; memory is a few times images x captions x 4 bytes for each score part."""

    images: int = 512
    captions: int = 2048


def blocks_within(free: int, num_images: int, num_captions: int) -> Blocks:
    """The largest blocks of which one fills at most half of the free memory of a GPU; at least the default ones.

    Args:
        free: Bytes.
        num_images: Images in all.
        num_captions: Captions in all.
    """
    room = min(LARGEST, free // 2 // BYTES_A_SCORE)
    least = Blocks()
    captions = min(MOST_CAPTIONS, max(least.captions, room // max(1, num_images) // 256 * 256))
    captions = min(captions, max(least.captions, num_captions))
    return Blocks(images=min(max(least.images, room // captions), max(least.images, num_images)), captions=captions)


def blocks_for(model: "ScoresParts", images: Encoded, num_captions: int) -> Blocks:
    """Blocks for encoded items where they are: as large as the memory of a GPU allows, or as suits the cache of a CPU.

    Args:
        model: If it compares pair by pair (`Family.pairwise`), it divides blocks by itself, and the default ones stay.
        images: Codes of the images, on the device that scores.
        num_captions: Captions or adversaries in all.
    """
    device = next(iter(images.values())).device
    if device.type != "cuda" or getattr(model, "pairwise", ()):
        return Blocks()
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # by torch, for tensors to come
    return blocks_within(torch.cuda.mem_get_info(device)[0] + kept, num_items(images), num_captions)


def num_items(items: Encoded) -> int:
    """Number of images or captions in encoded items."""
    sizes = {name: len(value) for name, value in items.items()}
    assert len(set(sizes.values())) == 1, f"encoded items disagree on their number: {sizes}"
    return next(iter(sizes.values()))


def slice_items(items: Encoded, index: slice | Tensor | np.ndarray) -> dict[str, Tensor]:
    """The items at `index`, in every tensor."""
    if isinstance(index, np.ndarray):
        index = torch.as_tensor(index, device=next(iter(items.values())).device)
    return {name: value[index] for name, value in items.items()}


def spans(total: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover `range(total)`."""
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))


def pair_parts(
    model: ScoresParts, images: Encoded, captions: Encoded, caption_to_image: Int[Tensor, " captions"]
) -> dict[str, Tensor]:
    """Score parts of each caption with its own image only, each as a matrix of one row.

    Args:
        model: Makes the score parts.
        images: Codes of the images.
        captions: Codes of the captions.
        caption_to_image: The position of each caption's image. Its device is the one of the codes.
    """
    device, own = caption_to_image.device, caption_to_image.cpu()  # blocks are divided here, so that none waits
    order = own.argsort(stable=True)
    at_once = PAIRS_AT_ONCE if device.type == "cpu" else PAIRS_ON_GPU
    divided = [own[chosen].unique(return_inverse=True) for chosen in order.split(at_once)]
    sizes = [len(needed) for needed, _ in divided]
    needed, rows = (torch.cat(each).to(device) for each in zip(*divided, strict=True))
    parts_by_name: dict[str, list[Tensor]] = {}
    for images_of, row, chosen in zip(
        needed.split(sizes), rows.split(at_once), order.to(device).split(at_once), strict=True
    ):
        parts = model.score_parts(slice_items(images, images_of), slice_items(captions, chosen))
        column = torch.arange(len(chosen), device=device)
        for name, part in parts.items():
            parts_by_name.setdefault(name, []).append(part[0] if len(part) == 1 else part[row, column])
    place = order.argsort().to(device)
    return {name: torch.cat(values)[place][None] for name, values in parts_by_name.items()}


def part_blocks(
    model: ScoresParts, images: Encoded, captions: Encoded, blocks: Blocks, share: tuple[int, int] = (0, 1)
) -> Iterator[tuple[slice, slice, dict[str, Tensor]]]:
    """(images, captions, score parts) of every block, or of a worker's share of them.

    Args:
        model: Makes the score parts.
        images: Codes of the images.
        captions: Codes of the captions.
        blocks: Items of a block.
        share: (k, n): blocks k, k + n, k + 2n and so on, of k < n.
    """
    number = itertools.count()
    for cols in spans(num_items(captions), blocks.captions):
        some = slice_items(captions, cols)
        for rows in spans(num_items(images), blocks.images):
            if next(number) % share[1] == share[0]:
                yield rows, cols, model.score_parts(slice_items(images, rows), some)


def as_index(rows: np.ndarray | Tensor, items: Encoded) -> Int[Tensor, " captions"]:
    """Row numbers as an int64 tensor on the device of the encoded items."""
    return torch.as_tensor(rows, dtype=torch.int64, device=next(iter(items.values())).device)


def score_blocks(
    model: ScoresParts,
    images: Encoded,
    captions: Encoded,
    *,
    settings: Mapping[str, Any] | None = None,
    blocks: Blocks | None = None,
    share: tuple[int, int] = (0, 1),
) -> Iterator[tuple[slice, slice, Float[Tensor, "images captions"]]]:
    """(images, captions, scores in single precision) of every block, or of a worker's share of them.

    Args:
        model: Scores the codes.
        images: Codes of the images.
        captions: Codes of the captions.
        settings: Further arguments of the model's `combine`, such as α; None for its configured ones.
        blocks: Items of a block; None for `blocks_for`.
        share: Of `part_blocks`.
    """
    blocks = blocks or blocks_for(model, images, num_items(captions))
    for rows, cols, parts in part_blocks(model, images, captions, blocks, share):
        yield rows, cols, model.combine(parts, **(settings or {})).float()


@torch.inference_mode()
def score_matrix(
    model: ScoresParts, images: Encoded, captions: Encoded, *, settings: Mapping[str, Any] | None = None
) -> Float[Tensor, "images captions"]:
    """Every score as one matrix in single precision, for a few items; ranks of a split need no matrix.

    Args:
        model: Scores the codes.
        images: Codes of the images; the matrix is on their device.
        captions: Codes of the captions.
        settings: Further arguments of the model's `combine`, such as α; None for its configured ones.

    Raises:
        Diverged: A score is NaN or infinite.
    """
    device = next(iter(images.values())).device
    scores = torch.empty(num_items(images), num_items(captions), device=device)
    for rows, cols, block in score_blocks(model, images, captions, settings=settings):
        refuse_infinite(block)
        scores[rows, cols] = block
    return scores


@torch.inference_mode()
def count_retrieval(
    model: ScoresParts,
    images: Encoded,
    captions: Encoded,
    caption_to_image: np.ndarray | Tensor,
    *,
    settings: Mapping[str, Any] | None = None,
    ties: Ties | None = None,
    blocks: Blocks | None = None,
    share: tuple[int, int] = (0, 1),
) -> RetrievalCounter:
    """A counter that has seen every image x caption score; attacks continue from it.

    Args:
        model: Scores the codes.
        images: Codes of the images.
        captions: Codes of the captions.
        caption_to_image: (captions,), the position of each caption's image.
        settings: Further arguments of the model's `combine`, such as α; None for its configured ones.
        ties: The tolerance within which scores tie; None for the default one.
        blocks: Items that are scored at once; None for `blocks_for`.
        share: (worker, number of workers) that score every so many-th block each; their `counts` are to be added up.

    Raises:
        Diverged: A score is NaN, or the score of a true pair infinite.
    """
    settings, own = settings or {}, as_index(caption_to_image, captions)
    pairs = model.combine(pair_parts(model, images, captions, own), **settings)[0].float()
    counter = RetrievalCounter(pairs, own, num_items(images), ties)
    for rows, cols, scores in score_blocks(model, images, captions, settings=settings, blocks=blocks, share=share):
        counter.add(scores, rows, cols)
    counter.check()
    return counter


def retrieve(
    model: ScoresParts, images: Encoded, captions: Encoded, caption_to_image: np.ndarray | Tensor, **options: Any
) -> Retrieval:
    """Ranks of both directions.

    Args:
        model: Scores the codes.
        images: Codes of the images.
        captions: Codes of the captions.
        caption_to_image: (captions,), the position of each caption's image.
        **options: As for `count_retrieval`.
    """
    return count_retrieval(model, images, captions, caption_to_image, **options).result()
