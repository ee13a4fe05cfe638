"""Pictures and figures as PNG files."""

import io
import textwrap
import warnings
from typing import Any

import PIL.Image

COLOURS = 160  # of a palette; photographs look the same, and their files are a quarter to a third of the size


def small_png(picture: PIL.Image.Image) -> bytes:
    """A picture as a PNG with a palette."""
    file = io.BytesIO()
    picture.convert("RGB").quantize(COLOURS).save(file, "PNG", optimize=True)
    return file.getvalue()


def wrapped(text: str, width: int, most: int = 4) -> str:
    """A text in lines of at most `width` letters; after `most` lines, an ellipsis stands for the rest."""
    return "\n".join(textwrap.wrap(text, width, max_lines=most, placeholder=" …"))


def figure_png(figure: Any, dots: int) -> bytes:
    """A figure of matplotlib as `small_png`. No text is read as a formula, because captions may hold dollar signs.

    Args:
        figure: The figure.
        dots: Pixels an inch.
    """
    from matplotlib.text import Text  # takes half a second

    for text in figure.findobj(Text):
        text.set_parse_math(False)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph ", UserWarning)  # an empty box stands for an emoji
        figure.savefig(file, format="png", dpi=dots, facecolor="white")
    return small_png(PIL.Image.open(file))
