"""The engine around the trials of a sweep, where the workspace is an address (a server on this machine plays S3)."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import s3
from tests.levels import slow
from vse.cli.command import Request
from vse.cluster.runtime import Config as RayConfig
from vse.errors import InputError, StorageError, TakenOver
from vse.presets import preset
from vse.storage.folder import Folder
from vse.storage.lease import LeaseHandle
from vse.sweeps import engine
from vse.sweeps.budget import Resources
from vse.sweeps.engine import Sweep, failures_line, run_sweep_job
from vse.sweeps.ledger import Entry, FailureKind
from vse.sweeps.plan import JobOptions, Outcome, Report, SweepCall, SweepOptions, SweepPlan
from vse.sweeps.space import Space
from vse.tracking.shipping import ship_all
from vse.training.code import this_code
from vse.workspace import journal
from vse.workspace.layout import Workspace
from vse.workspace.provenance import FILE_NAME as SUMMARY

CONFIG = preset("vsepp_tiny")


class Square(SweepPlan):
    """A sweep whose outcome is what a test says; it starts no Ray."""

    kind = "square"
    found: Callable[[SweepCall], Outcome]

    @property
    def question(self) -> str:
        return "How large are squares?"

    @property
    def rule(self) -> str:
        return "rule"

    def definition(self) -> dict[str, Any]:
        return {"kind": "square"}

    def trial_function(self, call: SweepCall) -> Any:
        raise AssertionError

    def children(self, entry: Entry) -> Iterator[Any]:
        yield from ()

    def proposer(self, call: SweepCall) -> tuple[Any, int]:
        return SimpleNamespace(refused={}), 0

    def outcome(self, call: SweepCall) -> Outcome:
        return type(self).found(call)


class Silent:
    """A shipper that has no MLflow."""

    uri = "http://127.0.0.1:9"

    def __init__(self, *_: Any) -> None:
        pass

    def every(self, seconds: float) -> contextlib.AbstractContextManager["Silent"]:
        return contextlib.nullcontext(self)


@pytest.fixture(autouse=True)
def _stood_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "Shipper", Silent)
    monkeypatch.setattr(engine, "preflight", lambda *_, **__: None)
    monkeypatch.setattr(engine, "set_up_logging", lambda: None)
    monkeypatch.setattr("vse.stages.pipeline.prepare", lambda *_, **__: SimpleNamespace(fingerprints={"records": "1"}))


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    with s3.server() as found:
        yield found


def run(workspace: str, found: Callable[[SweepCall], Outcome]) -> str:
    plan = square_plan()
    Square.found = staticmethod(found)
    return run_sweep_job(asked(workspace), lambda request: plan)


def sweep(workspace: str) -> str:
    def found(call: SweepCall) -> Outcome:
        call.folder.write_text("page.html", "4")
        return Outcome(digest="12345678", report=lambda: Report(files=["page.html"]))

    return run(workspace, found)


def sweep_of(workspace: str, ray: RayConfig | None = None) -> Sweep:
    place = Workspace.open(workspace)
    return Sweep(asked(workspace, ray), square_plan(), place, place.sweep("square-01234567"))


def asked(workspace: str, ray: RayConfig | None = None) -> Request:
    return Request(
        job="sweep_square",
        workspace=workspace,
        preset=None,
        config=CONFIG,
        options=JobOptions(ray=ray or RayConfig()),
        changed=frozenset(),
        tracking=None,
    )


@pytest.mark.process
def test_a_finished_sweep_on_s3_can_be_run_again(place: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    workspace = s3.address(place, "again")
    first = sweep(workspace)
    folder, file = Folder.of_file(first)
    assert f"{folder.name} has been run before" not in caplog.text
    written = folder.read_bytes(file)
    assert sweep(workspace) == first
    assert f"{folder.name} has been run before" in caplog.text
    assert folder.read_bytes(file) == written


@pytest.mark.process
def test_its_summary_names_what_can_be_opened(place: str) -> None:
    folder, file = Folder.of_file(sweep(s3.address(place, "names")))
    summary = folder.read_json(file)
    page, name = Folder.of_file(summary["outputs"]["page_html"])
    assert page.read_text(name) == "4"
    assert summary["fingerprints"]["sweep"] == folder.name.removeprefix("square-")


def test_the_row_of_a_sweep_has_what_all_its_trials_cost(tmp_path: Path) -> None:
    """Failed ones too."""
    made = sweep_of(str(tmp_path))
    made.ledger.finish({"x": 1}, {"y": 1.0}, 5400.0, Resources(gpus=0.5))
    made.ledger.fail({"x": 2}, "ValueError: no", 1800.0, Resources(gpus=0.5))
    made.tracked.record_report(Report(headline={"trials": 1, "rule": "text"}), "12345678", made.ledger)
    latest = journal.read(made.folder.local(journal.FILE_NAME)).latest()
    assert latest == {"trials": 1, "cost/seconds": 7200, "cost/gpu_hours": 1}


@pytest.mark.seconds
def test_the_row_of_a_sweep_has_its_data_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow's table has a column for the data set, which was empty for all but trainings."""
    from mlflow import MlflowClient

    monkeypatch.chdir(tmp_path)  # where MLflow keeps the files of such a store
    made = sweep_of(str(tmp_path))
    folder = made.folder
    made.tracked.open_parent()
    made.tracked.record_data({"records": "0123abcd", "features": "89abcdef"})
    written = folder.read_bytes(journal.FILE_NAME)
    made.tracked.record_data({"records": "0123abcd", "features": "89abcdef"})
    assert folder.read_bytes(journal.FILE_NAME) == written
    uri = f"sqlite:///{tmp_path}/store.db"
    assert ship_all(str(tmp_path), uri).runs == 1
    client = MlflowClient(uri)
    (run,) = client.search_runs([each.experiment_id for each in client.search_experiments()])
    kept = client.download_artifacts(run.info.run_id, "environment.json")
    assert json.loads(Path(kept).read_text())["fingerprint.features"] == "89abcdef"
    text = run.data.tags["mlflow.note.content"]
    assert "How large are squares?\n\nrule" in text
    assert "python jobs/sweep_square.py" in text
    assert run.inputs is not None
    assert [(each.dataset.name, each.dataset.digest) for each in run.inputs.dataset_inputs] == [("scenes", "0123abcd")]


@pytest.mark.process
@pytest.mark.slow
def test_a_sweep_of_two_workspaces_is_told_in_both(place: str) -> None:
    for prefix in ("one", "two"):
        sweep(s3.address(place, prefix))
        ((folder, _),) = Folder.open(s3.address(place, prefix)).child("sweeps").folders_with(journal.FILE_NAME)
        story = journal.parse(folder.read_bytes(journal.FILE_NAME))
        assert (story.status, story.tags["kind"], len(story.notes)) == ("finished", "square", 0)
        assert story.params["rule"] == "rule"


@pytest.mark.process
@pytest.mark.parametrize(("taken", "told"), [(True, ("running", "running")), *slow([(False, ("failed", "killed"))])])
def test_who_lost_a_sweep_to_another_job_tells_no_end_of_it(taken: bool, told: tuple[str, str], place: str) -> None:
    """As where it was suspended: what runs below the sweep is trained by the other one, which waits for no lease."""
    address = s3.address(place, f"taken-{taken}")

    def work(call: SweepCall) -> Outcome:
        call.workspace.journal(call.workspace.run("mine")).start("mine", parent=call.folder.name)
        if taken:
            call.folder.write_bytes(".writing-lock", b"of another")
        raise StorageError("another job works on this; this one ends here")

    with pytest.raises(StorageError, match="another job works on this"):
        run(address, work)
    folders = [*Folder.open(address).child("sweeps").folders_with(journal.FILE_NAME)]
    folders += [*Folder.open(address).child("runs").folders_with(journal.FILE_NAME)]
    assert tuple(journal.parse(each.read_bytes(journal.FILE_NAME)).status for each, _ in folders) == told


@pytest.mark.process
def test_who_lost_a_sweep_while_its_last_trial_ran_reports_nothing(place: str) -> None:
    address = s3.address(place, "late")

    def work(call: SweepCall) -> Outcome:
        call.folder.write_bytes(".writing-lock", b"of another")
        return Outcome(digest="4", report=Report)

    with pytest.raises(TakenOver, match="another job took this over"):
        run(address, work)
    assert not [*Folder.open(address).child("sweeps").folders_with(SUMMARY)]


@pytest.mark.process
@pytest.mark.parametrize("error", [StorageError("s3: no answer"), *slow([InputError("s3: credentials were refused")])])
def test_a_sweep_whose_lease_cannot_be_asked_for_tells_of_its_end(
    error: Exception, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unanswered(self: LeaseHandle) -> None:
        raise error

    monkeypatch.setattr(LeaseHandle, "check", unanswered)
    address = s3.address(place, "unanswered")

    def work(call: SweepCall) -> Outcome:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(address, work)
    ((folder, _),) = Folder.open(address).child("sweeps").folders_with(journal.FILE_NAME)
    assert journal.parse(folder.read_bytes(journal.FILE_NAME)).status == "killed"


def test_a_call_that_is_refused_before_the_parent_run_started_leaves_no_end(tmp_path: Path) -> None:
    made = sweep_of(str(tmp_path))
    made.tracked.close("failed")
    assert not made.folder.local(journal.FILE_NAME).exists()
    made.tracked.open_parent()
    made.tracked.close("failed")
    assert journal.read(made.folder.local(journal.FILE_NAME)).status == "failed"


def test_trainings_by_other_code_are_said_in_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those in the ledger before anything runs, those that this call comes upon at its end."""
    mine, theirs = this_code(preset("vsepp_tiny")), {"digest": "0ther000", "commit": "0123456789", "changed": False}
    later = {"digest": "89abcdef"}

    def work(changes: int, *code: dict[str, Any]) -> str:
        def found(call: SweepCall) -> Outcome:
            call.ledger.finish({"x": changes}, {"trained_by": code}, 1.0)
            call.ledger.finish({"y": changes}, {"metrics": {}}, 1.0)
            return Outcome(digest=f"{changes}", report=Report)

        caplog.clear()
        path = run(str(tmp_path), found)
        return caplog.text if "warning: " in caplog.text else str(Path(path).is_file())

    assert work(0, mine) == "True"
    assert "warning: 1 trainings of square-" in (said := work(1, theirs, mine))
    assert "were computed with other code (commit 01234567); to compute them again, remove " in said
    again = [line for line in work(2, later).splitlines() if "warning: " in line]
    assert len(again) == 2
    assert "(commit 01234567)" in again[0]
    assert "(code 89abcdef)" in again[1]


def square_plan(**options: Any) -> Square:
    return Square(
        name="square",
        named=False,
        config=CONFIG,
        space=Space("here", {}),
        options=SweepOptions(**options),
        listed=({"x": 1}, {"x": 2}),
    )


def test_the_revision_of_training_is_part_of_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vse.stages.pipeline.prepare", lambda *_, **__: SimpleNamespace(fingerprints={"records": "1"}))
    made = sweep_of(str(tmp_path))
    made.tracked.open_parent()
    before = made.prepare()
    assert made.prepare() == before
    monkeypatch.setattr(engine, "REVISION", 0)
    assert made.prepare() != before
    assert journal.read(made.folder.local(journal.FILE_NAME)).tags["fingerprint.records"] == "1"


def test_stages_of_a_sweep_use_its_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[RayConfig] = []

    def prepare(*_: Any, ray: RayConfig, **__: Any) -> SimpleNamespace:
        given.append(ray)
        return SimpleNamespace(fingerprints={})

    monkeypatch.setattr("vse.stages.pipeline.prepare", prepare)
    ray = RayConfig(address="10.0.0.4:6379", gpus=1)
    made = sweep_of(str(tmp_path), ray)
    made.tracked.open_parent()
    made.prepare()
    assert set(map(id, given)) == {id(ray)}


PLAN = """
max_workers: 15
head_node_type: head
available_node_types:
  head: {resources: {CPU: 4}, node_config: {}}
  gpu: {resources: {CPU: 8, GPU: 1}, labels: {vse.lifecycle: on-demand}, max_workers: 4, node_config: {}}
  gpu_spot: {resources: {CPU: 8, GPU: 1}, labels: {vse.lifecycle: spot}, max_workers: 8, node_config: {}}
  cpu: {resources: {CPU: 16}, max_workers: 2, node_config: {}}
"""


def test_trials_are_as_many_as_the_cluster_could_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ray_bootstrap_config.yaml").write_text(PLAN)

    def at_once(need: Resources, **ray: Any) -> int:
        request = asked("/nowhere", RayConfig(**ray))
        return need.at_once(engine.most(request, need))

    assert at_once(Resources(cpus=1, gpus=1)) == 12
    assert at_once(Resources(cpus=5, gpus=0.5)) == 12  # a node has the CPUs of one
    assert at_once(Resources(cpus=3)) == 11  # a third each of 16 and 4 CPUs leaves one CPU on every node
    assert at_once(Resources(cpus=2, gpus=2, workers=2)) == 2  # ranks keep to the four that stay
    assert at_once(Resources(cpus=1)) == 36  # no GPU node comes for these
    assert at_once(Resources(cpus=2, workers=2)) == 17
    assert at_once(Resources(cpus=40, workers=10)) == 3  # more than there is without them
    assert at_once(Resources(cpus=1), address="local", cpus=3) == 3


def test_what_failed_is_tried_again_only_where_that_helps() -> None:
    def failed(kind: FailureKind, why: str) -> Entry:
        return Entry(id="0", changes={}, state="failed", failure=kind, error=why)

    diverged = failed(FailureKind.DIVERGED, "epoch 1, step 3: the loss is nan")
    line = failures_line({"lr=1 seed=0": diverged, "lr=2 seed=0": diverged}, "/w/summary.json")
    assert line == (
        "2 trials failed, lr=1 seed=0: the training diverged: epoch 1, step 3: the loss is nan (all others are "
        "reported: /w/summary.json); they would diverge again: sweep values where they do not"
    )
    both = {"a": diverged, "b": failed(FailureKind.ERROR, "no luck")}
    assert failures_line(both, "/w").endswith("; sweep.run=failed tries them again")
