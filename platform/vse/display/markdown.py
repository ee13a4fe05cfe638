"""Markdown for descriptions of runs in MLflow, with names and messages escaped."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from urllib.parse import quote

# Characters with a meaning in MLflow's converter. Before some of them a backslash would be visible.
_SPECIAL = re.compile(r"[\\`*_{}\[\]()#+!|~<>&@]|:(?=//)|(?<=www)\.")
_WRAPPABLE = re.compile(r"[^'\"\\\s]+(?: [^'\"\\\s]+)*")  # without quotes, so each word is an argument
_WIDTH = 88
_FENCE = re.compile(r"`{3,}|~{3,}")


def escaped(text: object) -> str:
    """Text on one line, without markup, links or mentions."""
    line = " ".join(str(text).split())
    return _SPECIAL.sub(lambda match: f"&#{ord(match.group())};", line)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with the first column aligned left and all others, for numbers, aligned right."""
    lines = [heads, [":--", *["--:"] * (len(heads) - 1)]]
    shown = [[escaped(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [[escaped(head) for head in heads], lines[1], *shown])


def commands(lines: Iterable[str]) -> str:
    """Commands for a shell; long ones are continued on the next line."""
    return block(_wrapped(line) if _WRAPPABLE.fullmatch(line) else line for line in lines)


def _wrapped(line: str) -> str:
    """A command on several lines, with each option and its value on the same line."""
    kept = re.sub(r"(--\S+) (?!-)", "\\1\N{NO-BREAK SPACE}", line)
    parts = textwrap.wrap(kept, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return " \\\n  ".join(parts).replace("\N{NO-BREAK SPACE}", " ")


def block(lines: Iterable[str]) -> str:
    """A block of code."""
    text = "\n".join(line.rstrip() for each in lines for line in each.splitlines())
    longest = max((len(match) for match in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"


def artifact(name: str, text: str = "") -> str:
    """A link to a file among the run's artifacts, which `tracking` completes."""
    return f"[{escaped(text or name)}](artifact:{quote(name)})"


def run(name: str) -> str:
    """A link to another run of the experiment by its name, which `tracking` completes."""
    return f"[{escaped(name)}](run:{quote(name, safe='')})"
