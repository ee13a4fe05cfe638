"""Brings MLflow up to date with the journals of a workspace.

A journal only grows until its run is removed and repeated. Its shipped part is therefore a prefix, and the shipping
state has the length and digest of this prefix and MLflow's id of the run. Every failure is one warning and a later
retry: tracking cannot fail a job.
"""

import contextlib
import hashlib
import logging
import os
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from vse.errors import InputError, StorageError
from vse.storage.folder import Folder
from vse.storage.object_store import Info
from vse.tracking import prometheus
from vse.tracking.embedded import (
    put_aside_damaged,
    relocate,
    stage_in_file,
    why_unusable,
)
from vse.tracking.mlflow_internals import ACTIVE, is_damage, is_locked
from vse.tracking.run import PendingRun, RunShipper, ShippingState, newest, one_line, read_state, write_state
from vse.training.run_journal import tell_lost_end
from vse.workspace import journal
from vse.workspace.layout import Workspace
from vse.workspace.redaction import redact_text

log = logging.getLogger(__name__)

_DEPTHS = ("runs/*", "ensembles/*", "sweeps/*", "sweeps/*/*", "sweeps/*/*/*", "reports/*", "reports/*/*/*")
_DEPTHS += ("comparisons/*", "galleries/*")
Pending = dict[tuple[str, str], tuple[Folder, str]]  # folder and parent by (experiment, run)
_BUSY = "another job is shipping this workspace"
PAUSES = 10  # minimum pause between passes, in units of the time that reading all journals takes
# Runs between two writes of the state, and the pause after one in units of its time, which grows with the number of
# runs. Runs that were sent since the last write before a crash are sent again, without effect.
_SAVE_EVERY, _SAVE_PAUSES = 20, 20
_SLOW, _MOST_SLOW = 20.0, 3  # seconds, and runs that fail after so long: a store of artifacts that does not answer


@dataclass(slots=True)
class ShippingResult:
    """The result of one pass.

    `runs` were brought up to date, `waiting` runs were not, because of `trouble`. `models` are versions of registered
    models by address, unless a later offer has the alias.
    """

    runs: int = 0
    waiting: int = 0
    seconds: float = 0.0
    trouble: str = ""
    models: dict[str, int] = field(default_factory=dict)


def embedded_uri(workspace: str) -> str:
    """Address of the SQLite store inside a workspace (for one on S3, inside this machine's cache)."""
    return f"sqlite:///{_home(workspace) / 'mlflow.db'}"


def tracking_uri(workspace: str, given: str | None = None) -> str:
    """The address of MLflow: `given`, else $MLFLOW_TRACKING_URI, else the workspace's embedded store.

    Raises InputError for an address of another kind.
    """
    chosen = given or os.environ.get("MLFLOW_TRACKING_URI") or embedded_uri(workspace)
    if chosen.startswith(("http://", "https://", "sqlite:////", "postgresql", "mysql")):
        return chosen.rstrip("/")
    raise InputError(
        f"tracking={redact_text(chosen)}: expected http(s)://..., postgresql://... or sqlite:////absolute/path.db"
    )


def _home(workspace: str) -> Path:
    """Local folder of the embedded store, the lock and the shipping state."""
    space = Workspace.open(workspace)
    if space.root.is_local:
        return space.root.local() / "mlflow"
    digest = hashlib.sha256(space.root.uri.encode()).hexdigest()[:8]
    return space.cache().local() / f"mlflow-{digest}"


def ship_all(workspace: str, uri: str | None = None, *, wait: float = 0.0) -> ShippingResult:
    """One pass over every journal of a workspace; see `Shipper.ship`."""
    return Shipper(workspace, uri).ship(wait=wait)


class Shipper:
    """Ships one workspace to one MLflow. Construction is cheap: mlflow is imported when there is something to send.

    `uri` is as for `tracking_uri`.
    """

    def __init__(self, workspace: str, uri: str | None = None) -> None:
        self.workspace = workspace
        self.uri = tracking_uri(workspace, uri)
        self._home = _home(workspace)
        self._embedded = self.uri == embedded_uri(workspace)
        target = "embedded" if self._embedded else hashlib.sha256(self.uri.encode()).hexdigest()[:8]
        self._state_file = self._home / f"shipped-{target}.json"
        self._store: Any = None
        self._warned = False
        self._pass = threading.Lock()
        self._seconds_to_read = 0.0  # of all journals, in the last pass

    def ship(self, *, wait: float = 0.0) -> ShippingResult:
        """Send everything new in every journal. Never raises.

        If another job ships, or MLflow does not answer, the runs wait in their journals. `wait` is the number of
        seconds to wait for another job's pass. If that runs on another machine, for a workspace on S3, it is at least
        the 45 s after which that machine counts as dead.
        """
        started, result, counted = time.monotonic(), ShippingResult(), False
        try:
            with self._pass, self._locked(wait) as locked:
                if locked:
                    self._ship(result, wait)
                else:
                    result.trouble = _BUSY
            counted = locked
        except Exception as error:
            result.trouble = why_unusable(error, self.uri) or one_line(error)
            with contextlib.suppress(Exception):  # the workspace itself may have failed
                result.waiting = sum(waits for *_, waits in self.survey())
                counted = True
            self._store = None  # a fresh connection next time
            self._warn(f"{redact_text(self.uri)} cannot be used now ({result.trouble}); runs stay in their journals")
        result.seconds = time.monotonic() - started
        if counted:
            prometheus.show("vse_spooled_runs", result.waiting)
        return result

    def version_of(self, name: str, alias: str, digest: str) -> int | None:
        """The version of a registered model with this alias and digest, which another job may have sent.

        None if there is none, or if MLflow does not answer.
        """
        try:
            with self._locked(10) as locked:  # connecting may create the embedded store
                return self._connected().version_of(name, alias, digest) if locked else None
        except Exception:  # of MLflow, its transport or its database
            return None

    @property
    def ships_here(self) -> bool:
        """Whether this machine, or another one with this workspace on its disk, has ever shipped it to this MLflow."""
        return self._state_file.exists()

    def survey(self) -> Iterator[tuple[str, Folder, Info, bool]]:
        """(key, folder, info of the journal, whether it has something to send) of every run with a journal."""
        yield from self._survey(self._load())

    def _survey(self, states: dict[str, ShippingState]) -> Iterator[tuple[str, Folder, Info, bool]]:
        for key, folder, info in self._journals():
            yield key, folder, info, _waits(states.get(key), folder, info)

    @contextlib.contextmanager
    def every(self, seconds: float = 30.0) -> Generator["Shipper"]:
        """Ship in the background while the body runs, and once more at its end, however it ends.

        The interval is longer if reading all journals takes long, as for a large workspace on S3.
        """
        stop = threading.Event()

        def repeat() -> None:
            while not stop.wait(max(seconds, PAUSES * self._seconds_to_read)):
                self.ship()

        thread = threading.Thread(target=repeat, name="vse-shipper", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join(timeout=60)
            self.ship(wait=10)

    def _ship(self, result: ShippingResult, wait: float) -> None:
        states, first = read_state(self._state_file), self._store is None
        if first and self._is_file:
            self._check_file()
        if (first or self._is_file) and self._lost(states):
            self._forget(states)
        if first:
            self._retry_restored(states)
        if self._embedded and states:
            relocate(self.uri, self._home / "artifacts")
        pending = self._pending(states)
        # A server may be replaced while a job runs; sending now would hide that all earlier runs are missing
        if pending and not (first or self._is_file) and self._lost(states):
            self._forget(states)
            pending = self._pending(states)
        result.waiting = len(pending)
        if not pending:
            return
        if not self._shared:
            self._send(pending, states, result)
            return
        # Each machine has its own shipping state. Runs that another machine has sent exist in MLflow, and sending them
        # again has no effect. But two machines must not look for the same run at once and both create it. The lock is
        # in the workspace, because machines may have different addresses for the same MLflow.
        with Folder.open(self.workspace).child("mlflow", "shipper").taken(wait) as handle:
            if handle:  # runs written meanwhile wait for the next pass
                self._send(pending, states, result)
            else:
                result.trouble = _BUSY

    def _check_file(self) -> None:
        """Put a damaged store of this workspace aside, to be filled again. Raises OSError for another store."""
        if line := put_aside_damaged(self.uri, ours=self._embedded):
            log.warning("tracking: %s", line)
            self._store = None

    def _lost(self, states: dict[str, ShippingState]) -> bool:
        """Whether MLflow lacks the run that was created last, so another store is at its address."""
        return bool(states) and not self._stage(newest(states))

    def _stage(self, run_id: str) -> str:
        return stage_in_file(self.uri, run_id) if self._is_file else self._connected().stage(run_id)

    def _forget(self, states: dict[str, ShippingState]) -> None:
        """Start over with all journals, on a new connection, because that caches ids of experiments."""
        states.clear()
        self._store = None

    def _retry_restored(self, states: dict[str, ShippingState]) -> None:
        """Retry refused runs that a user has restored in MLflow."""
        for state in states.values():
            if state.refused:
                state.refused = self._stage(state.run_id) != ACTIVE

    def _send(self, pending: Pending, states: dict[str, ShippingState], result: ShippingResult) -> None:
        """Send all pending runs; start over once if MLflow turns out to have lost earlier runs."""
        for _ in range(2):
            result.runs, result.waiting = 0, len(pending)
            if self._send_each(pending, states, result):
                return
            pending = self._pending(states)
        result.trouble = "runs are gone as soon as they are sent"
        self._warn(f"{redact_text(self.uri)}: {result.trouble}; they stay in their journals")

    def _send_each(self, pending: Pending, states: dict[str, ShippingState], result: ShippingResult) -> bool:
        """Whether every run was tried; False if MLflow was replaced, and `states` is empty now."""
        store = self._connected()
        shipper, next_save, slow = RunShipper(store, self.workspace, self._warn), 0.0, 0
        workspace = Workspace.open(self.workspace)
        try:
            for folder in _parents_first(pending):
                if (each := _read(folder, workspace)) is None:  # removed meanwhile
                    result.waiting -= 1
                    continue
                key, start = self._key(folder), time.monotonic()
                try:
                    result.models |= shipper.ship(states, key, each)
                except StorageError:
                    raise  # a failure of the workspace, not of this run
                except Exception as error:
                    if self._is_file and is_damage(error):
                        self._check_file()
                        self._forget(states)
                        return False
                    slow += time.monotonic() - start > _SLOW
                    if slow == _MOST_SLOW or is_locked(error) or not store.answers():
                        raise
                    if states and not store.stage(states[key].run_id if key in states else newest(states)):
                        self._forget(states)
                        return False
                    result.trouble = f"{each.content.name}: {one_line(error)}"
                    self._warn(f"{result.trouble}; this run stays in its journal and is retried")
                    continue
                result.runs, result.waiting = result.runs + 1, result.waiting - 1
                if result.runs % _SAVE_EVERY == 0 and (begun := time.monotonic()) >= next_save:
                    write_state(self._state_file, states)
                    next_save = begun + _SAVE_PAUSES * (time.monotonic() - begun)
        finally:
            write_state(self._state_file, states)
        store.prepare_queries()
        return True

    def _pending(self, states: dict[str, ShippingState]) -> Pending:
        """What waits. Journals are read again when they are sent, so that a long queue holds none of them."""
        started, workspace, pending = time.monotonic(), Workspace.open(self.workspace), Pending()
        for _, folder, _, waits in self._survey(states):
            if waits and (each := _read(folder, workspace)) is not None:
                pending[each.content.experiment, each.content.run] = folder, each.content.parent
        self._seconds_to_read = time.monotonic() - started
        return pending

    def _connected(self) -> Any:
        if self._store is None:
            from vse.tracking.store import Store  # slow to import, so only if there is something to send

            self._store = Store(self.uri, self._home / "artifacts" if self._embedded else None)
        return self._store

    def _journals(self) -> Iterator[tuple[str, Folder, Info]]:
        root = Folder.open(self.workspace)
        if root.is_local:
            for depth in _DEPTHS:
                for file in sorted(root.local().glob(f"{depth}/{journal.FILE_NAME}")):
                    folder = Folder(str(file.parent))
                    if (info := folder.info(journal.FILE_NAME)) is not None:
                        yield self._key(folder), folder, info
        else:
            for name in sorted({depth.split("/")[0] for depth in _DEPTHS}):
                for folder, info in root.child(name).folders_with(journal.FILE_NAME):
                    yield self._key(folder), folder, info

    def _key(self, folder: Folder) -> str:
        """A run's folder relative to the workspace, so a workspace can be moved."""
        uri, root = (each.uri.partition("?")[0] for each in (folder, Folder.open(self.workspace)))
        return uri.removeprefix(root).lstrip("/")

    @contextlib.contextmanager
    def _locked(self, wait: float) -> Generator[bool]:
        """Hold the workspace's shipping lock; yields whether it was free in time. A crash releases it."""
        self._home.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            locked = False
            with contextlib.suppress(Timeout):
                stack.enter_context(FileLock(self._home / "shipper.lock", timeout=wait, fallback_to_soft=False))
                locked = True
            yield locked

    @property
    def _is_file(self) -> bool:
        """Whether MLflow's store is a file, which is cheap to query."""
        return self.uri.startswith("sqlite:")

    @property
    def _shared(self) -> bool:
        """Whether other machines, which do not see locks on this disk, ship the same workspace to the same MLflow."""
        return not Folder.open(self.workspace).is_local and not self._embedded

    def _load(self) -> dict[str, ShippingState]:
        states = read_state(self._state_file)
        return {} if self._is_file and self._lost(states) else states  # a server is queried when something is shipped

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning("tracking: %s", text)


def _waits(state: ShippingState | None, folder: Folder, info: Info) -> bool:
    """Whether a journal has unshipped content; it is read only if size and tag do not decide that."""
    if state is None:
        return True
    if state.refused or state.tag == info.tag:
        return False
    return state.offset != info.size or not state.begins(_complete_lines(folder))


def _read(folder: Folder, workspace: Workspace) -> PendingRun | None:
    """A run from its journal, completed first if a finished run has lost its last records; None without a run."""
    if (info := folder.info(journal.FILE_NAME)) is None:
        return None
    data = _complete_lines(folder)
    content = journal.parse(data)
    is_run = folder == workspace.root.child("runs", folder.name)
    if is_run and content.status == "running" and tell_lost_end(workspace, folder):
        log.warning("%s: the last records were lost; restored from the run's result", folder.address(journal.FILE_NAME))
        return _read(folder, workspace)
    return PendingRun(folder, content, data, info.tag) if content.run else None


def _complete_lines(folder: Folder) -> bytes:
    data = folder.read_bytes(journal.FILE_NAME)
    return data[: data.rfind(b"\n") + 1]  # an unfinished line waits for the next pass


def _parents_first(pending: Pending) -> Iterator[Folder]:
    done: set[tuple[str, str]] = set()

    def visit(key: tuple[str, str]) -> Iterator[Folder]:
        if key in done or key not in pending:
            return
        done.add(key)
        folder, parent = pending[key]
        yield from visit((key[0], parent))
        yield folder

    for key in pending:
        yield from visit(key)
