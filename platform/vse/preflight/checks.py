"""One line of the table: what was looked at, where, what came out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "problem", "not checked"]


@dataclass(frozen=True, slots=True)
class Check:
    """`detail` says what was found; for a problem, what would be right."""

    what: str
    where: str
    state: State
    detail: str


def table(checks: Iterable[Check]) -> str:
    """The checks as aligned lines, problems last, where a terminal ends."""
    order = ("ok", "not checked", "problem")
    rows = sorted(checks, key=lambda check: order.index(check.state))
    cells = [("check", "where", "result", ""), *((c.what, c.where, c.state, c.detail) for c in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False)) for row in cells)
    return "\n".join(f"{line}  {row[3]}".rstrip() for line, row in zip(lines, cells, strict=True))


def verdict(checks: Iterable[Check]) -> str:
    """How many of each, in one line."""
    states = [check.state for check in checks]
    found = [f"{states.count('ok')} ok", f"{states.count('not checked')} not checked"]
    problems = states.count("problem")
    return ", ".join([*found, f"{problems} problem{'' if problems == 1 else 's'}"])
