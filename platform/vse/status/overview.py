"""What a workspace is doing, read from the files of its jobs: journals, ledgers, manifests. Needs no Ray and no MLflow.

Jobs write as they go, so a status is at most an epoch or a trial old, on this machine or on S3.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from vse.errors import InputError
from vse.features.shards import read_receipts
from vse.storage.folder import Folder
from vse.storage.object_store import Info
from vse.storage.parallel_reads import read_each
from vse.sweeps.ledger import DEFINITION, Entry, FailureKind, Ledger
from vse.sweeps.ledger_file import FILE_NAME
from vse.sweeps.progress import read_sweep_progress
from vse.tracking.shipping import Shipper
from vse.training.run_journal import TAG
from vse.workspace import journal
from vse.workspace.journal import JournalState
from vse.workspace.layout import Workspace

State = Literal["running", "silent", "stopped", "finished", "failed", "killed"]
SILENT_AFTER = 600.0  # seconds without a sign of life, or three epochs if these are longer


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusRow:
    """One run, sweep or stage. `total` and `left` are None if they are unknown.

    A stage is stopped if it is incomplete and no job works on it.

    Args:
        done: How much is done, in `unit`; `total` is how much there is.
        pace: Seconds for one unit.
        speed: Captions a second.
        age: Seconds since the last sign of life.
        score: Best validation rsum.
        note: The latest message.
        parent: The sweep of a run.
        preset: The preset of a run, with the number of keys that were changed.
        remaining: Seconds to the end by the job's own estimate.
    """

    kind: Literal["sweep", "run", "stage"]
    name: str
    state: State
    done: int = 0
    total: int | None = None
    unit: str = ""
    pace: float | None = None
    speed: float | None = None
    age: float = 0.0
    cpu_hours: float = 0.0
    gpu_hours: float = 0.0
    score: float | None = None
    note: str = ""
    parent: str = ""
    preset: str = ""
    remaining: float | None = None

    @property
    def left(self) -> float | None:
        """Seconds to the end, by the job's estimate or else at the present pace."""
        if self.state != "running":
            return None
        if self.remaining is not None:
            return max(0.0, self.remaining)
        return None if self.total is None or self.pace is None else max(0, self.total - self.done) * self.pace


@dataclass(frozen=True, slots=True)
class Status:
    """A workspace. `failures` are (where, why); `spooled` counts runs that this machine has not sent to MLflow yet."""

    workspace: str
    rows: list[StatusRow]
    failures: list[tuple[str, str]] = field(default_factory=list)
    spooled: int = 0

    def count(self, kind: str) -> Counter[str]:
        """Rows of a kind by state."""
        return Counter(row.state for row in self.rows if row.kind == kind)

    @property
    def cost(self) -> tuple[float, float]:
        """(CPU-hours, GPU-hours) of all work. The row of a sweep includes its trainings, which count once."""
        sweeps = {row.name for row in self.rows if row.kind == "sweep"}
        own = [row for row in self.rows if row.parent not in sweeps]
        return sum(row.cpu_hours for row in own), sum(row.gpu_hours for row in own)


JournalCache = dict[str, tuple[str, JournalState]]
"""Key of a run -> the tag of its journal, and the journal's content."""


def read_status(workspace: Workspace, tracking: str | None = None, cache: JournalCache | None = None) -> Status:
    """The state of a workspace now.

    Args:
        workspace: A workspace, local or on S3.
        tracking: Address of MLflow; None: the default.
        cache: Keeps the content of journals for the next call, which reads only changed journals.

    Raises:
        InputError: There is no such workspace.
    """
    if not workspace.root.exists():
        raise InputError(f"--workspace {workspace.root}: no such workspace")
    now, journals, spooled = time.time(), list[tuple[str, Folder, Info]](), 0
    shipper = Shipper(workspace.root.uri, tracking)
    ships_here = shipper.ships_here
    for key, folder, info, waiting in shipper.survey():
        spooled += waiting and ships_here
        if key.count("/") == 1:  # trials have their row in the sweep's ledger
            journals.append((key, folder, info))
    contents = _contents(workspace, journals, {} if cache is None else cache)
    runs = {key: content for key, content in contents.items() if key.startswith("runs/")}
    rows = [_run(content, now) for content in runs.values()]
    failures = [
        (content.name, content.notes[-1] if content.notes else "no reason is recorded")
        for content in runs.values()
        if content.status == "failed"
    ]
    sweeps = workspace.root.child("sweeps")
    for name in sweeps.names():
        folder = sweeps.child(name)
        if not {DEFINITION, FILE_NAME, journal.FILE_NAME} & {*folder.names()}:
            continue  # no sweep
        ledger, inside = Ledger(folder), [run for run in rows if run.parent == name]
        rows.append(_sweep(ledger, contents.get(f"sweeps/{name}", JournalState()), now, inside))
        failed = [entry for entry in ledger if entry.state == "failed"]
        if rows[-1].state == "running":  # which starts again what a node lost
            failed = [entry for entry in failed if not _is_repeated(entry)]
        failures += [(f"{name} {_point(entry)}", entry.why) for entry in failed]
        stopped = {entry.result.get("run") for entry in ledger if entry.stopped}
        early = {run.name for run in inside if run.state == "killed"} & stopped
        rows = [replace(row, note="asha ended it early") if row.name in early else row for row in rows]
    return Status(workspace.root.uri, [*rows, *_stages(workspace, now)], failures, spooled)


def _contents(
    workspace: Workspace, journals: list[tuple[str, Folder, Info]], cache: JournalCache
) -> dict[str, JournalState]:
    """The content of journals, given as (key, folder, file), without runs that were removed since they were listed.

    Brings `cache` up to date.
    """

    def read(each: tuple[str, Folder, Info]) -> tuple[str, JournalState] | None:
        key, folder, info = each
        before = cache.get(key)
        if before and before[0] == info.tag:
            return before
        try:
            return info.tag, _content(folder, info)
        except FileNotFoundError:
            return None

    results = zip(journals, read_each(workspace.root, read, journals), strict=True)
    contents = {key: result for (key, _, _), result in results if result is not None}
    cache.clear()
    cache.update(contents)
    return {key: content for key, (_, content) in contents.items()}


def _content(folder: Folder, info: Info) -> JournalState:
    """The content of a journal. If its first record is damaged, the folder gives the name, and the file the time."""
    content = journal.parse(folder.read_bytes(journal.FILE_NAME))
    if not content.run:
        content.name, content.started = folder.name, round(1000 * info.written)
        content.notes.append("; ".join([*content.notes[-1:], f"{journal.FILE_NAME} is damaged: it has no start"]))
    return content


def _run(content: JournalState, now: float) -> StatusRow:
    latest = content.latest()
    epochs = {step for key, step in content.metrics if key.startswith("train/")}
    times = sorted(value for (key, _), (value, _) in content.metrics.items() if key == "train/seconds")
    pace = times[len(times) // 2] if times else None
    age, total = now - _last_sign(content), content.params.get("train.epochs")
    return StatusRow(
        kind="run",
        name=content.name,
        state=_state(content, age, pace),
        done=max(epochs, default=0),
        total=int(total) if isinstance(total, int | float) else None,
        unit="epochs",
        pace=pace,
        speed=latest.get("speed/captions_per_second"),
        age=age,
        cpu_hours=latest.get("cost/cpu_hours", 0.0),
        gpu_hours=latest.get("cost/gpu_hours", 0.0),
        score=max((v for (key, _), (v, _) in content.metrics.items() if key == "val/rsum"), default=None),
        note=content.notes[-1] if content.notes else "",
        parent=content.parent,
        preset=content.tags.get(TAG, ""),
    )


def _state(content: JournalState, age: float, pace: float | None) -> State:
    silent = content.status == "running" and age > max(SILENT_AFTER, 3 * (pace or 0.0))
    return "silent" if silent else content.status


def _last_sign(content: JournalState) -> float:
    """The time of the last record, in seconds since 1970."""
    return max(content.started, content.ended, max((when for _, when in content.metrics.values()), default=0)) / 1000


def _sweep(ledger: Ledger, content: JournalState, now: float, inside: Sequence[StatusRow]) -> StatusRow:
    """The row of a sweep whose trainings have the rows `inside`."""
    progress, states = read_sweep_progress(ledger.folder), ledger.states
    age = now - (max(_last_sign(content), progress.time if progress else 0) or ledger.folder.last_written())
    note = f"{states['failed']} failed" if states["failed"] else ""
    name, done = ledger.folder.name, states["finished"]
    row = StatusRow(kind="sweep", name=name, state="running", done=done, unit="trials", note=note, age=age)
    if content.status == "running" and progress is not None:
        share = "" if progress.share is None else f"{math.floor(100 * progress.share)} % done"
        note = f"{progress.failed} failed" if progress.failed else ""
        notes = (share, f"{progress.running} running", note, progress.rate if progress.running else "", progress.text)
        row = replace(
            row,
            done=progress.done,
            total=progress.total,
            unit=f"{progress.label} trials".replace("trials ", ""),
            pace=(progress.time - progress.started) / progress.done if progress.done else None,
            remaining=None if progress.left is None else progress.left - (now - progress.time),
            note=", ".join(filter(None, notes)),
        )
    state, running = _state(content, age, row.pace), [run.age for run in inside if run.state == "running"]
    if state == "silent" and running:  # trials may take hours, but their trainings report every epoch
        state, row = "running", replace(row, age=min(running))
    # The ledger counts failed attempts and running trials up to the last half minute, the trainings everything until
    # now. Both miss something, and their sum would count trainings twice: the larger one is taken.
    costs = ledger.costs()
    return replace(
        row,
        state=state,
        cpu_hours=max(sum(s * need.cpus for s, need in costs) / 3600, sum(run.cpu_hours for run in inside)),
        gpu_hours=max(sum(s * need.gpus for s, need in costs) / 3600, sum(run.gpu_hours for run in inside)),
    )


def _stages(workspace: Workspace, now: float) -> Iterator[StatusRow]:
    """Features, parses, adversaries and vectors that are incomplete."""
    for kind in ("features", "language"):
        root = workspace.root.child(kind)
        for dataset in root.names():
            for digits in root.child(dataset).names():
                for name, folder in _parts(f"{kind}/{dataset}/{digits}", root.child(dataset, digits)):
                    if not folder.is_committed():
                        yield from _stage(name, folder, now)


def _parts(name: str, folder: Folder) -> Iterator[tuple[str, Folder]]:
    """A stage's folder, or the folders in it if it has no files.

    Sentence vectors have a fitted part in `fit`, and one part for each set of captions, each with its own lock and
    manifest.
    """
    inside = folder.names()
    if inside and not any("." in each for each in inside):  # files of stages have suffixes, folders have none
        yield from ((f"{name}/{each}", folder.child(each)) for each in inside)
    else:
        yield name, folder


def _stage(name: str, folder: Folder, now: float) -> Iterator[StatusRow]:
    """The row of a stage; none if nothing was made and no job works on it, as after a refused request."""
    notes, works = [], folder.is_locked()
    if name.startswith("features/"):
        receipts = list(read_receipts(folder, checksums=False))
        done, unit, begun = sum(len(receipt.ids) for receipt in receipts), "images", bool(receipts)
        kept = {image for receipt in receipts for image in receipt.ids}  # some were rejected before they were mended
        rejects = [reject for receipt in receipts for reject in receipt.rejects if reject[0] not in kept]
        notes += [f"{len(rejects)} rejected, for one {rejects[0][0]!r}: {rejects[0][1]}"] if rejects else []
    else:
        done = len(folder.names())
        unit, begun = "files", bool(done)
    if not works and not begun:
        return
    age = max(0.0, now - folder.last_written())
    state: State = "stopped" if not works else "silent" if age > SILENT_AFTER else "running"
    if not works:  # the next job reads rejected images again
        notes.append(
            "no job works on it; the next one that needs it continues from here"
            if done
            else "nothing of it was usable and no job works on it; the next one that needs it starts over"
        )
    yield StatusRow(kind="stage", name=name, state=state, done=done, unit=unit, age=age, note="; ".join(notes))


def _is_repeated(entry: Entry) -> bool:
    """Whether a running sweep starts a failed trial again, however often it has failed itself."""
    return entry.failure == FailureKind.NO_RESOURCES or bool(entry.failure and entry.failure.is_innocent)


def _point(entry: Entry) -> str:
    return " ".join(f"{key}={value}" for key, value in entry.changes.items() if key != "material")
