"""The ledger of a sweep: JSON lines, one record for every end of a trial.

A sweep is resumed, retried and extended from its ledger alone. Tune's own state is discarded. A trial's id is the
fingerprint of its changes: the same point is the same trial in any order and with any method.
"""

import contextlib
import functools
import json
import re
import statistics
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal

from vse.config import canonical, dotted, fingerprint
from vse.errors import InputError
from vse.storage.files import as_json, with_checksum, without_checksum
from vse.storage.folder import Folder
from vse.storage.lease import LeaseHandle
from vse.sweeps.budget import Resources
from vse.sweeps.ledger_file import LedgerFile, stored
from vse.workspace.layout import Workspace


class FailureKind(StrEnum):
    """Why a trial ended without a result. The kind decides whether it is retried; the message is for readers."""

    ERROR = "error"  # its code raised
    REFUSED = "refused"  # wrong input, or a disk or cluster that fails every trial
    DIVERGED = "diverged"  # its training would diverge again
    NODE_LOST = "node_lost"
    NODE_FAULT = "node_fault"  # a full disk or a dead GPU of its node (see `nodes.SickNodes`)
    NO_RESOURCES = "no_resources"  # its workers found none while other trials had theirs
    NOT_STARTED = "not_started"  # its process had not released the previous trial in time
    TAKEN_OVER = "taken_over"  # another job continued its run

    def describe(self, message: str) -> str:
        """The message, extended by advice for this kind."""
        return f"{_TEXTS[self]}: {message}" if self in _TEXTS else message

    @property
    def is_innocent(self) -> bool:
        """Whether the trial itself did not cause this failure."""
        return self in (self.NODE_LOST, self.NODE_FAULT, self.NOT_STARTED, self.TAKEN_OVER)


_TEXTS = {
    FailureKind.DIVERGED: "the training diverged",
    FailureKind.NODE_LOST: "the node of the trial was lost",
    FailureKind.NODE_FAULT: "the node of the trial is at fault",
    FailureKind.NO_RESOURCES: "no resources for its workers",
    FailureKind.NOT_STARTED: "its process did not release the previous trial in time",
    FailureKind.TAKEN_OVER: "another job took over its training",
}


DEFINITION = "definition.json"
RUNNING = "running.json"  # seconds of running attempts, which count if the driver dies


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """How a trial ended last.

    Args:
        id: Fingerprint of its changes.
        changes: Dotted keys and values, in the order of the space.
        state: Whether it has a result. Attempts that run now are noted apart from the ledger.
        result: Plain data.
        seconds: Wall time of the last attempt.
        failure: Why it has no result.
        error: The message of the failure.
        attempts: How often it has ended.
        spent: Seconds of all attempts in any call, including attempts that died with their driver. If its training
            took longer over all restarts, the seconds of the training.
        need: CPUs and GPUs that it had, averaged over `spent`, and the workers of the last attempt.
    """

    id: str
    changes: dict[str, Any]
    state: Literal["finished", "failed", "running"]
    result: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    failure: FailureKind | None = None
    error: str = ""
    attempts: int = 1
    spent: float = 0.0
    need: Resources = field(default_factory=Resources)

    @property
    def stopped(self) -> bool:
        """Whether a scheduler ended it early."""
        return self.state == "finished" and bool(self.result.get("stopped"))

    @property
    def complete(self) -> bool:
        """Whether it ran to its end and has a result."""
        return self.state == "finished" and not self.stopped

    @property
    def length(self) -> float:
        """Seconds from its beginning to its end: of its last attempt, or of its training over all restarts if that is
        longer. `spent` includes other attempts too."""
        trained = self.result.get("seconds", 0.0) if self.result.get("trained") else 0.0
        return max(self.seconds, float(trained))

    @property
    def why(self) -> str:
        """The failure in one line: its kind, and the last line of its message."""
        line = (self.error.strip().splitlines() or ["no message"])[-1]
        return self.failure.describe(line) if self.failure else line


def _entry(record: Mapping[str, Any]) -> Entry:
    """An entry from its plain data. Raises KeyError, TypeError or ValueError for other data."""
    failure = FailureKind(record["failure"]) if record["failure"] else None
    fields: dict[str, Any] = {**record, "failure": failure, "need": Resources(**record["need"])}
    return Entry(**fields)


def trial_id(changes: Mapping[str, Any]) -> str:
    """The id of a trial: eight digits, the fingerprint of its changes."""
    return fingerprint(dict(changes))


class Ledger:
    """The trials of one sweep, in `ledger.jsonl` of its folder. A line that a crash cut off is skipped.

    A job that hung may resume after another job has taken its sweep over on S3. Its next write raises a StorageError,
    since the last file has changed, or has a successor, since it was read.

    If a write to S3 raises an error, its line is written with the next one or by `retry`, and the trial then becomes an
    entry.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.states = Counter[str]()  # trials by state
        self._entries: dict[str, Entry] = {}
        self._noted, self._note = stored(folder, RUNNING)
        self._file = LedgerFile(folder)
        for line in self._file.read():
            with contextlib.suppress(KeyError, ValueError, TypeError):
                self._keep(_entry(without_checksum(json.loads(line))))

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, changes: Mapping[str, Any]) -> Entry | None:
        """The entry of a trial; None if it has never ended."""
        return self._entries.get(trial_id(changes))

    def attempts(self, changes: Mapping[str, Any]) -> int:
        """How often a trial has ended so far."""
        entry = self.get(changes)
        return 0 if entry is None else entry.attempts

    def finish(
        self, changes: Mapping[str, Any], result: Mapping[str, Any], seconds: float, need: Resources | None = None
    ) -> Entry:
        """Record the result of a trial, and the resources that it had in these seconds."""
        return self._append(changes, need, state="finished", result=canonical(result), seconds=round(seconds, 3))

    def fail(
        self,
        changes: Mapping[str, Any],
        error: str,
        seconds: float = 0.0,
        need: Resources | None = None,
        kind: FailureKind = FailureKind.ERROR,
    ) -> Entry:
        """Record that a trial ended without a result, and why. Every failure counts as an attempt."""
        return self._append(changes, need, state="failed", failure=kind, error=error, seconds=round(seconds, 3))

    def retry(self) -> None:
        """Write the lines whose write to S3 failed, if there are any. Raises an error as the first write did."""
        self._record(self._file.append())

    def spent(self, changes: Mapping[str, Any]) -> float:
        """Seconds of all attempts at a trial, including those cut off."""
        name = trial_id(changes)
        ended = self._entries[name].spent if name in self._entries else 0.0
        return ended + (self._cut[name].seconds if name in self._cut else 0.0)

    def costs(self) -> list[tuple[float, Resources]]:
        """Seconds of every trial so far, including those cut off, and the resources that it had."""
        return [(each.spent, each.need) for each in self] + [(each.seconds, each.need) for each in self._cut.values()]

    def keep_running(self, running: Iterable[tuple[Mapping[str, Any], float, Resources]]) -> None:
        """Note the attempts that run now. If this driver dies, the next one counts their time as spent.

        A note that cannot be written is left out.

        Args:
            running: Changes, seconds so far, and the resources that the trial had meanwhile.
        """
        kept = dict(self._cut)
        for changes, seconds, need in running:
            name, before = trial_id(changes), self._cut.get(trial_id(changes))
            parts = [(before.seconds, before.need)] if before else []
            total = round(seconds + sum(each for each, _ in parts), 3)
            had = _mean([*parts, (seconds, need)])
            kept[name] = Entry(
                id=name,
                changes=dict(changes),
                state="running",
                seconds=total,
                attempts=self.attempts(changes),
                need=had,
            )
        note = as_json({name: asdict(each) for name, each in kept.items()})
        if note == (self._noted or as_json({})):
            return
        with contextlib.suppress(OSError, InputError):
            if self._note is None:
                self.folder.write_bytes(RUNNING, note)
            else:  # conditional: a job that has lost the sweep leaves the note of the other job alone
                self._note.write(note)
            self._noted = note

    @functools.cached_property
    def _cut(self) -> dict[str, Entry]:
        """The attempts that `keep_running` noted before this ledger was opened, without trials that ended since."""
        try:
            cut = {name: _entry(each) for name, each in json.loads(self._noted or b"{}").items()}
        except (AttributeError, KeyError, TypeError, ValueError):
            return {}
        ended = {entry.id: entry.attempts for entry in self}
        return {name: each for name, each in cut.items() if each.attempts == ended.get(name, 0)}

    def _append(self, changes: Mapping[str, Any], need: Resources | None, **fields: Any) -> Entry:
        name, before = trial_id(changes), self.spent(changes)
        trained = fields.get("result", {})
        longest = float(trained.get("seconds", 0.0)) if trained.get("trained") else 0.0
        spent = round(max(before + fields["seconds"], longest), 3)  # a restarted training counts its earlier seconds
        parts = [(earlier.spent, earlier.need)] if (earlier := self._entries.get(name)) else []
        parts += [(self._cut[name].seconds, self._cut[name].need)] if name in self._cut else []
        entry = Entry(
            id=name,
            changes={key: canonical(value) for key, value in changes.items()},
            attempts=self.attempts(changes) + 1,
            spent=spent,
            need=_mean([*parts, (spent - before, need or Resources())]),
            **fields,
        )
        line = json.dumps(with_checksum(asdict(entry)), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        self._record([*self._file.append(line), line])
        return entry

    def _record(self, lines: Iterable[bytes]) -> None:
        for entry in (_entry(without_checksum(json.loads(line))) for line in lines):
            self._keep(entry)
            self._cut.pop(entry.id, None)

    def _keep(self, entry: Entry) -> None:
        if before := self._entries.get(entry.id):
            self.states[before.state] -= 1
        self.states[entry.state] += 1
        self._entries[entry.id] = entry


def _mean(parts: Sequence[tuple[float, Resources]]) -> Resources:
    """CPUs and GPUs averaged over the seconds of each part, with the workers of the last one."""
    total, last = sum(seconds for seconds, _ in parts), parts[-1][1]
    if total <= 0 or len({(need.cpus, need.gpus) for _, need in parts}) == 1:
        return last
    cpus, gpus = (sum(each) / total for each in zip(*((s * n.cpus, s * n.gpus) for s, n in parts), strict=True))
    return Resources(cpus=round(cpus, 6), gpus=round(gpus, 6), workers=last.workers)


def typical_seconds(entries: Iterable[Entry], need: Resources) -> float | None:
    """Median seconds of trials that ran to their end with these resources; None if there is none.

    Workers and shares of GPUs may differ within a sweep, and with them the time of a trial.
    """
    seconds = [each.length for each in entries if each.complete and need.of_kind(each.need) and each.length > 0]
    return statistics.median(seconds) if seconds else None


def stem(preset: str | None) -> str:
    """The name of a preset or file in a form that may be part of a folder's name."""
    name = (preset or "run").partition("?")[0].rsplit("/", 1)[-1].removesuffix(".json")
    plain = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "_-" else "_" for letter in name)
    return plain.lstrip("_-") or "run"


def sweep_name(name: str, definition: Mapping[str, Any]) -> str:
    """`<name>-<eight digits of the fingerprint of its definition>`, the name of the sweep's folder."""
    return f"{name}-{fingerprint(dict(definition))}"


def open_sweep(workspace: Workspace, name: str, definition: Mapping[str, Any], *, exclusive: bool = True) -> Folder:
    """The folder of a sweep, with its definition (configuration and space) written into it.

    Args:
        workspace: Where the sweep is.
        name: Of the sweep, without the fingerprint.
        definition: Equal definitions are one sweep.
        exclusive: Whether the user chose the name, which may then have one definition only.

    Raises:
        InputError: The name has another definition already. The message names a key that differs.
    """
    folder = workspace.sweep(sweep_name(name, definition))
    if exclusive:
        others = re.compile(re.escape(name) + r"-[0-9a-f]{8}")
        root = workspace.root.child("sweeps")
        for other in root.names():
            if others.fullmatch(other) and root.child(other) != folder:
                difference = _difference(root.child(other), definition)
                raise InputError(
                    f"sweep.name={name}: already used for another sweep, {other}{difference}; "
                    "choose another name, or use the settings of that sweep"
                )
    if definition_of(folder) != canonical(definition):  # absent, or damaged on its disk
        folder.write_json(DEFINITION, canonical(definition))
    return folder


def definition_of(folder: Folder) -> Any:
    """The definition that `open_sweep` wrote; None if it is missing or damaged."""
    try:
        return folder.read_json(DEFINITION)
    except (FileNotFoundError, NotADirectoryError, InputError):
        return None


def _difference(other: Folder, definition: Mapping[str, Any]) -> str:
    kept = definition_of(other)
    there = dotted(kept) if isinstance(kept, Mapping) else {}  # absent, or damaged on its disk
    if not there:
        return ""
    here = dotted(canonical(definition))
    for key in sorted({*here, *there}):
        if here.get(key) != there.get(key):
            return f" ({key} was {there.get(key)!r}, is {here.get(key)!r})"
    return ""


@contextlib.contextmanager
def sole_owner(folder: Folder) -> Generator[LeaseHandle]:
    """Hold a sweep while the body runs. If the process dies, the lock is released, on S3 after some 30 seconds.

    Yields:
        A handle whose `check` raises TakenOver once another job has the sweep.

    Raises:
        InputError: Another job runs the sweep; on S3, on any machine.
    """
    with folder.taken() as lease:
        if lease is None:
            raise InputError(f"{folder}: another job is running this sweep")
        yield lease
