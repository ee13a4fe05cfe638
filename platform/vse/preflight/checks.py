"""The result of one check, and the table of all of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "problem", "not checked"]


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the table. `detail` has the value and, for a problem, the expected one."""

    what: str
    where: str
    state: State
    detail: str

    @classmethod
    def of(cls, what: str, where: str, passed: bool, detail: str, problem: str) -> "Check":
        """The result of a check that passes or does not.

        Args:
            what: what is checked, such as "clock".
            where: the node or file that it is checked on.
            passed: whether it is `ok`.
            detail: the value, shown if it passed.
            problem: the value and the expected one, shown if it did not.
        """
        return cls(what, where, "ok" if passed else "problem", detail if passed else problem)


def table(checks: Iterable[Check]) -> str:
    """The checks as aligned lines, problems last, where a terminal ends."""
    order = ("ok", "not checked", "problem")
    rows = sorted(checks, key=lambda check: order.index(check.state))
    cells = [("check", "where", "result", ""), *((c.what, c.where, c.state, c.detail) for c in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False)) for row in cells)
    return "\n".join(f"{line}  {row[3]}".rstrip() for line, row in zip(lines, cells, strict=True))


def verdict(checks: Iterable[Check]) -> str:
    """The number of checks in each state, in one line."""
    states = [check.state for check in checks]
    problems = states.count("problem")
    return (
        f"{states.count('ok')} ok, {states.count('not checked')} not checked, "
        f"{problems} problem{'' if problems == 1 else 's'}"
    )
