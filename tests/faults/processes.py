"""Processes of one job, found by descent and session in /proc, never by a name over the whole machine (Linux)."""

import os
import re
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# How a process of the job shows what it is: the start of its title, as Ray sets it, or its program.
VICTIMS = {
    "trial": ("ray::ImplicitFunc", "ray::_trial", "ray::tune", "ray::bundle_reservation_check_func"),
    "train worker": ("ray::RayTrainWorker", "ray::TrainWorker"),
    "data actor": ("ray::MapWorker",),
}
# Ray's own helpers of a raylet: where that is killed they end by themselves, but not at once while they are starting.
AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent", "ray/dashboard/agent.py", "ray/_private/runtime_env/agent/")


def of_ray(title: str) -> bool:
    """Whether a process that is left is one of Ray's agents, and none that works for the job."""
    return any(name in title for name in AGENTS)


@dataclass(frozen=True, slots=True)
class Process:
    """A process as /proc shows it; `started` (clock ticks since boot) tells it from a later one of the same number."""

    pid: int
    parent: int
    session: int
    started: int
    title: str

    @property
    def label(self) -> str:
        """The title without the folders of this machine."""
        return re.sub(r"\S*/(?:site-packages|bin)/", "", self.title)


def look(pid: int) -> Process | None:
    """The process of this number, None where there is none or it is dead and not yet buried."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        title = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return None
    if fields[0] in "ZX":
        return None
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]), title)


class Family:
    """A driver and all that it ever started, also after its death: what was seen once is remembered."""

    def __init__(self, driver: int) -> None:
        """`driver` leads a session of its own."""
        self.driver = driver
        self.known: dict[tuple[int, int], Process] = {}

    def alive(self) -> list[Process]:
        """Every living process of the family, the driver first."""
        everyone = [p for each in Path("/proc").glob("[0-9]*") if (p := look(int(each.name))) is not None]
        ours = {p.pid for p in everyone if p.pid == self.driver or p.session == self.driver}
        ours |= {p.pid for p in everyone if (p.pid, p.started) in self.known}
        for _ in everyone:  # children may come before their parents in the list
            more = {p.pid for p in everyone if p.parent in ours} - ours
            if not more:
                break
            ours |= more
        found = [p for p in everyone if p.pid in ours]
        self.known |= {(p.pid, p.started): p for p in found}
        return sorted(found, key=lambda p: (p.pid != self.driver, p.pid))

    def victims(self, kind: str) -> list[Process]:
        """Living processes of a kind: driver, trial, train worker, data actor or raylet."""
        alive = self.alive()
        if kind == "driver":
            return [p for p in alive if p.pid == self.driver]
        if kind == "raylet":
            return [p for p in alive if p.title.split(" ")[0].endswith("/raylet")]
        return [p for p in alive if p.title.startswith(VICTIMS[kind])]

    def bury(self, seconds: float = 20.0) -> list[Process]:
        """Wait for the family to end by itself, as it should after its driver; end and return those that do not."""
        deadline = time.monotonic() + seconds
        while (rest := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.25)
        kill(rest)
        return rest


def kill(processes: Iterable[Process]) -> None:
    """SIGKILL, to exactly these processes."""
    for process in processes:
        now = look(process.pid)
        if now is not None and now.started == process.started:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
