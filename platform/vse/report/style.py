"""How figures look: made for a page's text width, so that they go into a paper as they are.

Drawn with matplotlib's own canvas: no window system, no global state.
"""

import io
from collections.abc import Sequence
from typing import Any

WIDTH, COLUMN = 7.0, 3.4  # inches of a text and of one of its two columns
# Okabe & Ito's palette: told apart by readers with any kind of colour vision, and in grey by marks and line styles.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKS = ("o", "s", "^", "D", "v", "P")
(SWEPT, REFERENCE), INK, SOFT, GRID = PALETTE[:2], "#222222", "#6B7280", "#E5E7EB"
TEXT = 7.5  # points of the smallest text
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": TEXT,
    "axes.titlesize": 8,
    "axes.labelsize": TEXT,
    "xtick.labelsize": TEXT,
    "ytick.labelsize": TEXT,
    "legend.fontsize": TEXT,
    "axes.edgecolor": "#9CA3AF",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
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
}
_LETTER, _HANDLE = 0.055, 0.45  # inches that a letter takes, and what a legend draws beside its text
_DOTS = 220  # an inch


def legend_columns(labels: Sequence[str], width: float = WIDTH) -> int:
    """So many columns of a legend fit into so many inches."""
    widest = max((len(label) for label in labels), default=1) * _LETTER + _HANDLE
    return max(1, min(len(labels), int(width / widest)))


def rendered(figure: Any, kind: str) -> bytes:
    """A figure as `png` or `svg`; the same results give the same bytes."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    figure.savefig(buffer, format=kind, dpi=_DOTS, facecolor="white", metadata=metadata)
    return buffer.getvalue()
