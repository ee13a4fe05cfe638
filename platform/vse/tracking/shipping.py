"""Brings MLflow up to date with the journals of a workspace.

A journal only grows until its run is removed and made anew, so what was shipped is told by a prefix of its bytes;
the rest is new. The length of this prefix, its digest and MLflow's id of the run are the state. Losing it
costs one look at what MLflow has. Whatever goes wrong is one warning and a later try: tracking cannot fail a job.
"""

import contextlib
import hashlib
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from vse.errors import InputError, StorageError
from vse.storage.folder import Folder
from vse.storage.object_store import Info
from vse.tracking import prometheus
from vse.tracking.embedded import (
    file_is_active,
    file_knows,
    put_aside_damaged,
    relocate,
    why_unusable,
)
from vse.tracking.mlflow_internals import is_damage, is_locked
from vse.tracking.run import RunShipper, Sent, Waiting, newest, one_line, read_state, write_state
from vse.training.run_journal import tell_lost_end
from vse.workspace import journal
from vse.workspace.layout import Workspace
from vse.workspace.redaction import redact_text

log = logging.getLogger(__name__)

_DEPTHS = ("runs/*", "ensembles/*", "sweeps/*", "sweeps/*/*", "sweeps/*/*/*", "reports/*", "reports/*/*/*")
_DEPTHS += ("comparisons/*",)
Pending = dict[tuple[str, str], Waiting]  # by (experiment, run)
_BUSY = "another job is shipping this workspace"
PAUSES = 10  # times as long as a look at all journals takes
_SAVE_EVERY = 20  # runs; a crash in between repeats at most these, to no effect


@dataclass(slots=True)
class Shipped:
    """What one pass did: runs brought up to date, runs still waiting, and why if they are; the address of each model
    that was registered, or found to be, with its version, unless a later offer has the alias."""

    runs: int = 0
    waiting: int = 0
    seconds: float = 0.0
    trouble: str = ""
    models: dict[str, int] = field(default_factory=dict)


def embedded_uri(workspace: str) -> str:
    """Address of the SQLite store inside a workspace (for one on S3, inside this machine's cache)."""
    return f"sqlite:///{_home(workspace) / 'mlflow.db'}"


def tracking_uri(workspace: str, given: str | None = None) -> str:
    """Where runs are sent: `given`, else $MLFLOW_TRACKING_URI, else the workspace's embedded store."""
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


def ship_all(workspace: str, uri: str | None = None, *, wait: float = 0.0) -> Shipped:
    """One pass over every journal of a workspace; see `Shipper.ship`."""
    return Shipper(workspace, uri).ship(wait=wait)


class Shipper:
    """Ships one workspace to one MLflow. Cheap to make: mlflow is imported when there is something to send.

    `uri`: as for `tracking_uri`, which raises InputError for an address that cannot be meant.
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
        self._looked = 0.0  # seconds that the last look at all journals took

    def ship(self, *, wait: float = 0.0) -> Shipped:
        """Send what is new in every journal. Never raises: while another job ships, or MLflow does not answer, the
        journals keep what is waiting. `wait`: seconds to wait for another job's pass to end; for that of another
        machine on a workspace on S3, at least the 45 s after which it counts as dead."""
        started, result, known = time.monotonic(), Shipped(), False
        try:
            with self._pass, self._locked(wait) as mine:
                if mine:
                    self._ship(result, wait)
                else:
                    result.trouble = _BUSY
            known = mine
        except Exception as error:
            result.trouble = why_unusable(error, self.uri) or one_line(error)
            with contextlib.suppress(Exception):  # where the workspace is what failed, nobody knows
                result.waiting = sum(waits for *_, waits in self.survey())
                known = True
            self._store = None  # a fresh connection next time
            self._warn(f"{redact_text(self.uri)} cannot be used now ({result.trouble}); runs stay in their journals")
        result.seconds = time.monotonic() - started
        if known:
            prometheus.show("vse_spooled_runs", result.waiting)
        return result

    def version_of(self, name: str, alias: str, digest: str) -> int | None:
        """The version of a registered model that has this alias, if it is of this digest: another job may have sent
        it. None if it is not there, or MLflow does not answer."""
        try:
            with self._locked(10) as mine:  # connecting may make the embedded store
                return self._connected().version_of(name, alias, digest) if mine else None
        except Exception:  # of MLflow, its transport or its database
            return None

    @property
    def ships_here(self) -> bool:
        """Whether this machine, or who has this workspace on its disk, has ever sent it to this MLflow."""
        return self._state_file.exists()

    def survey(self) -> Iterator[tuple[str, Folder, Info, bool]]:
        """(key, folder, what is known of its journal, whether something waits to be sent) of every run with one.
        Changes nothing."""
        yield from self._survey(self._load())

    def _survey(self, sent: dict[str, Sent]) -> Iterator[tuple[str, Folder, Info, bool]]:
        for key, folder, info in self._journals():
            yield key, folder, info, _waits(sent.get(key), folder, info)

    @contextlib.contextmanager
    def every(self, seconds: float = 30.0) -> Iterator["Shipper"]:
        """Ship in the background while the body runs, and once more at its end, however it ends.

        Every so often, or more rarely where a look at all journals takes long, as at a large workspace on S3.
        """
        stop = threading.Event()

        def repeat() -> None:
            while not stop.wait(max(seconds, PAUSES * self._looked)):
                self.ship()

        thread = threading.Thread(target=repeat, name="vse-shipper", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join(timeout=60)
            self.ship(wait=10)

    def _ship(self, result: Shipped, wait: float) -> None:
        sent, first = read_state(self._state_file), self._store is None
        if first and self._is_file:
            self._check_file()
        if (first or self._is_file) and self._lost(sent):
            self._forget(sent)
        if first:
            self._take_up_restored(sent)
        if self._embedded and sent:
            relocate(self.uri, self._home / "artifacts")
        pending = self._pending(sent)
        # A server can change under a job: what is sent now would hide that all before it is gone
        if pending and not (first or self._is_file) and self._lost(sent):
            self._forget(sent)
            pending = self._pending(sent)
        result.waiting = len(pending)
        if not pending:
            return
        if not self._shared:
            self._send(pending, sent, result)
            return
        # What is known to be shipped stays each machine's own: what another one has sent is found in MLflow, or sent
        # again, which adds nothing. But two may not look for the same run at once, find none and both make it. The
        # place is the workspace's, whatever name each machine has for the same MLflow.
        with Folder.open(self.workspace).child("mlflow", "shipper").taken(wait) as mine:
            if mine:  # runs that others wrote while this one waited are theirs, or wait for the next pass
                self._send(_as_now(pending, Workspace.open(self.workspace)), sent, result)
            else:
                result.trouble = _BUSY

    def _check_file(self) -> None:
        """Put a damaged store of this workspace aside, to be filled again. Raises OSError for one elsewhere."""
        if line := put_aside_damaged(self.uri, ours=self._embedded):
            log.warning("tracking: %s", line)
            self._store = None

    def _lost(self, sent: dict[str, Sent]) -> bool:
        """Whether MLflow lacks the last run that was made there: another store is at its address, new or older."""
        if not sent:
            return False
        run_id = newest(sent)
        return not (file_knows(self.uri, run_id) if self._is_file else self._connected().knows(run_id))

    def _forget(self, sent: dict[str, Sent]) -> None:
        """Look at every journal again, and at every experiment: the connection keeps their ids."""
        sent.clear()
        self._store = None

    def _take_up_restored(self, sent: dict[str, Sent]) -> None:
        """A run that MLflow refused because it was deleted may be there again: let it be tried."""
        for state in sent.values():
            if state.refused and self._is_file:
                state.refused = not file_is_active(self.uri, state.run_id)
            elif state.refused:
                state.refused = not self._connected().is_active(state.run_id)

    def _send(self, pending: Pending, sent: dict[str, Sent], result: Shipped) -> None:
        """Send all that waits; from the start where MLflow turns out to have lost what it had, but once only."""
        for _ in range(2):
            result.runs, result.waiting = 0, len(pending)
            if self._send_each(pending, sent, result):
                return
            pending = self._pending(sent)
        result.trouble = "runs are gone as soon as they are sent"
        self._warn(f"{redact_text(self.uri)}: {result.trouble}; they stay in their journals")

    def _send_each(self, pending: Pending, sent: dict[str, Sent], result: Shipped) -> bool:
        """Whether every run was tried; False where MLflow is another one than before, and `sent` is empty now."""
        store = self._connected()
        shipper = RunShipper(store, self.workspace, self._warn)
        try:
            for each in _parents_first(pending):
                key = self._key(each.folder)
                try:
                    result.models |= shipper.ship(sent, key, each)
                except StorageError:
                    raise  # the workspace's trouble, not this run's
                except Exception as error:
                    if self._is_file and is_damage(error):
                        self._check_file()
                        self._forget(sent)
                        return False
                    if is_locked(error) or not store.answers():
                        raise
                    if sent and not store.knows(sent[key].run_id if key in sent else newest(sent)):
                        self._forget(sent)
                        return False
                    result.trouble = f"{each.story.name}: {one_line(error)}"
                    self._warn(f"{result.trouble}; this run stays in its journal and is tried again")
                    continue
                result.runs, result.waiting = result.runs + 1, result.waiting - 1
                if result.runs % _SAVE_EVERY == 0:
                    self._save(sent)
        finally:
            self._save(sent)
        return True

    def _pending(self, sent: dict[str, Sent]) -> Pending:
        started = time.monotonic()
        waiting = ((folder, info) for _, folder, info, waits in self._survey(sent) if waits)
        pending = _read(waiting, Workspace.open(self.workspace))
        self._looked = time.monotonic() - started
        return pending

    def _connected(self) -> Any:
        if self._store is None:
            from vse.tracking.store import Store  # the slow import, on the path that has something to do

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
            for place in sorted({depth.split("/")[0] for depth in _DEPTHS}):
                for folder, info in root.child(place).folders_with(journal.FILE_NAME):
                    yield self._key(folder), folder, info

    def _key(self, folder: Folder) -> str:
        """A run's folder relative to the workspace, so that a workspace can be moved."""
        here, root = (place.uri.partition("?")[0] for place in (folder, Folder.open(self.workspace)))
        return here.removeprefix(root).lstrip("/")

    @contextlib.contextmanager
    def _locked(self, wait: float) -> Iterator[bool]:
        """Hold the workspace's shipping lock; yields whether it was free in time. A crash releases it."""
        self._home.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            mine = False
            with contextlib.suppress(Timeout):
                stack.enter_context(FileLock(self._home / "shipper.lock", timeout=wait, fallback_to_soft=False))
                mine = True
            yield mine

    @property
    def _is_file(self) -> bool:
        """Whether MLflow's store is a file, of which questions cost next to nothing."""
        return self.uri.startswith("sqlite:")

    @property
    def _shared(self) -> bool:
        """Whether other machines, which see no lock on this one's disk, ship the same workspace to the same MLflow."""
        return not Folder.open(self.workspace).is_local and not self._embedded

    def _load(self) -> dict[str, Sent]:
        sent = read_state(self._state_file)
        return {} if self._is_file and self._lost(sent) else sent  # a server is asked when something is shipped

    def _save(self, sent: dict[str, Sent]) -> None:
        write_state(self._state_file, sent)

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning("tracking: %s", text)


def _waits(state: Sent | None, folder: Folder, info: Info) -> bool:
    """Whether a journal has more than was shipped, or is another one; read only where size and tag do not say it."""
    if state is None:
        return True
    if state.refused or state.tag == info.tag:
        return False
    return state.offset != info.size or not state.begins(_whole_lines(folder))


def _read(journals: Iterable[tuple[Folder, Info]], workspace: Workspace) -> Pending:
    """What journals tell; those of finished runs that lost their end are completed first."""
    pending: Pending = {}
    for folder, info in journals:
        data, tag = _whole_lines(folder), info.tag
        story = journal.parse(data)
        is_run = folder == workspace.root.child("runs", folder.name)
        if is_run and story.status == "running" and tell_lost_end(workspace, folder):
            file = folder.address(journal.FILE_NAME)
            log.warning("%s: had lost its last records; told again from the run's result", file)
            now, data = folder.info(journal.FILE_NAME), _whole_lines(folder)
            story, tag = journal.parse(data), now.tag if now else ""
        if story.run:
            pending[story.experiment, story.run] = Waiting(folder, story, data, tag)
    return pending


def _as_now(pending: Pending, workspace: Workspace) -> Pending:
    """The same runs, read again where they were written since: another machine may have sent more of them by now, and
    their ends among it."""
    infos = {key: each.folder.info(journal.FILE_NAME) for key, each in pending.items()}
    same = {key: each for key, each in pending.items() if (info := infos[key]) is not None and info.tag == each.tag}
    changed = [(pending[key].folder, info) for key, info in infos.items() if info is not None and key not in same]
    return {**same, **_read(changed, workspace)}


def _whole_lines(folder: Folder) -> bytes:
    data = folder.read_bytes(journal.FILE_NAME)
    return data[: data.rfind(b"\n") + 1]  # a line being written is for the next pass


def _parents_first(pending: Pending) -> Iterator[Waiting]:
    done: set[tuple[str, str]] = set()

    def visit(key: tuple[str, str]) -> Iterator[Waiting]:
        if key in done or key not in pending:
            return
        done.add(key)
        yield from visit((key[0], pending[key].story.parent))
        yield pending[key]

    for key in pending:
        yield from visit(key)
