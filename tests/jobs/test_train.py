"""jobs/train.py as a user runs it: from an empty workspace, again, stopped, and every wrong request in one line."""

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate

from tests.jobs.processes import command, environment, run, run_without_ray, summary_of
from vse.workspace.journal import read
from vse.workspace.provenance import SCHEMA, gpus

pytestmark = pytest.mark.process

SIZES = ("data.num_train=20", "data.num_val=6", "data.num_test=4", "data.num_shifted=0")
TINY = ("--preset", "vsepp_tiny", *SIZES)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    workspace = tmp_path_factory.mktemp("train") / "workspace"
    return workspace, summary_of(run("train", workspace, *TINY, "seed=3", "optim.lr=1e-5"))


def test_from_an_empty_workspace_to_a_summary(done: tuple[Path, dict[str, Any]]) -> None:
    workspace, summary = done
    validate(summary, SCHEMA)
    assert summary["configuration"]["optim"]["lr"] == 1e-5
    assert (summary["seeds"], summary["job"]) == ([3], "train")
    assert summary["headline"]["trained"] is True
    assert summary["headline"]["epochs"] == 2
    assert 0 <= summary["headline"]["val/rsum"] <= 600
    folder = Path(summary["outputs"]["run"])
    assert folder.parent == workspace / "runs"
    assert folder.name.endswith(summary["fingerprints"]["run"])
    assert (Path(summary["outputs"]["checkpoint"]) / "model.safetensors").is_file()
    story = read(folder / "journal.jsonl")
    assert (story.status, story.params["optim.lr"]) == ("finished", 1e-5)
    assert story.tags["preset"] == "vsepp_tiny +5 keys"  # sizes and rate; the seed stands in the name
    assert json.loads((folder / "preset.json").read_text())["changed"][-1] == "optim.lr"
    assert {step for key, step in story.metrics if key == "train/sent"} == {1, 2}


@pytest.mark.slow
def test_again_it_trains_nothing_and_a_copy_of_the_workspace_serves(
    done: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    shutil.copytree(done[0], tmp_path / "moved", ignore=shutil.ignore_patterns("mlflow"))
    result = run("train", tmp_path / "moved", *TINY, "seed=3", "optim.lr=1e-5")
    again = summary_of(result)
    name, lines = Path(again["outputs"]["run"]).name, result.stderr.splitlines()
    assert lines[0] == f"{name} was trained already, 2 epochs; nothing is left to do"
    assert again["headline"]["best_epoch"] == 1  # the one of the warm-up, so small is the rate
    assert [line.partition(",")[0] for line in lines[1:]] == ["note: epoch 1"]
    validate(again, SCHEMA)
    assert again["headline"] == done[1]["headline"] | {"trained": False}
    # the time of the training is not lost to that of finding it done
    assert again["seconds"] == pytest.approx(read_result(again)["seconds"], abs=1e-3)
    assert again["details"].keys() == {"seconds_of_this_call"}
    assert "details" not in done[1]
    assert again["outputs"]["run"].startswith(str(tmp_path))


def read_result(summary: dict[str, Any]) -> dict[str, Any]:
    return json.loads(Path(summary["outputs"]["run"], "result.json").read_text())


@pytest.mark.slow
def test_a_collapse_is_one_warning(done: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    for part in ("datasets", "features"):
        shutil.copytree(done[0] / part, tmp_path / "workspace" / part)
    # a margin beside which scores are nothing: every epoch's loss is that of equal codes
    result = run("train", tmp_path / "workspace", *TINY, "objective.warmup=0", "objective.margin=1e4")
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 1
    assert warnings[0].startswith("warning: epoch 1: the loss is that of codes that are all alike")
    assert "try objective.warmup=1 or an optim.lr below" in warnings[0]


@pytest.mark.slow
def test_vectors_that_the_paper_gives_and_nobody_named_are_one_note(tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_text("image,caption,split\na.jpg,A dog,train\n")  # ends before the first image: nothing to validate on
    data = ("data=table", f"data.file={table}", f"data.root={tmp_path}")
    result = run("train", tmp_path / "workspace", "--preset", "relational_basic_scenes", *data)
    note, _, error = result.stderr.splitlines()  # between them, how the table was read
    assert note.startswith(
        "note: text.word_vectors is not set: word vectors are learned from scratch; the paper starts from fast"
    )
    assert error.startswith("train: mine: no split 'val'")
    assert result.returncode == 2


def test_the_run_is_in_mlflow(done: tuple[Path, dict[str, Any]]) -> None:
    import sqlite3

    summary = done[1]
    place = summary["outputs"]["mlflow"]
    assert place.startswith("sqlite:///")
    with sqlite3.connect(place.removeprefix("sqlite:///")) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM runs")]
        steps = connection.execute("SELECT step, value FROM metrics WHERE key = 'val/rsum' ORDER BY step").fetchall()
    connection.close()
    assert names == [Path(summary["outputs"]["run"]).name]
    assert [step for step, _ in steps] == [1, 2]
    assert max(value for _, value in steps) == pytest.approx(summary["headline"]["val/rsum"])


@pytest.mark.slow
def test_a_stopped_job_goes_on_and_ends_with_the_same_numbers(
    done: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    for part in ("datasets", "features"):
        shutil.copytree(done[0] / part, tmp_path / "workspace" / part)
    more = (*TINY, "train.epochs=40", "optim.schedule=constant")
    process = subprocess.Popen(
        command("train", tmp_path / "workspace", *more),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("workspace/runs/*/checkpoints/epoch-0003/manifest.json")):
        assert process.poll() is None, process.stderr
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, error
    assert error.splitlines()[-1].startswith("train: stopped; finished work is kept")
    (folder,) = (tmp_path / "workspace" / "runs").iterdir()
    assert read(folder / "journal.jsonl").status == "killed"
    reached = {step for key, step in read(folder / "journal.jsonl").metrics if key == "train/sent"}
    assert len(reached) < 40
    summary = summary_of(run("train", tmp_path / "workspace", *more))
    story = read(folder / "journal.jsonl")
    assert {step for key, step in story.metrics if key == "train/sent"} == set(range(1, 41))
    for part in ("datasets", "features"):
        shutil.copytree(done[0] / part, tmp_path / "other" / part)
    whole = summary_of(run("train", tmp_path / "other", *more))
    assert whole["headline"] == summary["headline"]


WRONG = {
    "misspelled": (["optm.lr=1"], "optm.lr: no such key; did you mean optim.lr?"),
    "type": (["optim.lr=fast"], "optim.lr=fast: expected a number"),
    "range": (["--preset", "univse_tiny", "model.alpha=1.2"], "model.alpha=1.2: must be between 0 and 1"),
    "negative": (["objective.margin=-0.1"], "objective.margin=-0.1: must be >= 0"),
    "one": (["train.batch_size=1"], "train.batch_size=1: must be >= 2"),
    "workers": (["train.workers=64"], "train.workers=64: needs 64 CPUs, but this machine has"),
    "preset": (["--preset", "univse"], "preset 'univse': unknown; did you mean univse_"),
    "pair": (["optim.lr"], "optim.lr: expected key=value"),
    "space": (["data.root=/My", "Photos"], 'Photos: expected key=value; quote a value with spaces ("key=a value")'),
    "word": (["vsepp_small"], "vsepp_small: expected key=value; did you mean --preset vsepp_small?"),
    "twice": (["seed=1", "seed=2"], "seed: given twice"),
    "component": (["objective=infonse"], "objective"),
    "vectors": (["text.word_vectors=absent.vec"], "absent.vec: no such file of word vectors"),
    "vectors planned": (["--dry-run", "text.word_vectors=no.vec"], "no.vec: no such file of word vectors"),
    "weights planned": (["--dry-run", "features.backbone.weights=no.pt"], "features.backbone.weights=no.pt: no such"),
    "table planned": (
        ["--dry-run", "--preset", "vsepp_tiny", "data=table", "data.file=no.csv"],
        "data.file=no.csv: no such file",
    ),
    "root": (["--preset", "vsepp_flickr8k"], "data.root: name the folder"),
    "truth": (["--preset", "vsepp_flickr8k", "data.root=absent"], "data.root=absent: no such folder"),
    "mixed": (["objective=univse"], "objective=univse: trains family univse, not vsepp; use objective=ranking"),
    "sole": (
        ["--preset", "jwae_mh_scenes", "objective=infonce"],
        "objective=infonce: family jwae trains with objective=jwae only; add objective.match=infonce to match that way",
    ),
}
WITHOUT_GPU = {
    "gpu": (["train.gpus_per_worker=1"], "train.gpus_per_worker=1: a GPU is requested, but this machine has none"),
    "gpus": (["train.gpus_per_worker=1", "train.workers=2"], "a GPU is requested, but this machine has none"),
}


@pytest.fixture(scope="module")
def refused(
    tmp_path_factory: pytest.TempPathFactory, done: tuple[Path, dict[str, Any]]
) -> dict[str, tuple[int | None, str, str]]:
    """What each wrong command line says, in a process in which Ray cannot even be imported."""
    folder = tmp_path_factory.mktemp("wrong")
    wrong = WRONG if gpus() else WRONG | WITHOUT_GPU
    (folder / "file").write_text("")
    start = ["train", "--workspace", str(done[0])]
    lines = [[*start, *([] if "--preset" in more else TINY), *more] for more, _ in wrong.values()]
    lines += [["train", "--workspace", str(folder / "file" / "below"), *TINY]]
    lines += [["train", "--workspace", str(folder / "dry"), *TINY, "--dry-run", "optim.lr=1e-5"]]
    lines += [["train", "--workspace", str(folder / "dry"), *TINY, "--dry-run", "objective=cse"]]
    found = run_without_ray(lines, folder)
    assert not (folder / "dry").exists()
    return dict(zip((*wrong, "unwritable", "dry", "dry pair"), found, strict=True))


@pytest.mark.parametrize("case", [*WRONG, *WITHOUT_GPU, "unwritable"])
def test_a_wrong_request_is_one_line_before_ray(refused: dict[str, tuple[int | None, str, str]], case: str) -> None:
    if case not in refused:
        pytest.skip("this machine has a GPU")
    status, out, error = refused[case]
    message = {**WRONG, **WITHOUT_GPU, "unwritable": ([], "below: cannot")}[case][1]
    assert status == 2, error
    assert out == ""
    lines = error.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("train: ")
    assert message in lines[0]


def test_a_dry_run_says_what_it_would_do(refused: dict[str, tuple[int | None, str, str]]) -> None:
    status, out, error = refused["dry"]
    assert (status, error) == (0, "")
    assert "optim.lr=1e-05  (set)" in out
    assert "train vsepp on scenes with seed 0: 2 epochs of 64 captions per step, 1 worker(s), 0 GPU(s) each" in out


def test_a_dry_run_refuses_what_does_not_train_together(refused: dict[str, tuple[int | None, str, str]]) -> None:
    status, _, error = refused["dry pair"]
    assert (status, error) == (2, "train: objective=cse: trains family cse, not vsepp; use objective=ranking\n")


@pytest.mark.slow
def test_a_training_that_diverges_is_one_line_and_status_one(done: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """What nobody foresaw has a traceback as well: see tests/unit/cli/test_command.py."""
    shutil.copytree(done[0] / "datasets", tmp_path / "workspace" / "datasets")
    result = run("train", tmp_path / "workspace", *TINY, "optim.lr=1e38", "optim.clip=0", "model.dim=16")
    assert result.returncode == 1, result.stderr
    assert result.stdout == ""
    told = "train: epoch 1, step 1: the update overflows; try a lower optim.lr; finished work is kept"
    assert result.stderr.splitlines()[-1] == told
    assert "Traceback" not in result.stderr
