"""One run, from its journal to MLflow: what is new of its parameters, metrics, notes, files and models.

What this machine has shipped is kept in a JSON file. Losing it costs one look at what MLflow has.
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
from vse.tracking.store import RunRefusedError, clean_key
from vse.tracking.view import ENVIRONMENT, description, environment, visible
from vse.workspace import journal
from vse.workspace.journal import JournalState
from vse.workspace.layout import Workspace
from vse.workspace.redaction import redact_text


@dataclass(slots=True)
class Sent:
    """How far a run has been shipped: MLflow's id of it and of its parent; of its journal the first `offset` bytes,
    their SHA-256 and the tag that the file had (`Folder.info`); the tags of its other files. `refused`: MLflow will not
    have it."""

    run_id: str
    offset: int = 0
    digest: str = hashlib.sha256().hexdigest()
    tag: str = ""
    parent: str = ""
    files: dict[str, str] = field(default_factory=dict)
    refused: bool = False

    def begins(self, data: bytes) -> bool:
        """Whether what was shipped is how this journal begins; a run that was made anew has another one."""
        return hashlib.sha256(data[: self.offset]).hexdigest() == self.digest

    def reached(self, data: bytes, tag: str) -> None:
        """All of this journal has been shipped."""
        self.offset, self.digest, self.tag = len(data), hashlib.sha256(data).hexdigest(), tag


def read_state(file: Path) -> dict[str, Sent]:
    """By a run's folder, oldest first; nothing if the file is lost or torn."""
    try:
        return {key: Sent(**entry) for key, entry in json.loads(file.read_text()).items()}
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return {}


def write_state(file: Path, sent: dict[str, Sent]) -> None:
    """Replace the file in one step."""
    unfinished = file.with_suffix(".new")
    unfinished.write_text(json.dumps({key: asdict(state) for key, state in sent.items()}))
    os.replace(unfinished, file)


def newest(sent: dict[str, Sent]) -> str:
    """MLflow's id of the run to ask for: a store that lacks it, made anew or brought back from a copy, has to be filled
    again. What was refused may be deleted for good, and is asked for only if there is nothing else."""
    return max(reversed(sent.values()), key=lambda state: not state.refused).run_id


def one_line(error: Exception) -> str:
    """What an error says, in a line without credentials."""
    return redact_text(first_line(error))[:300]


class Waiting(NamedTuple):
    """A run with something to send: its folder, what its journal tells, the whole lines of that, and the tag the file
    had (`Folder.info`) before it was read."""

    folder: Folder
    story: JournalState
    data: bytes
    tag: str


class RunShipper:
    """Sends runs of a workspace to a store; `warn` is told what is left out."""

    def __init__(self, store: Any, workspace: str, warn: Callable[[str], None]) -> None:
        self._store, self.workspace, self._warn = store, workspace, warn

    def ship(self, sent: dict[str, Sent], key: str, waiting: Waiting) -> dict[str, int]:
        """Send what a run has more than `sent[key]` says, and note that there. Returns the versions of models by their
        addresses."""
        folder, story, data, tag = waiting
        state = sent.get(key)
        if state is None or not state.begins(data):  # the second: not the journal that was shipped
            run_id, there = self._store.find_or_create(
                story.experiment, story.run, name=story.name, started=story.started
            )
            sent.pop(key, None)  # the latest run to be made is the last of them
            state = sent[key] = Sent(run_id)
            before = self._there(run_id, story) if there else JournalState()
        else:
            before = journal.parse(data[: state.offset])
        try:
            models = self._send(state, before, story, folder)
        except RunRefusedError as error:
            state.refused = True
            self._warn(f"{story.name}: MLflow refuses this run ({one_line(error)}); it is not sent again by this job")
            return {}
        state.reached(data, tag)
        return models

    def _there(self, run_id: str, story: JournalState) -> JournalState:
        """What MLflow has of a story, as far as it can be asked."""
        params, points = self._store.known(run_id)
        return JournalState(
            params={key: value for key, value in story.params.items() if clean_key(key) in params},
            metrics={(key, n): points[clean_key(key), n] for key, n in story.metrics if (clean_key(key), n) in points},
            ended=-1,  # so that its status is sent in any case
        )

    def _send(self, state: Sent, before: JournalState, story: JournalState, folder: Folder) -> dict[str, int]:
        if story.parent and (not state.parent or story.parent != before.parent):
            state.parent, _ = self._store.find_or_create(
                story.experiment, story.parent, name=story.parent, started=story.started
            )
        known = visible(before.tags)
        self._store.send(
            state.run_id,
            params={k: v for k, v in story.params.items() if k not in before.params},
            tags={k: v for k, v in visible(story.tags).items() if known.get(k) != v},
            metrics=dict(_news(story, before)),
            parent=state.parent if before.parent != story.parent else "",
            description=self._description(state, before, story),
        )
        rest = environment(story.tags)
        if rest and rest != environment(before.tags):
            self._store.send_json(state.run_id, rest, ENVIRONMENT)
        records = story.tags.get("fingerprint.records")
        if records and before.tags.get("fingerprint.records") != records:
            self._store.name_dataset(state.run_id, str(story.params.get("data", "data")), records)
        with tempfile.TemporaryDirectory() as scratch:
            for path, under in story.artifacts:
                self._send_file(state, folder, path, under, Path(scratch))
        if (story.status, story.ended) != (before.status, before.ended):
            self._store.set_status(state.run_id, story.status, story.ended)
        offered = {key: model for key, model in story.models.items() if model != before.models.get(key)}
        return {
            f"models:/{name}@{alias}": version
            for (name, alias), model in offered.items()
            if (version := self._register(state, folder, name, alias, model))
        }

    def _description(self, state: Sent, before: JournalState, story: JournalState) -> str:
        """What the run's page says of it; empty if that has not changed since it was sent."""
        experiment = self._store.experiment_id(story.experiment)
        now, then = (description(each, experiment, state.run_id, TAG_LENGTH) for each in (story, before))
        return now if now != then else ""

    def _register(self, state: Sent, run: Folder, name: str, alias: str, model: dict[str, Any]) -> int | None:
        """The version of a packed model in the registry that got the alias; None if a later offer has it, and, with
        a warning, where that cannot be."""
        try:
            packed = run.child(*str(model["path"]).split("/"))
            manifest = packed.read_manifest()
            if manifest is None or (packed.is_local and not self._own(packed.local(), run)):
                raise InputError(f"{packed}: no complete packed model of this workspace")
            files = [*manifest["files"], MANIFEST]
            with tempfile.TemporaryDirectory() as scratch:
                for file in files:
                    packed.child(*file.split("/"))  # refuses names that would lead out of the folder
                    place = Path(scratch, "packed", file)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(packed.read_bytes(file))
                known = {key: model[key] for key in ("digest", "tags", "offered")}
                return self._store.register(state.run_id, Path(scratch, "packed"), name, alias, **known)
        except InputError as error:
            self._warn(f"models:/{name}@{alias} is not registered ({one_line(error)})")
            return None

    def _send_file(self, state: Sent, folder: Folder, path: str, under: str, scratch: Path) -> None:
        if folder.is_local or os.path.isabs(path):
            file = Path(path) if os.path.isabs(path) else folder.local(path)
            if not file.exists():
                return  # it may come with a later pass, or belong to another machine
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
        """Whether a file, or all that a folder holds, lies in the workspace (or where it has a link to keep this run),
        or in its cache: a journal that came with a workspace from elsewhere must not send other files of this machine.
        """
        space = Workspace.open(self.workspace)
        places = [place.local().resolve() for place in (space.root, space.cache(), run) if place.is_local]
        parts = [file, *file.rglob("*")] if file.is_dir() else [file]
        return all(any(part.resolve().is_relative_to(place) for place in places) for part in parts)


def _news(story: JournalState, before: JournalState) -> Iterator[tuple[tuple[str, int], tuple[float, int]]]:
    """The metrics that are new or have another value, later than the one they replace: that is the one MLflow shows."""
    for key, (value, when) in story.metrics.items():
        old, told = before.metrics.get(key, (None, -1))
        if value != old:
            yield key, (value, max(when, told + 1))
