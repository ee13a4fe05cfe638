"""Journals of a workspace on S3 (a server on this machine plays S3)."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests import s3
from vse.display.progress import Progress
from vse.features.shards import write_shard
from vse.status.overview import read_status
from vse.storage.folder import Folder
from vse.sweeps.ledger import Ledger
from vse.sweeps.progress import ProgressFile
from vse.tracking.shipping import embedded_uri, ship_all
from vse.workspace import journal
from vse.workspace.layout import Workspace


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with s3.server() as place:
        yield s3.address(place)


@pytest.mark.slow
def test_a_workspace_on_s3_is_shipped(bucket: str, tmp_path: Path) -> None:
    root = Folder.open(bucket)
    run = root.child("runs", "univse-0.75-0123abcd")
    book = journal.open_in(run, tmp_path / "scratch")
    book.start("0123abcd", name="univse", experiment="alpha")
    book.metrics({"val/rsum": 100.0}, step=1)
    run.write_json("table.json", {"r1": 1})
    book.artifact(book.path.with_name("table.json"), under="tables")
    book.end()
    root.child("runs", "univse-0.75-0123abcd", "checkpoints").write_bytes("last.bin", b"x")
    result = ship_all(bucket)
    assert (result.runs, result.trouble) == (1, "")
    from mlflow import MlflowClient

    found = MlflowClient(tracking_uri=embedded_uri(bucket))
    (shipped,) = found.search_runs([e.experiment_id for e in found.search_experiments()])
    assert shipped.data.metrics == {"val/rsum": 100.0}
    assert shipped.info.status == "FINISHED"
    assert [a.path for a in found.list_artifacts(shipped.info.run_id, "tables")] == ["tables/table.json"]
    assert ship_all(bucket).runs == 0


@pytest.mark.slow
def test_the_status_of_a_workspace_on_s3(bucket: str, tmp_path: Path) -> None:
    bucket = bucket.replace("workspace", "another")  # the server keeps what tests before have put there
    root = Folder.open(bucket)
    for name, status in (("runs/one-s0", "finished"), ("runs/two-s0", "failed"), ("sweeps/curve-0123abcd", "")):
        book = journal.open_in(root.child(*name.split("/")), tmp_path / name)
        book.start(name.split("/")[1])
        book.params({"train.epochs": 2})
        book.metrics({"train/seconds": 3.0, "cost/gpu_hours": 0.25}, step=2)
        if status:
            book.note("Diverged: sent is nan")
            book.end("finished" if status == "finished" else "failed")
    ledger = Ledger(root.child("sweeps", "curve-0123abcd"))
    ledger.finish({"x": 1}, {}, 2.0)
    bar = Progress("train", total=4)
    bar.done = 1
    ProgressFile(ledger).show(bar, 1, 0)
    features = root.child("features", "scenes-01", "23")
    write_shard(features, ["a", "b"], {"pooled": np.zeros((2, 3), np.float16)}, [])
    with features.locked():
        status = read_status(Workspace.open(bucket))
    lines = {line.name: line for line in status.rows}
    assert (lines["one-s0"].state, lines["one-s0"].done, lines["one-s0"].total) == ("finished", 2, 2)
    assert (lines["curve-0123abcd"].done, lines["curve-0123abcd"].total) == (1, 4)
    line = lines["features/scenes-01/23"]
    assert (line.state, line.done) == ("running", 2)
    assert line.age < 60
    assert status.failures == [("two-s0", "Diverged: sent is nan")]
    assert (status.cost, status.spooled) == ((2 / 3600, 0.5), 0)  # the trial took two seconds of one CPU


@pytest.mark.process
def test_a_report_on_s3_is_told_like_one_here(bucket: str) -> None:
    from vse.cli.command import Request
    from vse.report.build import ReportOptions, build_report

    run = Folder.open(bucket).child("runs", "a")
    run.write_json("config.json", {"seed": 0})
    run.write_json("result.json", {"metrics": {"val/rsum": 300.0}})
    options, none = ReportOptions(runs=("a",), name="page"), frozenset[str]()
    build_report(
        Request(job="report", workspace=bucket, preset=None, config=None, options=options, changed=none, tracking=None)
    )
    folder = Folder.open(bucket).child("reports", "page")
    story = journal.parse(folder.read_bytes(journal.FILE_NAME))
    assert (story.run, story.status) == ("report-page", "finished")
    assert ("report.html", "") in story.artifacts
    assert all(folder.exists(path) for path, _ in story.artifacts)
