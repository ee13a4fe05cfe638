"""Drawings of the nouns as coverage masks on the unit square, by plain arithmetic: no font, no drawing library.

A drawing has a `body`, which takes the thing's colour and pattern, and fixed `dark` and `light` details over it.
Coordinates run right and down from 0 to 1.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

_FINE = 4  # samples per pixel and axis

Mask = np.ndarray
Parts = tuple[Mask, Mask, Mask]


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


@lru_cache(maxsize=2048)
def drawing(noun: str, width: int, height: int) -> Drawing:
    """The masks of a noun at a size.

    Args:
        noun: a noun of the scenes' world.
        width: width of the masks in pixels.
        height: height of the masks in pixels.
    """
    body, dark, light = (_coverage(mask, height, width) for mask in getattr(_Nouns(width, height), noun)())
    return Drawing(body, dark, light)


def _coverage(mask: Mask, height: int, width: int) -> Mask:
    counts = mask.reshape(height, _FINE, width, _FINE).sum(axis=(1, 3))
    return (counts * 255 // (_FINE * _FINE)).astype(np.uint8)


class _Nouns(_Pen):
    """One method a noun, called by its name: the body, dark details and light details."""

    def table(self) -> Parts:
        legs = self.rect(0.06, 0.3, 0.2, 1) | self.rect(0.8, 0.3, 0.94, 1)
        return self.rect(0, 0, 1, 0.36) | legs, self.rect(0.06, 0.34, 0.94, 0.4), self.none()

    def cup(self) -> Parts:
        body = self.poly((0.02, 0.06), (0.72, 0.06), (0.64, 1), (0.1, 1))
        return body | (self.ring(0.72, 0.45, 0.27, 0.27, 0.12) & ~body), self.rect(0.03, 0.06, 0.71, 0.14), self.none()

    def bowl(self) -> Parts:
        half = self.oval(0.5, 0.08, 0.5, 0.8) & (self.y >= 0.08)
        return half | self.rect(0.3, 0.8, 0.7, 1), self.rect(0, 0.06, 1, 0.17), self.none()

    def bottle(self) -> Parts:
        body = self.rect(0.34, 0.1, 0.66, 0.42) | self.oval(0.5, 0.5, 0.46, 0.16) | self.rect(0.04, 0.5, 0.96, 1)
        return body, self.rect(0.3, 0, 0.7, 0.11), self.none()

    def cake(self) -> Parts:
        body = self.rect(0.04, 0.28, 0.96, 1)
        drips = self.oval(0.2, 0.42, 0.1, 0.16) | self.oval(0.5, 0.44, 0.1, 0.2) | self.oval(0.8, 0.42, 0.1, 0.16)
        icing = self.rect(0.04, 0.24, 0.96, 0.4) | drips
        candles = self.rect(0.27, 0.04, 0.33, 0.26) | self.rect(0.67, 0.04, 0.73, 0.26)
        return body | icing, candles, icing

    def apple(self) -> Parts:
        body = self.oval(0.32, 0.62, 0.31, 0.37) | self.oval(0.68, 0.62, 0.31, 0.37) | self.rect(0.35, 0.4, 0.65, 0.92)
        stem = self.line(0.5, 0.34, 0.56, 0.05, 0.1) | self.oval(0.74, 0.13, 0.18, 0.09)
        return body, stem, self.none()

    def chair(self) -> Parts:
        back = self.rect(0.04, 0, 0.24, 0.6) | self.rect(0.04, 0.04, 0.3, 0.4)
        legs = self.rect(0.04, 0.6, 0.2, 1) | self.rect(0.8, 0.6, 0.96, 1)
        return back | self.rect(0.04, 0.54, 0.98, 0.74) | legs, self.rect(0.2, 0.72, 0.8, 0.78), self.none()

    def lamp(self) -> Parts:
        shade = self.poly((0.28, 0), (0.72, 0), (1, 0.56), (0, 0.56))
        stand = self.rect(0.44, 0.56, 0.56, 0.92) | self.rect(0.22, 0.9, 0.78, 1)
        return shade, stand, self.none()

    def book(self) -> Parts:
        return (
            self.rect(0, 0, 1, 1),
            self.rect(0.14, 0, 0.22, 1),
            self.rect(0.36, 0.14, 0.86, 0.34) | self.rect(0.22, 0.88, 1, 0.96),
        )

    def clock(self) -> Parts:
        body = self.oval(0.5, 0.55, 0.46, 0.44) | self.oval(0.18, 0.14, 0.16, 0.13) | self.oval(0.82, 0.14, 0.16, 0.13)
        hands = self.line(0.5, 0.55, 0.5, 0.34, 0.07) | self.line(0.5, 0.55, 0.66, 0.6, 0.07)
        return body, hands, self.oval(0.5, 0.55, 0.29, 0.28)

    def vase(self) -> Parts:
        neck = self.poly((0.0, 0.04), (1, 0.04), (0.74, 0.3), (0.74, 0.42), (0.26, 0.42), (0.26, 0.3))
        return (
            neck | self.oval(0.5, 0.64, 0.44, 0.3) | self.rect(0.26, 0.88, 0.74, 1),
            self.rect(0.22, 0.29, 0.78, 0.35),
            self.none(),
        )

    def candle(self) -> Parts:
        flame = self.oval(0.5, 0.14, 0.14, 0.14)
        plate = self.oval(0.5, 0.94, 0.5, 0.07)
        return self.rect(0.22, 0.36, 0.78, 0.92), plate | self.rect(0.46, 0.24, 0.54, 0.38), flame

    def car(self) -> Parts:
        cabin = self.poly((0.24, 0.04), (0.7, 0.04), (0.86, 0.44), (0.14, 0.44))
        wheels = self.oval(0.24, 0.82, 0.14, 0.18) | self.oval(0.76, 0.82, 0.14, 0.18)
        windows = self.poly((0.3, 0.14), (0.46, 0.14), (0.46, 0.4), (0.22, 0.4)) | self.poly(
            (0.54, 0.14), (0.66, 0.14), (0.76, 0.4), (0.54, 0.4)
        )
        return cabin | self.rect(0, 0.4, 1, 0.82), wheels, windows

    def truck(self) -> Parts:
        cab = self.poly((0.68, 0.3), (0.88, 0.3), (1, 0.52), (1, 0.82), (0.68, 0.82))
        wheels = (
            self.oval(0.2, 0.85, 0.12, 0.15) | self.oval(0.46, 0.85, 0.12, 0.15) | self.oval(0.82, 0.85, 0.12, 0.15)
        )
        gap = self.rect(0.64, 0.1, 0.68, 0.8)
        return (
            self.rect(0, 0.04, 0.64, 0.82) | cab,
            wheels | gap,
            self.poly((0.76, 0.36), (0.86, 0.36), (0.94, 0.54), (0.76, 0.54)),
        )

    def house(self) -> Parts:
        roof = self.poly((0.5, 0), (1, 0.42), (0, 0.42))
        return self.rect(0.1, 0.4, 0.9, 1), roof, self.rect(0.4, 0.62, 0.62, 1)

    def tree(self) -> Parts:
        crown = self.oval(0.5, 0.22, 0.32, 0.22) | self.oval(0.28, 0.4, 0.28, 0.2) | self.oval(0.72, 0.4, 0.28, 0.2)
        return crown, self.rect(0.42, 0.56, 0.58, 1), self.none()

    def sign(self) -> Parts:
        board = self.poly((0.3, 0), (0.7, 0), (1, 0.2), (1, 0.46), (0.7, 0.66), (0.3, 0.66), (0, 0.46), (0, 0.2))
        return board, self.rect(0.43, 0.66, 0.57, 1), self.rect(0.18, 0.27, 0.82, 0.4)

    def flag(self) -> Parts:
        cloth = self.poly(
            (0.14, 0.04), (0.45, 0.12), (0.7, 0.02), (1, 0.1), (1, 0.58), (0.7, 0.5), (0.45, 0.62), (0.14, 0.52)
        )
        return cloth, self.rect(0.02, 0, 0.15, 1), self.none()

    def bucket(self) -> Parts:
        body = self.poly((0.02, 0.3), (0.98, 0.3), (0.8, 1), (0.2, 1))
        handle = self.ring(0.5, 0.34, 0.46, 0.34, 0.08) & (self.y < 0.34)
        return body, handle | self.rect(0.03, 0.34, 0.97, 0.41), self.none()

    def flower(self) -> Parts:
        petals = self.none()
        for x, y in ((0.5, 0.13), (0.24, 0.26), (0.76, 0.26), (0.33, 0.5), (0.67, 0.5)):
            petals |= self.oval(x, y, 0.22, 0.16)
        stem = self.rect(0.45, 0.58, 0.55, 1) | self.oval(0.28, 0.84, 0.2, 0.08)
        return petals | self.oval(0.5, 0.33, 0.25, 0.2), stem & ~petals, self.oval(0.5, 0.34, 0.16, 0.12)

    def mushroom(self) -> Parts:
        cap = self.oval(0.5, 0.56, 0.5, 0.54) & (self.y <= 0.58)
        stalk = self.rect(0.36, 0.58, 0.64, 1) | self.oval(0.5, 0.93, 0.22, 0.07)
        return cap | stalk, self.rect(0, 0.54, 1, 0.6), stalk

    def cat(self) -> Parts:
        ears = self.poly((0.2, 0.0), (0.44, 0.16), (0.18, 0.32)) | self.poly((0.76, 0.0), (0.52, 0.16), (0.78, 0.32))
        tail = self.line(0.76, 0.92, 0.94, 0.7, 0.12) | self.line(0.94, 0.7, 0.88, 0.48, 0.12)
        body = self.oval(0.48, 0.74, 0.32, 0.28) | self.oval(0.48, 0.28, 0.31, 0.2)
        return (
            ears | tail | body,
            self.oval(0.36, 0.26, 0.06, 0.05) | self.oval(0.6, 0.26, 0.06, 0.05),
            self.oval(0.48, 0.38, 0.1, 0.05),
        )

    def rabbit(self) -> Parts:
        ears = self.oval(0.34, 0.2, 0.11, 0.2) | self.oval(0.66, 0.2, 0.11, 0.2)
        body = self.oval(0.5, 0.78, 0.42, 0.22) | self.oval(0.5, 0.47, 0.3, 0.16)
        return (
            ears | body,
            self.oval(0.38, 0.45, 0.07, 0.04) | self.oval(0.62, 0.45, 0.07, 0.04),
            self.oval(0.5, 0.82, 0.18, 0.11),
        )

    def bird(self) -> Parts:
        body = (
            self.oval(0.46, 0.56, 0.34, 0.26)
            | self.oval(0.74, 0.26, 0.18, 0.2)
            | self.poly((0.0, 0.34), (0.3, 0.46), (0.24, 0.7))
        )
        legs = self.rect(0.4, 0.8, 0.46, 1) | self.rect(0.54, 0.8, 0.6, 1)
        return (
            body,
            legs | self.poly((0.9, 0.2), (1, 0.3), (0.88, 0.36)) | self.oval(0.78, 0.22, 0.05, 0.05),
            self.none(),
        )

    def boat(self) -> Parts:
        hull = self.poly((0, 0.6), (1, 0.6), (0.82, 1), (0.18, 1))
        return hull, self.rect(0.44, 0, 0.52, 0.62), self.poly((0.54, 0.04), (0.92, 0.54), (0.54, 0.54))

    def fish(self) -> Parts:
        body = self.oval(0.6, 0.5, 0.4, 0.42) | self.poly((0.3, 0.5), (0, 0.08), (0.06, 0.5), (0, 0.92))
        return body, self.oval(0.82, 0.4, 0.05, 0.08), self.oval(0.82, 0.4, 0.1, 0.15)

    def umbrella(self) -> Parts:
        dome = self.oval(0.5, 0.48, 0.5, 0.46) & (self.y <= 0.48)
        for cx in (0.17, 0.5, 0.83):
            dome &= ~self.oval(cx, 0.5, 0.15, 0.08)
        hook = self.ring(0.4, 0.9, 0.13, 0.1, 0.07) & (self.y >= 0.9)
        return dome, self.rect(0.47, 0.0, 0.54, 0.9) & ~dome | hook, self.none()

    def hat(self) -> Parts:
        crown = self.poly((0.24, 0.04), (0.76, 0.04), (0.8, 0.75), (0.2, 0.75))
        return crown | self.oval(0.5, 0.84, 0.5, 0.16), self.rect(0.21, 0.54, 0.79, 0.68), self.none()

    def kite(self) -> Parts:
        cloth = self.poly((0.5, 0), (1, 0.3), (0.5, 0.76), (0, 0.3))
        tail = self.line(0.5, 0.76, 0.36, 0.86, 0.08) | self.line(0.36, 0.86, 0.62, 0.98, 0.08)
        return cloth, self.line(0.5, 0, 0.5, 0.76, 0.05) | self.line(0, 0.3, 1, 0.3, 0.05) | tail, self.none()

    def ball(self) -> Parts:
        return self.oval(0.5, 0.5, 0.5, 0.5), self.none(), self.oval(0.32, 0.28, 0.13, 0.1)

    def box(self) -> Parts:
        flaps = self.poly((0.08, 0.34), (0.0, 0.08), (0.14, 0.04), (0.24, 0.34)) | self.poly(
            (0.92, 0.34), (1, 0.08), (0.86, 0.04), (0.76, 0.34)
        )
        return self.rect(0.08, 0.3, 0.92, 1) | flaps, self.rect(0.08, 0.3, 0.92, 0.37), self.rect(0.4, 0.56, 0.6, 0.72)

    def drum(self) -> Parts:
        body = self.rect(0.02, 0.22, 0.98, 0.82) | self.oval(0.5, 0.82, 0.48, 0.18) | self.oval(0.5, 0.22, 0.48, 0.2)
        zigzag = self.none()
        for x0, x1 in ((0.02, 0.26), (0.26, 0.5), (0.5, 0.74), (0.74, 0.98)):
            middle = (x0 + x1) / 2
            zigzag |= self.line(x0, 0.4, middle, 0.9, 0.05) | self.line(middle, 0.9, x1, 0.4, 0.05)
        return body, zigzag, self.oval(0.5, 0.22, 0.42, 0.14)

    def guitar(self) -> Parts:
        body = self.oval(0.5, 0.8, 0.5, 0.2) | self.oval(0.5, 0.55, 0.38, 0.15)
        return body, self.rect(0.42, 0.08, 0.58, 0.5) | self.rect(0.34, 0, 0.66, 0.12), self.oval(0.5, 0.66, 0.15, 0.07)

    def balloon(self) -> Parts:
        body = self.oval(0.5, 0.34, 0.5, 0.34) | self.poly((0.5, 0.64), (0.64, 0.76), (0.36, 0.76))
        string = self.line(0.5, 0.76, 0.6, 0.88, 0.07) | self.line(0.6, 0.88, 0.48, 1, 0.07)
        return body, string, self.oval(0.32, 0.22, 0.1, 0.09)

    def rocket(self) -> Parts:
        body = (self.oval(0.5, 0.42, 0.28, 0.42) & (self.y <= 0.45)) | self.rect(0.22, 0.42, 0.78, 0.8)
        fins = self.poly((0.22, 0.55), (0, 0.86), (0.22, 0.8)) | self.poly((0.78, 0.55), (1, 0.86), (0.78, 0.8))
        return (
            body,
            fins | self.rect(0.36, 0.8, 0.64, 0.86),
            self.oval(0.5, 0.36, 0.14, 0.09) | self.poly((0.36, 0.86), (0.64, 0.86), (0.5, 1)),
        )

    def robot(self) -> Parts:
        body = self.rect(0.18, 0.14, 0.82, 0.42) | self.rect(0.14, 0.48, 0.86, 0.84) | self.rect(0.4, 0.4, 0.6, 0.5)
        limbs = (
            self.rect(0, 0.5, 0.12, 0.76)
            | self.rect(0.88, 0.5, 1, 0.76)
            | self.rect(0.24, 0.84, 0.42, 1)
            | self.rect(0.58, 0.84, 0.76, 1)
        )
        eyes = self.rect(0.3, 0.22, 0.44, 0.32) | self.rect(0.56, 0.22, 0.7, 0.32)
        return body, limbs | self.rect(0.47, 0, 0.53, 0.14), eyes
