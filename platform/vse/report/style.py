"""The style of figures: one palette, and the width of a page or of a column.

Figures are drawn on matplotlib's own canvas, without window system or global state. On pages they are inline SVG whose
colours are variables of `templates/page.css`, with a light and a dark value each.
"""

import io
import re
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

WIDTH, COLUMN = 7.0, 3.4  # inches of a text and of one of its two columns
# Okabe & Ito's palette: distinct with any kind of colour vision, and in grey by marks and line styles.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKS = ("o", "s", "^", "D", "v", "P")
(SWEPT, REFERENCE), INK, SOFT, GRID = PALETTE[:2], "#222222", "#6B7280", "#E5E7EB"
AXIS, BAND, PAPER = "#9CA3AF", "#F3F4F6", "#FFFFFF"
VARIABLES = {colour.lower(): f"--c{number}" for number, colour in enumerate(PALETTE, start=1)}
VARIABLES |= {INK.lower(): "--ink", SOFT.lower(): "--soft", GRID.lower(): "--line", AXIS.lower(): "--axis"}
VARIABLES |= {BAND.lower(): "--band", PAPER.lower(): "--panel"}
TEXT = 7.5  # points of the smallest text
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": TEXT,
    "axes.titlesize": 8,
    "axes.labelsize": TEXT,
    "xtick.labelsize": TEXT,
    "ytick.labelsize": TEXT,
    "legend.fontsize": TEXT,
    "axes.axisbelow": True,
    "axes.edgecolor": AXIS,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "vse",
    "text.parse_math": False,  # names of runs and values of keys may hold dollar signs
}
_LETTER, _HANDLE = 0.055, 0.45  # inches of a letter, and of the mark next to a legend's text
_DOTS = 220  # an inch


def styled() -> Any:
    """A context for creating, drawing and rendering figures."""
    import matplotlib

    return matplotlib.rc_context(STYLE)


def blank(height: float, width: float = WIDTH) -> Any:
    """An empty figure with its size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def legend_columns(labels: Sequence[str], width: float = WIDTH) -> int:
    """The number of columns of a legend that fit into a width in inches."""
    widest = max((len(label) for label in labels), default=1) * _LETTER + _HANDLE
    return max(1, min(len(labels), int(width / widest)))


def add_legend(figure: Any, handles: Sequence[Any], loc: str = "outside lower center", **more: Any) -> None:
    """One legend for all panels, in as many columns as fit into the width of the figure.

    Args:
        figure: A matplotlib figure of its final size.
        handles: Artists with labels, in the order of the entries.
        loc: Where the legend stands, as `Figure.legend` takes it.
        more: Further arguments of `Figure.legend`.
    """
    columns = legend_columns([str(handle.get_label()) for handle in handles], figure.get_size_inches()[0])
    figure.legend(handles=handles, loc=loc, ncols=columns, **more)


def rendered(figure: Any) -> dict[str, bytes]:
    """{"png": ..., "svg": ...}; the same results give the same bytes."""
    images = {}
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=_DOTS, facecolor=PAPER, metadata=metadata)
        images[kind] = buffer.getvalue()
    return images


def inline(svg: bytes, name: str) -> Markup:
    """A rendered figure as an element of a page, in the page's colours.

    `name` makes its ids unique on the page. matplotlib has escaped all text in it.
    """
    text = svg.decode()
    text = text[text.index("<svg") :]  # no XML declaration
    text = re.sub(
        r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|\s+xmlns(:\w+)?=\"[^\"]*\"", "", text, flags=re.DOTALL
    )
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name}-", text)
    text = re.sub(r"#[0-9a-f]{6}\b", lambda match: _variable(match.group()), text)
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")  # Verdana's letters are as wide
    width = re.search(r'<svg[^>]*?\swidth="([\d.]+)pt"', text)
    inches = float(width.group(1)) / 72 if width else WIDTH
    text = re.sub(r'\s(?:width|height)="[\d.]+pt"', "", text, count=2)
    return Markup(text.replace("<svg", f'<svg style="--inches: {inches:g}"', 1))


def _variable(colour: str) -> str:
    return f"var({VARIABLES[colour]})" if colour in VARIABLES else colour
