"""Progress of long work: a bar with rate and time left on a terminal, periodic plain lines elsewhere."""

import contextlib
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import TextIOBase
from types import TracebackType
from typing import Any

from vse.display.escaping import one_line, raw

# Called with (label, unit, number done, whether the work is over) for all progress in this process
listeners: list[Callable[[str, str, int, bool], None]] = []


@dataclass(frozen=True, slots=True)
class Parts:
    """The state of unfinished items.

    Args:
        share: sum of the done shares of the unfinished items, each between 0 and 1.
        earlier: part of `done + share` from before this work, which does not count for the rate.
        count: parts (of any item) that this work has done so far.
        unit: name of a part.
    """

    share: float = 0.0
    earlier: float = 0.0
    count: int = 0
    unit: str = "parts"


class Progress:
    """A context manager: `with Progress("extract", total=800, unit="images") as bar: bar.advance(32)`.

    Everything goes to stderr; stdout is for results. `total` may be unknown, and `advance` accepts text for the end of
    the line ("loss 3.2"). Plain lines appear every `every` seconds, and once at the end, unless the total is unknown
    and nothing was counted. If stderr cannot be written, for instance after a lost connection, the work continues.
    Long items may be counted in parts (`parts`), which then
    decide rate and time left.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        unit: str = "items",
        *,
        every: float = 10.0,
        out: TextIOBase | None = None,
    ) -> None:
        self.label, self.total, self.unit, self.every = one_line(label), total, unit, every
        self.out = out if out is not None else sys.stderr
        self.done = 0
        self.parts = Parts()
        self.text = ""
        self._most = 0.0  # the largest `completed` so far
        self._start = self._began = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        self._start = self._began = self._last = time.monotonic()
        if self.out.isatty():
            self._bar = _terminal_bar(self.out)
            self._task = self._bar.add_task(self.label, total=self.total, **self._fields(self._start))
            with contextlib.suppress(OSError):
                self._bar.start()
        return self

    def advance(self, count: int = 1, text: str = "") -> None:
        """Count `count` more items; `text` replaces the text at the end of the line."""
        self.done += count
        self._notify(False)
        self.text = one_line(text) or self.text
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._task, completed=self.completed, **self._fields(now))
        elif now - self._last >= self.every and self.done != self.total:
            self._last = now
            self._line(now)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._notify(True)
        nothing = not self.done and self.total is None
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.update(self._task, visible=not nothing)
                self._bar.stop()
        elif not nothing:
            self._line(time.monotonic())

    def _notify(self, over: bool) -> None:
        for listen in listeners:
            listen(self.label, self.unit, self.done, over)

    @property
    def completed(self) -> float:
        """Items done and the shares of unfinished ones. It never decreases, even if an item is restarted."""
        self._most = max(self._most, self.done + self.parts.share)
        return self._most if self.total is None else min(self._most, self.total)

    def restart_clock(self) -> None:
        """Start the clock for the rate now, for instance after the start of processes."""
        self._began = time.monotonic()

    def left(self, now: float | None = None) -> float | None:
        """Seconds until all items are done at the rate so far; None without a rate, and at the end."""
        done = self.done + self.parts.share - self.parts.earlier
        if self.total is None or done <= 0 or self.completed >= self.total:
            return None
        return ((time.monotonic() if now is None else now) - self._began) / done * (self.total - self.completed)

    @property
    def share(self) -> float | None:
        """The done share of all items, between 0 and 1; None if their number is unknown."""
        return self.completed / self.total if self.total else None

    def rate(self, now: float | None = None) -> str:
        """The rate in the smallest counted unit; empty while there is none."""
        spent = max((time.monotonic() if now is None else now) - self._began, 1e-9)
        if self.parts.count:
            return f"{self.parts.count} {self.parts.unit}, {self.parts.count / spent:.3g} {self.parts.unit}/s"
        return f"{self.done / spent:.3g} {self.unit}/s" if self.done else ""

    def _fields(self, now: float) -> dict[str, str]:
        """The texts of the terminal's bar."""
        of = f"/{self.total}" if self.total is not None else ""
        return {"count": f"{self.done}{of}", "rate": self.rate(now), "left": self._left(now), "text": self.text}

    def _left(self, now: float) -> str:
        if not self.total or self.completed >= self.total:
            return ""
        left = self.left(now)
        return "no estimate yet" if left is None else f"{_clock(left)} left"

    def _line(self, now: float) -> None:
        share = f"/{self.total} ({math.floor(100 * (self.share or 0))} %)" if self.total else ""
        parts = [f"{self.done}{share} {self.unit}", self.rate(now), f"{_clock(now - self._start)} spent"]
        with contextlib.suppress(OSError):
            print(
                f"{self.label}: {', '.join(filter(None, (*parts, self._left(now), self.text)))}",
                file=self.out,
                flush=True,
            )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _terminal_bar(out: Any) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)  # the remaining width
    return Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        *(TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("count", "rate")),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
        TextColumn("{task.fields[text]}", markup=False, table_column=rest),
        expand=True,
        console=Console(file=raw(out), stderr=out is sys.stderr),
    )
