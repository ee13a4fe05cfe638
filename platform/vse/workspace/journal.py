"""The journal of a run: JSON lines in its own directory, written before MLflow is updated.

The journal is the record; MLflow is a view of it that a shipper brings up to date (`vse.tracking`). A write can never
fail a training step: the first failure is one warning, and later records are retried. Reading is by key, so a run
that was killed and repeats its last epochs still has each of them once.
"""

import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from vse.config import fingerprint
from vse.errors import InputError
from vse.workspace.redaction import redact

log = logging.getLogger(__name__)

Status = Literal["running", "finished", "failed", "killed"]
FILE_NAME = "journal.jsonl"


class Journal:
    """Appends the records of one run to a file. Opening it creates the directory; no method raises on a full disk."""

    def __init__(self, path: str | os.PathLike[str], *, mirror: Callable[[bytes], None] | None = None) -> None:
        """Open the journal at `path`.

        Args:
            path: the file.
            mirror: called with the whole file after every record (see `together`), for stores that cannot append.
        """
        self.path = Path(path)
        self._mirror = mirror
        self._together = False  # whether records are mirrored at the end of `together`
        self._warned = False
        self._torn = _ends_mid_line(self.path)

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        """Mirror the records of the body once, at its end, so that readers see all of them or none."""
        outer, self._together = self._together, True
        try:
            yield
        finally:
            self._together = outer
            try:
                self._copy()
            except (OSError, ValueError) as error:
                self._warn("a copy", error)

    def start(
        self,
        run: str,
        *,
        name: str = "",
        experiment: str = "vse",
        parent: str = "",
        tags: Mapping[str, Any] | None = None,
        ago: float = 0.0,
    ) -> None:
        """Start the run, or continue it after a kill.

        Args:
            run: its permanent id, the fingerprint of configuration and seed.
            name: shown by trackers; by default the id.
            experiment: of MLflow.
            parent: id of the run that it is nested under, in the same experiment.
            tags: as for `tags`.
            ago: how many seconds ago it began, for runs that are recorded at their end.
        """
        began = time.time_ns() // 1_000_000 - round(1000 * ago)
        record = {"run": run, "name": name or run, "experiment": experiment, "parent": parent, "began": began}
        self._append("start", record)
        if tags:
            self.tags(tags)

    def params(self, values: Mapping[str, Any]) -> None:
        """Settings of the run, dotted key -> plain value (`config.flatten`). Credentials are hidden."""
        self._append("params", {"values": _plain(redact(values))})

    def tags(self, values: Mapping[str, Any]) -> None:
        """Free text about the run: versions, git state, host. A later value replaces an earlier one."""
        self._append("tags", {"values": {k: str(v) for k, v in redact(values).items()}})

    def metrics(self, values: Mapping[str, Any], step: int = 0) -> None:
        """Numbers of one step (epoch), of Python, numpy or torch. NaN and infinity cannot be charted and are noted."""
        finite: dict[str, float] = {}
        for key, value in values.items():
            try:
                number = float(value)
            except (TypeError, ValueError, OverflowError, RuntimeError) as error:
                self.note(f"{key} at step {step} is not a number: {type(error).__name__}")
                continue
            if math.isfinite(number):
                finite[str(key)] = number
            else:
                self.note(f"{key} at step {step} is {number}")
        if finite:
            self._append("metrics", {"step": int(step), "values": finite})

    def artifact(self, path: str | os.PathLike[str], under: str = "") -> None:
        """A file of the run. If it is below the folder of the journal, its path is kept relative to that."""
        where = os.path.relpath(os.path.abspath(path), os.path.abspath(self.path.parent))
        if where.startswith(os.pardir + os.sep):
            where = os.path.abspath(path)
        self._append("artifact", {"path": where, "under": under})

    def files(self, names: Iterable[str]) -> None:
        """Files in the folder of the run, as artifacts."""
        for name in names:
            self.artifact(self.path.parent / name)

    def model(self, name: str, *, alias: str, path: str, digest: str, tags: Mapping[str, Any] | None = None) -> None:
        """Offer a packed model (`vse.inference.served_model`) as a version of a registered model.

        Args:
            name: of the registered model.
            alias: that the version gets.
            path: folder of the packed model, below the run.
            digest: identifies the version, whatever its run.
            tags: of the version.
        """
        values = {k: str(v) for k, v in redact(dict(tags or {})).items()}
        self._append("model", {"name": name, "alias": alias, "path": path, "digest": digest, "tags": values})

    def describe(self, section: str, text: str) -> None:
        """Set a section of the run's description, in Markdown (`vse.display.markdown`); `tracking.view` orders them."""
        self._append("text", {"section": section, "text": str(redact(text))})

    def note(self, text: str) -> None:
        """One line for readers of the run, for example on a dropped value, a collapse or a resumption."""
        self._append("note", {"text": str(redact(text))})

    def end(self, status: Status = "finished") -> None:
        """Close the run; a later `start` opens it again."""
        self._append("end", {"status": status})

    def _append(self, kind: str, record: Mapping[str, Any]) -> None:
        """One record, one write to a file opened for appending, so that writers cannot interleave within a line."""
        try:
            line = json.dumps({"kind": kind, "time": time.time_ns() // 1_000_000, **record}, ensure_ascii=False)
            data = (("\n" if self._torn else "") + line + "\n").encode("utf-8", "replace")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            self._torn = True  # until the whole line is written
            try:
                written = os.write(descriptor, data)
            finally:
                os.close(descriptor)
            if written != len(data):
                raise OSError(f"only {written} of {len(data)} bytes could be written")
            self._torn = False
            self._copy()
        except (OSError, TypeError, ValueError) as error:
            self._warn(kind, error)

    def _copy(self) -> None:
        if self._mirror is not None and not self._together:
            self._mirror(self.path.read_bytes())

    def _warn(self, what: str, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            log.warning("%s: cannot write %s (%s); the run continues without it", self.path, what, error)


def open_in(folder: Any, scratch: str | os.PathLike[str]) -> Journal:
    """The journal of the run in a `storage.Folder`.

    If the folder is remote, the journal is kept below `scratch`. It continues the copy in the folder and is
    copied there at every step.
    """
    if folder.is_local:
        return Journal(folder.local(FILE_NAME))
    path = Path(scratch) / fingerprint(folder.uri) / FILE_NAME
    copied = path.with_name("copied")  # exists once the folder has had this journal

    def mirror(data: bytes) -> None:
        folder.write_bytes(FILE_NAME, data)
        copied.touch()

    try:
        _continue(folder, path, copied)
    except (OSError, InputError) as error:  # the next write fails again, or succeeds
        log.debug("%s/%s cannot be read now: %s", folder, FILE_NAME, error)
    return Journal(path, mirror=mirror)


def _continue(folder: Any, path: Path, copied: Path) -> None:
    """Write the journal of the folder to `path`, unless `path` continues it."""
    here = path.read_bytes() if path.exists() else b""
    try:
        there = folder.read_bytes(FILE_NAME)
    except FileNotFoundError:
        if copied.exists():  # the folder was emptied since
            path.unlink(missing_ok=True)
            copied.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if not here.startswith(there):  # another machine continued the run
        whole = path.with_name(f"{path.name}.{os.getpid()}")  # others on this machine may be reading
        whole.write_bytes(there)
        os.replace(whole, path)
    copied.touch()


def _ends_mid_line(path: Path) -> bool:
    """Whether the last writer was stopped inside a line."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            if file.tell() == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    simple = str | int | float | bool | None
    return {k: v if isinstance(v, simple) else json.dumps(v, default=str) for k, v in values.items()}


@dataclass(slots=True)
class JournalState:
    """The records of a journal, merged: the state of one run.

    `metrics` is (key, step) -> (value, milliseconds since 1970 of its last change). `models` is (name, alias) -> path,
    digest, tags and time of the offer.
    """

    run: str = ""
    name: str = ""
    experiment: str = "vse"
    parent: str = ""
    status: Status = "running"
    started: int = 0
    ended: int = 0
    params: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[tuple[str, int], tuple[float, int]] = field(default_factory=dict)
    artifacts: dict[tuple[str, str], int] = field(default_factory=dict)
    models: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def latest(self) -> dict[str, float]:
        """The value of every metric at its highest step."""
        return {key: value for (key, _), (value, _) in sorted(self.metrics.items(), key=lambda item: item[0][1])}


def read(path: str | os.PathLike[str]) -> JournalState:
    """The state that a journal file records; the empty state if there is no such file."""
    try:
        return parse(Path(path).read_bytes())
    except FileNotFoundError:
        return JournalState()


def parse(data: bytes) -> JournalState:
    """The state that the bytes of a journal record.

    Later records replace earlier ones of the same key (and step). Incomplete lines, which a crash leaves, are
    skipped.
    """
    state = JournalState()
    for line in data.split(b"\n"):
        try:
            record = json.loads(line)
            _take(state, record["kind"], int(record["time"]), record)
        except (ValueError, KeyError, TypeError):
            continue
    return state


def _take(state: JournalState, kind: str, when: int, record: Mapping[str, Any]) -> None:
    match kind:
        case "start":
            state.run, state.name = record["run"], record["name"]
            state.experiment, state.parent = record["experiment"], record["parent"]
            state.started = state.started or int(record.get("began", when))
            state.status, state.ended = "running", 0
        case "params":
            state.params.update(record["values"])
        case "tags":
            state.tags.update(record["values"])
        case "metrics":
            for key, value in record["values"].items():
                before, first = state.metrics.get((key, record["step"]), (value, when))
                # of two values of a step trackers show the later one
                at = first if value == before else max(when, first + 1)
                state.metrics[key, record["step"]] = (value, at)
        case "artifact":
            state.artifacts[record["path"], record["under"]] = when
        case "model":
            kept = {k: record[k] for k in ("path", "digest", "tags")}
            state.models[record["name"], record["alias"]] = {**kept, "offered": when}
        case "text":
            state.texts[record["section"]] = record["text"]
        case "note":
            if record["text"] not in state.notes:
                state.notes.append(record["text"])
        case "end":
            state.status, state.ended = record["status"], when
