"""Phrases of an image with their boxes, and which of its region proposals are examples of them.

A phrase with several boxes is localised by the smallest box around them, as published (Plummer et al., IJCV 2017).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from vse.data import keyed
from vse.data.records import Box
from vse.data.regions import around, cleaned, iou

RIGHT = 0.5  # least overlap of a region that localises a phrase (jWAE, section 5.2)
_JITTER = 0.25  # largest shift of a side of a jittered box, in widths and heights of the box


@dataclass(frozen=True, eq=False)
class Phrase:
    """A phrase of an image.

    Args:
        text: The phrase, or the attributes and the category of annotated objects.
        boxes: (boxes, 4): left, top, right, bottom.
        caption: The id of the caption that holds the phrase; empty for a category.
    """

    text: str
    boxes: Float[np.ndarray, "boxes 4"]
    caption: str = ""

    @property
    def box(self) -> Float[np.ndarray, "4"]:
        """The smallest box around all boxes."""
        return around(self.boxes)


def phrases_of(boxes: Sequence[Box]) -> list[Phrase]:
    """The phrases of one image: boxes that share caption, label and attributes.

    The attributes of a category, such as a colour, precede it in the text. Those of a phrase are no part of it.
    """
    grouped = dict[tuple[str, str, tuple[str, ...]], list[Box]]()
    for box in boxes:
        grouped.setdefault((box.caption, box.label, box.attributes), []).append(box)
    return [
        Phrase(
            label if caption else " ".join((*attributes, label)),
            np.array([(box.left, box.top, box.right, box.bottom) for box in each]),
            caption,
        )
        for (caption, label, attributes), each in grouped.items()
    ]


def jittered(
    boxes: Float[np.ndarray, "boxes 4"], number: int, seed: int, image: str
) -> Float[np.ndarray, "proposals 4"]:
    """Proposals made of annotated boxes: each box itself, then copies of them with shifted sides, and random boxes.

    Half of the proposals besides the boxes are copies, in turn of every box, the others are drawn anywhere. They hold
    every annotated box, so that they show what a model makes of good proposals, not what a proposal method is worth.

    Args:
        boxes: Annotated boxes of one image.
        number: Proposals at most.
        seed: Of the shifts.
        image: Id of the image; its draws depend on no other image.
    """
    draws = keyed.uniform(keyed.keys(seed, 0, f"jitter {image}", np.arange(number)), 4)
    shifts = (2 * draws - 1) * _JITTER
    sizes = np.tile(boxes[:, 2:] - boxes[:, :2], 2)
    which = np.arange(number) % len(boxes)
    copies = boxes[which] + shifts * sizes[which]
    anywhere = np.concatenate([np.minimum(draws[:, :2], draws[:, 2:]), np.maximum(draws[:, :2], draws[:, 2:])], axis=1)
    mixed = np.where((np.arange(number) % 2 == 0)[:, None], copies[np.arange(number) // 2], anywhere)
    return cleaned(np.concatenate([boxes, mixed]))[:number]


def positives(
    phrase: Phrase, proposals: Float[np.ndarray, "proposals 4"], least: float, most: int
) -> Float[np.ndarray, "positives 4"]:
    """The proposals that overlap a phrase's box, the best ones first.

    Args:
        phrase: The phrase; its box is the smallest one around all of its boxes.
        proposals: Boxes of the image, in the units of the phrase's box.
        least: Intersection over union that a positive needs.
        most: Positives at most; 0 for all.
    """
    overlap = iou(phrase.box[None], proposals)[0]
    order = np.argsort(-overlap, kind="stable")
    chosen = order[overlap[order] >= least]
    return proposals[chosen[: most or len(chosen)]]


def background(
    phrases: Iterable[Phrase], proposals: Float[np.ndarray, "proposals 4"], below: float
) -> Float[np.ndarray, "others 4"]:
    """The proposals that overlap no phrase's box.

    Args:
        phrases: The phrases of the image, at least one.
        proposals: Boxes of the image.
        below: Intersection over union with every phrase's box must be smaller than this.
    """
    boxes = np.stack([phrase.box for phrase in phrases])
    return proposals[iou(proposals, boxes).max(axis=1) < below] if len(proposals) else proposals


def upper_bound(
    phrases: Mapping[str, Sequence[Phrase]], proposals: Mapping[str, np.ndarray], number: int
) -> tuple[int, int]:
    """How many phrases some proposal localises, which no model can exceed.

    Args:
        phrases: By image id.
        proposals: Boxes (boxes, 4) by image id, in order of rank.
        number: The first so many count.

    Returns:
        (phrases with such a proposal, phrases).
    """
    hits = total = 0
    for image, each in phrases.items():
        boxes = proposals.get(image, np.empty((0, 4)))[:number]
        total += len(each)
        if len(boxes) and each:
            hits += int((iou(np.stack([phrase.box for phrase in each]), boxes).max(axis=1) >= RIGHT).sum())
    return hits, total
