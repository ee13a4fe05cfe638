"""Saliency drawn as in VSE-C's Fig. 2: heat maps on a picture, and captions with shaded words, by run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageOps
from jaxtyping import Float
from PIL import ImageDraw, ImageFont

from vse.display.png import small_png
from vse.evaluation.relevance_maps import Rectangle
from vse.evaluation.saliency import Saliency, normalized_to_maximum

WIDTH = 1100  # pixels of a figure
_MARGIN, _PHOTOGRAPH, _MAP = 14, 250, 150
_INK, _SOFT, _BOX = (34, 34, 34), (107, 114, 128), (46, 229, 157)
_SHADE = (0xE6, 0x9F, 0x00)  # orange of Okabe & Ito's palette
_SMOOTHING = 0.012  # of a map that is drawn, standard deviation as a share of its longer side
_WORD, _VALUE, _NOTE = 15, 10, 12  # sizes of letters in pixels


@dataclass(frozen=True, eq=False)
class SaliencyRow:
    """A caption as several runs read it.

    Args:
        label: What the caption is, such as "noun attack".
        saliency: Of each run.
        changed: Positions of words in which it differs from the first caption; they are underlined.
    """

    label: str
    saliency: Sequence[Saliency]
    changed: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class SaliencyBlock:
    """A picture with its captions. `picture` is None if there is none to show; `boxes` are drawn in green."""

    picture: PIL.Image.Image | None
    title: str
    rows: Sequence[SaliencyRow]
    boxes: Sequence[Rectangle] = ()


def heat_map(
    image: Float[np.ndarray, "rows columns"], picture: PIL.Image.Image | None, size: tuple[int, int], level: str
) -> PIL.Image.Image:
    """Saliency over a picture: dim grey where it is zero, then orange, and white where it is largest.

    Saliency of pixels is smoothed a little, because single bright pixels are invisible; cells of a map are enlarged.

    Args:
        image: Saliency, L∞-normalised.
        picture: The image that was measured; None for a black background.
        size: Width and height of the result in pixels.
        level: `pixels` or `features`.
    """
    values = _smoothed(image) if level == "pixels" else image
    resampling = PIL.Image.Resampling.BILINEAR if level == "pixels" else PIL.Image.Resampling.BICUBIC
    enlarged = np.asarray(PIL.Image.fromarray(values.astype(np.float32)).resize(size, resampling))
    heat = normalized_to_maximum(enlarged.clip(0))[..., None]
    grey = (
        np.zeros((*heat.shape[:2], 1)) if picture is None else np.asarray(picture.convert("L").resize(size))[..., None]
    )
    shade = np.array(_SHADE) * (1 - heat**4) + 255 * heat**4
    pixels = 0.7 * grey * (1 - heat) + shade * heat
    return PIL.Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def draw_saliency(blocks: Sequence[SaliencyBlock], names: Sequence[str], note: str = "") -> bytes:
    """A PNG with a block for each picture.

    Args:
        blocks: The pictures with their captions.
        names: Of the runs, in the order of `SaliencyRow.saliency`.
        note: A line at the bottom.
    """
    drawn = [_block(each, names) for each in blocks]
    lines = _lines(note, _font(_NOTE), WIDTH - 2 * _MARGIN)
    height = sum(each.height + _MARGIN for each in drawn) + _MARGIN + 18 * len(lines) + (6 if lines else 0)
    sheet = PIL.Image.new("RGB", (WIDTH, height), "white")
    pen, top = ImageDraw.Draw(sheet), _MARGIN
    for each in drawn:
        sheet.paste(each, (0, top))
        top += each.height + _MARGIN
    for line in lines:
        pen.text((_MARGIN, top), line, font=_font(_NOTE), fill=_SOFT)
        top += 18
    _, _, right, _ = PIL.ImageOps.invert(sheet).getbbox() or (0, 0, WIDTH, height)
    return small_png(sheet.crop((0, 0, min(right + _MARGIN, WIDTH), height)))


def _block(block: SaliencyBlock, names: Sequence[str], height: int = 3000) -> PIL.Image.Image:
    """The picture of a block, on a canvas of this height; on a higher one if that is not enough."""
    left = 2 * _MARGIN + _PHOTOGRAPH
    canvas = PIL.Image.new("RGB", (WIDTH, height), "white")
    pen, top = ImageDraw.Draw(canvas), 0
    for line in _lines(block.title, _font(_WORD, bold=True), WIDTH - 2 * _MARGIN):
        pen.text((_MARGIN, top), line, font=_font(_WORD, bold=True), fill=_INK)
        top += 22
    start = bottom = top + 4
    if block.picture is not None:
        photograph = _photograph(block.picture, block.boxes)
        canvas.paste(photograph, (_MARGIN, start))
        bottom += photograph.height
    top = start
    for row in block.rows:
        pen.text((left, top), row.label, font=_font(_NOTE, bold=True), fill=_INK)
        top += 20
        for name, saliency in zip(names, row.saliency, strict=True):
            top = _row(canvas, (left, top), block.picture, name, saliency, row.changed)
        top += 6
    needed = max(top, bottom)
    return _block(block, names, needed) if needed > height else canvas.crop((0, 0, WIDTH, needed))


def _row(
    canvas: PIL.Image.Image,
    place: tuple[int, int],
    picture: PIL.Image.Image | None,
    name: str,
    saliency: Saliency,
    changed: Sequence[int],
) -> int:
    """Draw the result of one run for a caption; returns the position of the next row."""
    (left, top), pen, height = place, ImageDraw.Draw(canvas), 0
    if saliency.image is not None:
        rows, columns = saliency.image.shape if picture is None else picture.size[::-1]
        size = _fitted((columns, rows), _MAP)
        canvas.paste(heat_map(saliency.image, picture, size, saliency.level), (left, top))
        height = size[1]
        left += _MAP + _MARGIN
    pen.text((left, top), f"{name}   score {saliency.score:.3f}", font=_font(_NOTE), fill=_SOFT)
    bottom = _words(pen, (left, top + 20), saliency, changed)
    return max(bottom, top + height) + 8


def _words(pen: ImageDraw.ImageDraw, place: tuple[int, int], saliency: Saliency, changed: Sequence[int]) -> int:
    """Draw the words, shaded by their shares with these below, and mark those unknown; returns the bottom."""
    (left, y), x = place, place[0]
    font, small = _font(_WORD), _font(_VALUE)
    shares = saliency.shares
    most = max(shares.max(initial=0.0), 1e-12) if shares is not None else 1.0
    for position, word in enumerate(saliency.words):
        value = "" if shares is None else f"{shares[position]:.3f}".removeprefix("0")
        if value and position in saliency.unknown:
            value += " unknown"
        width = int(max(font.getlength(word), small.getlength(value))) + 8
        if x + width > WIDTH - _MARGIN and x > left:
            x, y = left, y + 42
        if shares is not None:
            strength = float(shares[position] / most)
            colour = tuple(round(255 + (c - 255) * strength) for c in _SHADE)
            pen.rectangle((x, y, x + width - 2, y + 22), fill=colour)
        pen.text((x + 3, y + 1), word, font=font, fill=_INK)
        if position in changed:
            pen.line((x + 3, y + 20, x + 3 + font.getlength(word), y + 20), fill=_INK, width=2)
        pen.text((x + 3, y + 24), value, font=small, fill=_SOFT)
        x += width
    return y + (40 if shares is not None else 26)


def _photograph(picture: PIL.Image.Image, boxes: Sequence[Rectangle]) -> PIL.Image.Image:
    small = picture.convert("RGB").resize(_fitted(picture.size, _PHOTOGRAPH))
    pen = ImageDraw.Draw(small)
    for box in boxes:
        left, top = box.left * small.width, box.top * small.height
        right, bottom = max(box.right * small.width - 1, left), max(box.bottom * small.height - 1, top)
        pen.rectangle((left, top, right, bottom), outline=_BOX, width=2)
    return small


def _fitted(size: tuple[int, int], width: int) -> tuple[int, int]:
    """A size scaled to a width, or less to be at most twice as high as that; no side is thinner than a line of text."""
    scale = min(width / size[0], 2 * width / size[1])
    return max(round(size[0] * scale), 12), max(round(size[1] * scale), 12)


def _smoothed(values: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows columns"]:
    """Convolved with a Gaussian, along rows and then along columns."""
    deviation = max(_SMOOTHING * max(values.shape), 0.5)
    reach = int(3 * deviation) + 1
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
    kernel /= kernel.sum()
    for _ in range(2):
        padded = np.pad(values, ((0, 0), (reach, reach)), mode="reflect" if values.shape[1] > reach else "edge")
        values = np.stack([np.convolve(row, kernel, mode="valid") for row in padded]).T
    return values


def _lines(text: str, font: ImageFont.FreeTypeFont, width: int) -> list[str]:
    lines = [""] if text else []
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and font.getlength(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


@cache
def _font(size: int, *, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib and has the letters of many scripts."""
    import matplotlib

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name, size)
