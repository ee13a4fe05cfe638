"""Image-to-sentence retrieval among true captions and adversaries (UniVSE §4.2), and own-adversary pair accuracy.

The candidates are all true captions and all adversaries of one kind: 30,000 for 1,000 images with five captions and
five adversaries per caption. Pair accuracy asks the sharper question whether a caption beats its own adversary.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse.evaluation.metrics import Ranks, RetrievalCounter, Ties, by_image, refuse_nan, rsum3
from vse.evaluation.protocol import Fold
from vse.evaluation.retrieval import (
    Blocks,
    Encoded,
    ScoresParts,
    as_index,
    blocks_for,
    num_items,
    pair_parts,
    score_blocks,
    slice_items,
    spans,
)
from vse.text.tokens import words


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackSet:
    """Encoded adversaries of one kind; `caption[a]` is the position of the caption that adversary `a` was made from."""

    encoded: Encoded
    caption: np.ndarray

    def positions(self, size: int) -> Iterator[np.ndarray]:
        """Positions of every adversary, at most `size` at once."""
        for rows in spans(len(self.caption), size):
            yield np.arange(rows.start, rows.stop)

    def encoded_at(self, positions: np.ndarray) -> Encoded:
        """Codes of the adversaries at some positions."""
        return slice_items(self.encoded, positions)

    def blocks(self, size: int) -> Iterator[tuple[np.ndarray, Encoded]]:
        """(positions, codes) of every adversary, at most `size` at once."""
        for positions in self.positions(size):
            yield positions, slice_items(self.encoded, slice(positions[0], positions[-1] + 1))

    def encode_all(self) -> Encoded:
        """Codes of every adversary."""
        return self.encoded

    def of(self, inside: np.ndarray, caption: np.ndarray) -> "AttackSet":
        """The adversaries at the positions `inside`, beside captions that are counted again."""
        return AttackSet(encoded=slice_items(self.encoded, inside), caption=caption)


@dataclass(frozen=True, kw_only=True, eq=False)
class UnencodedSet:
    """Adversaries of one kind that are encoded while they are counted, block by block, and forgotten.

    Where every word has a code (SCAN), those of 125,000 adversaries would fill the memory of most machines. Blocks go
    from short adversaries to long ones, as `encode_captions` takes them, so that they hold little padding.
    `caption` as in `AttackSet`; lengths: tokens of each adversary; encode: codes of those at these positions.
    """

    caption: np.ndarray
    lengths: np.ndarray
    encode: Callable[[np.ndarray], Encoded]

    def positions(self, size: int) -> Iterator[np.ndarray]:
        """Positions of every adversary, at most `size` at once."""
        order = np.argsort(self.lengths, kind="stable")
        for rows in spans(len(order), size):
            yield order[rows]

    def encoded_at(self, positions: np.ndarray) -> Encoded:
        """Codes of the adversaries at some positions."""
        return self.encode(positions)

    def blocks(self, size: int) -> Iterator[tuple[np.ndarray, Encoded]]:
        """(positions, codes) of every adversary, at most `size` at once."""
        for positions in self.positions(size):
            yield positions, self.encode(positions)

    def encode_all(self) -> Encoded:
        """Codes of every adversary."""
        return self.encode(np.arange(len(self.caption)))

    def of(self, inside: np.ndarray, caption: np.ndarray) -> "UnencodedSet":
        """The adversaries at the positions `inside`, beside captions that are counted again."""
        return UnencodedSet(
            caption=caption, lengths=self.lengths[inside], encode=lambda rows: self.encode(inside[rows])
        )


AnySet = AttackSet | UnencodedSet


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnScores:
    """Each adversary with the image of the caption that it was made from, both by their positions."""

    scores: Float[Tensor, " adversaries"]
    caption: Int[Tensor, " adversaries"]
    image: Int[Tensor, " adversaries"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Attacked:
    """Ranks per image, and per adversary whether its caption won (1), tied (1/2) or lost (0)."""

    i2t: Ranks
    wins: Float[Tensor, " adversaries"]
    image: Int[Tensor, " adversaries"]

    def metrics(self) -> dict[str, float]:
        """r1, r5, r10, rsum3 and, where there are adversaries, pair_accuracy, all in percent."""
        values = {name: value for name, value in self.i2t.metrics().items() if name in ("r1", "r5", "r10")}
        values["rsum3"] = rsum3(values)
        if len(self.wins):
            values["pair_accuracy"] = 100.0 * self.wins.mean().item()
        return values

    def pairs(self, num_images: int) -> np.ndarray:
        """(images, 2): adversaries that lose against the caption that they were made from, and adversaries."""
        return by_image(self.wins.cpu().numpy(), self.image.cpu().numpy(), num_images)


def pair_wins(true: Float[Tensor, " pairs"], adversary: Float[Tensor, " pairs"], ties: Ties) -> Float[Tensor, " pairs"]:
    """1 for each true caption that scores higher than its adversary, 1/2 for a tie, else 0.

    Args:
        true: Scores of the true captions.
        adversary: Scores of their adversaries with the same images.
        ties: The tolerance within which two scores tie.

    Raises:
        Diverged: A score is NaN.
    """
    refuse_nan(true)
    refuse_nan(adversary)
    low, high = ties.limits(true)
    return (adversary < low).double() + 0.5 * ((adversary >= low) & (adversary <= high)).double()


@torch.inference_mode()
def own_scores(
    model: ScoresParts,
    images: Encoded,
    caption_to_image: Int[Tensor, " captions"],
    adversaries: AnySet,
    *,
    settings: Mapping[str, Any] | None = None,
    blocks: Blocks | None = None,
) -> OwnScores:
    """Each adversary scored with its own image alone.

    Args:
        model: Scores the codes.
        images: Codes of the images.
        caption_to_image: The position of each true caption's image.
        adversaries: Adversaries of one kind, encoded or encoded block by block.
        settings: Further arguments of the model's `combine`, such as α; None for its configured ones.
        blocks: Items at once; None for `blocks_for`.
    """
    own_scores = _unscored(images, caption_to_image, adversaries)
    blocks = blocks or blocks_for(model, images, len(adversaries.caption))
    for positions, encoded in adversaries.blocks(blocks.captions):
        _score_own(model, images, own_scores, positions, encoded, settings)
    return own_scores


@torch.inference_mode()
def attack(
    model: ScoresParts,
    images: Encoded,
    counter: RetrievalCounter,
    adversaries: AnySet,
    *,
    settings: Mapping[str, Any] | None = None,
    blocks: Blocks | None = None,
) -> tuple[Attacked, OwnScores]:
    """Add one kind of adversaries to what plain retrieval has counted.

    A block of adversaries is scored with its own images and with all of them before the next is looked at.

    Args:
        model: Scores the codes.
        images: Codes of the images.
        counter: Has counted the true captions. It is left as it was, so that every attack starts from it.
        adversaries: Adversaries of one kind, encoded or encoded block by block.
        settings: Further arguments of the model's `combine`, the same as for `counter`.
        blocks: Items at once; None for `blocks_for`.

    Returns:
        Results of the images against all candidates, and the score of each adversary with its own image.
    """
    blocks = blocks or blocks_for(model, images, len(adversaries.caption))
    count = AttackCount(model, images, counter, adversaries, settings, blocks)
    for positions, encoded in adversaries.blocks(blocks.captions):
        count.add(positions, encoded)
    return count.result()


class AttackCount:
    """One kind of adversaries counted block by block; arguments as for `attack`."""

    def __init__(
        self,
        model: ScoresParts,
        images: Encoded,
        counter: RetrievalCounter,
        adversaries: AnySet,
        settings: Mapping[str, Any] | None = None,
        blocks: Blocks | None = None,
    ) -> None:
        self.model, self.images, self.counter, self.settings, self.blocks = model, images, counter, settings, blocks
        self._attacked, self._own = counter.fork(), _unscored(images, counter.caption_to_image, adversaries)

    def add(self, positions: np.ndarray, encoded: Encoded) -> None:
        """Count a block of adversaries, given their positions and codes."""
        _score_own(self.model, self.images, self._own, positions, encoded, self.settings)
        for rows, _, scores in score_blocks(
            self.model, self.images, encoded, settings=self.settings, blocks=self.blocks
        ):
            self._attacked.add_distractors(scores, rows)

    def result(self) -> tuple[Attacked, OwnScores]:
        """Results of the images against all candidates, and the score of each adversary with its own image."""
        own = self._own
        wins = pair_wins(self.counter.pairs[own.caption], own.scores, self.counter.ties)
        return Attacked(i2t=self._attacked.result().i2t, wins=wins, image=own.image), own


def _unscored(images: Encoded, caption_to_image: Int[Tensor, " captions"], adversaries: AnySet) -> OwnScores:
    caption = as_index(adversaries.caption, images)
    return OwnScores(
        scores=torch.zeros(len(caption), device=caption_to_image.device),
        caption=caption,
        image=caption_to_image[caption],
    )


def _score_own(
    model: ScoresParts,
    images: Encoded,
    own: OwnScores,
    positions: np.ndarray,
    encoded: Encoded,
    settings: Mapping[str, Any] | None,
) -> None:
    """Fills in the scores of one block of adversaries."""
    assert num_items(encoded) == len(positions), "one caption position for each adversary"
    place = torch.as_tensor(positions, device=own.image.device)
    parts = pair_parts(model, images, encoded, own.image[place])
    own.scores[place] = model.combine(parts, **(settings or {}))[0].float()


def restrict(adversaries: AnySet, fold: Fold) -> AnySet:
    """The adversaries of a fold's captions, with positions within the fold."""
    inside = np.flatnonzero(np.isin(adversaries.caption, fold.captions))
    return adversaries.of(inside, np.searchsorted(fold.captions, adversaries.caption[inside]))


def unknown_word_rate(texts: Iterable[str], vocabulary: Set[str]) -> float:
    """Share of tokens, in percent, that a vocabulary of lower-case words does not hold; 0 for no tokens."""
    total = unknown = 0
    for text in texts:
        read = words(text)
        total += len(read)
        unknown += sum(word not in vocabulary for word in read)
    return 100.0 * unknown / max(total, 1)
