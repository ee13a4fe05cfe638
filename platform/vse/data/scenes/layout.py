"""The objects of a scene and their boxes, from its address, the same on every machine."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from vse.data.scenes.world import COLOURS, CONTACTS, HOSTS, NOUNS, PATTERNS, SPLITS, THEMES
from vse.errors import InputError

T = TypeVar("T")
Box = tuple[int, int, int, int]  # left, top, right, bottom in units of the canvas; right and bottom are outside

CANVAS = 112
BIAS = 0.85  # share of draws that follow the co-occurrence tables in the biased splits
_SPACE = 8  # units between things that are not in contact, more than the 6 of "next to"
_SIZES = {"small": (15, 17), "medium": (22, 25), "large": (32, 35)}


class Draw:
    """Random choices built on `Random.random` alone, the one method whose stream Python promises to keep."""

    def __init__(self, *key: object) -> None:
        digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
        self._next = random.Random(int.from_bytes(digest[:8], "big")).random

    def chance(self, probability: float) -> bool:
        return self._next() < probability

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return low + int(self._next() * (high - low + 1))

    def choice(self, options: Sequence[T]) -> T:
        return options[int(self._next() * len(options))]

    def weighted(self, options: Sequence[tuple[T, float]]) -> T:
        left = self._next() * sum(weight for _, weight in options)
        for option, weight in options:
            left -= weight
            if left < 0:
                return option
        return options[-1][0]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        rest = list(items)
        return [rest.pop(int(self._next() * len(rest))) for _ in range(len(rest))]


@dataclass(frozen=True, slots=True)
class ObjectGroup:
    """One to five objects of the same look, drawn together, with one box for each."""

    noun: str
    colour: str
    size: str
    pattern: str
    boxes: tuple[Box, ...]
    flipped: bool = False

    @property
    def count(self) -> int:
        return len(self.boxes)

    @property
    def box(self) -> Box:
        """The box around all its objects."""
        return _around(self.boxes)


@dataclass(frozen=True, slots=True)
class Scene:
    """Groups of objects in the order of drawing, back to front, and contacts as (subject, contact, object)."""

    things: tuple[ObjectGroup, ...]
    contacts: tuple[tuple[int, str, int], ...]
    background: int
    drawing: str = "plain"
    size: int = CANVAS


@dataclass(frozen=True, slots=True)
class Address:
    """The content of a `scene:` URI, which determines the scene."""

    seed: int
    split: str
    index: int
    drawing: str = "plain"
    size: int = CANVAS

    @property
    def uri(self) -> str:
        return f"scene:seed={self.seed},split={self.split},index={self.index},drawing={self.drawing},size={self.size}"

    @classmethod
    def parse(cls, uri: str) -> "Address":
        """The address written in a URI; raises InputError for anything else."""
        try:
            kind, _, rest = uri.partition(":")
            values = dict(pair.split("=") for pair in rest.split(","))
            address = cls(
                seed=int(values.pop("seed")),
                split=values.pop("split"),
                index=int(values.pop("index")),
                drawing=values.pop("drawing", "plain"),
                size=int(values.pop("size", CANVAS)),
            )
        except (KeyError, ValueError) as error:
            raise InputError(
                f"{uri}: not a scene address: {error}; expected one like {cls(0, 'train', 0).uri}"
            ) from None
        if kind != "scene" or values or address.split not in SPLITS or address.drawing not in ("plain", "second"):
            raise InputError(f"{uri}: not a scene address; expected one like {cls(0, 'train', 0).uri}")
        if address.index < 0 or not 16 <= address.size <= 4096:
            raise InputError(f"{uri}: index must be >= 0 and size between 16 and 4096")
        return address


@lru_cache(maxsize=8192)
def scene_of(uri: str) -> Scene:
    """The scene at an address. Drawing and size change how it is drawn, never what is in it or where."""
    address = Address.parse(uri)
    draw = Draw("scene", address.seed, address.split, address.index)
    mode = {"shifted": "broken", "pretrain": "free"}.get(address.split, "biased")
    placed: list[_Cluster] = []
    taste = _Taste(draw, mode)
    wanted = draw.weighted(((2, 0.35), (3, 0.5), (4, 0.15)))
    tries = 0
    while tries < wanted or sum(len(c.things) for c in placed) < 2:
        tries += 1
        cluster = _place(draw, _cluster(draw, taste), placed, mode)
        if cluster is not None:
            placed.append(cluster)
    things: list[ObjectGroup] = []
    contacts: list[tuple[int, str, int]] = []
    for cluster in placed:
        contacts += [(a + len(things), name, b + len(things)) for a, name, b in cluster.contacts]
        things += cluster.things
    return Scene(tuple(things), tuple(contacts), draw.between(0, 5), address.drawing, address.size)


class _Taste:
    """Draws nouns, attributes and contacts that follow the co-occurrence tables, break them, or ignore them."""

    def __init__(self, draw: Draw, mode: str) -> None:
        self.draw, self.mode = draw, mode
        self.theme = draw.choice(tuple(THEMES))
        self.used: list[str] = []

    def noun(self, among: Sequence[str] = tuple(NOUNS)) -> str:
        """A noun; biased scenes keep to one theme, broken ones take every noun from a theme not yet seen."""
        options = tuple(among)
        if self.mode == "biased" and self.draw.chance(BIAS):
            options = tuple(n for n in options if NOUNS[n].theme == self.theme) or options
        elif self.mode == "broken":
            seen = {NOUNS[n].theme for n in self.used}
            options = tuple(n for n in options if NOUNS[n].theme not in seen) or options
        fresh = tuple(n for n in options if n not in self.used)
        noun = self.draw.choice(fresh if fresh and self.draw.chance(0.9) else options)
        self.used.append(noun)
        return noun

    def of(self, options: Sequence[str], usual: Sequence[str]) -> str:
        """One of `options`: mostly a usual one in biased scenes, never one in broken scenes."""
        if self.mode == "biased" and self.draw.chance(BIAS):
            return self.draw.choice(usual)
        if self.mode == "broken":
            return self.draw.choice([option for option in options if option not in usual])
        return self.draw.choice(options)

    def thing(self, noun: str, size: str, count: int = 1) -> ObjectGroup:
        kind = NOUNS[noun]
        colour = self.of(tuple(COLOURS), kind.colours)
        pattern = self.of(PATTERNS, kind.usual_patterns)
        unit = self.draw.between(*_SIZES[size])
        width, height = max(6, round(unit * kind.width)), max(6, round(unit * kind.height))
        return ObjectGroup(noun, colour, size, pattern, _rows(self.draw, count, width, height), self.draw.chance(0.5))


@dataclass(slots=True)
class _Cluster:
    things: list[ObjectGroup]
    contacts: list[tuple[int, str, int]]

    @property
    def box(self) -> Box:
        return _around([t.box for t in self.things])


def _cluster(draw: Draw, taste: _Taste) -> _Cluster:
    """A single thing, several alike, or two things in contact."""
    kind = draw.weighted((("single", 0.22), ("several", 0.23), ("contact", 0.55)))
    if kind == "single":
        return _Cluster([taste.thing(taste.noun(), draw.choice(tuple(_SIZES)))], [])
    if kind == "several":
        count = draw.between(2, 5)
        size = "medium" if count <= 3 and draw.chance(0.35) else "small"
        return _Cluster([taste.thing(taste.noun(), size, count)], [])
    guest = taste.noun()
    contact = taste.of(CONTACTS, NOUNS[guest].usual_contacts)
    host = taste.noun([n for n in HOSTS.get(contact, tuple(NOUNS)) if n != guest])
    return _touch(draw, taste, guest, contact, host)


def _touch(draw: Draw, taste: _Taste, guest_noun: str, contact: str, host_noun: str) -> _Cluster:
    """Two things in contact; positions are relative, and nothing rests on a smaller thing."""
    if contact in ("on", "in"):
        host_size = draw.choice(("medium", "large"))
        guest_size = "small" if host_size == "medium" else draw.choice(("small", "small", "medium"))
    elif contact == "under":
        host_size, guest_size = "large", "small"
    else:
        host_size, guest_size = draw.weighted(
            ((("medium", "medium"), 0.3), (("large", "medium"), 0.25), (("medium", "large"), 0.25),
             (("small", "small"), 0.2))
        )  # fmt: skip
    host = taste.thing(host_noun, host_size)
    guest = taste.thing(guest_noun, guest_size)
    kind = NOUNS[host_noun]
    _, _, hw, hh = host.box
    _, _, gw, gh = guest.box
    if contact == "on":
        assert kind.top is not None
        slack = max(0, (hw - gw) // 2)
        x = (hw - gw) // 2 + draw.between(-slack, slack) // 2
        guest = _moved(guest, x, round(kind.top * hh) - gh + 1)
    elif contact == "in":
        assert kind.rim is not None
        sunk = min(round(0.34 * gh), round(0.6 * hh))
        guest = _moved(guest, (hw - gw) // 2 + draw.between(-1, 1), round(kind.rim * hh) - gh + sunk)
    elif contact == "under":
        guest = _moved(guest, (hw - gw) // 2 + draw.between(-1, 1), hh - gh + 1)
    elif contact == "next":
        if guest.count == 1 and guest_size == "small" and draw.chance(0.5):
            guest = taste.thing(guest_noun, "small", 2)
            _, _, gw, gh = guest.box
        x = hw + draw.between(1, 3) if draw.chance(0.5) else -gw - draw.between(1, 3)
        guest = _moved(guest, x, hh - gh)
    else:
        # The covered share of the thing behind stays near a third: sideways by 55-70 %, up or down by a quarter.
        back = contact == "behind"
        x = round(hw * draw.between(55, 70) / 100) if draw.chance(0.5) else -round(gw * draw.between(55, 70) / 100)
        y = hh - gh - draw.between(5, 8) if back else hh - gh + draw.between(5, 8)
        guest = _moved(guest, x, y)
    first, second = (guest, host) if contact in ("in", "behind") else (host, guest)
    edge = (0, contact, 1) if first is guest else (1, contact, 0)
    return _Cluster([first, second], [edge])


def _rows(draw: Draw, count: int, width: int, height: int) -> tuple[Box, ...]:
    """Boxes of `count` objects in one or two rows, from the origin, two units apart."""
    per_row = count if count <= 2 or (count == 3 and width < 20 and draw.chance(0.5)) else (count + 1) // 2
    boxes = []
    for k in range(count):
        row, column = divmod(k, per_row)
        x, y = column * (width + 2), row * (height + 2)
        if count > 2 and row == 1 and count % 2:
            x += width // 2 + 1
        boxes.append((x, y, x + width, y + height))
    return tuple(boxes)


def _around(boxes: Sequence[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _moved(thing: ObjectGroup, x: int, y: int) -> ObjectGroup:
    boxes = tuple((a + x, b + y, c + x, d + y) for a, b, c, d in thing.boxes)
    return replace(thing, boxes=boxes)


def _place(draw: Draw, cluster: _Cluster, placed: Sequence[_Cluster], mode: str) -> _Cluster | None:
    """The cluster at a free place of the canvas, or None; biased scenes put nouns of the air high, broken ones low."""
    left, top, right, bottom = cluster.box
    width, height = right - left, bottom - top
    if width > CANVAS - 4 or height > CANVAS - 4:
        return None
    high = any(NOUNS[t.noun].high for t in cluster.things) != (mode == "broken")
    for attempt in range(60):
        x = draw.between(2, CANVAS - 2 - width)
        y = draw.between(2, CANVAS - 2 - height)
        if mode != "free" and attempt < 30 and (y + height / 2 < CANVAS / 2) != high:
            continue
        spot = (x - _SPACE, y - _SPACE, x + width + _SPACE, y + height + _SPACE)
        if all(_apart(spot, other.box) for other in placed):
            moved = [_moved(t, x - left, y - top) for t in cluster.things]
            return _Cluster(moved, cluster.contacts)
    return None


def _apart(a: Box, b: Box) -> bool:
    return a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
