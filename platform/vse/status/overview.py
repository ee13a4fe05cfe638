"""What a workspace is doing, read from what its jobs write: journals, ledgers, manifests. Needs no Ray and no MLflow.

Every job writes as it goes, so what is read here is at most an epoch or a trial old, on this machine or on S3.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from vse.errors import InputError
from vse.features.shards import read_receipts
from vse.storage.folder import Folder
from vse.storage.parallel_reads import read_each
from vse.sweeps.ledger import DEFINITION, FILE_NAME, Entry, Ledger
from vse.sweeps.standing import read_standing
from vse.tracking.shipping import Shipper
from vse.training.origin import TAG
from vse.workspace import journal
from vse.workspace.journal import Story
from vse.workspace.layout import Workspace

State = Literal["running", "silent", "stopped", "finished", "failed", "killed"]
SILENT_AFTER = 600.0  # seconds without a sign, or three epochs where these are longer


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One run, sweep or stage. Times in seconds, costs in hours; `total` and `left` are None where nothing says.

    A stage is stopped where something of it is there, not all, and no job works on it, or where all was rejected. done
    and total count `unit`; each: seconds for one of them; speed: captions a second; age: since the last sign; note: the
    last words; preset: from which a run was configured, where that is known; ends: seconds to its end, where the job
    estimates them itself.
    """

    kind: Literal["sweep", "run", "stage"]
    name: str
    state: State
    done: int = 0
    total: int | None = None
    unit: str = ""
    each: float | None = None
    speed: float | None = None
    age: float = 0.0
    cpu_hours: float = 0.0
    gpu_hours: float = 0.0
    score: float | None = None
    note: str = ""
    parent: str = ""
    preset: str = ""
    ends: float | None = None

    @property
    def left(self) -> float | None:
        """Seconds to its end, as the job estimates it or else at the present rate."""
        if self.state == "running" and self.ends is not None:
            return max(0.0, self.ends)
        if self.state != "running" or self.total is None or self.each is None:
            return None
        return max(0, self.total - self.done) * self.each


@dataclass(frozen=True, slots=True)
class Status:
    """All lines of a workspace; `failures` are (where, why); `spooled`: runs that MLflow has not got yet, as
    far as this machine knows."""

    workspace: str
    lines: list[Line]
    failures: list[tuple[str, str]] = field(default_factory=list)
    spooled: int = 0

    def count(self, kind: str) -> Counter[str]:
        """Lines of a kind by state."""
        return Counter(line.state for line in self.lines if line.kind == kind)

    @property
    def cost(self) -> tuple[float, float]:
        """(CPU-hours, GPU-hours) of all trainings, and of the trials beside them; a sweep's line has those of its
        trainings too, of all attempts."""
        sweeps = {line.name for line in self.lines if line.kind == "sweep"}
        own = [line for line in self.lines if line.parent not in sweeps]
        return sum(line.cpu_hours for line in own), sum(line.gpu_hours for line in own)


Known = dict[str, tuple[str, Story]]  # by a run's place: the tag of its journal, and what was read there


def read_status(workspace: Workspace, tracking: str | None = None, known: Known | None = None) -> Status:
    """The state of a workspace now; `known` keeps what journals said for the next call, which reads only those that
    have changed. Raises InputError where there is none."""
    if not workspace.root.exists():
        raise InputError(f"--workspace {workspace.root}: nothing is there")
    now, journals, spooled = time.time(), list[tuple[str, Folder, str]](), 0
    shipper = Shipper(workspace.root.uri, tracking)
    known_here = shipper.ships_here
    for key, folder, info, waiting in shipper.survey():
        spooled += waiting and known_here
        if key.count("/") == 1:  # trials have their line in the sweep's ledger
            journals.append((key, folder, info.tag))
    stories = _stories(workspace, journals, {} if known is None else known)
    lines, failures = [], []
    for key, story in stories.items():
        if key.startswith("runs/"):
            lines.append(_run(story, now))
            if story.status == "failed":
                failures.append((story.name, story.notes[-1] if story.notes else "it did not say why"))
    sweeps = workspace.root.child("sweeps")
    for name in sweeps.names():
        folder = sweeps.child(name)
        if not {DEFINITION, FILE_NAME, journal.FILE_NAME} & {*folder.names()}:
            continue  # something else that lies there
        inside = [run for run in lines if run.parent == name]
        line, entries = _sweep(folder, stories.get(f"sweeps/{name}", Story()), now, inside)
        if line.state == "silent" and (live := [run.age for run in inside if run.state == "running"]):
            line = replace(line, state="running", age=min(live))  # its trainings may each take hours
        lines.append(line)
        failures += [(f"{name} {_point(entry)}", entry.why) for entry in entries if entry.state == "failed"]
        early = {entry.result.get("run") for entry in entries if entry.stopped}
        ended = {run.name for run in inside if run.state == "killed"} & early
        lines = [replace(line, note="asha ended it early") if line.name in ended else line for line in lines]
    lines += _stages(workspace, now)
    return Status(workspace.root.uri, lines, failures, spooled)


def _stories(workspace: Workspace, journals: list[tuple[str, Folder, str]], known: Known) -> dict[str, Story]:
    """What each of (key, folder, tag) tells; `known` is brought up to date."""

    def read(each: tuple[str, Folder, str]) -> tuple[str, Story]:
        key, folder, tag = each
        before = known.get(key)
        return before if before and before[0] == tag else (tag, journal.parse(folder.read_bytes(journal.FILE_NAME)))

    keys = [key for key, _, _ in journals]
    found = dict(zip(keys, read_each(workspace.root, read, journals), strict=True))
    known.clear()
    known.update(found)
    return {key: story for key, (_, story) in found.items()}


def _run(story: Story, now: float) -> Line:
    latest = story.latest()
    epochs = {step for key, step in story.metrics if key.startswith("train/")}
    times = sorted(value for (key, _), (value, _) in story.metrics.items() if key == "train/seconds")
    each = times[len(times) // 2] if times else None
    age = now - _last_sign(story) / 1000
    return Line(
        kind="run",
        name=story.name,
        state=_state(story, age, each),
        done=max(epochs, default=0),
        total=_number(story.params.get("train.epochs")),
        unit="epochs",
        each=each,
        speed=latest.get("speed/captions_per_second"),
        age=age,
        cpu_hours=latest.get("cost/cpu_hours", 0.0),
        gpu_hours=latest.get("cost/gpu_hours", 0.0),
        score=max((v for (key, _), (v, _) in story.metrics.items() if key == "val/rsum"), default=None),
        note=story.notes[-1] if story.notes else "",
        parent=story.parent,
        preset=story.tags.get(TAG, ""),
    )


def _state(story: Story, age: float, each: float | None) -> State:
    if story.status == "running" and age > max(SILENT_AFTER, 3 * (each or 0.0)):
        return "silent"
    return story.status


def _last_sign(story: Story) -> int:
    """Milliseconds since 1970."""
    return max(story.started, story.ended, max((when for _, when in story.metrics.values()), default=0))


def _sweep(folder: Folder, story: Story, now: float, inside: Sequence[Line]) -> tuple[Line, list[Entry]]:
    """A sweep's line, after those of its trainings; and its ledger."""
    ledger, standing = Ledger(folder), read_standing(folder)
    entries = list(ledger)
    states = Counter(entry.state for entry in entries)
    age = now - max(_last_sign(story) / 1000, standing.time if standing else 0)
    done, total, each, unit, ends = states["finished"], None, None, "trials", None
    note = f"{states['failed']} failed" if states["failed"] else ""
    if story.status == "running" and standing is not None:
        done, total, unit = standing.done, standing.total, f"{standing.label} trials".replace("trials ", "")
        each = (standing.time - standing.started) / done if done else None
        ends = None if standing.left is None else standing.left - (now - standing.time)
        share = "" if standing.share is None else f"{math.floor(100 * standing.share)} % done"
        running = f"{standing.running} running"
        note = ", ".join(filter(None, (share, running, note, standing.rate if standing.running else "", standing.text)))
    cpu_hours, gpu_hours = _cost(ledger, inside)
    line = Line(
        kind="sweep",
        name=folder.name,
        state=_state(story, age, each),
        done=done,
        total=total,
        unit=unit,
        each=each,
        age=age,
        cpu_hours=cpu_hours,
        gpu_hours=gpu_hours,
        note=note,
        ends=ends,
    )
    return line, entries


def _cost(ledger: Ledger, inside: Sequence[Line]) -> tuple[float, float]:
    """(CPU-hours, GPU-hours) of a sweep.

    Its ledger counts failed attempts and those that run now, up to the last half minute; the trainings count what ran
    until now. Both miss something, and the sum would count trainings twice: the larger one is taken.
    """
    costs = ledger.costs()
    return (
        max(sum(seconds * need.cpus for seconds, need in costs) / 3600, sum(run.cpu_hours for run in inside)),
        max(sum(seconds * need.gpus for seconds, need in costs) / 3600, sum(run.gpu_hours for run in inside)),
    )


def _stages(workspace: Workspace, now: float) -> Iterator[Line]:
    """Features, parses, adversaries and vectors that are not all there; finished ones say nothing new."""
    for kind in ("features", "language"):
        root = workspace.root.child(kind)
        for dataset in root.names():
            for digits in root.child(dataset).names():
                for name, folder in _whole_or_parts(f"{kind}/{dataset}/{digits}", root.child(dataset, digits)):
                    if not folder.is_committed():
                        yield from _stage(name, folder, now)


def _whole_or_parts(name: str, folder: Folder) -> Iterator[tuple[str, Folder]]:
    """A stage's folder; where it holds nothing but folders, those: sentence vectors are a stage that is fitted, in
    `fit`, and one for each set of captions, and each part has its own lock and manifest."""
    inside = folder.names()
    if inside and not any("." in each for each in inside):  # files of stages have endings, folders have none
        for each in inside:
            yield f"{name}/{each}", folder.child(each)
    else:
        yield name, folder


def _stage(name: str, folder: Folder, now: float) -> Iterator[Line]:
    """The line of a stage; none where nothing was made and nobody is at it, as after a request that was refused."""
    notes, works = [], folder.is_locked()
    if name.startswith("features/"):
        receipts = list(read_receipts(folder, checksums=False))
        done, unit = sum(len(receipt.ids) for receipt in receipts), "images"
        kept = {image for receipt in receipts for image in receipt.ids}  # some were rejected before they were mended
        rejects = [reject for receipt in receipts for reject in receipt.rejects if reject[0] not in kept]
        notes += [f"{len(rejects)} rejected, for one {rejects[0][0]!r}: {rejects[0][1]}"] if rejects else []
        begun = bool(receipts)
    else:
        done, unit = len(folder.names()), "files"
        begun = bool(done)
    if not works and not begun:
        return
    age = max(0.0, now - folder.last_written())
    state: State = "stopped" if not works else "silent" if age > SILENT_AFTER else "running"
    if not works:
        # rejects alone are no beginning: none of them is kept for the next job, which reads these images again
        nothing = begun and not done
        notes.append(
            "nothing of it was usable and no job works on it; the next one that needs it starts over"
            if nothing
            else "no job works on it; the next one that needs it continues from here"
        )
    yield Line(kind="stage", name=name, state=state, done=done, unit=unit, age=age, note="; ".join(notes))


def _point(entry: Entry) -> str:
    return " ".join(f"{key}={value}" for key, value in entry.changes.items() if key != "material")


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None
