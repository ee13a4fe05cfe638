"""A connection to MLflow with the operations that shipping a journal needs.

Runs are found by the tag `vse.run_id` in their experiment, not by MLflow's random id, so a retried or resumed job
continues the run it already has.
"""

import json
import logging
import os
import re
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, TypeVar

from vse.tracking.embedded import file_of, make_complete, may_have_run, prepare_queries, write_ahead
from vse.tracking.mlflow_internals import (
    ACTIVE,
    COMMIT_TAG,
    ENTITIES_PER_BATCH,
    EXPERIMENT_KIND_TAG,
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
from vse.workspace.tracking_keys import clean_key

T = TypeVar("T")

RUN_TAG = "vse.run_id"
_STATUS = {"running": "RUNNING", "finished": "FINISHED", "failed": "FAILED", "killed": "KILLED"}
_TIMEOUT, _SECONDS, _SECONDS_FOR_FILES = "MLFLOW_HTTP_REQUEST_TIMEOUT", "5", "60"
# Our tags -> MLflow's tags with columns in the table of runs
_COLUMNS = {"kind": SOURCE_TAG, "git.commit": COMMIT_TAG}
_EXPERIMENT_TAGS = {
    EXPERIMENT_KIND_TAG: TRAINING,  # or the pages open on traces and prompts
    NOTE_TAG: "A sweep is one row, its trials are below it; `best/...` is of the epoch a run kept. "
    "A run's description has its results and commands.",
    VIEW_TAG + VIEW_KEY: json.dumps(VIEW),
}


class RunRefusedError(Exception):
    """MLflow answers but refuses this run, for instance because a user has deleted it."""


class Store:
    """A connection to a tracking server, or to the embedded SQLite file when `uri` starts with sqlite:///.

    `artifacts` is the folder for files of runs; None leaves that to the server. Methods raise the exceptions of MLflow
    and its transport if nothing answers. Every request gives up after seconds, not minutes.
    """

    def __init__(self, uri: str, artifacts: Path | None = None) -> None:
        _quiet()
        warn_of_version()
        from mlflow import MlflowClient

        self._artifacts, self._uri = artifacts, uri
        if artifacts is not None:
            make_complete(uri)
            self.prepare_queries()
            _sync_less(uri)
        self._client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        self._experiments: dict[str, str] = {}

    def prepare_queries(self) -> None:
        """Keep queries of the embedded store fast, after many runs were sent too; a server does so itself."""
        if self._artifacts is not None:
            prepare_queries(self._uri, RUN_TAG)

    def answers(self) -> bool:
        """Whether MLflow answers now and has its experiments."""
        try:
            self._client.search_experiments(max_results=1)
        except Exception:  # of MLflow, its transport or its database
            return False
        return True

    def stage(self, run_id: str) -> str:
        """The lifecycle stage of a run, `ACTIVE` or deleted; empty if there is no such run."""
        from mlflow.exceptions import MlflowException

        try:
            return self._client.get_run(run_id).info.lifecycle_stage
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return ""
            raise

    def find_or_create(self, experiment: str, run: str, *, name: str, started: int) -> tuple[str, bool]:
        """(MLflow's id of the run tagged `run`, whether it already existed).

        A run that a user has deleted still exists and refuses updates, so shipping never restores it.

        Args:
            experiment: name of its experiment.
            run: value of the tag.
            name: shown by MLflow; a run that was created without one gets it. If it equals `run`, it counts as none.
            started: milliseconds since 1970 of a new run; 0: now.
        """
        from mlflow.entities import ViewType
        from mlflow.exceptions import MlflowException

        experiment_id = self.experiment_id(experiment)
        # run ids are fingerprints and names: no quote can get into the filter
        tag = re.sub(r"[^\w.:/-]", "_", run)
        runs = []
        if self._artifacts is None or may_have_run(self._uri, RUN_TAG, tag):
            found = f"tags.`{RUN_TAG}` = '{tag}'"
            runs = self._client.search_runs([experiment_id], found, ViewType.ALL, max_results=10)
        if runs:
            info = max(runs, key=lambda each: each.info.lifecycle_stage == ACTIVE).info
            # a child that was shipped first has created it without a name
            if info.lifecycle_stage == ACTIVE and name not in (run, info.run_name):
                self._client.update_run(info.run_id, name=name)
            return info.run_id, True
        start = started or None
        try:
            created = self._client.create_run(experiment_id, start_time=start, tags={RUN_TAG: tag}, run_name=name)
        except MlflowException:
            del self._experiments[experiment]  # it may be gone; the next try looks for it by its name
            raise
        return created.info.run_id, False

    def logged(self, run_id: str) -> tuple[set[str], dict[tuple[str, int], tuple[float, int]]]:
        """(keys of parameters, metrics by (key, step) as (value, milliseconds)) that MLflow has of a run.

        Keys are those of `clean_key`. If a step has several values, the one that MLflow shows is returned.
        """
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
        """Log values in as few batches as MLflow allows.

        Args:
            run_id: MLflow's id of the run.
            params: by name.
            tags: by name.
            metrics: (name, step) -> (value, milliseconds since 1970).
            parent: MLflow's id of the parent run, if it is new.
            description: of the run, if it has changed.

        Raises:
            RunRefusedError: if MLflow refuses this run.
        """
        from mlflow.entities import Metric, Param, RunTag

        special = {PARENT_TAG: parent} if parent else {}
        special |= {shown: tags[name] for name, shown in _COLUMNS.items() if name in tags}
        if description:
            special[NOTE_TAG] = description
        tag_list = [RunTag(clean_key(k), str(v)[:TAG_LENGTH]) for k, v in {**tags, **special}.items()]
        param_list = [Param(clean_key(k), str(v)[:PARAM_LENGTH]) for k, v in params.items()]
        points = [Metric(clean_key(k), value, when, step) for (k, step), (value, when) in metrics.items()]
        batches = zip_longest(
            _parts(points, ENTITIES_PER_BATCH - 2 * PARAMS_PER_BATCH),
            _parts(param_list, PARAMS_PER_BATCH),
            _parts(tag_list, PARAMS_PER_BATCH),
            fillvalue=(),
        )
        with _refusals():
            for some_points, some_params, some_tags in batches:
                self._client.log_batch(run_id, metrics=some_points, params=some_params, tags=some_tags)

    def name_dataset(self, run_id: str, name: str, digest: str) -> None:
        """Name the data set of a run, which MLflow shows as its input.

        Args:
            run_id: MLflow's id of the run.
            name: of the data set.
            digest: fingerprint of its records, by which MLflow knows equal data sets.
        """
        from mlflow.entities import Dataset, DatasetInput

        dataset = Dataset(name=name, digest=digest, source_type="vse", source=json.dumps({"fingerprint": digest}))
        self._client.log_inputs(run_id, [DatasetInput(dataset=dataset, tags=[])])

    def send_file(self, run_id: str, path: Path, under: str) -> None:
        """Copy a file, or a folder with its content, to the run's artifacts.

        Args:
            run_id: MLflow's id of the run.
            path: of the file or folder on this machine.
            under: folder of the artifacts; empty: a file goes to the top, a folder below its own name.
        """
        with _long_timeout():
            if path.is_dir():
                self._client.log_artifacts(run_id, str(path), under or path.name)
            else:
                self._client.log_artifact(run_id, str(path), under or None)

    def send_json(self, run_id: str, content: Mapping[str, Any], name: str) -> None:
        """Write plain data into a file of the run's artifacts.

        Args:
            run_id: MLflow's id of the run.
            content: the data.
            name: path of the file below the artifacts.
        """
        with _long_timeout():
            self._client.log_dict(run_id, dict(content), name)

    def set_status(self, run_id: str, status: str, ended: int) -> None:
        """Mark a run as running, finished, failed or killed.

        Args:
            run_id: MLflow's id of the run.
            status: one of these four words.
            ended: milliseconds since 1970; 0: now. A running run has none.

        Raises:
            RunRefusedError: MLflow refuses it.
        """
        with _refusals():
            if status == "running":
                self._client.update_run(run_id, status="RUNNING")
            else:
                self._client.set_terminated(run_id, _STATUS[status], end_time=ended or None)

    def register(
        self, run_id: str, packed: Path, name: str, alias: str, *, digest: str, tags: Mapping[str, str], offered: int
    ) -> int | None:
        """Register a packed model unless its digest is registered, and give the alias to its version.

        Args:
            run_id: MLflow's id of the run.
            packed: folder of the packed model, on this machine.
            name: of the registered model.
            alias: for the version.
            digest: identifies the packed model.
            tags: of a new version.
            offered: time of the offer, in milliseconds since 1970; a later offer keeps the alias.

        Returns:
            The number of the version; None if the alias stays with a later offer.

        Raises:
            InputError: MLflow does not accept the name or alias.
        """
        from vse.tracking import models

        with _long_timeout():
            return models.register(
                self._client, run_id, packed, name=name, alias=alias, digest=digest, tags=tags, offered=offered
            )

    def version_of(self, name: str, alias: str, digest: str) -> int | None:
        """The version with the alias; None if it has another digest.

        Args:
            name: of the registered model.
            alias: given to one version of it.
            digest: of the packed model, which the version must have as a tag.

        Raises:
            MlflowException: there is no such model or alias.
        """
        from vse.tracking.models import DIGEST_TAG

        version = self._client.get_model_version_by_alias(name, alias)
        return int(version.version) if version.tags.get(DIGEST_TAG) == digest else None

    def experiment_id(self, name: str) -> str:
        """MLflow's id of an experiment, which is created if it does not exist."""
        if name not in self._experiments:
            self._experiments[name] = self._find_or_create_experiment(name)
        return self._experiments[name]

    def _find_or_create_experiment(self, name: str) -> str:
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            folder = re.sub(r"[^\w.-]", "_", name)
            location = None if self._artifacts is None else str(self._artifacts / folder)
            return self._client.create_experiment(name, location, dict(_EXPERIMENT_TAGS))
        if experiment.lifecycle_stage != ACTIVE:
            self._client.restore_experiment(experiment.experiment_id)
        for tag, value in _EXPERIMENT_TAGS.items():
            if tag not in experiment.tags:
                self._client.set_experiment_tag(experiment.experiment_id, tag, value)
        return experiment.experiment_id


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    source = iter(items)
    while part := list(islice(source, size)):
        yield part


@contextmanager
def _refusals() -> Generator[None]:
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "INVALID_STATE"):
            raise RunRefusedError(str(error)) from error
        raise


@contextmanager
def _long_timeout() -> Generator[None]:
    """Wait longer for answers: a server may pass a file on before it answers. A user's timeout stays."""
    is_ours = os.environ.get(_TIMEOUT) == _SECONDS
    if is_ours:
        os.environ[_TIMEOUT] = _SECONDS_FOR_FILES  # MLflow reads it at every request
    try:
        yield
    finally:
        if is_ours:
            os.environ[_TIMEOUT] = _SECONDS


def _quiet() -> None:
    """Set short timeouts, no telemetry and no migration messages, unless the user has; call before mlflow's import."""
    for name, value in (
        (_TIMEOUT, _SECONDS),
        # MLflow would repeat POSTs too, and create a run twice if a slow server answers too late. The shipper retries
        # by itself, after looking for the run.
        ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0"),
        ("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1"),
        ("MLFLOW_DISABLE_TELEMETRY", "true"),
        ("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false"),
        ("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true"),  # it would print the password of an address
    ):
        os.environ.setdefault(name, value)
    for name in ("alembic", "mlflow.tracking", "mlflow.pyfunc", "urllib3.connectionpool"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # It logs a traceback for every failed query, for instance while another process locks the file, and raises it too.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)


def _sync_less(uri: str) -> None:
    """Use a write-ahead log if it is safe, so that MLflow's several commits per run do not each wait for the disk.

    SQLite then stays intact after a crash; a power cut may lose commits, which the journals still have.
    """
    from sqlalchemy import Engine, event

    database = os.path.realpath(file_of(uri))
    mode = "WAL" if write_ahead(database) else "DELETE"

    def connected(connection: Any, _: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            files = {os.path.realpath(row[2]) for row in connection.execute("PRAGMA database_list") if row[2]}
            if database in files:
                with suppress(sqlite3.OperationalError):  # another process is using it, in the mode it has
                    connection.execute(f"PRAGMA journal_mode={mode}")
                connection.execute("PRAGMA synchronous=NORMAL")

    event.listen(Engine, "connect", connected)
