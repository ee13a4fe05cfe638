"""What an objective is: named losses over encoded items, and their weights."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from vse.language.negatives import NegativeCounts

Encoded = Mapping[str, Tensor]


class Objective:
    """Compares encoded items. It owns no parameters; learnable scalars belong to the family and come in `encoded`.

    `gathers` names the tensors of which it needs the rows of every worker; they come in `everyone` (in one process, the
    same tensors as in `encoded`). Losses in `local` sum over the worker's own rows only and add up over workers; all
    others are computed whole by every worker.
    """

    gathers: ClassVar[frozenset[str]] = frozenset()
    local: ClassVar[frozenset[str]] = frozenset()
    negatives: NegativeCounts | None = None  # what batches must draw, for objectives over components

    def __call__(self, encoded: Encoded, everyone: Encoded, epoch: int) -> dict[str, Tensor]:
        """Named losses, each summed over the captions of the (global or own) batch; weight 0 may be left out."""
        raise TypeError(f"{type(self).__name__} computes nothing")

    def weights(self, epoch: int) -> dict[str, float]:
        """Weight of each loss in an epoch (0-based)."""
        raise TypeError(f"{type(self).__name__} weighs nothing")

    def collapse_level(self, epoch: int) -> tuple[str, float] | None:
        """(loss, its value per caption when all codes coincide): a run that stays there has collapsed."""
        return None
