"""jobs/register_model.py as a user runs it: a version, again the same one, and every wrong request in one line."""

import json
from pathlib import Path

import pytest
from jsonschema import validate

from tests.jobs.processes import run_many
from tests.unit.inference.test_embedder import train
from vse.inference.served_model import offer_model
from vse.workspace.journal import read
from vse.workspace.layout import Workspace
from vse.workspace.provenance import SCHEMA

pytestmark = pytest.mark.process

Answer = tuple[int | None, str, str]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Answer]]:
    """A workspace of one run, and what the job answered to each command line, in this order."""
    folder = tmp_path_factory.mktemp("register")
    place = Workspace.open(str(folder / "workspace"))
    run = train(place, "vsepp_tiny").run
    offer_model(place, run, name="swept")  # by a sweep whose server was away
    name, away = f"run={run}", ["--tracking", "http://127.0.0.1:9"]
    lines = {
        "away": [name, *away],
        "first": [name],
        "again": [name],
        "other": [name, "registry.name=pictures", "registry.alias=best"],
        "no run": ["run=absent"],
        "bad name": [name, "registry.name=a/b"],
        "bad alias": [name, "registry.alias=v3"],
        "no alpha": [name, "alpha=0.5"],
    }
    jobs = [["register_model", "--workspace", place.root.uri, *more] for more in lines.values()]
    short = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "1", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    return folder, dict(zip(lines, run_many(jobs, folder, variables=short), strict=True))


def test_a_run_becomes_a_version_once(told: tuple[Path, dict[str, Answer]]) -> None:
    for key, address in (
        ("first", "models:/vsepp-scenes@selected"),
        ("again", "models:/vsepp-scenes@selected"),
        ("other", "models:/pictures@best"),
    ):
        status, out, error = told[1][key]
        assert status == 0, error
        assert out.startswith(f"{address} is version 1 in sqlite:///")
        assert Path(out.splitlines()[-1]).name == "summary.json"
    summary = json.loads(Path(out.splitlines()[-1]).read_text())
    validate(summary, SCHEMA)
    assert summary["headline"] == {"model": "models:/pictures@best", "version": 1}


def test_a_server_that_is_away_is_said_and_the_model_waits(told: tuple[Path, dict[str, Answer]]) -> None:
    status, out, error = told[1]["away"]
    assert (status, out) == (1, "")
    assert "waits in the journal" in error.splitlines()[-1]
    assert "Traceback" not in error
    (book,) = (told[0] / "workspace" / "runs").glob("*/journal.jsonl")
    assert ("vsepp-scenes", "selected") in read(book).models


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("no run", "run=absent: no such run; there are vsepp-scenes-s0-"),
        ("bad name", "registry.name=a/b: use letters"),
        ("bad alias", "registry.alias=v3: use letters"),
        ("no alpha", "alpha: family vsepp of "),
    ],
)
def test_a_wrong_request_is_one_line(told: tuple[Path, dict[str, Answer]], case: str, message: str) -> None:
    status, out, error = told[1][case]
    assert (status, out) == (2, "")
    assert message in error
    assert len(error.splitlines()) == 1
