"""Captions with their nearest captions, as tables of Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CaptionNeighbours:
    """A caption and its nearest ones: (text, overlap of the components with the caption's) each, nearest first."""

    caption: str
    nearest: tuple[tuple[str, float], ...]


def caption_tables(tables: Mapping[str, Sequence[CaptionNeighbours]]) -> str:
    """One table with a row for each caption and a column for each set of candidates, by its title.

    All sets have the same captions in the same order.
    """
    titles = list(tables)
    lines = ["# Nearest captions", "", "In brackets: the overlap of parsed components with those of the caption.", ""]
    lines += [
        f"| caption | {' | '.join(f'nearest in {_cell(title)}' for title in titles)} |",
        "|---" * (len(titles) + 1) + "|",
    ]
    for rows in zip(*tables.values(), strict=True):
        cells = ["<br>".join(f"{_cell(text)} ({overlap:.0%})" for text, overlap in row.nearest) for row in rows]
        lines.append(f"| {_cell(rows[0].caption)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
