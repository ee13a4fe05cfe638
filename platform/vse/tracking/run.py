"""Ships one run from its journal to MLflow: new parameters, metrics, notes, files and models.

The shipping state of this machine is in a JSON file. If it is lost, MLflow is queried once for what it has.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from vse.errors import InputError, first_line
from vse.storage.folder import MANIFEST, Folder
from vse.tracking.mlflow_internals import TAG_LENGTH
from vse.tracking.store import RunRefusedError
from vse.tracking.view import ENVIRONMENT, description, environment, visible
from vse.workspace import journal
from vse.workspace.journal import JournalState
from vse.workspace.layout import Workspace
from vse.workspace.redaction import redact_text
from vse.workspace.tracking_keys import clean_key


@dataclass(slots=True)
class ShippingState:
    """How far a run has been shipped.

    `run_id` and `parent` are MLflow's ids of the run and of its parent. The first `offset` bytes of the journal have
    been shipped, `digest` is their SHA-256, and `tag` is the file's tag then (`Folder.info`). `files` are the tags of
    other files. `refused` says that MLflow refuses the run.
    """

    run_id: str
    offset: int = 0
    digest: str = hashlib.sha256().hexdigest()
    tag: str = ""
    parent: str = ""
    files: dict[str, str] = field(default_factory=dict)
    refused: bool = False

    def begins(self, data: bytes) -> bool:
        """Whether a journal begins with the shipped part; the journal of a repeated run does not."""
        return hashlib.sha256(data[: self.offset]).hexdigest() == self.digest

    def reached(self, data: bytes, tag: str) -> None:
        """Record that all of this journal has been shipped."""
        self.offset, self.digest, self.tag = len(data), hashlib.sha256(data).hexdigest(), tag


def read_state(file: Path) -> dict[str, ShippingState]:
    """The states by run folder, oldest first; empty if the file is missing or damaged."""
    try:
        return {key: ShippingState(**entry) for key, entry in json.loads(file.read_text()).items()}
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return {}


def write_state(file: Path, states: dict[str, ShippingState]) -> None:
    """Replace the file in one step."""
    unfinished = file.with_suffix(".new")
    unfinished.write_text(json.dumps({key: asdict(state) for key, state in states.items()}))
    os.replace(unfinished, file)


def newest(states: dict[str, ShippingState]) -> str:
    """MLflow's id of the run that was created last. A store that lacks it was replaced and has to be filled again.

    Refused runs may have been deleted permanently, so they are used only if there are no others.
    """
    return max(reversed(states.values()), key=lambda state: not state.refused).run_id


def one_line(error: Exception) -> str:
    """The message of an error in one line, without credentials."""
    return redact_text(first_line(error))[:300]


class PendingRun(NamedTuple):
    """A run with something to send.

    `content` is what its journal says, `data` its complete lines, and `tag` the file's tag (`Folder.info`) before it
    was read.
    """

    folder: Folder
    content: JournalState
    data: bytes
    tag: str


class RunShipper:
    """Sends runs of a workspace to a store; `warn` is called with a line for everything that is left out."""

    def __init__(self, store: Any, workspace: str, warn: Callable[[str], None]) -> None:
        self._store, self.workspace, self._warn = store, workspace, warn
        self._parents: dict[tuple[str, str], str] = {}  # MLflow's ids, by experiment and run

    def ship(self, states: dict[str, ShippingState], key: str, pending: PendingRun) -> dict[str, int]:
        """Send everything of a run that is not in its shipping state, and update that.

        Args:
            states: by run folder, in the order in which MLflow's runs were created. The entry of the run is changed in
                place, or replaced if the journal is not the shipped one, for instance because the run was repeated.
            key: of the run in `states`.
            pending: the run, as it was read from its journal.

        Returns:
            The versions of registered models by their addresses. Empty if MLflow refuses the run, which is then marked.
        """
        folder, content, data, tag = pending
        state = states.get(key)
        if state is None or not state.begins(data):  # another journal than the shipped one
            run_id, exists = self._store.find_or_create(
                content.experiment, content.run, name=content.name, started=content.started
            )
            states.pop(key, None)  # the run that was created last is the last entry
            state = states[key] = ShippingState(run_id)
            before = self._logged(run_id, content) if exists else JournalState()
        else:
            before = journal.parse(data[: state.offset])
        try:
            models = self._send(state, before, content, folder)
        except RunRefusedError as error:
            state.refused = True
            self._warn(f"{content.name}: MLflow refuses this run ({one_line(error)}); this job does not send it again")
            return {}
        state.reached(data, tag)
        return models

    def _logged(self, run_id: str, content: JournalState) -> JournalState:
        """The part of a content that MLflow has, as far as it can be queried."""
        params, points = self._store.logged(run_id)
        return JournalState(
            params={key: value for key, value in content.params.items() if clean_key(key) in params},
            metrics={
                (key, n): points[clean_key(key), n] for key, n in content.metrics if (clean_key(key), n) in points
            },
            ended=-1,  # differs, so the status is sent
        )

    def _send(
        self, state: ShippingState, before: JournalState, content: JournalState, folder: Folder
    ) -> dict[str, int]:
        if content.parent and (not state.parent or content.parent != before.parent):
            parent = content.experiment, content.parent
            if parent not in self._parents:
                self._parents[parent], _ = self._store.find_or_create(
                    *parent, name=content.parent, started=content.started
                )
            state.parent = self._parents[parent]
        old_tags = visible(before.tags)
        self._store.send(
            state.run_id,
            params={k: v for k, v in content.params.items() if k not in before.params},
            tags={k: v for k, v in visible(content.tags).items() if old_tags.get(k) != v},
            metrics=dict(_new_metrics(content, before)),
            parent=state.parent if before.parent != content.parent else "",
            description=self._description(state, before, content),
        )
        other_tags = environment(content.tags)
        if other_tags and other_tags != environment(before.tags):
            self._store.send_json(state.run_id, other_tags, ENVIRONMENT)
        records = content.tags.get("fingerprint.records")
        if records and before.tags.get("fingerprint.records") != records:
            self._store.name_dataset(state.run_id, str(content.params.get("data", "data")), records)
        with tempfile.TemporaryDirectory() as scratch:
            for path, under in content.artifacts:
                self._send_file(state, folder, path, under, Path(scratch))
        if (content.status, content.ended) != (before.status, before.ended):
            self._store.set_status(state.run_id, content.status, content.ended)
        offered = {key: model for key, model in content.models.items() if model != before.models.get(key)}
        return {
            f"models:/{name}@{alias}": version
            for (name, alias), model in offered.items()
            if (version := self._register(state, folder, name, alias, model))
        }

    def _description(self, state: ShippingState, before: JournalState, content: JournalState) -> str:
        """The description for the run's page; empty if it has not changed since the last shipment."""
        experiment = self._store.experiment_id(content.experiment)
        new, old = (description(each, experiment, state.run_id, TAG_LENGTH) for each in (content, before))
        return new if new != old else ""

    def _register(self, state: ShippingState, run: Folder, name: str, alias: str, model: dict[str, Any]) -> int | None:
        """Register a packed model; returns its version with the alias.

        Returns None if a later offer has the alias, and, with a warning, if the model cannot be registered.
        """
        try:
            packed = run.child(*str(model["path"]).split("/"))
            manifest = packed.read_manifest()
            if manifest is None or (packed.is_local and not self._own(packed.local(), run)):
                raise InputError(f"{packed}: no complete packed model of this workspace")
            files = [*manifest["files"], MANIFEST]
            with tempfile.TemporaryDirectory() as scratch:
                for file in files:
                    packed.child(*file.split("/"))  # refuses names that would leave the folder
                    copy = Path(scratch, "packed", file)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_bytes(packed.read_bytes(file))
                details = {key: model[key] for key in ("digest", "tags", "offered")}
                return self._store.register(state.run_id, Path(scratch, "packed"), name, alias, **details)
        except InputError as error:
            self._warn(f"models:/{name}@{alias} is not registered ({one_line(error)})")
            return None

    def _send_file(self, state: ShippingState, folder: Folder, path: str, under: str, scratch: Path) -> None:
        if folder.is_local or os.path.isabs(path):
            file = Path(path) if os.path.isabs(path) else folder.local(path)
            if not file.exists():
                return  # it may appear before a later pass, or belong to another machine
            if not self._own(file, folder):
                self._warn(f"{file}: named by a journal, but not of this workspace; it is not sent")
                return
            status = file.stat()
            tag = f"{status.st_size}-{status.st_mtime_ns}"
        else:
            info = folder.info(path)
            if info is None:
                return
            tag = info.tag
            file = scratch / Path(path).name
        if state.files.get(f"{under}|{path}") == tag:
            return
        if not file.exists():
            file.write_bytes(folder.read_bytes(path))
        self._store.send_file(state.run_id, file, under)
        state.files[f"{under}|{path}"] = tag

    def _own(self, file: Path, run: Folder) -> bool:
        """Whether a file, or a folder's whole content, lies in the workspace, its cache, or this run's link target.

        A journal in a workspace from elsewhere must not send other files of this machine.
        """
        space = Workspace.open(self.workspace)
        folders = [folder.local().resolve() for folder in (space.root, space.cache(), run) if folder.is_local]
        parts = [file, *file.rglob("*")] if file.is_dir() else [file]
        return all(any(part.resolve().is_relative_to(folder) for folder in folders) for part in parts)


def _new_metrics(content: JournalState, before: JournalState) -> Iterator[tuple[tuple[str, int], tuple[float, int]]]:
    """New or changed metrics, with a later time than the old value, because MLflow shows the latest one."""
    for key, (value, when) in content.metrics.items():
        old, old_time = before.metrics.get(key, (None, -1))
        if value != old:
            yield key, (value, max(when, old_time + 1))
