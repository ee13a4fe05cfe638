"""What a sweep has tried: JSON lines, one record for every end of a trial, replayed whenever the sweep is resumed.

The ledger is all that resuming, retrying and extending need; the state that Tune keeps is thrown away. A trial is known
by the fingerprint of its changes, so the same point is the same trial whatever order or sweep step it came from.
"""

import contextlib
import errno
import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from vse.config import canonical, dotted, fingerprint
from vse.errors import InputError
from vse.storage.checksums import as_json, with_checksum, without_checksum
from vse.storage.folder import Folder
from vse.storage.lease import LeaseHandle
from vse.sweeps.need import Need
from vse.workspace.layout import Workspace

FILE_NAME = "ledger.jsonl"
DEFINITION = "definition.json"
RUNNING = "running.json"  # seconds of attempts that have not ended, for the case that nobody lives to see their end


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """The last known end of a trial. `changes` are dotted keys and values, `result` plain data.

    `seconds` is wall time of the last attempt, `spent` of all attempts in whichever call, those included that were cut
    off with their driver; if its training took more over all restarts, then that. `cpus` and `gpus` are what it had
    while it ran, on the mean over `spent`, `workers` those of the last attempt; None where that was written before they
    were kept.
    """

    id: str
    changes: dict[str, Any]
    state: Literal["finished", "failed"]
    result: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""
    attempts: int = 1
    spent: float = 0.0
    cpus: float | None = None
    gpus: float | None = None
    workers: int | None = None

    def need(self, present: Need) -> Need:
        """What it had while it ran; `present` where nobody wrote that down."""
        return self.had or present

    @property
    def had(self) -> Need | None:
        """What it had while it ran, where that is known."""
        return _need({"cpus": self.cpus, "gpus": self.gpus, "workers": self.workers})

    @property
    def stopped(self) -> bool:
        """Whether a scheduler ended it before its time."""
        return self.state == "finished" and bool(self.result.get("stopped"))

    @property
    def why(self) -> str:
        """The last line of the error, which says what it was."""
        return (self.error.strip().splitlines() or ["it did not say why"])[-1]


def trial_id(changes: Mapping[str, Any]) -> str:
    """Eight digits that stand for a trial: the fingerprint of its changes."""
    return fingerprint(dict(changes))


class Ledger:
    """The trials of one sweep, in `ledger.jsonl` of its folder. Reading passes over a line that a crash left torn.

    Of two that write the same ledger on S3, as when a job that hung comes back after another took its sweep over, the
    one whose ledger is not what is there any more gets a StorageError.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._entries: dict[str, Entry] = {}
        self._data, self._tag = self._stored(FILE_NAME)
        self._noted, self._noted_tag = self._stored(RUNNING)
        for line in self._data.split(b"\n"):
            try:
                record = without_checksum(json.loads(line))
                entry = Entry(**record)
            except (ValueError, TypeError):
                continue
            if "spent" not in record:  # written before this was kept
                entry = replace(entry, spent=_spent(self._before(entry.id), entry.seconds, entry.result))
            self._entries[entry.id] = entry

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, changes: Mapping[str, Any]) -> Entry | None:
        """The entry of a trial that ended, well or badly."""
        return self._entries.get(trial_id(changes))

    def attempts(self, changes: Mapping[str, Any]) -> int:
        """How often a trial has ended so far."""
        entry = self.get(changes)
        return 0 if entry is None else entry.attempts

    def result(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a finished trial. Raises KeyError where it has none."""
        entry = self.get(changes)
        if entry is None or entry.state != "finished":
            raise KeyError(f"no result of {dict(changes)}")
        return entry.result

    def pending(self, trials: Iterable[Mapping[str, Any]], *, whole: bool = False) -> list[dict[str, Any]]:
        """Those trials that have not finished, failed ones included, each once, in the order given.

        whole: those that a scheduler ended early have not finished either.
        """
        chosen: dict[str, dict[str, Any]] = {}
        for changes in trials:
            entry = self.get(changes)
            if entry is None or entry.state == "failed" or (whole and entry.stopped):
                chosen.setdefault(trial_id(changes), dict(changes))
        return list(chosen.values())

    def finish(
        self, changes: Mapping[str, Any], result: Mapping[str, Any], seconds: float, need: Need | None = None
    ) -> Entry:
        """Record what a trial found, and what it had in these seconds."""
        return self._append(changes, need, state="finished", result=canonical(result), seconds=round(seconds, 3))

    def fail(self, changes: Mapping[str, Any], error: str, seconds: float = 0.0, need: Need | None = None) -> Entry:
        """Record that a trial ended without a result, and why; every failure counts as an attempt."""
        return self._append(changes, need, state="failed", error=error, seconds=round(seconds, 3))

    def spent(self, changes: Mapping[str, Any]) -> float:
        """Seconds of all attempts at a trial, those cut off included."""
        name = trial_id(changes)
        return self._before(name) + (self._cut[name]["seconds"] if name in self._cut else 0.0)

    def costs(self, present: Callable[[Mapping[str, Any]], Need]) -> list[tuple[float, Need]]:
        """Seconds of every trial so far, those cut off included, and what it had while it ran; `present` says that of
        the changes of one of which it was not kept."""
        ended = [(entry.spent, entry.need(present(entry.changes))) for entry in self]
        return ended + [(each["seconds"], _need(each) or present(each["changes"])) for each in self._cut.values()]

    def keep_running(self, running: Iterable[tuple[Mapping[str, Any], float, Need | None]]) -> None:
        """Write down the (changes, seconds so far, what it had in these) of attempts that run now: if nobody tells of
        their end, the next reader takes them as cut off. What cannot be written is left out."""
        kept = dict(self._cut)
        for changes, seconds, need in running:
            name, entry = trial_id(changes), self.get(changes)
            before = self._cut.get(name, {"seconds": 0.0})
            total = round(seconds + before["seconds"], 3)
            attempts = 0 if entry is None else entry.attempts
            had = _mean([(before["seconds"], _need(before)), (seconds, need)])
            kept[name] = {"changes": canonical(changes), "seconds": total, "attempts": attempts, **had}
        note = as_json(kept)
        if note == (self._noted or as_json({})):
            return
        with contextlib.suppress(OSError, InputError):
            if self.folder.is_local:
                self.folder.write_bytes(RUNNING, note)
            else:  # conditional as well: who lost the sweep to another job leaves that one's note alone
                self._noted_tag = self.folder.write_over(RUNNING, note, self._noted_tag)
            self._noted = note

    @functools.cached_property
    def _cut(self) -> dict[str, dict[str, Any]]:
        """What `keep_running` wrote before this ledger was opened, of trials that have not ended since."""
        try:
            cut = {
                name: {
                    "changes": dict(each["changes"]),
                    "seconds": float(each["seconds"]),
                    "attempts": each["attempts"],
                    **_mean([(0.0, _need(each))]),
                }
                for name, each in json.loads(self._noted or b"{}").items()
            }
        except (AttributeError, KeyError, TypeError, ValueError):
            return {}
        ended = {entry.id: entry.attempts for entry in self}
        return {name: each for name, each in cut.items() if each["attempts"] == ended.get(name, 0)}

    def _before(self, name: str) -> float:
        return self._entries[name].spent if name in self._entries else 0.0

    def _append(self, changes: Mapping[str, Any], need: Need | None, **fields: Any) -> Entry:
        before, name, known = self.get(changes), trial_id(changes), self.spent(changes)
        attempts = before.attempts + 1 if before is not None else 1
        spent, cut = _spent(known, fields["seconds"], fields.get("result", {})), self._cut.get(name, {"seconds": 0.0})
        ended = (0.0, None) if before is None else (before.spent, before.had)
        had: dict[str, Any] = _mean([ended, (cut["seconds"], _need(cut)), (spent - known, need)])
        entry = Entry(id=name, changes=canonical(changes), attempts=attempts, spent=spent, **fields, **had)
        line = json.dumps(with_checksum(asdict(entry)), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        if self.folder.is_local:
            self._append_local(line)
        else:  # objects cannot grow; a ledger is small enough to be written anew
            self._tag = self.folder.write_over(FILE_NAME, self._data + line, self._tag)
            self._data += line
        self._entries[entry.id] = entry
        self._cut.pop(entry.id, None)
        return entry

    def _append_local(self, line: bytes) -> None:
        path = self.folder.local(FILE_NAME)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab+", buffering=0) as stream:
                if stream.tell() > 0:
                    stream.seek(-1, os.SEEK_END)
                    if stream.read(1) != b"\n":  # the last writer was stopped inside a line
                        line = b"\n" + line
                if stream.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(stream.fileno())
        except OSError as error:
            raise self.folder.refusal(FILE_NAME, error) from None

    def _stored(self, name: str) -> tuple[bytes, str]:
        """What a file holds, if it is there, and on S3 its tag."""
        if not self.folder.is_local:
            return self.folder.read_tagged(name)
        try:
            return self.folder.read_bytes(name), ""
        except (FileNotFoundError, NotADirectoryError):
            return b"", ""


def _spent(before: float, seconds: float, result: Mapping[str, Any]) -> float:
    """Of all attempts, after those before; a training that was restarted elsewhere knows of more than these."""
    trained = float(result.get("seconds", 0.0)) if result.get("trained") else 0.0
    return round(max(before + seconds, trained), 3)


def _need(record: Mapping[str, Any]) -> Need | None:
    """What a trial had, of a record that says so."""
    cpus, gpus = record.get("cpus"), record.get("gpus")
    if cpus is None or gpus is None:
        return None
    return Need(cpus=float(cpus), gpus=float(gpus), workers=record.get("workers") or 1)


def _mean(parts: Iterable[tuple[float, Need | None]]) -> dict[str, float]:
    """`cpus` and `gpus` of (seconds, need) together; seconds of which nobody knows are taken to be like the others. And
    the `workers` of the last one."""
    known = [(seconds, need) for seconds, need in parts if need is not None]
    if not known:
        return {}
    total, (_, last) = sum(seconds for seconds, _ in known), known[-1]
    if total <= 0 or len({(need.cpus, need.gpus) for _, need in known}) == 1:
        return {"cpus": last.cpus, "gpus": last.gpus, "workers": last.workers}
    return {
        "cpus": round(sum(seconds * need.cpus for seconds, need in known) / total, 6),
        "gpus": round(sum(seconds * need.gpus for seconds, need in known) / total, 6),
        "workers": last.workers,
    }


def stem(preset: str | None) -> str:
    """A preset's or file's name as part of a folder's."""
    name = (preset or "run").partition("?")[0].rsplit("/", 1)[-1].removesuffix(".json")
    plain = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "_-" else "_" for letter in name)
    return plain.lstrip("_-") or "run"


def sweep_name(name: str, definition: Mapping[str, Any]) -> str:
    """`<name>-<eight digits of the fingerprint of its definition>`, the name of the sweep's folder."""
    return f"{name}-{fingerprint(dict(definition))}"


def open_sweep(workspace: Workspace, name: str, definition: Mapping[str, Any], *, exclusive: bool = True) -> Folder:
    """The folder of a sweep, with its definition (configuration and space) written into it.

    exclusive: the name was chosen by the user and may stand for one definition only.
    Raises InputError where the name is already used with another definition, naming a key that differs.
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
                    "choose another name, or the settings it was made with"
                )
    if definition_of(folder) != canonical(definition):  # absent, or damaged on its disk
        folder.write_json(DEFINITION, canonical(definition))
    return folder


def definition_of(folder: Folder) -> Any:
    """What `open_sweep` wrote there; None where that is absent or damaged on its disk."""
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
def sole_owner(folder: Folder, wait: float = 0.0) -> Iterator[LeaseHandle]:
    """Hold a sweep while the body runs; what is yielded tells whether it is still held. Raises InputError where another
    job (on S3: anywhere) is running it.

    The system frees the lock of a process that dies; on S3 that is seen after some 30 seconds.
    """
    with folder.taken(wait) as held:
        if held is None:
            raise InputError(f"{folder}: another job is running this sweep")
        yield held
