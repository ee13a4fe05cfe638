"""Drawings of the nouns as coverage masks on the unit square, by plain arithmetic: no font, no drawing library.

A drawing has a `body`, which takes the thing's colour and pattern, and fixed `dark` and `light` details over it.
Coordinates run right and down from 0 to 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

_FINE = 4  # samples per pixel and axis

Mask = np.ndarray


@dataclass(frozen=True, slots=True)
class Drawing:
    """Masks of one noun, uint8 coverage 0..255 of shape (height, width)."""

    body: Mask
    dark: Mask
    light: Mask


class _Pen:
    """Boolean shapes on a fine grid of sample points."""

    def __init__(self, width: int, height: int) -> None:
        self.shape = (height, width)
        self.x = ((np.arange(width * _FINE) + 0.5) / (width * _FINE))[None, :]
        self.y = ((np.arange(height * _FINE) + 0.5) / (height * _FINE))[:, None]

    def none(self) -> Mask:
        return np.zeros((self.shape[0] * _FINE, self.shape[1] * _FINE), dtype=bool)

    def oval(self, cx: float, cy: float, rx: float, ry: float) -> Mask:
        return ((self.x - cx) / rx) ** 2 + ((self.y - cy) / ry) ** 2 <= 1

    def rect(self, left: float, top: float, right: float, bottom: float) -> Mask:
        return (self.x >= left) & (self.x <= right) & (self.y >= top) & (self.y <= bottom)

    def poly(self, *points: tuple[float, float]) -> Mask:
        """Even-odd filled polygon."""
        inside = self.none()
        for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
            if y0 != y1:
                crosses = (self.y > min(y0, y1)) & (self.y <= max(y0, y1))
                inside ^= crosses & (self.x < x0 + (self.y - y0) * (x1 - x0) / (y1 - y0))
        return inside

    def line(self, x0: float, y0: float, x1: float, y1: float, width: float) -> Mask:
        """Points within half a width of a segment."""
        dx, dy = x1 - x0, y1 - y0
        along = np.clip(((self.x - x0) * dx + (self.y - y0) * dy) / (dx * dx + dy * dy), 0, 1)
        return (self.x - x0 - along * dx) ** 2 + (self.y - y0 - along * dy) ** 2 <= (width / 2) ** 2

    def ring(self, cx: float, cy: float, rx: float, ry: float, width: float) -> Mask:
        return self.oval(cx, cy, rx, ry) & ~self.oval(cx, cy, rx - width, ry - width)


Parts = tuple[Mask, Mask, Mask]
_DRAWERS: dict[str, Callable[[_Pen], Parts]] = {}


def _draws(noun: str) -> Callable[[Callable[[_Pen], Parts]], Callable[[_Pen], Parts]]:
    def keep(drawer: Callable[[_Pen], Parts]) -> Callable[[_Pen], Parts]:
        _DRAWERS[noun] = drawer
        return drawer

    return keep


@lru_cache(maxsize=2048)
def drawing(noun: str, width: int, height: int) -> Drawing:
    """The noun's masks at a size in pixels."""
    pen = _Pen(width, height)
    body, dark, light = (_coverage(mask, pen.shape) for mask in _DRAWERS[noun](pen))
    return Drawing(body, dark, light)


def _coverage(mask: Mask, shape: tuple[int, int]) -> Mask:
    height, width = shape
    counts = mask.reshape(height, _FINE, width, _FINE).sum(axis=(1, 3))
    return (counts * 255 // (_FINE * _FINE)).astype(np.uint8)


@_draws("table")
def _table(p: _Pen) -> Parts:
    legs = p.rect(0.06, 0.3, 0.2, 1) | p.rect(0.8, 0.3, 0.94, 1)
    return p.rect(0, 0, 1, 0.36) | legs, p.rect(0.06, 0.34, 0.94, 0.4), p.none()


@_draws("cup")
def _cup(p: _Pen) -> Parts:
    body = p.poly((0.02, 0.06), (0.72, 0.06), (0.64, 1), (0.1, 1))
    return body | (p.ring(0.72, 0.45, 0.27, 0.27, 0.12) & ~body), p.rect(0.03, 0.06, 0.71, 0.14), p.none()


@_draws("bowl")
def _bowl(p: _Pen) -> Parts:
    half = p.oval(0.5, 0.08, 0.5, 0.8) & (p.y >= 0.08)
    return half | p.rect(0.3, 0.8, 0.7, 1), p.rect(0, 0.06, 1, 0.17), p.none()


@_draws("bottle")
def _bottle(p: _Pen) -> Parts:
    body = p.rect(0.34, 0.1, 0.66, 0.42) | p.oval(0.5, 0.5, 0.46, 0.16) | p.rect(0.04, 0.5, 0.96, 1)
    return body, p.rect(0.3, 0, 0.7, 0.11), p.none()


@_draws("cake")
def _cake(p: _Pen) -> Parts:
    body = p.rect(0.04, 0.28, 0.96, 1)
    drips = p.oval(0.2, 0.42, 0.1, 0.16) | p.oval(0.5, 0.44, 0.1, 0.2) | p.oval(0.8, 0.42, 0.1, 0.16)
    icing = (p.rect(0.04, 0.24, 0.96, 0.4) | drips) & ~p.none()
    candles = p.rect(0.27, 0.04, 0.33, 0.26) | p.rect(0.67, 0.04, 0.73, 0.26)
    return body | icing, candles, icing


@_draws("apple")
def _apple(p: _Pen) -> Parts:
    body = p.oval(0.32, 0.62, 0.31, 0.37) | p.oval(0.68, 0.62, 0.31, 0.37) | p.rect(0.35, 0.4, 0.65, 0.92)
    stem = p.line(0.5, 0.34, 0.56, 0.05, 0.1) | p.oval(0.74, 0.13, 0.18, 0.09)
    return body, stem, p.none()


@_draws("chair")
def _chair(p: _Pen) -> Parts:
    back = p.rect(0.04, 0, 0.24, 0.6) | p.rect(0.04, 0.04, 0.3, 0.4)
    legs = p.rect(0.04, 0.6, 0.2, 1) | p.rect(0.8, 0.6, 0.96, 1)
    return back | p.rect(0.04, 0.54, 0.98, 0.74) | legs, p.rect(0.2, 0.72, 0.8, 0.78), p.none()


@_draws("lamp")
def _lamp(p: _Pen) -> Parts:
    shade = p.poly((0.28, 0), (0.72, 0), (1, 0.56), (0, 0.56))
    stand = p.rect(0.44, 0.56, 0.56, 0.92) | p.rect(0.22, 0.9, 0.78, 1)
    return shade, stand, p.none()


@_draws("book")
def _book(p: _Pen) -> Parts:
    return p.rect(0, 0, 1, 1), p.rect(0.14, 0, 0.22, 1), p.rect(0.36, 0.14, 0.86, 0.34) | p.rect(0.22, 0.88, 1, 0.96)


@_draws("clock")
def _clock(p: _Pen) -> Parts:
    body = p.oval(0.5, 0.55, 0.46, 0.44) | p.oval(0.18, 0.14, 0.16, 0.13) | p.oval(0.82, 0.14, 0.16, 0.13)
    hands = p.line(0.5, 0.55, 0.5, 0.34, 0.07) | p.line(0.5, 0.55, 0.66, 0.6, 0.07)
    return body, hands, p.oval(0.5, 0.55, 0.29, 0.28)


@_draws("vase")
def _vase(p: _Pen) -> Parts:
    neck = p.poly((0.0, 0.04), (1, 0.04), (0.74, 0.3), (0.74, 0.42), (0.26, 0.42), (0.26, 0.3))
    return neck | p.oval(0.5, 0.64, 0.44, 0.3) | p.rect(0.26, 0.88, 0.74, 1), p.rect(0.22, 0.29, 0.78, 0.35), p.none()


@_draws("candle")
def _candle(p: _Pen) -> Parts:
    flame = p.oval(0.5, 0.14, 0.14, 0.14)
    plate = p.oval(0.5, 0.94, 0.5, 0.07)
    return p.rect(0.22, 0.36, 0.78, 0.92), plate | p.rect(0.46, 0.24, 0.54, 0.38), flame


@_draws("car")
def _car(p: _Pen) -> Parts:
    cabin = p.poly((0.24, 0.04), (0.7, 0.04), (0.86, 0.44), (0.14, 0.44))
    wheels = p.oval(0.24, 0.82, 0.14, 0.18) | p.oval(0.76, 0.82, 0.14, 0.18)
    windows = p.poly((0.3, 0.14), (0.46, 0.14), (0.46, 0.4), (0.22, 0.4)) | p.poly(
        (0.54, 0.14), (0.66, 0.14), (0.76, 0.4), (0.54, 0.4)
    )
    return cabin | p.rect(0, 0.4, 1, 0.82), wheels, windows


@_draws("truck")
def _truck(p: _Pen) -> Parts:
    cab = p.poly((0.68, 0.3), (0.88, 0.3), (1, 0.52), (1, 0.82), (0.68, 0.82))
    wheels = p.oval(0.2, 0.85, 0.12, 0.15) | p.oval(0.46, 0.85, 0.12, 0.15) | p.oval(0.82, 0.85, 0.12, 0.15)
    gap = p.rect(0.64, 0.1, 0.68, 0.8)
    return (
        p.rect(0, 0.04, 0.64, 0.82) | cab,
        wheels | gap,
        p.poly((0.76, 0.36), (0.86, 0.36), (0.94, 0.54), (0.76, 0.54)),
    )


@_draws("house")
def _house(p: _Pen) -> Parts:
    roof = p.poly((0.5, 0), (1, 0.42), (0, 0.42))
    return p.rect(0.1, 0.4, 0.9, 1), roof, p.rect(0.4, 0.62, 0.62, 1)


@_draws("tree")
def _tree(p: _Pen) -> Parts:
    crown = p.oval(0.5, 0.22, 0.32, 0.22) | p.oval(0.28, 0.4, 0.28, 0.2) | p.oval(0.72, 0.4, 0.28, 0.2)
    return crown, p.rect(0.42, 0.56, 0.58, 1), p.none()


@_draws("sign")
def _sign(p: _Pen) -> Parts:
    board = p.poly((0.3, 0), (0.7, 0), (1, 0.2), (1, 0.46), (0.7, 0.66), (0.3, 0.66), (0, 0.46), (0, 0.2))
    return board, p.rect(0.43, 0.66, 0.57, 1), p.rect(0.18, 0.27, 0.82, 0.4)


@_draws("flag")
def _flag(p: _Pen) -> Parts:
    cloth = p.poly((0.14, 0.04), (0.45, 0.12), (0.7, 0.02), (1, 0.1), (1, 0.58), (0.7, 0.5), (0.45, 0.62), (0.14, 0.52))
    return cloth, p.rect(0.02, 0, 0.15, 1), p.none()


@_draws("bucket")
def _bucket(p: _Pen) -> Parts:
    body = p.poly((0.02, 0.3), (0.98, 0.3), (0.8, 1), (0.2, 1))
    handle = p.ring(0.5, 0.34, 0.46, 0.34, 0.08) & (p.y < 0.34)
    return body, handle | p.rect(0.03, 0.34, 0.97, 0.41), p.none()


@_draws("flower")
def _flower(p: _Pen) -> Parts:
    petals = p.none()
    for x, y in ((0.5, 0.13), (0.24, 0.26), (0.76, 0.26), (0.33, 0.5), (0.67, 0.5)):
        petals |= p.oval(x, y, 0.22, 0.16)
    stem = p.rect(0.45, 0.58, 0.55, 1) | p.oval(0.28, 0.84, 0.2, 0.08)
    return petals | p.oval(0.5, 0.33, 0.25, 0.2), stem & ~petals, p.oval(0.5, 0.34, 0.16, 0.12)


@_draws("mushroom")
def _mushroom(p: _Pen) -> Parts:
    cap = p.oval(0.5, 0.56, 0.5, 0.54) & (p.y <= 0.58)
    stalk = p.rect(0.36, 0.58, 0.64, 1) | p.oval(0.5, 0.93, 0.22, 0.07)
    return cap | stalk, p.rect(0, 0.54, 1, 0.6), stalk


@_draws("cat")
def _cat(p: _Pen) -> Parts:
    ears = p.poly((0.2, 0.0), (0.44, 0.16), (0.18, 0.32)) | p.poly((0.76, 0.0), (0.52, 0.16), (0.78, 0.32))
    tail = p.line(0.76, 0.92, 0.94, 0.7, 0.12) | p.line(0.94, 0.7, 0.88, 0.48, 0.12)
    body = p.oval(0.48, 0.74, 0.32, 0.28) | p.oval(0.48, 0.28, 0.31, 0.2)
    return (
        ears | tail | body,
        p.oval(0.36, 0.26, 0.06, 0.05) | p.oval(0.6, 0.26, 0.06, 0.05),
        p.oval(0.48, 0.38, 0.1, 0.05),
    )


@_draws("rabbit")
def _rabbit(p: _Pen) -> Parts:
    ears = p.oval(0.34, 0.2, 0.11, 0.2) | p.oval(0.66, 0.2, 0.11, 0.2)
    body = p.oval(0.5, 0.78, 0.42, 0.22) | p.oval(0.5, 0.47, 0.3, 0.16)
    return ears | body, p.oval(0.38, 0.45, 0.07, 0.04) | p.oval(0.62, 0.45, 0.07, 0.04), p.oval(0.5, 0.82, 0.18, 0.11)


@_draws("bird")
def _bird(p: _Pen) -> Parts:
    body = (
        p.oval(0.46, 0.56, 0.34, 0.26) | p.oval(0.74, 0.26, 0.18, 0.2) | p.poly((0.0, 0.34), (0.3, 0.46), (0.24, 0.7))
    )
    legs = p.rect(0.4, 0.8, 0.46, 1) | p.rect(0.54, 0.8, 0.6, 1)
    return body, legs | p.poly((0.9, 0.2), (1, 0.3), (0.88, 0.36)) | p.oval(0.78, 0.22, 0.05, 0.05), p.none()


@_draws("boat")
def _boat(p: _Pen) -> Parts:
    hull = p.poly((0, 0.6), (1, 0.6), (0.82, 1), (0.18, 1))
    return hull, p.rect(0.44, 0, 0.52, 0.62), p.poly((0.54, 0.04), (0.92, 0.54), (0.54, 0.54))


@_draws("fish")
def _fish(p: _Pen) -> Parts:
    body = p.oval(0.6, 0.5, 0.4, 0.42) | p.poly((0.3, 0.5), (0, 0.08), (0.06, 0.5), (0, 0.92))
    return body, p.oval(0.82, 0.4, 0.05, 0.08), p.oval(0.82, 0.4, 0.1, 0.15)


@_draws("umbrella")
def _umbrella(p: _Pen) -> Parts:
    dome = p.oval(0.5, 0.48, 0.5, 0.46) & (p.y <= 0.48)
    for cx in (0.17, 0.5, 0.83):
        dome &= ~p.oval(cx, 0.5, 0.15, 0.08)
    hook = p.ring(0.4, 0.9, 0.13, 0.1, 0.07) & (p.y >= 0.9)
    return dome, p.rect(0.47, 0.0, 0.54, 0.9) & ~dome | hook, p.none()


@_draws("hat")
def _hat(p: _Pen) -> Parts:
    crown = p.poly((0.24, 0.04), (0.76, 0.04), (0.8, 0.75), (0.2, 0.75))
    return crown | p.oval(0.5, 0.84, 0.5, 0.16), p.rect(0.21, 0.54, 0.79, 0.68), p.none()


@_draws("kite")
def _kite(p: _Pen) -> Parts:
    cloth = p.poly((0.5, 0), (1, 0.3), (0.5, 0.76), (0, 0.3))
    tail = p.line(0.5, 0.76, 0.36, 0.86, 0.08) | p.line(0.36, 0.86, 0.62, 0.98, 0.08)
    return cloth, p.line(0.5, 0, 0.5, 0.76, 0.05) | p.line(0, 0.3, 1, 0.3, 0.05) | tail, p.none()


@_draws("ball")
def _ball(p: _Pen) -> Parts:
    return p.oval(0.5, 0.5, 0.5, 0.5), p.none(), p.oval(0.32, 0.28, 0.13, 0.1)


@_draws("box")
def _box(p: _Pen) -> Parts:
    flaps = p.poly((0.08, 0.34), (0.0, 0.08), (0.14, 0.04), (0.24, 0.34)) | p.poly(
        (0.92, 0.34), (1, 0.08), (0.86, 0.04), (0.76, 0.34)
    )
    return p.rect(0.08, 0.3, 0.92, 1) | flaps, p.rect(0.08, 0.3, 0.92, 0.37), p.rect(0.4, 0.56, 0.6, 0.72)


@_draws("drum")
def _drum(p: _Pen) -> Parts:
    body = p.rect(0.02, 0.22, 0.98, 0.82) | p.oval(0.5, 0.82, 0.48, 0.18) | p.oval(0.5, 0.22, 0.48, 0.2)
    zigzag = p.none()
    for x0, x1 in ((0.02, 0.26), (0.26, 0.5), (0.5, 0.74), (0.74, 0.98)):
        middle = (x0 + x1) / 2
        zigzag |= p.line(x0, 0.4, middle, 0.9, 0.05) | p.line(middle, 0.9, x1, 0.4, 0.05)
    return body, zigzag, p.oval(0.5, 0.22, 0.42, 0.14)


@_draws("guitar")
def _guitar(p: _Pen) -> Parts:
    body = p.oval(0.5, 0.8, 0.5, 0.2) | p.oval(0.5, 0.55, 0.38, 0.15)
    return body, p.rect(0.42, 0.08, 0.58, 0.5) | p.rect(0.34, 0, 0.66, 0.12), p.oval(0.5, 0.66, 0.15, 0.07)


@_draws("balloon")
def _balloon(p: _Pen) -> Parts:
    body = p.oval(0.5, 0.34, 0.5, 0.34) | p.poly((0.5, 0.64), (0.64, 0.76), (0.36, 0.76))
    string = p.line(0.5, 0.76, 0.6, 0.88, 0.07) | p.line(0.6, 0.88, 0.48, 1, 0.07)
    return body, string, p.oval(0.32, 0.22, 0.1, 0.09)


@_draws("rocket")
def _rocket(p: _Pen) -> Parts:
    body = (p.oval(0.5, 0.42, 0.28, 0.42) & (p.y <= 0.45)) | p.rect(0.22, 0.42, 0.78, 0.8)
    fins = p.poly((0.22, 0.55), (0, 0.86), (0.22, 0.8)) | p.poly((0.78, 0.55), (1, 0.86), (0.78, 0.8))
    return (
        body,
        fins | p.rect(0.36, 0.8, 0.64, 0.86),
        p.oval(0.5, 0.36, 0.14, 0.09) | p.poly((0.36, 0.86), (0.64, 0.86), (0.5, 1)),
    )


@_draws("robot")
def _robot(p: _Pen) -> Parts:
    body = p.rect(0.18, 0.14, 0.82, 0.42) | p.rect(0.14, 0.48, 0.86, 0.84) | p.rect(0.4, 0.4, 0.6, 0.5)
    limbs = (
        p.rect(0, 0.5, 0.12, 0.76)
        | p.rect(0.88, 0.5, 1, 0.76)
        | p.rect(0.24, 0.84, 0.42, 1)
        | p.rect(0.58, 0.84, 0.76, 1)
    )
    eyes = p.rect(0.3, 0.22, 0.44, 0.32) | p.rect(0.56, 0.22, 0.7, 0.32)
    return body, limbs | p.rect(0.47, 0, 0.53, 0.14), eyes
