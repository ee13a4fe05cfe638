"""Random numbers and dropout keyed by caption: equal on any number of workers and after any restart.

A batch carries one 64-bit key per caption in `draw` (see `vse.data.keyed`). These functions derive from it as many
numbers as a family needs, on the device of the batch. torch draws from one stream per process instead, with which two
workers would not drop the units that one worker drops.
"""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

_SLOT = 0xD1342543DE82EF95 - 2**64  # the constants of keyed.bits and SplitMix64 as signed integers
_GAMMA = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64


_AT_ONCE = 2**16  # numbers drawn together on a CPU, whose cache holds what comes between key and number


def _shift(z: Tensor, places: int) -> Tensor:
    """Right shift without the sign."""
    shifted = z >> places
    shifted &= (1 << (64 - places)) - 1
    return shifted


def _mix(values: Tensor) -> Tensor:
    z = values + _GAMMA
    z ^= _shift(z, 30)
    z *= _FIRST
    z ^= _shift(z, 27)
    z *= _SECOND
    z ^= _shift(z, 31)
    return z


def keys(seed: int, ids: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """One key per number (such as a vocabulary id) under a 64-bit seed."""
    signed = (seed + 2**63) % 2**64 - 2**63
    return _mix(_mix(torch.full_like(ids, signed)) + ids)


def uniform(draw: Int[Tensor, " batch"], num: int, stream: int = 0) -> Float[Tensor, "batch num"]:
    """`num` uniform draws in [0, 1) per caption, float64.

    Args:
        draw: key of each caption.
        num: number of draws per caption.
        stream: 0 to 999; streams of one key are independent of each other.

    Returns:
        Draws of shape (batch, num).
    """
    numbers = torch.empty(len(draw), num, dtype=torch.float64, device=draw.device)
    for rows, columns, bits in _blocks(draw, num, stream):
        numbers[rows, columns] = bits
    return numbers.mul_(2.0**-53)


def _blocks(draw: Tensor, num: int, stream: int) -> Iterator[tuple[slice, slice, Tensor]]:
    """(rows, columns, 53 random bits of each number there): all at once on a GPU, by blocks of `_AT_ONCE` on a CPU."""
    assert 0 <= stream < 1000
    first, slots = _mix(draw + stream)[:, None], torch.arange(1, num + 1, device=draw.device) * _SLOT
    on_cpu = draw.device.type == "cpu"
    width = max(1, min(num, _AT_ONCE) if on_cpu else num)
    height = max(1, _AT_ONCE // width if on_cpu else len(draw))
    for top in range(0, len(draw), height):
        for left in range(0, num, width):
            rows, columns = slice(top, top + height), slice(left, left + width)
            yield rows, columns, _shift(_mix(first[rows] + slots[columns]), 11)


def normal(draw: Int[Tensor, " batch"], num: int, stream: int = 0) -> Float[Tensor, "batch num"]:
    """`num` standard normal draws per caption (Box-Muller transform), float64.

    Args:
        draw: key of each caption.
        num: number of draws per caption.
        stream: 0 to 999; streams of one key are independent of each other.
    """
    pairs = (num + 1) // 2
    first, second = uniform(draw, 2 * pairs, stream).chunk(2, dim=1)
    radius, angle = (-2 * torch.log1p(-first)).sqrt(), 2 * math.pi * second
    return torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)[:, :num]


class KeyedDropout(nn.Module):
    """Dropout with a mask that depends on the key of the row alone.

    In training, each unit of a row becomes zero with probability `p`, and the others are scaled by 1 / (1 - p).

    Args:
        p: probability.
        stream: 0 to 999, different for every such module of a family; equal streams give equal masks.
    """

    def __init__(self, p: float, stream: int) -> None:
        super().__init__()
        self.p, self.stream = p, stream

    def forward(
        self, rows: Float[Tensor, "rows *unit"], row_keys: Int[Tensor, " rows"] | None
    ) -> Float[Tensor, "rows *unit"]:
        """Rows after dropout. `row_keys` is `draw` of the batch, or `word_keys`; None is for evaluation only."""
        if not self.training or not self.p:
            return rows
        assert row_keys is not None, "dropout in training needs the keys of the rows"
        kept = torch.empty(len(rows), rows[0].numel() if len(rows) else 0, dtype=torch.bool, device=rows.device)
        least = math.ceil(self.p * 2**53)  # bits below it are those of numbers below p
        for part, columns, bits in _blocks(row_keys, kept.shape[1], self.stream):
            torch.ge(bits, least, out=kept[part, columns])
        return rows * (kept.to(rows.dtype) / (1 - self.p)).view(rows.shape)


def word_keys(words: Int[Tensor, " words"]) -> Int[Tensor, " words"]:
    """Keys of vocabulary ids in this step: a word has one mask wherever it occurs.

    The training loop seeds torch in every step with one seed for all workers, which identifies the step here.
    """
    return keys(torch.initial_seed(), words)
