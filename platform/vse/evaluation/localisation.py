"""Phrase localisation: ranks of the regions that localise a phrase among all proposals of its photograph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse.data.phrases import RIGHT
from vse.data.records import Box, Split
from vse.data.regions import around, iou, sides_of, split_uri
from vse.evaluation.metrics import ranks_among

WHOLE = (0.0, 0.0, 1.0, 1.0)
CENTRE = (0.1, 0.1, 0.9, 0.9)  # the best of the sizes 0.4 to 1 on the training phrases of 593 Flickr30k photographs


@dataclass(frozen=True, eq=False)
class Photograph:
    """The proposals and phrases of one photograph.

    Args:
        id: Of the photograph.
        regions: (proposals,): their positions among the images of the split.
        sides: (proposals, 4): left, top, right, bottom in fractions.
        captions: (phrases,): positions of the phrases among the captions of the split.
        boxes: (phrases, 4): what is to be localised, the smallest box around all boxes of a phrase.
    """

    id: str
    regions: Int[np.ndarray, " proposals"]
    sides: Float[np.ndarray, "proposals 4"]
    captions: Int[np.ndarray, " phrases"]
    boxes: Float[np.ndarray, "phrases 4"]

    def right(self, least: float = RIGHT) -> Bool[np.ndarray, "phrases proposals"]:
        """Which proposals localise which phrases."""
        return iou(self.boxes, self.sides) >= least


def photographs_of(split: Split, boxes: Mapping[str, Sequence[Box]]) -> list[Photograph]:
    """The photographs of a split of regions that have phrases, in the order of the split.

    Args:
        split: Of a data set of regions (`vse.data.sources.phrase_regions`).
        boxes: Of phrases by photograph; each names the caption that the phrase is.
    """
    regions = dict[str, list[int]]()
    for position, image in enumerate(split.images):
        if sides_of(image.id) is not None:
            regions.setdefault(split_uri(image.id)[0], []).append(position)
    captions = {caption.id: position for position, caption in enumerate(split.captions)}
    photographs = []
    for id_, positions in regions.items():
        grouped = dict[int, list[tuple[float, ...]]]()
        for box in boxes.get(id_, ()):
            grouped.setdefault(captions[box.caption], []).append((box.left, box.top, box.right, box.bottom))
        if grouped:
            sides = np.array([sides_of(split.images[position].id) for position in positions])
            targets = np.stack([around(np.array(each)) for each in grouped.values()])
            photographs.append(Photograph(id_, np.array(positions), sides, np.array(list(grouped)), targets))
    return photographs


@dataclass(frozen=True, eq=False)
class Localised:
    """What the phrases of one photograph met.

    Args:
        hits: By k, for each phrase the probability that one of the first k regions localises it (ties at random).
        possible: Whether any proposal does.
        chance: The share of the proposals that do.
        whole: Whether the whole picture does.
        centre: Whether the box `CENTRE` does.
    """

    hits: Mapping[int, Float[np.ndarray, " phrases"]]
    possible: Bool[np.ndarray, " phrases"]
    chance: Float[np.ndarray, " phrases"]
    whole: Bool[np.ndarray, " phrases"]
    centre: Bool[np.ndarray, " phrases"]


def localised(photograph: Photograph, scores: Float[Tensor, "phrases proposals"], ks: Sequence[int]) -> Localised:
    """Recall of the phrases of one photograph (jWAE, section 5.2).

    A phrase that no proposal localises counts as missed.

    Args:
        photograph: Its proposals and phrases.
        scores: Of every phrase with every proposal.
        ks: Regions that are looked at.

    Raises:
        Diverged: A score is NaN.
    """
    right = photograph.right()
    ranks = ranks_among(scores, torch.from_numpy(right).to(scores.device))
    hits = {k: np.zeros(len(right)) for k in ks}
    for k in ks:
        hits[k][ranks.queries.cpu().numpy()] = ranks.hits(k).cpu().numpy()
    whole, centre = (iou(photograph.boxes, np.array([WHOLE, CENTRE])) >= RIGHT).T
    possible = np.asarray(right.any(axis=1))
    return Localised(hits, possible, right.mean(axis=1), whole, centre)
