"""A connection to MLflow with the operations that shipping a journal needs.

Runs are found by the tag `vse.run_id` in their experiment, not by MLflow's random id, so a retried or resumed job
continues the run it already has.
"""

import json
import logging
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from vse.tracking.embedded import file_of, make_whole
from vse.tracking.mlflow_internals import (
    COMMIT_TAG,
    ENTITIES_PER_BATCH,
    EXPERIMENT_KIND_TAG,
    KEY_LENGTH,
    NOTE_TAG,
    PARAM_LENGTH,
    PARAMS_PER_BATCH,
    PARENT_TAG,
    SOURCE_TAG,
    TAG_LENGTH,
    TRAINING,
    VIEW_TAG,
    warn_of_version,
)
from vse.tracking.view import VIEW, VIEW_KEY

T = TypeVar("T")

RUN_TAG = "vse.run_id"
_ACTIVE = "active"  # the stage of a run that is not deleted
_STATUS = {"running": "RUNNING", "finished": "FINISHED", "failed": "FAILED", "killed": "KILLED"}
_TIMEOUT, _SECONDS, _SECONDS_FOR_FILES = "MLFLOW_HTTP_REQUEST_TIMEOUT", "5", "60"
# Our tags -> the tags that MLflow's table of runs has columns for
_COLUMNS = {"kind": SOURCE_TAG, "git.commit": COMMIT_TAG}
_EXPERIMENT_TAGS = {
    EXPERIMENT_KIND_TAG: TRAINING,  # or the pages open on traces and prompts
    NOTE_TAG: "A sweep is one row, its trials are below it; `best/...` is of the epoch a run kept. "
    "A run's description has its results and commands.",
    VIEW_TAG + VIEW_KEY: json.dumps(VIEW),
}
_NOT_IN_KEYS = re.compile(r"[^\w. :/-]", re.ASCII)


class RunRefusedError(Exception):
    """MLflow answers, but will not take this run (deleted by a user, for instance)."""


class Store:
    """A connection to a tracking server, or to the embedded SQLite file when `uri` starts with sqlite:///.

    `artifacts`: folder for the files of runs; None leaves that to the server. Raises whatever MLflow and its transport
    raise when nothing answers; every request gives up after seconds, not minutes.
    """

    def __init__(self, uri: str, artifacts: Path | None = None) -> None:
        _quiet()
        warn_of_version()
        from mlflow import MlflowClient

        self._artifacts = artifacts
        if artifacts is not None:
            make_whole(uri)
            _wait_less_for_the_disk(uri)
        self._client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        self._experiments: dict[str, str] = {}

    def answers(self) -> bool:
        """Whether MLflow is there now and knows its experiments."""
        try:
            self._client.search_experiments(max_results=1)
        except Exception:  # of MLflow, its transport or its database: all say no
            return False
        return True

    def knows(self, run_id: str) -> bool:
        """Whether a run is there, deleted by a user or not. Raises where MLflow does not answer."""
        return bool(self._stage(run_id))

    def is_active(self, run_id: str) -> bool:
        """Whether a run is there and not deleted. Raises where MLflow does not answer."""
        return self._stage(run_id) == _ACTIVE

    def _stage(self, run_id: str) -> str:
        """What has become of a run; empty if there is none."""
        from mlflow.exceptions import MlflowException

        try:
            return self._client.get_run(run_id).info.lifecycle_stage
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return ""
            raise

    def find_or_create(self, experiment: str, run: str, *, name: str, started: int) -> tuple[str, bool]:
        """(MLflow's id of the run tagged `run`, whether it was there already). One that a user has deleted is there,
        and refuses what it is sent: looking at every journal again must not bring it back."""
        from mlflow.entities import ViewType
        from mlflow.exceptions import MlflowException

        place = self.experiment_id(experiment)
        # run ids are fingerprints and names: no quote can get into the filter
        text = re.sub(r"[^\w.:/-]", "_", run)
        all_found = self._client.search_runs([place], f"tags.`{RUN_TAG}` = '{text}'", ViewType.ALL, max_results=10)
        if all_found:
            found = max(all_found, key=lambda each: each.info.lifecycle_stage == _ACTIVE).info
            # a child shipped first made it without its name
            if found.lifecycle_stage == _ACTIVE and name not in (run, found.run_name):
                self._client.update_run(found.run_id, name=name)
            return found.run_id, True
        try:
            made = self._client.create_run(place, start_time=started or None, tags={RUN_TAG: text}, run_name=name)
        except MlflowException:
            del self._experiments[experiment]  # it may be gone; the next try looks for it by its name
            raise
        return made.info.run_id, False

    def known(self, run_id: str) -> tuple[set[str], dict[tuple[str, int], tuple[float, int]]]:
        """(keys of parameters, metrics by (key, step) as (value, milliseconds)) that a run has, keys as `clean_key`
        makes them, of several values of a step the one that MLflow shows; for a run whose shipping state was lost."""
        data = self._client.get_run(run_id).data
        points: dict[tuple[str, int], tuple[float, int]] = {}
        for key in data.metrics:
            for m in sorted(self._client.get_metric_history(run_id, key), key=lambda m: (m.timestamp, m.value)):
                points[key, m.step] = (m.value, m.timestamp)
        return set(data.params), points

    def send(
        self,
        run_id: str,
        *,
        params: Mapping[str, Any],
        tags: Mapping[str, str],
        metrics: Mapping[tuple[str, int], tuple[float, int]],
        parent: str = "",
        description: str = "",
    ) -> None:
        """Log all in as few batches as MLflow allows. Raises RunRefusedError if so answered."""
        from mlflow.entities import Metric, Param, RunTag

        special = {PARENT_TAG: parent} if parent else {}
        special |= {shown: tags[name] for name, shown in _COLUMNS.items() if name in tags}
        if description:
            special[NOTE_TAG] = description
        tag_list = [RunTag(clean_key(k), str(v)[:TAG_LENGTH]) for k, v in {**tags, **special}.items()]
        param_list = [Param(clean_key(k), str(v)[:PARAM_LENGTH]) for k, v in params.items()]
        points = [Metric(clean_key(k), value, when, step) for (k, step), (value, when) in metrics.items()]
        metric_parts, param_parts, tag_parts = (
            list(_parts(points, ENTITIES_PER_BATCH - 2 * PARAMS_PER_BATCH)),
            list(_parts(param_list, PARAMS_PER_BATCH)),
            list(_parts(tag_list, PARAMS_PER_BATCH)),
        )
        with _refusals():
            for part in range(max(len(metric_parts), len(param_parts), len(tag_parts))):
                self._client.log_batch(
                    run_id,
                    metrics=_at(metric_parts, part),
                    params=_at(param_parts, part),
                    tags=_at(tag_parts, part),
                )

    def name_dataset(self, run_id: str, name: str, digest: str) -> None:
        """Say which data a run was made with."""
        from mlflow.entities import Dataset, DatasetInput

        dataset = Dataset(name=name, digest=digest, source_type="vse", source=json.dumps({"fingerprint": digest}))
        self._client.log_inputs(run_id, [DatasetInput(dataset=dataset, tags=[])])

    def send_file(self, run_id: str, path: Path, under: str) -> None:
        """Copy a file, or a folder with all it holds, to the run's artifacts."""
        with _time_for_files():
            if path.is_dir():
                self._client.log_artifacts(run_id, str(path), under or path.name)
            else:
                self._client.log_artifact(run_id, str(path), under or None)

    def send_json(self, run_id: str, content: Mapping[str, Any], name: str) -> None:
        """Put plain data into a file among the run's artifacts."""
        with _time_for_files():
            self._client.log_dict(run_id, dict(content), name)

    def set_status(self, run_id: str, status: str, ended: int) -> None:
        """Mark a run as running, finished, failed or killed. Raises RunRefusedError if so answered."""
        with _refusals():
            if status == "running":
                self._client.update_run(run_id, status="RUNNING")
            else:
                self._client.set_terminated(run_id, _STATUS[status], end_time=ended or None)

    def register(
        self, run_id: str, packed: Path, name: str, alias: str, *, digest: str, tags: Mapping[str, str], offered: int
    ) -> int | None:
        """Give the alias to the version of the registered model that has this digest, made if there is none; returns
        its number, None if a later offer than `offered` has the alias. Raises InputError if MLflow will not have
        such a name."""
        from vse.tracking.models import register

        what = {"name": name, "alias": alias, "digest": digest, "tags": tags, "offered": offered}
        with _time_for_files():
            return register(self._client, run_id, packed, **what)

    def version_of(self, name: str, alias: str, digest: str) -> int | None:
        """The version that has the alias, None if it is of another digest. Raises where there is none."""
        from vse.tracking.models import DIGEST_TAG

        version = self._client.get_model_version_by_alias(name, alias)
        return int(version.version) if version.tags.get(DIGEST_TAG) == digest else None

    def experiment_id(self, name: str) -> str:
        """MLflow's id of an experiment, which is made if there is none."""
        if name not in self._experiments:
            found = self._client.get_experiment_by_name(name)
            if found is not None and found.lifecycle_stage != "active":
                self._client.restore_experiment(found.experiment_id)
            place = None
            if found is None and self._artifacts is not None:
                place = str(self._artifacts / re.sub(r"[^\w.-]", "_", name))
            if found is None:
                self._experiments[name] = self._client.create_experiment(name, place, dict(_EXPERIMENT_TAGS))
                return self._experiments[name]
            for tag, value in _EXPERIMENT_TAGS.items():
                if tag not in found.tags:
                    self._client.set_experiment_tag(found.experiment_id, tag, value)
            self._experiments[name] = found.experiment_id
        return self._experiments[name]


def clean_key(key: str) -> str:
    """A name as MLflow accepts it: signs it refuses become underscores, long ones are cut."""
    return _NOT_IN_KEYS.sub("_", str(key))[:KEY_LENGTH]


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    source = iter(items)
    while part := list(islice(source, size)):
        yield part


def _at(parts: list[list[T]], index: int) -> list[T]:
    return parts[index] if index < len(parts) else []


@contextmanager
def _refusals() -> Iterator[None]:
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "INVALID_STATE"):
            raise RunRefusedError(str(error)) from error
        raise


@contextmanager
def _time_for_files() -> Iterator[None]:
    """Wait longer for answers than numbers need: a server may write a file on somewhere else before it answers."""
    asked = os.environ.get(_TIMEOUT)
    if asked == _SECONDS:
        os.environ[_TIMEOUT] = _SECONDS_FOR_FILES  # MLflow reads it at every request
    try:
        yield
    finally:
        if asked == _SECONDS:
            os.environ[_TIMEOUT] = _SECONDS


def _quiet() -> None:
    """Short waits, no telemetry, no migration messages; set before mlflow is imported, kept where the user set them."""
    for name, value in (
        (_TIMEOUT, _SECONDS),
        # MLflow repeats POSTs too: a run that a slow server has made, and answers for too late, it would make again.
        # The shipper tries again by itself, and looks first.
        ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0"),
        ("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1"),
        ("MLFLOW_DISABLE_TELEMETRY", "true"),
        ("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false"),
        ("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true"),  # it would print the password of an address
    ):
        os.environ.setdefault(name, value)
    for name in ("alembic", "mlflow.tracking", "mlflow.pyfunc", "urllib3.connectionpool"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # It logs the stack of every query that fails, as while another process locks the file, and raises the error too.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)


def _wait_less_for_the_disk(uri: str) -> None:
    """MLflow commits several times a run, and each commit waits for the disk. With a write-ahead log SQLite stays whole
    after a crash without that; what a power cut might take is in the journals."""
    from sqlalchemy import Engine, event

    database = os.path.realpath(file_of(uri))

    def connected(connection: Any, _: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            files = {os.path.realpath(row[2]) for row in connection.execute("PRAGMA database_list") if row[2]}
            if database in files:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")

    event.listen(Engine, "connect", connected)
