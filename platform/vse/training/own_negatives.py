"""Negatives of a phrase among the regions of its own photograph, for phrase localisation."""

import re
from typing import Any

import numpy as np
import torch

from vse.data import keyed
from vse.data.ragged import Ragged
from vse.data.records import Records
from vse.data.regions import around, iou, sides_of, split_uri
from vse.training.batches import Batch, Extra
from vse.training.config import RunConfig, own_negatives

_COPY = re.compile(r"(#phrase\d+)\.\d+$")  # ids of the further positive regions of a phrase


def regions_apart(records: Records, split: str, below: float) -> Ragged:
    """For each caption of a split of phrases and regions, the regions of its photograph that are apart from its box.

    Args:
        records: of `vse.data.sources.phrase_regions`.
        split: its name.
        below: overlap that a region stays below.

    Returns:
        Row numbers of images of the split, in their order.
    """
    part = records.split(split)
    regions, rows, numbers = dict[str, list[tuple[float, ...]]](), dict[str, list[int]](), dict[str, int]()
    for row, image in enumerate(part.images):
        sides = sides_of(image.id)
        if sides is not None:
            photograph = split_uri(image.id)[0]
            regions.setdefault(photograph, []).append(sides)
            rows.setdefault(photograph, []).append(row)
    apart = list[list[int]]()
    for photograph, sides in regions.items():
        boxes = dict[str, list[tuple[float, ...]]]()
        for box in records.boxes.get(photograph, ()):
            boxes.setdefault(box.caption, []).append((box.left, box.top, box.right, box.bottom))
        for caption, each in boxes.items():
            overlap = iou(around(np.array(each))[None], np.array(sides))[0]
            numbers[caption] = len(apart)
            apart.append(np.array(rows[photograph])[overlap < below].tolist())
    return Ragged.of([apart[numbers[_COPY.sub(r"\1", caption.id)]] for caption in part.captions])


class OwnNegatives:
    """Draws regions for each caption and epoch, without repetition.

    Args:
        apart: for each caption, the images to draw from.
        number: drawn for each caption, fewer if there are not so many.
        seed: of the draws.
    """

    def __init__(self, apart: Ragged, number: int, seed: int) -> None:
        self.apart, self.number, self.seed = apart, number, seed

    def __call__(self, batch: Batch, captions: np.ndarray, images: np.ndarray, epoch: int) -> Batch:
        """negatives (batch, number): rows of images, -1 behind the last."""
        rows, there = self.apart.pad(captions, at_least=self.number)
        draws = keyed.bits(keyed.keys(self.seed, epoch, "own negatives", captions), rows.shape[1]) >> np.uint64(1)
        order = np.argsort(np.where(there, draws, np.uint64(2**63)), axis=1, kind="stable")[:, : self.number]
        chosen = np.where(np.take_along_axis(there, order, 1), np.take_along_axis(rows, order, 1), -1)
        return {"negatives": torch.from_numpy(chosen)}


def own_negatives_of(config: RunConfig, records: Records) -> Extra:
    """What draws the negatives of `data.own_negatives` for the training captions."""
    data: Any = config.data
    apart = regions_apart(records, "train", data.negative)
    return OwnNegatives(apart, own_negatives(config), config.seed)
