"""Pictures and figures as PNG files."""

import io
from typing import Any

import PIL.Image

COLOURS = 160  # of a palette; photographs look the same, and their files are a quarter to a third of the size


def small_png(picture: PIL.Image.Image) -> bytes:
    """A picture as a PNG with a palette."""
    file = io.BytesIO()
    picture.convert("RGB").quantize(COLOURS).save(file, "PNG", optimize=True)
    return file.getvalue()


def figure_png(figure: Any, dots: int) -> bytes:
    """A figure of matplotlib as `small_png`.

    Args:
        figure: The figure, with a canvas.
        dots: Pixels an inch.
    """
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dots, facecolor="white")
    return small_png(PIL.Image.open(file))
