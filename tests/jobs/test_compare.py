"""jobs/compare.py as a user runs it: runs of two families and two seeds, again, and every wrong request in one line."""

import csv
import json
import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate

from tests.jobs.processes import run, run_many, run_unread, run_without_ray, summary_of
from vse.config import override
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.train import run_training
from vse.training.run_journal import Origin
from vse.workspace.journal import read
from vse.workspace.layout import Workspace
from vse.workspace.provenance import SCHEMA

pytestmark = pytest.mark.process

SIZES = {"data.num_train": 40, "data.num_val": 4, "data.num_test": 12, "data.num_shifted": 4, "train.epochs": 1}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A workspace and, by what the tests call them, runs in it."""
    folder = tmp_path_factory.mktemp("compare") / "workspace"
    place = Workspace.open(str(folder))

    def trained(name: str, known: bool = True, parsed: bool = False, **changes: Any) -> str:
        config = override(preset(name), {**SIZES, **{key.replace("__", "."): v for key, v in changes.items()}})
        pipeline.prepare(config, place, parsed=parsed)
        return run_training(config, place, origin=Origin(name, tuple(SIZES)) if known else None).run

    return folder, {
        "A": trained("vsepp_tiny"),
        "B": trained("vsepp_tiny", seed=1),
        "C": trained("univse_tiny"),
        "D": trained("univse_tiny", seed=1),
        "OTHER": trained("vsepp_tiny", data__num_test=13),
        "ATTACKED": trained("vsepp_tiny", data__num_train=30, parsed=True),
        "POOLS": trained("vsepp_tiny", text__pools__held_out=False),
        "NAMELESS": trained("vsepp_tiny", known=False, objective__margin=0.3),
    }


def test_the_runs_are_measured_and_compared(runs: tuple[Path, dict[str, str]]) -> None:
    workspace, names = runs
    result = run("compare", workspace, f"runs={names['A']},{names['C']},{names['B']},{names['D']}")
    summary = summary_of(result)
    validate(summary, SCHEMA)
    assert re.findall(r"^measuring (\S+)$", result.stderr, re.MULTILINE) == [names[k] for k in "ABCD"]
    assert f"compare: {summary['outputs']['comparison_html']}" in result.stderr
    folder = Path(result.stdout.splitlines()[-1]).parent
    assert folder.parent == workspace / "comparisons"
    data = json.loads((folder / "comparison.json").read_text())
    assert [each["label"] for each in data["systems"]] == ["vsepp_tiny +5 keys", "univse_tiny +5 keys"]
    assert [each["seeds"] for each in data["systems"]] == [[0, 1], [0, 1]]
    assert data["keys"]["model"] == ["vsepp", "univse"]
    assert data["splits"]["test"]["images"] == 12
    for place, pair in enumerate(("AB", "CD")):
        measured = [_measured(workspace, names[k]) for k in pair]
        for metric in ("rsum", "i2t/r10", "attack_object/r1", "attack_relation/disjoint/pair_accuracy"):
            mean = sum(each[f"test/{metric}"] for each in measured) / 2
            assert data["splits"]["test"]["metrics"][metric]["values"][place] == pytest.approx(mean)
    rows = list(csv.DictReader((folder / "comparison.csv").read_text().splitlines()))
    assert {row["metric"] for row in rows} == {f"test/{metric}" for metric in data["splits"]["test"]["metrics"]}
    page = (folder / "comparison.html").read_text()
    assert "not corrected for multiple comparisons" in page
    assert "not corrected for multiple comparisons" in result.stdout
    assert "keys that differ" in result.stdout
    story = read(folder / "journal.jsonl")
    assert (story.status, story.tags["kind"]) == ("finished", "comparison")
    with closing(sqlite3.connect(workspace / "mlflow" / "mlflow.db")) as connection:
        shown = {row[0] for row in connection.execute("SELECT name FROM runs")}
    assert f"comparison {folder.name}" in shown
    assert summary["headline"]["2-1/test/rsum"] == pytest.approx(
        summary["headline"]["2/test/rsum"] - summary["headline"]["1/test/rsum"]
    )


def _measured(workspace: Path, name: str) -> dict[str, float]:
    """What the run's journal says, which the comparison measured."""
    return read(workspace / "runs" / name / "journal.jsonl").latest()


@pytest.mark.slow
def test_what_is_measured_is_not_measured_again(runs: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    workspace, names = runs
    at = ("--workspace", str(workspace), "measure.attacks.words=shared")
    lines = [
        ["evaluate", *at, f"run={names['A']}"],
        ["compare", *at, f"runs={names['A']},{names['NAMELESS']}", "name=mine"],
        ["compare", *at, f"runs={names['A']},{names['NAMELESS']}", "name=mine"],
        ["compare", *at, f"runs={names['A']},{names['B']}"],
        ["compare", *at, f"runs={names['A']},{names['B']},{names['C']}"],
        ["compare", *at, f"runs={names['A']},{names['B']},{names['C']}", "seeds=apart"],
        ["compare", *at, f"runs={names['A']},{names['B']}", "tasks=attacks", "name=attacked"],
    ]
    evaluated, first, again, seeds, fewer, apart, attacked = run_many(lines, tmp_path)
    for status, _, error in (evaluated, first, again, seeds, fewer, apart, attacked):
        assert status == 0, error
    assert "measuring" not in evaluated[2] + again[2]
    assert re.findall(r"^measuring (\S+)$", first[2], re.MULTILINE) == [names["NAMELESS"]]
    assert first[1] == again[1]
    assert first[1].splitlines()[-1] == str(workspace / "comparisons" / "mine" / "summary.json")
    assert first[1].splitlines()[1] == f"2  {names['NAMELESS']}: {names['NAMELESS']}"  # no preset is known of it
    assert re.search(r"^  objective.margin +0.2 +0.3$", first[1], re.MULTILINE)
    assert seeds[1].splitlines()[:2] == [
        f"1  vsepp_tiny +5 keys, seed 0: {names['A']}",
        f"2  vsepp_tiny +5 keys, seed 1: {names['B']}",
    ]
    assert "vsepp_tiny +5 keys: seed 1 left out, which not every system has" in fewer[1].splitlines()
    assert apart[1].splitlines()[2].startswith("3  univse_tiny +5 keys: ")
    rows = csv.DictReader((workspace / "comparisons" / "attacked" / "comparison.csv").read_text().splitlines())
    assert {re.split("[/_]", row["metric"])[1] for row in rows} == {"attack"}  # retrieval was not asked for


WRONG = {
    "one": (["runs=A"], "name two runs or more, each once"),
    "none": ([], "runs: name one of "),
    "twice": (["runs=A,A"], "runs: A is named twice"),
    "absent": (["runs=A,absent"], "runs=absent: no such run; there are "),
    "other data": (
        ["runs=A,OTHER"],
        "split test differs between A and OTHER: 12 and 13 images; a comparison needs",
    ),
    "other attacks": (
        ["runs=A,ATTACKED"],
        "A and ATTACKED are attacked by different captions (their text.parser or training captions differ); "
        "tasks=retrieval compares them without attacks",
    ),
    "seeds": (["runs=A,B,OTHER,C", "seeds=some"], "seeds=some: expected one of together, apart"),
    "no outcomes": (["runs=A,B", "tasks=true_pairs"], "tasks=true_pairs: has no outcomes by image to compare"),
    "split": (["runs=A,B", "measure.splits=tset"], "no split 'tset'; it has train, val, test, shifted"),
    "key": (["run=A"], "run: no such key; did you mean runs? it is a key of jobs/evaluate.py, "),
    "planned": (["--dry-run", "runs=A"], "name two runs or more, each once"),
}


@pytest.fixture(scope="module")
def refused(
    runs: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[int | None, str, str]]:
    workspace, names = runs
    before = sorted((workspace / "comparisons").glob("*")) if (workspace / "comparisons").exists() else []

    def spelled(word: str) -> str:
        key, _, given = word.partition("=")
        return f"{key}={','.join(names.get(each, each) for each in given.split(','))}" if key == "runs" else word

    lines = [["compare", "--workspace", str(workspace), *map(spelled, more)] for more, _ in WRONG.values()]
    lines.append(["compare", "--workspace", str(workspace), spelled("runs=A,B,C"), "--dry-run"])
    lines.append(["compare", "--help"])
    found = run_without_ray(lines, tmp_path_factory.mktemp("wrong"))
    assert (sorted((workspace / "comparisons").glob("*")) if before else []) == before
    return dict(zip((*WRONG, "dry", "help"), found, strict=True))


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_one_line(
    runs: tuple[Path, dict[str, str]], refused: dict[str, tuple[int | None, str, str]], case: str
) -> None:
    status, out, error = refused[case]
    for known, name in runs[1].items():
        error = error.replace(name, known)
    assert status == 2, error
    assert out == ""
    made = "parse adversaries ("  # attacks are made to be compared
    told = [line for line in error.splitlines() if not line.startswith(made)]
    assert len(told) == 1
    assert told[0].startswith("compare: ")
    assert WRONG[case][1] in told[0]
    assert case == "other attacks" or told == error.splitlines()


def test_a_dry_run_says_what_is_compared(
    runs: tuple[Path, dict[str, str]], refused: dict[str, tuple[int | None, str, str]]
) -> None:
    status, out, error = refused["dry"]
    names = runs[1]
    assert (status, error) == (0, "")
    assert f"the others with vsepp_tiny +5 keys: {names['A']}\n" in out
    assert f"compare univse_tiny +5 keys: {names['C']}\n" in out
    assert "vsepp_tiny +5 keys: seed 1 left out, which not every system has" in out
    assert re.search(r"^keys that differ: .*model", out, re.MULTILINE)
    assert "not checked: image files" in out


def test_help_names_every_key(refused: dict[str, tuple[int | None, str, str]]) -> None:
    status, out, _ = refused["help"]
    assert status == 0
    for key in ("runs=[]", 'seeds="together"', "measure.splits="):
        assert f"  {key}" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "keys", "written"),
    [
        (
            "compare",
            "runs={A},{C} name=unread",
            ["comparisons/unread/comparison.html", "comparisons/unread/summary.json"],
        ),
        ("evaluate", "run={A} measure.splits=shifted", ["runs/{A}/evaluation/summary-*.json"]),
    ],
)
def test_results_are_there_when_nobody_reads_the_table(
    runs: tuple[Path, dict[str, str]], job: str, keys: str, written: list[str]
) -> None:
    workspace, names = runs
    assert run_unread(job, workspace, *keys.format(**names).split()) == 128 + signal.SIGPIPE
    for pattern in written:
        assert list(workspace.glob(pattern.format(**names)))
