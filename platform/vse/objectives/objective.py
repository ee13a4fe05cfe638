"""What an objective is: named losses over encoded items, and their weights."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from vse.adversaries.negatives import NegativeCounts

Encoded = Mapping[str, Tensor]


def single(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """`x` in single precision at least."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def products(a: Float[Tensor, "rows dim"], b: Float[Tensor, "columns dim"]) -> Float[Tensor, "rows columns"]:
    """a @ bᵀ in single precision at least, under autocast too.

    What makes losses of it takes differences of nearly equal scores, or multiplies them by a scale of 100: a score
    rounded to bfloat16 is off by up to 0.002, and it is the cheapest product of a step.
    """
    with torch.autocast(a.device.type, enabled=False):
        return single(a) @ single(b).T


def batch_scores(gathered: Encoded) -> Float[Tensor, "items items"]:
    """Scores of a global batch, images x captions, in single precision at least.

    A pairwise family's own, else the product of the two codes.
    """
    if "scores" in gathered:
        return single(gathered["scores"])
    return products(gathered["images"], gathered["captions"])


class ContrastDraws(NamedTuple):
    """Adversaries that a batch must hold of each caption: of these kinds, so many, drawn anew in every epoch.

    balance: a draw takes a paradigm first and then a candidate of it, or any candidate of these kinds alike. redraw:
    which of a run's sequences of draws; 0 is that of its own seed.
    """

    kinds: tuple[str, ...]
    number: int
    balance: str
    redraw: int = 0


class Objective:
    """Compares encoded items. It owns no parameters; learnable scalars belong to the family and come in `encoded`.

    `gathers` names the tensors of which it needs the rows of every worker; they come in `gathered` (in one process, the
    same tensors as in `encoded`); those also in `ragged` are codes over time, padded with zeros to the longest. Losses
    in `local` sum over the worker's own rows only and add up over workers; others are computed whole by every worker.
    Losses in `averaged` enter what is descended as means over the global batch, others as sums; logged are the sums.
    Into losses in `matching` only captions enter whose image is known to be theirs, into others all of a batch. Sums of
    `balanced` are raised to the whole batch: times its captions, over those that enter.
    `families` names those whose tensors it compares (None: any that gives codes of both sides, or scores). `sole` names
    families of which parts learn from it alone, with the settings under which they do: these train with no other.
    """

    gathers: frozenset[str] = frozenset()
    ragged: frozenset[str] = frozenset()
    local: frozenset[str] = frozenset()
    averaged: frozenset[str] = frozenset()
    matching: frozenset[str] = frozenset({"sent"})
    balanced: frozenset[str] = frozenset()
    families: frozenset[str] | None = None
    sole: Mapping[str, Mapping[str, object]] = MappingProxyType({})
    semi_supervised: bool = False  # batches may hold items whose partner is not known (`paired` says which)
    negatives: NegativeCounts | None = None  # what batches must draw, for objectives over components
    adversaries: ContrastDraws | None = None  # what batches must draw, for objectives over adversaries of captions
    scalars: Mapping[str, float] = MappingProxyType({})  # learnable scalars the family holds for it, with first values

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        """Named losses, each summed over the captions of the (global or own) batch; weight 0 may be left out."""
        raise TypeError(f"{type(self).__name__} computes nothing")

    def check(self, model: object) -> None:
        """Raises InputError for the settings of a family of which these weights would leave a part untrained."""

    def weights(self, epoch: int) -> dict[str, float]:
        """Weight of each loss in an epoch (0-based)."""
        raise TypeError(f"{type(self).__name__} weighs nothing")

    def collapse_level(self, epoch: int) -> tuple[str, float] | None:
        """(loss, its value per caption when all codes coincide): a run that stays there has collapsed."""
        return None
