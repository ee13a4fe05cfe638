"""Dropout that does not ask which worker it runs on: a row's mask belongs to the row and the step alone.

torch's own draws from one stream per process, so two workers would not drop the units that one worker drops.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse.models import noise


class KeyedDropout(nn.Module):
    """Sets each unit of a row to zero with probability `p` and scales the others by 1 / (1 - p), in training only."""

    def __init__(self, p: float, stream: int) -> None:
        """`stream`: below 1000, one of its own for every such module of a family, or their masks would be alike."""
        super().__init__()
        self.p, self.stream = p, stream

    def forward(
        self, rows: Float[Tensor, "rows *unit"], keys: Int[Tensor, " rows"] | None
    ) -> Float[Tensor, "rows *unit"]:
        """`keys` are what `Collator` puts into `draw`, or `word_keys`; None is for evaluation."""
        if not self.training or not self.p:
            return rows
        assert keys is not None, "dropout in training needs the keys of the rows"
        drawn = noise.uniform(keys, rows[0].numel() if len(rows) else 0, self.stream)
        return rows * ((drawn >= self.p).to(rows.dtype) / (1 - self.p)).view(rows.shape)


def word_keys(words: Int[Tensor, " words"]) -> Int[Tensor, " words"]:
    """Keys of vocabulary ids for this step: a word has one mask wherever it occurs.

    The step is known by the seed that the training loop gave to torch, which is the same on every worker.
    """
    return noise.keys(torch.initial_seed(), words)
