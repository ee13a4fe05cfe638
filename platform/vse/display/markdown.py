"""Markdown as MLflow shows it, for descriptions of runs: whatever a name or a message holds stays plain text."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from urllib.parse import quote

# What MLflow's converter gives a meaning inside a line. A backslash would be shown before some of these
_SPECIAL = re.compile(r"[\\`*_{}\[\]()#+!|~<>&@]|:(?=//)|(?<=www)\.")
_WRAPPABLE = re.compile(r"[^'\"\\\s]+(?: [^'\"\\\s]+)*")  # nothing is quoted: words are arguments
_WIDTH = 88
_FENCE = re.compile(r"`{3,}|~{3,}")


def escaped(text: object) -> str:
    """Text that is shown as it is: on one line, without markup, links or mentions."""
    line = " ".join(str(text).split())
    return _SPECIAL.sub(lambda found: f"&#{ord(found.group())};", line)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with its first column to the left and the others, which are numbers, to the right."""
    lines = [heads, [":--", *["--:"] * (len(heads) - 1)]]
    shown = [[escaped(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [[escaped(head) for head in heads], lines[1], *shown])


def commands(lines: Iterable[str]) -> str:
    """Commands for a shell. Long ones go on in a next line: a page would become as wide as they are."""
    return block(_wrapped(line) if _WRAPPABLE.fullmatch(line) else line for line in lines)


def _wrapped(line: str) -> str:
    """With options and their values in one line."""
    kept = re.sub(r"(--\S+) (?!-)", "\\1\N{NO-BREAK SPACE}", line)
    parts = textwrap.wrap(kept, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return " \\\n  ".join(parts).replace("\N{NO-BREAK SPACE}", " ")


def block(lines: Iterable[str]) -> str:
    """Lines as they are."""
    text = "\n".join(line.rstrip() for each in lines for line in each.splitlines())
    longest = max((len(found) for found in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"


def artifact(name: str, text: str = "") -> str:
    """A link to a file among the run's artifacts, which `tracking` completes."""
    return f"[{escaped(text or name)}](artifact:{quote(name)})"


def run(name: str) -> str:
    """A link to another run of the experiment by its name, which `tracking` completes."""
    return f"[{escaped(name)}](run:{quote(name, safe='')})"
