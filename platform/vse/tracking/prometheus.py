"""Metrics for Prometheus, exported by Ray on every node (`ray_vse_...`). Without Ray nothing is measured.

Rates are means over the last seconds and end with the work they measure. The tag `of` is the sweep, or else the run, so
a process has one series of each kind for all trials of a sweep.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from vse.display import progress

EVERY = 2.0  # seconds between updates; Prometheus scrapes every 10 to 60
GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "vse_captions_per_second": ("captions through training steps of a worker, or parsed", ("of", "stage")),
    "vse_images_per_second": ("images through training steps of a worker, or through a backbone", ("of", "stage")),
    "vse_step_seconds": ("time of a training step, its wait for data included", ("of",)),
    "vse_data_wait_share": ("share of the time of steps that is spent waiting for data", ("of",)),
    "vse_trials": ("trials of a sweep by state", ("of", "state")),
    "vse_spooled_runs": ("runs whose journals MLflow does not have yet", ()),
}
_Key = tuple[Any, ...]  # name, then (tag, value) by tag
_STAGES = {"images": "vse_images_per_second", "captions": "vse_captions_per_second"}


def running() -> bool:
    """Whether this process is connected to Ray, which exports the metrics. Never imports Ray."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def show(name: str, value: float | None, **tags: str) -> None:
    """Set one of `GAUGES`, or remove it with None, if this process is connected to Ray."""
    if running():
        _exporter.show((name, *sorted(tags.items())), value)


class _Exporter:
    """Sets all gauges repeatedly, because Ray drops a gauge that was not set since its last report."""

    def __init__(self) -> None:
        self._values: dict[_Key, float] = {}
        self._gauges: dict[str, Any] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def show(self, key: _Key, value: float | None) -> None:
        with self._lock:
            if value is None:
                self._values.pop(key, None)
                return
            self._values[key] = float(value)
            if self._thread is None:
                self._thread = threading.Thread(target=self._repeat, name="vse-metrics", daemon=True)
                self._thread.start()

    def export(self) -> None:
        """Set all gauges now. Ray exports what is set, even if this process leaves it at once."""
        with self._lock, contextlib.suppress(Exception):  # Ray may end at any moment
            for (name, *tags), value in self._values.items():
                self._gauge(name).set(value, tags=dict(tags))

    def _repeat(self) -> None:
        while running():
            self.export()
            time.sleep(EVERY)
        with self._lock:  # Ray has ended; another one may start
            self._values, self._gauges, self._thread = {}, {}, None

    def _gauge(self, name: str) -> Any:
        if name not in self._gauges:
            from ray.util.metrics import Gauge

            text, tags = GAUGES[name]
            self._gauges[name] = Gauge(name, text, tags)
        return self._gauges[name]


_exporter = _Exporter()


def show_trials(of: str, states: Mapping[str, int], *, last: bool = False) -> None:
    """Show the number of waiting, running, finished and failed trials of a sweep.

    Args:
        of: The sweep.
        states: Numbers by state.
        last: Whether this process may leave Ray before the next regular update.
    """
    for state, count in states.items():
        show("vse_trials", count, of=of, state=state)
    if last and running():
        _exporter.export()


class Steps:
    """Adds up the steps of one worker's training and shows their rates every few seconds."""

    def __init__(self, of: str) -> None:
        self.of = of
        self._clear(time.monotonic())

    def __call__(self, captions: int, seconds: float, waited: float) -> None:
        """Add a step over `captions` captions and as many images, which took `seconds`, `waited` of them for data."""
        self._captions, self._steps = self._captions + captions, self._steps + 1
        self._seconds, self._waited = self._seconds + seconds, self._waited + waited
        now = time.monotonic()
        if now - self._since >= EVERY:
            self._show(now - self._since)
            self._clear(now)

    def close(self) -> None:
        """Remove the gauges when the training has ended."""
        for name in _STAGES.values():
            show(name, None, of=self.of, stage="train")
        for name in ("vse_step_seconds", "vse_data_wait_share"):
            show(name, None, of=self.of)

    def _clear(self, now: float) -> None:
        self._since, self._captions, self._steps, self._seconds, self._waited = now, 0, 0, 0.0, 0.0

    def _show(self, elapsed: float) -> None:
        for name in _STAGES.values():
            show(name, self._captions / elapsed, of=self.of, stage="train")
        show("vse_step_seconds", self._seconds / self._steps, of=self.of)
        show("vse_data_wait_share", self._waited / self._seconds if self._seconds else 0.0, of=self.of)


def steps_of(of: str) -> Steps | None:
    """A listener for the steps of a training; None without Ray."""
    return Steps(of) if running() else None


class _Stages:
    """A listener for all progress of this process, which shows rates of images and captions."""

    def __init__(self) -> None:
        self._done: dict[str, tuple[float, int]] = {}

    def __call__(self, label: str, unit: str, done: int, over: bool) -> None:
        name = _STAGES.get(unit)
        if name is None:
            return
        now = time.monotonic()
        since, before = self._done.setdefault(label, (now, done))
        if over:
            del self._done[label]
            show(name, None, of="", stage=label)
        elif now - since >= EVERY:
            show(name, (done - before) / (now - since), of="", stage=label)
            self._done[label] = now, done


_stages: Callable[[str, str, int, bool], None] = _Stages()


def show_progress() -> None:
    """Show the rates of this process's stages from now on."""
    if _stages not in progress.listeners:
        progress.listeners.append(_stages)
