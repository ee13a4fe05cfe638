"""What an objective is: named losses of a batch's codes, and their weights."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from vse.adversaries.negatives import NegativeCounts
from vse.config import knob

Encoded = Mapping[str, Tensor]


def single(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """`x` in single precision at least."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def products(a: Float[Tensor, "rows dim"], b: Float[Tensor, "columns dim"]) -> Float[Tensor, "rows columns"]:
    """a @ bᵀ in single precision at least, under autocast too.

    Losses take differences of nearly equal scores or multiply them by a scale of 100, and a score rounded to bfloat16
    is off by up to 0.002. Compared with the rest of a step, this product is cheap.
    """
    with torch.autocast(a.device.type, enabled=False):
        return single(a) @ single(b).T


def batch_scores(gathered: Encoded) -> Float[Tensor, "items items"]:
    """Scores of the global batch (images x captions) in single precision at least.

    These are the scores of a pairwise family, or else the product of both codes.
    """
    if "scores" in gathered:
        return single(gathered["scores"])
    return products(gathered["images"], gathered["captions"])


LISTED = frozenset({"listed", "is_listed"})
BATCH_NEGATIVES: bool = knob(
    True, "use the other pairs of the batch as negatives, in addition to lists", only="data.own_negatives>0"
)


def listed_scores(gathered: Encoded) -> tuple[Float[Tensor, " items"], Float[Tensor, "items negatives"], Tensor]:
    """(scores of captions with their own images, with the negatives of their lists, mask of the negatives there are).

    A caption whose image is not known (`paired`) has no negatives.
    """
    listed, there = single(gathered["listed"]), gathered["is_listed"]
    if "paired" in gathered:
        there = there & gathered["paired"][:, None]
    return listed[:, 0], listed[:, 1:], there


class ContrastDraws(NamedTuple):
    """Adversaries that a batch must hold of each caption, drawn anew in every epoch.

    Attributes:
        kinds: of the adversaries.
        number: per caption.
        balance: `paradigm` draws a paradigm first and then one of its candidates, `candidate` any candidate.
        redraw: number of the sequence of draws; 0 is the sequence of the run's seed.
    """

    kinds: tuple[str, ...]
    number: int
    balance: str
    redraw: int = 0


class Objective:
    """Base of all objectives: compares codes. Learnable scalars belong to the family and are in `encoded`.

    Args:
        config: the objective's own `Config`.

    Attributes:
        gathers: tensors of which it needs the rows of every worker. They come in `gathered`, which holds the tensors
            of `encoded` if there is one process.
        ragged: gathered codes over time, padded with zeros to the longest.
        local: losses that sum over the worker's own rows and are added over workers. Every worker computes the other
            losses whole.
        averaged: losses that are minimised as means over the global batch, the others as sums. Sums are logged.
        matching: losses over captions whose image is known. Other losses are over all captions of a batch.
        balanced: losses whose sum is scaled to the whole batch: its captions over the captions that enter.
        families: whose tensors it compares; None for any with codes of both sides, or scores.
        sole: families with parts that only this objective trains, and the settings for which that holds. They train
            with no other objective.
        semi_supervised: whether batches may hold items without a known partner (`paired`).
        own_negatives: whether it compares each caption with its own negatives (`listed`), if batches hold some.
        batch_negatives: whether it then compares the pairs of a batch too.
        negatives: what batches must draw, for objectives over components.
        adversaries: what batches must draw, for objectives over adversaries.
        scalars: learnable scalars that the family holds for it, with initial values.
    """

    gathers: frozenset[str] = frozenset({"images", "captions", "scores", *LISTED})
    ragged: frozenset[str] = frozenset()
    local: frozenset[str] = frozenset()
    averaged: frozenset[str] = frozenset()
    matching: frozenset[str] = frozenset({"sent"})
    balanced: frozenset[str] = frozenset()
    families: frozenset[str] | None = None
    sole: Mapping[str, Mapping[str, object]] = MappingProxyType({})
    semi_supervised: bool = False
    own_negatives: bool = False
    negatives: NegativeCounts | None = None
    adversaries: ContrastDraws | None = None
    scalars: Mapping[str, float] = MappingProxyType({})

    def __init__(self, config: Any) -> None:
        self.config: Any = config
        self.batch_negatives: bool = getattr(config, "batch_negatives", True)

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        """Losses by name, each summed over captions; a loss of weight 0 may be left out.

        Args:
            encoded: codes of the worker's own rows.
            gathered: tensors named in `gathers`, with the rows of all workers.
            epoch: 0-based.
        """
        raise TypeError(f"{type(self).__name__} computes nothing")

    def check(self, model: object) -> None:
        """Check the settings of the family.

        Raises:
            InputError: if the weights would leave a part of the family untrained.
        """

    def weights(self, epoch: int) -> dict[str, float]:
        """Weight of each loss in an epoch (0-based), by default 1 for `sent`."""
        return {"sent": 1.0}

    def collapse_level(self, epoch: int) -> tuple[str, float] | None:
        """A loss and its value per caption if all codes coincide, by which a collapsed run is recognised."""
        return None
