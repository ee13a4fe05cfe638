"""jobs/evaluate.py as a user runs it, on a run that jobs/train.py made."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from jsonschema import validate

from tests.jobs.processes import run, run_many, run_without_ray, summary_of
from vse.adversaries.attacks import ATTACKS
from vse.config import override
from vse.evaluation.tasks import DEFAULT, task
from vse.presets import preset
from vse.stages.train import run_training
from vse.workspace.journal import read
from vse.workspace.layout import Workspace
from vse.workspace.provenance import SCHEMA

pytestmark = pytest.mark.process

SIZES = {"data.num_train": 40, "data.num_val": 4, "data.num_test": 5, "data.num_shifted": 4, "train.epochs": 1}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    workspace = tmp_path_factory.mktemp("evaluate") / "workspace"
    place = Workspace.open(str(workspace))
    run_training(override(preset("vsepp_tiny"), SIZES), place)
    run_training(override(preset("vsepp_tiny"), {**SIZES, "data.num_test": 6}), place)
    return workspace, run_training(override(preset("univse_tiny"), SIZES), place).run


@pytest.fixture(scope="module")
def done(trained: tuple[Path, str]) -> tuple[str, dict[str, Any]]:
    workspace, name = trained
    result = run("evaluate", workspace, f"run={name}", "measure.splits=test,shifted", "measure.attacks.words=shared")
    return result.stdout, summary_of(result)


def test_the_table_the_summary_and_the_journal_agree(
    trained: tuple[Path, str], done: tuple[str, dict[str, Any]]
) -> None:
    out, summary = done
    validate(summary, SCHEMA)
    *table, last = out.splitlines()
    printed = numbers(table)
    assert printed.keys() == summary["headline"].keys()
    assert {"test/rsum", "shifted/rsum", "test/attack_object/rsum3", "test/attack_relation/pair_accuracy"} <= set(
        printed
    )
    assert all(abs(printed[key] - value) < 0.0501 for key, value in summary["headline"].items())
    folder = trained[0] / "runs" / trained[1]
    assert Path(last).parent == folder / "evaluation"
    kept = pq.read_table(summary["outputs"]["outcomes_retrieval"]).to_pylist()
    recalled = [row["above"] == 0 for row in kept if (row["split"], row["task"]) == ("test", "t2i")]
    assert summary["headline"]["test/t2i/r1"] == pytest.approx(100 * sum(recalled) / len(recalled))
    latest = read(folder / "journal.jsonl").latest()
    assert all(latest[key] == value for key, value in summary["headline"].items())
    assert read(folder / "journal.jsonl").status == "finished"


def between(intervals: list[str], values: list[float]) -> None:
    """Asserts that intervals as printed hold their values; metrics without one come last in a row."""
    for interval, value in zip(intervals, values, strict=False):
        low, high = map(float, re.split("–|, ", interval.strip("[]")))
        assert low <= value <= high


def numbers(table: list[str]) -> dict[str, float]:
    """Every number that was printed, by its metric."""
    found: dict[str, float] = {}
    split, headings, names = "", list[str](), list[str]()
    metrics = {(m.group, m.heading): m.name for name in DEFAULT for m in task(name)().metrics}
    for line in table:
        first, *cells = re.split(r" {2,}", line.strip())
        if not line.startswith(" "):
            split = first.partition(":")[0]
        elif first in DEFAULT:
            headings = cells
        elif first == "95 % interval":
            between(cells, [found[name] for name in names])
        elif ("", first) in metrics:
            value, *interval = cells
            found[f"{split}/{metrics['', first]}"] = float(value)
            between(interval, [float(value)])
        else:
            names = [f"{split}/{metrics[first, heading]}" for heading in headings]
            assert not found.keys() & set(names), "a number is printed once"
            found |= dict(zip(names, map(float, cells), strict=True))
    return found


def test_what_is_read_first_is_printed_first(done: tuple[str, dict[str, Any]]) -> None:
    table = [line for line in done[0].splitlines() if not line.startswith("    95 % interval")]
    assert re.fullmatch(r"test: 5 images, [\d,]+ captions", table[0])
    heads = ["rsum", "unknown", "retrieval", "image", "sentence", "attacks", *ATTACKS]
    assert [line.split()[0] for line in table[1:10]] == heads
    assert re.fullmatch(r"shifted: 4 images, [\d,]+ captions", table[10])


def test_an_altered_measurement_replaces_no_number_of_the_run(
    trained: tuple[Path, str], done: tuple[str, dict[str, Any]]
) -> None:
    """In folds, each query has fewer candidates, and rsum is much higher."""
    workspace, name = trained
    journal, section = workspace / "runs" / name / "journal.jsonl", "headline evaluation"
    before = read(journal).texts[section]
    assert f"test rsum {done[1]['headline']['test/rsum']:.1f}" in before
    result = run("evaluate", workspace, f"run={name}", "tasks=retrieval", "measure.folds=5")
    assert read(journal).texts[section] == before
    headline = summary_of(result)["headline"]
    assert all(metric.startswith("folds-5/test/") for metric in headline)
    latest = read(journal).latest()
    assert latest["folds-5/test/rsum"] == headline["folds-5/test/rsum"]
    assert latest["test/rsum"] == done[1]["headline"]["test/rsum"]
    # a run without any headline gets that one, by its name
    other = _vsepp(workspace, "num_test", 6)
    run("evaluate", workspace, f"run={other}", "tasks=retrieval", "measure.folds=3")
    written = read(workspace / "runs" / other / "journal.jsonl").texts[section]
    assert written.startswith("**Evaluated: folds-3/test rsum")


@pytest.mark.slow
def test_again_it_measures_nothing(trained: tuple[Path, str], done: tuple[str, dict[str, Any]]) -> None:
    workspace, name = trained
    files = sorted((workspace / "runs" / name / "evaluation").glob("measures-*"))
    before = [json.loads(path.read_text()) for path in files]
    options = (f"run={name}", "measure.splits=test,shifted", "measure.attacks.words=shared")
    result = run("evaluate", workspace, *options)
    assert "measured on" not in result.stderr
    assert summary_of(result)["headline"] == done[1]["headline"]
    after = [json.loads(path.read_text()) for path in files]
    assert all(now.pop("asked") > then.pop("asked") for now, then in zip(after, before, strict=True))
    assert all(now.pop("checksum") != then.pop("checksum") for now, then in zip(after, before, strict=True))  # of when
    assert after == before
    assert sorted((workspace / "runs" / name / "evaluation").glob("measures-*")) == files


@pytest.mark.slow
def test_evaluations_of_one_run_stand_beside_each_other(trained: tuple[Path, str], tmp_path: Path) -> None:
    """Each prints the path of its own summary, and none takes a name in the journal that training has."""
    workspace, name = trained
    journal = workspace / "runs" / name / "journal.jsonl"
    before = {key: value for key, value in read(journal).metrics.items() if key[0].startswith(("train/", "val/"))}
    at = ["evaluate", "--workspace", str(workspace), f"run={name}", "tasks=retrieval"]
    asked = {"val": ["measure.splits=val"], "train": ["measure.splits=train"], "folds": ["measure.folds=5"]}
    for case, (status, out, error) in zip(asked, run_many([[*at, *a] for a in asked.values()], tmp_path), strict=True):
        assert status == 0, error
        asked[case] = [out.splitlines()[-1]]
    found = {case: json.loads(Path(path).read_text()) for case, (path,) in asked.items()}
    assert [one["options"]["measure"]["splits"] for one in found.values()] == [["val"], ["train"], ["test"]]
    story = read(journal)
    after = {key: value for key, value in story.metrics.items() if key[0].startswith(("train/", "val/"))}
    assert after == before
    for split in ("val", "train"):
        assert story.metrics[f"measured/{split}/rsum", 0][0] == found[split]["headline"][f"{split}/rsum"]
    assert story.metrics["folds-5/test/rsum", 0][0] == found["folds"]["headline"]["folds-5/test/rsum"]
    assert "test/rsum" not in found["folds"]["headline"]


@pytest.mark.slow
def test_an_ensemble_has_a_folder_a_journal_and_a_row_of_its_own(trained: tuple[Path, str]) -> None:
    workspace, name = trained
    other = _vsepp(workspace, "num_test", 5)
    before = (workspace / "runs" / name / "journal.jsonl").read_bytes()
    summary = summary_of(run("evaluate", workspace, f"run={name},{other}", "measure.attacks.words=shared"))
    validate(summary, SCHEMA)
    folder = Path(summary["outputs"]["run"])
    assert folder.parent == workspace / "ensembles"
    story = read(folder / "journal.jsonl")
    assert story.params["runs"] == ",".join(sorted([name, other]))
    assert story.status == "finished"
    assert all(story.latest()[key] == value for key, value in summary["headline"].items())
    assert (workspace / "runs" / name / "journal.jsonl").read_bytes() == before
    shipped = json.loads((workspace / "mlflow" / "shipped-embedded.json").read_text())
    assert f"ensembles/{folder.name}" in json.dumps(shipped)
    again = summary_of(run("evaluate", workspace, f"run={other},{name}", "measure.attacks.words=shared"))
    assert again["headline"] == summary["headline"]  # in whatever order


def _vsepp(workspace: Path, key: str, value: int) -> str:
    """The run of VSE++ with this value."""
    configurations = (workspace / "runs").glob("vsepp-*/config.json")
    (found,) = [path for path in configurations if json.loads(path.read_text())["data"][key] == value]
    return found.parent.name


WRONG = {
    "run": (
        ["run=univse-scenes-s9-00000000"],
        "no such run; there are univse-scenes-s0-",
    ),
    "nothing": ([], "evaluate: run: name one of univse-scenes-s0-"),
    "split": (
        ["run=RUN", "measure.splits=tset", "tasks=retrieval"],
        "no split 'tset'; it has train, val, test, shifted; measure.splits=test measures that one",
    ),
    "alpha": (["run=RUN", "measure.alpha=1.2"], "measure.alpha=1.2: must be between 0 and 1"),
    "words": (["run=RUN", "measure.attacks.words=all"], "measure.attacks.words=all: expected one of shared, disjoint"),
    "task": (["run=RUN", "tasks=retrieval,atacks"], "evaluate: tasks=atacks: unknown; did you mean attacks?"),
    "lacking": (
        ["run=RUN", "tasks=gaussian_codes"],
        "tasks=gaussian_codes: n/a: needs codes that are not unit vectors",
    ),
    "key": (["run=RUN", "measure.split=test"], "measure.split: no such key; did you mean measure.splits?"),
    "folds": (["run=RUN", "measure.folds=4", "tasks=retrieval"], "5 images cannot be divided into 4 equal folds"),
    "components": (["run=RUN", "measure.components=verbs"], "verbs: expected one of object, attribute, relation"),
    "no components": (["run=OTHER", "measure.components=object"], "components: family vsepp of "),
    "training": (["run=RUN", "optim.lr=1"], "optim.lr: no such key"),
    "preset": (["--preset", "vsepp_tiny"], "--preset: this job has no run configuration"),
    "one of several": (["run=RUN,absent"], "run=absent: no such run; there are"),
    "other data": (["run=RUN,OTHER", "tasks=retrieval"], "split test differs between"),
    "planned": (["--dry-run", "run=absent"], "run=absent: no such run; there are"),
    "empty": (["--workspace", "empty", "run=a"], "run=a: no such run; the workspace "),
}


@pytest.fixture(scope="module")
def refused(
    trained: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[int | None, str, str]]:
    workspace, name = trained
    other = _vsepp(workspace, "num_test", 6)
    lines = [
        [
            "evaluate",
            "--workspace",
            str(workspace),
            *(word.replace("RUN", name).replace("OTHER", other) for word in more),
        ]
        for more, _ in WRONG.values()
    ]
    lines.append(["evaluate", "--workspace", str(workspace), f"run={workspace}/runs/{name}/summary.json", "--dry-run"])
    found = run_without_ray(lines, tmp_path_factory.mktemp("wrong"))
    return dict(zip((*WRONG, "dry"), found, strict=True))


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_one_line(refused: dict[str, tuple[int | None, str, str]], case: str) -> None:
    status, out, error = refused[case]
    assert status == 2, error
    assert out == ""
    assert len(error.splitlines()) == 1
    assert error.startswith("evaluate: ")
    assert WRONG[case][1] in error


def test_a_dry_run_starts_nothing(refused: dict[str, tuple[int | None, str, str]]) -> None:
    status, out, error = refused["dry"]
    assert (status, error) == (0, "")
    assert "dry run, nothing is started or written" in out
    assert "measure test of scenes: " in out
