"""Retrieval and attacks in shards: parts of the captions against all images, each encoded where it is scored.

A shard depends on the runs, the data and its number alone, so shards are counted in any order and in any process, kept
and added up. True pairs come first, because the best of an image decides what its captions are compared with. Only
counts and the scores of true pairs are ever together in one process; codes are there by blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from vse.evaluation.attacks import AnySet, Attacked, OwnScores, pair_wins
from vse.evaluation.metrics import RetrievalCounter
from vse.evaluation.retrieval import Blocks, Encoded, ScoresParts, num_items, pair_parts, score_blocks, spans
from vse.evaluation.work import Arrays

CAPTIONS_AT_ONCE = 2048  # captions or adversaries of a shard
FROM_PAIRS = 2**22  # fewer take a minute where the scores of a pair cost most


class Coder(ABC):
    """Encodes the images and captions of a fold, some at once, by their positions."""

    @property
    @abstractmethod
    def model(self) -> ScoresParts:
        """Scores the codes."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where codes are."""

    @property
    @abstractmethod
    def caption_to_image(self) -> np.ndarray:
        """The image of each caption."""

    @property
    @abstractmethod
    def num_images(self) -> int:
        """Images of the fold, with captions or without."""

    @abstractmethod
    def images(self, rows: np.ndarray) -> Encoded:
        """Codes of images."""

    @abstractmethod
    def captions(self, rows: slice) -> Encoded:
        """Codes of captions."""

    @abstractmethod
    def adversaries(self, attack: str) -> AnySet:
        """The adversaries of an attack."""

    def own(self) -> Tensor:
        """`caption_to_image` where codes are."""
        return torch.as_tensor(self.caption_to_image, dtype=torch.int64, device=self.device)

    def image_blocks(self) -> Iterator[tuple[slice, Encoded]]:
        """(positions, codes) of all images, block by block."""
        for rows in spans(self.num_images, Blocks().images):
            yield rows, self.images(np.arange(rows.start, rows.stop))


def shards_of(number: int, size: int) -> list[slice]:
    """Positions of the captions of each shard of `size`."""
    return list(spans(number, size))


def _pairs(coder: Coder, captions: Encoded, image: np.ndarray) -> Tensor:
    """Score of each caption with one image."""
    needed, row = np.unique(image, return_inverse=True)
    parts = pair_parts(coder.model, coder.images(needed), captions, torch.as_tensor(row, device=coder.device))
    return coder.model.combine(parts)[0].float()


@torch.inference_mode()
def true_pairs(coder: Coder, shard: int, size: int) -> Arrays:
    """`pairs`: the score of each caption of a shard with its own image.

    Args:
        coder: Encodes the fold.
        shard: Number of the shard.
        size: Captions of a shard, the same for all shards of a fold.

    Raises:
        Diverged: A score is NaN or infinite.
    """
    rows = shards_of(len(coder.caption_to_image), size)[shard]
    return {"pairs": _pairs(coder, coder.captions(rows), coder.caption_to_image[rows]).cpu().numpy()}


def counter_of(coder: Coder, pairs: np.ndarray) -> RetrievalCounter:
    """A counter that has seen no block yet."""
    return RetrievalCounter(torch.tensor(pairs, device=coder.device), coder.own(), coder.num_images)


@torch.inference_mode()
def counts(coder: Coder, pairs: np.ndarray, shard: int, size: int) -> Arrays:
    """Counts of a shard's captions among all images: `i2t` of every image, `t2i` of these captions.

    Args:
        coder: Encodes the fold.
        pairs: Scores of all true pairs of the fold, from the shards of `true_pairs`.
        shard: Number of the shard.
        size: Captions of a shard.

    Raises:
        Diverged: A score is NaN.
    """
    counter = counter_of(coder, pairs)
    cols = shards_of(len(pairs), size)[shard]
    some = coder.captions(cols)
    for rows, images in coder.image_blocks():
        for _, _, scores in score_blocks(coder.model, images, some):
            counter.add(scores, rows, cols)
    counter.check()
    i2t, t2i = counter.counts()
    return {"i2t": i2t.cpu().numpy(), "t2i": t2i[cols].cpu().numpy()}


def adversary_shards(adversaries: AnySet, size: int) -> list[np.ndarray]:
    """Positions of the adversaries of each shard, in the order in which they are encoded together."""
    return [np.asarray(rows) for rows in adversaries.positions(size)]


@torch.inference_mode()
def attack_counts(coder: Coder, pairs: np.ndarray, attack: str, shard: int, size: int) -> Arrays:
    """Counts of a shard's adversaries: `i2t` of every image, and `own`, the score of each with its caption's image.

    Args:
        coder: Encodes the fold.
        pairs: Scores of all true pairs of the fold.
        attack: `<kind>/<words>/<name>` of the attack, as the coder's `adversaries` reads it.
        shard: Number of the shard, of `adversary_shards`.
        size: Adversaries of a shard.

    Raises:
        Diverged: A score is NaN.
    """
    counter, adversaries = counter_of(coder, pairs), coder.adversaries(attack)
    positions = adversary_shards(adversaries, size)[shard]
    some = adversaries.encoded_at(positions)
    assert num_items(some) == len(positions), "one code for each adversary"
    own = _pairs(coder, some, coder.caption_to_image[adversaries.caption[positions]])
    for rows, images in coder.image_blocks():
        for _, _, scores in score_blocks(coder.model, images, some):
            counter.add_distractors(scores, rows)
    counter.check()
    return {"i2t": counter.counts()[0].cpu().numpy(), "own": own.cpu().numpy()}


def added(counter: RetrievalCounter, results: list[Arrays], size: int) -> RetrievalCounter:
    """The counter after the shards of true captions.

    Args:
        counter: A counter of `counter_of`, which is changed.
        results: What `counts` returned for each shard, in their order.
        size: Captions of a shard.
    """
    images = slice(0, len(counter.counts()[0]))
    for cols, result in zip(shards_of(len(counter.pairs), size), results, strict=True):
        i2t, t2i = (torch.tensor(result[name], device=counter.pairs.device) for name in ("i2t", "t2i"))
        counter.add_counts(images, i2t, cols, t2i)
    return counter


def attacked(
    counter: RetrievalCounter, adversaries: AnySet, results: list[Arrays], size: int
) -> tuple[Attacked, OwnScores]:
    """As `evaluation.attacks.attack`, from the shards of an attack.

    Args:
        counter: Has counted the true captions; it is left as it was.
        adversaries: The adversaries of the attack; their codes are not read.
        results: What `attack_counts` returned for each shard, in their order.
        size: Adversaries of a shard.
    """
    more, device = counter.fork(), counter.pairs.device
    caption = torch.as_tensor(adversaries.caption, dtype=torch.int64, device=device)
    scores = torch.zeros(len(caption), device=device)
    for positions, result in zip(adversary_shards(adversaries, size), results, strict=True):
        more.add_counts(slice(0, len(result["i2t"])), torch.tensor(result["i2t"], device=device))
        scores[torch.as_tensor(positions, device=device)] = torch.tensor(result["own"], device=device)
    own = OwnScores(scores=scores, caption=caption, image=counter.caption_to_image[caption])
    wins = pair_wins(counter.pairs[caption], scores, counter.ties)
    return Attacked(i2t=more.result().i2t, wins=wins, image=own.image), own


def worth_shards(pairwise: bool, num_images: int, num_captions: int) -> bool:
    """Whether scoring a fold takes long enough for shards: only scores that are no products of two codes do.

    Args:
        pairwise: Whether the family compares pair by pair (SCAN).
        num_images: Images of the fold.
        num_captions: Captions of the fold.
    """
    return pairwise and num_images * num_captions >= FROM_PAIRS
