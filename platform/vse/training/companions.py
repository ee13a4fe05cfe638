"""What stands beside a caption in a batch because of other captions: a sibling, or an image that is not its own."""

import numpy as np
import torch

from vse.data import keyed
from vse.training.batches import Batch
from vse.training.examples import Examples


class Siblings:
    """The sentence vector of another caption of the same image, drawn anew for each caption and epoch."""

    def __init__(self, examples: Examples, seed: int) -> None:
        self.examples, self.seed = examples, seed
        self.order = np.argsort(examples.image, kind="stable")
        counts = np.bincount(examples.image, minlength=examples.num_images)
        self.counts = counts[examples.image]
        self.starts = (np.cumsum(counts) - counts)[examples.image]
        place = np.empty(len(self.order), dtype=np.int64)
        place[self.order] = np.arange(len(self.order))
        self.place = place - self.starts  # of a caption among those of its image

    def of(self, captions: np.ndarray, epoch: int) -> np.ndarray:
        """A caption number for each: itself where the image has no other."""
        others = np.maximum(self.counts[captions] - 1, 1)
        draws = keyed.bits(keyed.keys(self.seed, epoch, "sibling", captions), 1)[..., 0] >> np.uint64(1)
        step = 1 + draws.astype(np.int64) % others
        return self.order[self.starts[captions] + (self.place[captions] + step) % self.counts[captions]]

    def __call__(self, batch: Batch, captions: np.ndarray, images: np.ndarray, epoch: int) -> Batch:
        """sibling (batch, dim); has_sibling (batch,), False where it is the caption itself."""
        sentence = self.examples.texts.sentence
        assert sentence is not None, "siblings are read by families over sentence vectors"
        vectors = sentence.of(self.of(captions, epoch))
        has = self.counts[captions] > 1
        return {"sibling": vectors, "has_sibling": torch.from_numpy(has)}


class Unpaired:
    """Semi-supervision (jWAE, section 4): captions whose image is not known come with an image of their kind.

    Each epoch, the images of all captions that are not `paired` are dealt among them anew.
    """

    def __init__(self, examples: Examples, paired: np.ndarray, seed: int) -> None:
        """`paired` (captions,): whose image is known."""
        self.examples, self.paired, self.seed = examples, paired, seed
        self.rest = np.flatnonzero(~paired)
        self.place = np.cumsum(~paired) - 1
        self._dealt = (-1, self.rest)  # of which epoch, and how

    def dealt(self, epoch: int) -> np.ndarray:
        """For each caption that is not paired, in their order, the caption whose image it gets; once an epoch, since
        dealing the captions of COCO takes as long as a step."""
        if self._dealt[0] != epoch:
            self._dealt = epoch, self.rest[keyed.permutation(self.seed, epoch, "unpaired", len(self.rest))]
        return self._dealt[1]

    def __call__(self, batch: Batch, captions: np.ndarray, images: np.ndarray, epoch: int) -> Batch:
        """`image_group` as dealt, whose features the batch gets; paired (batch,)."""
        known = self.paired[captions]
        given = images.copy()
        given[~known] = self.examples.image[self.dealt(epoch)[self.place[captions[~known]]]]
        return {"image_group": torch.from_numpy(given), "paired": torch.from_numpy(known)}


def known_images(num_images: int, share: float, seed: int) -> np.ndarray:
    """Which images' captions are known to be theirs: the same for all families, and more of them as the share grows."""
    known = np.zeros(num_images, dtype=bool)
    known[keyed.permutation(seed, 0, "known pairs", num_images)[: max(1, round(share * num_images))]] = True
    return known
