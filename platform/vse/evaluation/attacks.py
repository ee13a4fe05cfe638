"""Image-to-sentence retrieval among true captions and adversaries (UniVSE §4.2), and own-adversary pair accuracy.

The candidates are all true captions and all adversaries of one kind: 30,000 for 1,000 images with five captions and
five adversaries per caption. Pair accuracy asks the sharper question whether a caption beats its own adversary.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse.evaluation import protocol as protocols
from vse.evaluation.metrics import Ranks, RetrievalCounter, Ties, mean_over_folds, refuse_nan, rsum3
from vse.evaluation.retrieval import (
    Blocks,
    Encoded,
    ScoresParts,
    as_owner,
    count_retrieval,
    num_items,
    pair_parts,
    part_blocks,
    slice_items,
)
from vse.language.tokens import words


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackSet:
    """Encoded adversaries of one kind; `caption[a]` is the position of the caption that adversary `a` was made from."""

    encoded: Encoded
    caption: np.ndarray


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


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackResult:
    """`metrics` are named `{split}/attack_object/r1` …; `folds` keep every query's results by attack."""

    metrics: dict[str, float]
    folds: tuple[dict[str, Attacked], ...]


def pair_wins(true: Float[Tensor, " pairs"], adversary: Float[Tensor, " pairs"], ties: Ties) -> Float[Tensor, " pairs"]:
    """1 where the true caption scores higher than its adversary, 1/2 where they tie, else 0.

    Raises Diverged at a NaN.
    """
    refuse_nan(true)
    refuse_nan(adversary)
    low, high = ties.limits(true)
    return (adversary < low).double() + 0.5 * ((adversary >= low) & (adversary <= high)).double()


@torch.inference_mode()
def own_pairs(
    model: ScoresParts,
    images: Encoded,
    counter: RetrievalCounter,
    adversaries: AttackSet,
    *,
    settings: Mapping[str, Any] | None = None,
) -> tuple[Float[Tensor, " adversaries"], Int[Tensor, " adversaries"]]:
    """(wins, image) of each adversary against the caption that it was made from, both scored with that image alone."""
    caption = as_owner(adversaries.caption, images)
    image = counter.owner[caption]
    if len(caption) == 0:
        return torch.zeros(0, dtype=torch.float64), image
    assert num_items(adversaries.encoded) == len(caption), "one caption position for each adversary"
    own = model.combine(pair_parts(model, images, adversaries.encoded, image), **(settings or {}))[0].float()
    return pair_wins(counter.pairs[caption], own, counter.ties), image


@torch.inference_mode()
def attack(
    model: ScoresParts,
    images: Encoded,
    counter: RetrievalCounter,
    adversaries: AttackSet,
    *,
    settings: Mapping[str, Any] | None = None,
    blocks: Blocks | None = None,
) -> Attacked:
    """Add one kind of adversaries to what plain retrieval has counted; `counter` itself is left as it was."""
    attacked = counter.fork()
    wins, image = own_pairs(model, images, counter, adversaries, settings=settings)
    if len(wins):
        for rows, _, parts in part_blocks(model, images, adversaries.encoded, blocks or Blocks()):
            attacked.add_distractors(model.combine(parts, **(settings or {})).float(), rows)
    return Attacked(i2t=attacked.result().i2t, wins=wins, image=image)


def restrict(attacks: Mapping[str, AttackSet], fold: protocols.Fold) -> dict[str, AttackSet]:
    """The adversaries of a fold's captions, with positions within the fold."""
    chosen = {}
    for name, adversaries in attacks.items():
        inside = np.flatnonzero(np.isin(adversaries.caption, fold.captions))
        position = np.searchsorted(fold.captions, adversaries.caption[inside])
        encoded = slice_items(adversaries.encoded, inside)
        chosen[name] = AttackSet(encoded=encoded, caption=position)
    return chosen


def evaluate_attacks(
    model: ScoresParts,
    images: Encoded,
    captions: Encoded,
    owner: np.ndarray,
    attacks: Mapping[str, AttackSet],
    protocol: protocols.Protocol = protocols.WHOLE_SPLIT,
    *,
    settings: Mapping[str, Any] | None = None,
    ties: Ties | None = None,
    blocks: Blocks | None = None,
) -> AttackResult:
    """Every attack on a split under a protocol. Keys of `attacks` name metrics: `object` gives `attack_object`.

    True captions are scored once for all attacks.
    """
    folds = []
    for fold in protocol.select(owner, num_items(images)):
        some, texts = slice_items(images, fold.images), slice_items(captions, fold.captions)
        counter = count_retrieval(model, some, texts, fold.owner, settings=settings, ties=ties, blocks=blocks)
        folds.append(
            {
                name: attack(model, some, counter, adversaries, settings=settings, blocks=blocks)
                for name, adversaries in restrict(attacks, fold).items()
            }
        )
    metrics = {
        f"{protocol.split}/attack_{name}/{metric}": value
        for name in attacks
        for metric, value in mean_over_folds(fold[name].metrics() for fold in folds).items()
    }
    return AttackResult(metrics=metrics, folds=tuple(folds))


def unknown_word_rate(texts: Iterable[str], vocabulary: Set[str]) -> float:
    """Share of tokens, in percent, that a vocabulary of lower-case words does not hold; 0 for no tokens."""
    total = unknown = 0
    for text in texts:
        read = words(text)
        total += len(read)
        unknown += sum(word not in vocabulary for word in read)
    return 100.0 * unknown / max(total, 1)
