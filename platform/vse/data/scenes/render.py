"""Pixels of a scene, and the object at every pixel, in integer arithmetic: the same bytes on every machine."""

from functools import lru_cache

import numpy as np

from vse.data.scenes.layout import CANVAS, ObjectGroup, Scene, scene_of
from vse.data.scenes.shapes import drawing
from vse.data.scenes.world import COLOURS, NOUNS, PATTERNS, SIZES

_BACKGROUNDS = {
    "plain": ((226, 232, 236), (236, 230, 218), (222, 234, 222), (232, 224, 234), (214, 226, 238), (240, 238, 230)),
    "second": ((92, 104, 112), (112, 100, 88), (88, 108, 92), (104, 92, 110), (84, 98, 116), (110, 110, 100)),
}
_DARK, _LIGHT = (52, 48, 50), (255, 250, 225)
_OUTLINES = {"plain": (20, 20, 22), "second": (244, 244, 238)}

# Cell labels: 0 is background, k + 1 the k-th name of each table.
CELL_LABELS: dict[str, tuple[str, ...]] = {
    "noun": tuple(NOUNS),
    "colour": tuple(COLOURS),
    "size": SIZES,
    "pattern": PATTERNS,
}


def render(scene: Scene | str) -> np.ndarray:
    """The picture of a scene or of a `scene:` URI: uint8 of shape (size, size, 3)."""
    return render_with_segments(scene)[0]


def render_with_segments(scene: Scene | str) -> tuple[np.ndarray, np.ndarray]:
    """The picture, and int8 of shape (size, size) with the position of the thing seen at each pixel, -1 for none."""
    if isinstance(scene, str):
        scene = scene_of(scene)
    canvas = _background(scene.background, scene.drawing, scene.size).copy()
    segments = np.full((scene.size, scene.size), -1, dtype=np.int8)
    for position, thing in enumerate(scene.things):
        for left, top, right, bottom in thing.boxes:
            x0, y0, x1, y1 = (round(v * scene.size / CANVAS) for v in (left, top, right, bottom))
            sprite = _sprite(
                thing.noun, thing.colour, thing.pattern, max(x1 - x0, 2), max(y1 - y0, 2), scene.drawing,
                thing.flipped, scene.size,
            )  # fmt: skip
            _paint(canvas, segments, sprite, x0 - 1, y0 - 1, position)
    return canvas.astype(np.uint8), segments


def cell_labels(scene: Scene | str, grid: int = 7) -> dict[str, np.ndarray]:
    """Per cell of a grid over the picture, what it mostly shows: int64 of shape (grid, grid) for each of `CELL_LABELS`.

    A cell belongs to the thing with the most pixels in it if these are at least a sixth of the cell, else it is 0.
    """
    if isinstance(scene, str):
        scene = scene_of(scene)
    _, segments = render_with_segments(scene)
    edges = np.arange(scene.size) * grid // scene.size
    cells = (edges[:, None] * grid + edges[None, :]).ravel()
    num = len(scene.things) + 1
    counts = np.bincount(cells * num + segments.ravel() + 1, minlength=grid * grid * num).reshape(-1, num)
    winner = counts[:, 1:].argmax(axis=1) if num > 1 else np.zeros(grid * grid, dtype=np.int64)
    shown = counts[:, 1:].max(axis=1, initial=0) * 6 >= counts.sum(axis=1)
    return {kind: np.where(shown, _numbers(scene.things, kind)[winner], 0).reshape(grid, grid) for kind in CELL_LABELS}


def _numbers(things: tuple[ObjectGroup, ...], kind: str) -> np.ndarray:
    names = CELL_LABELS[kind]
    return np.array([names.index(getattr(thing, kind)) + 1 for thing in things] or [0], dtype=np.int64)


@lru_cache(maxsize=64)
def _background(index: int, style: str, size: int) -> np.ndarray:
    """A nearly flat ground with a fine grain from a hash of the position: int32 of shape (size, size, 3)."""
    y, x = np.mgrid[0:size, 0:size].astype(np.int64)
    grain = ((x * 73856093) ^ (y * 19349663) ^ ((index + 1) * 83492791)) >> 3
    shade = grain % 9 - 4
    if style == "second":
        shade = shade * 2 + (y * 40 // size) - 20
    ground = np.array(_BACKGROUNDS[style][index], dtype=np.int64)
    return np.clip(ground + shade[:, :, None], 0, 255).astype(np.int32)


@lru_cache(maxsize=4096)
def _sprite(
    noun: str, colour: str, pattern: str, width: int, height: int, style: str, flipped: bool, canvas: int
) -> tuple[np.ndarray, np.ndarray]:
    """Colour (int32, height + 2, width + 2, 3) and coverage 0..255 (int32, height + 2, width + 2), outline included."""
    masks = drawing(noun, width, height)
    body, dark, light = (np.pad(m.astype(np.int32), 1) for m in (masks.body, masks.dark, masks.light))
    base = np.array(COLOURS[colour], dtype=np.int32)
    ink = base * 2 // 5 if base.sum() > 330 else base + (255 - base) * 3 // 5
    if colour in ("white", "black"):
        ink = np.array((120, 120, 126) if colour == "white" else (215, 215, 215), dtype=np.int32)
    marked = _pattern(pattern, body.shape, style, max(1, round(canvas / CANVAS)))
    paint = np.where(marked[:, :, None], ink, base)
    if style == "second":
        shading = 108 - 24 * np.arange(body.shape[1], dtype=np.int32) // body.shape[1]
        paint = np.clip(paint * shading[None, :, None] // 100, 0, 255)
    whole = np.maximum(np.maximum(body, dark), light)
    # the border is empty, so that nothing comes in at the other side
    grown = np.maximum.reduce([whole, *(np.roll(whole, step, axis) for step in (1, -1) for axis in (0, 1))])
    colours = np.broadcast_to(np.array(_OUTLINES[style], dtype=np.int32), (*whole.shape, 3))
    for mask, layer in ((body, paint), (light, np.array(_LIGHT)), (dark, np.array(_DARK))):
        colours = (colours * (255 - mask[:, :, None]) + layer * mask[:, :, None]) // 255
    if flipped:
        colours, grown = colours[:, ::-1], grown[:, ::-1]
    return np.ascontiguousarray(colours).astype(np.int32), np.ascontiguousarray(grown)


def _pattern(pattern: str, shape: tuple[int, int], style: str, unit: int) -> np.ndarray:
    """Where the second colour goes: bool of `shape`."""
    y, x = np.mgrid[0 : shape[0], 0 : shape[1]] // unit
    if pattern == "striped":
        return (y + x) % 6 < 3 if style == "second" else y % 6 < 3
    if pattern == "spotted":
        shift = np.where((y // 6) % 2 == 1, 3, 0) if style == "plain" else 0
        return (abs((x + shift) % 6 - 2) + abs(y % 6 - 2)) < 2
    if pattern == "checkered":
        return ((x // 4) + (y // 4)) % 2 == 0
    return np.zeros(shape, dtype=bool)


def _paint(
    canvas: np.ndarray, segments: np.ndarray, sprite: tuple[np.ndarray, np.ndarray], x: int, y: int, position: int
) -> None:
    colours, alpha = sprite
    height, width = alpha.shape
    size = canvas.shape[0]
    top, left = max(0, -y), max(0, -x)
    bottom, right = min(height, size - y), min(width, size - x)
    if bottom <= top or right <= left:
        return
    cover = alpha[top:bottom, left:right]
    here = (slice(y + top, y + bottom), slice(x + left, x + right))
    canvas[here] = (
        canvas[here] * (255 - cover[:, :, None]) + colours[top:bottom, left:right] * cover[:, :, None]
    ) // 255
    segments[here][cover > 127] = position
