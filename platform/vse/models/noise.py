"""Random numbers of a step that belong to a caption: the same on any number of workers and after any restart.

A batch carries one 64-bit key per caption in `draw` (see `vse.data.keyed`); these functions spread it into as many
numbers as a family needs, on the device where the batch is.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

_SLOT = 0xD1342543DE82EF95 - 2**64  # the constants of keyed.bits and SplitMix64 as signed integers
_GAMMA = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64


def _shift(z: Tensor, places: int) -> Tensor:
    """Right shift without the sign."""
    return (z >> places) & ((1 << (64 - places)) - 1)


def _mix(values: Tensor) -> Tensor:
    z = values + _GAMMA
    z = (z ^ _shift(z, 30)) * _FIRST
    z = (z ^ _shift(z, 27)) * _SECOND
    return z ^ _shift(z, 31)


def keys(seed: int, ids: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """One key a number, such as a vocabulary id, under a 64-bit seed."""
    signed = (seed + 2**63) % 2**64 - 2**63
    return _mix(_mix(torch.full_like(ids, signed)) + ids)


def uniform(draw: Int[Tensor, " batch"], num: int, stream: int = 0) -> Float[Tensor, "batch num"]:
    """`num` draws in [0, 1) a caption, float64; streams 0 … 999 of one key are independent of each other."""
    assert 0 <= stream < 1000
    slots = torch.arange(1, num + 1, device=draw.device) * _SLOT
    return _shift(_mix(_mix(draw + stream)[:, None] + slots), 11).double() * 2.0**-53


def normal(draw: Int[Tensor, " batch"], num: int, stream: int = 0) -> Float[Tensor, "batch num"]:
    """`num` standard normal draws a caption, float64 (Box and Muller's transform)."""
    pairs = (num + 1) // 2
    first, second = uniform(draw, 2 * pairs, stream).chunk(2, dim=1)
    radius, angle = (-2 * torch.log1p(-first)).sqrt(), 2 * math.pi * second
    return torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)[:, :num]
