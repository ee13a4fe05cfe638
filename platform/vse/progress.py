"""How far long work has come: a bar with rate and time left on a terminal, a plain line now and then elsewhere."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from io import TextIOBase
from types import TracebackType
from typing import Any, TypeVar

from vse.escaping import one_line, raw

T = TypeVar("T")

# Hear (label, unit, done so far, whether it is over) of all progress in this process
listeners: list[Callable[[str, str, int, bool], None]] = []


class Progress:
    """A context manager: `with Progress("extract", total=800, unit="images") as bar: bar.advance(32)`.

    Everything goes to stderr; stdout belongs to results. `total` may be unknown, and `advance` may be given text for
    the end of the line ("loss 3.2"). Plain lines come `every` so many seconds, and once at the end. Where nobody reads
    them any more, as after a lost connection, work goes on, and an exception that ends it stays what it is.
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
        self._text = ""
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        self._start = self._last = time.monotonic()
        if self.out.isatty():
            self._bar = _terminal_bar(self.out)
            self._task = self._bar.add_task(self.label, total=self.total, rate="", text="")
            with contextlib.suppress(OSError):
                self._bar.start()
        return self

    def advance(self, count: int = 1, text: str = "") -> None:
        """`count` more are done; `text` replaces what stands at the end of the line."""
        self.done += count
        self._tell(False)
        self._text = one_line(text) or self._text
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, rate=self._rate(now), text=self._text)
        elif now - self._last >= self.every and self.done != self.total:
            self._last = now
            self._line(now)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell(True)
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.stop()
        else:
            self._line(time.monotonic())

    def _tell(self, over: bool) -> None:
        for listen in listeners:
            listen(self.label, self.unit, self.done, over)

    def _rate(self, now: float) -> str:
        return f"{self.done / max(now - self._start, 1e-9):.3g} {self.unit}/s"

    def _line(self, now: float) -> None:
        spent = now - self._start
        share = f"/{self.total} ({100 * self.done // self.total} %)" if self.total else ""
        left = ""
        if self.total and 0 < self.done < self.total:
            left = f", {_clock(spent / self.done * (self.total - self.done))} left"
        end = f", {self._text}" if self._text else ""
        line = f"{self.label}: {self.done}{share} {self.unit}, {self._rate(now)}, {_clock(spent)} spent{left}{end}"
        with contextlib.suppress(OSError):
            print(line, file=self.out, flush=True)


def progress(items: Iterable[T], label: str, *, total: int | None = None, unit: str = "items") -> Iterator[T]:
    """The items, one by one, counted by a `Progress`; `total` is `len(items)` where there is one."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with Progress(label, total, unit) as bar:
        for item in items:
            yield item
            bar.advance()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _terminal_bar(out: Any) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        console=Console(file=raw(out), stderr=out is sys.stderr),
    )
