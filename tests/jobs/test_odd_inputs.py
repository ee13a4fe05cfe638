"""Odd pictures and captions go through the jobs to trained and measured runs; what cannot be used is named with why."""

import json
import socket
import sqlite3
import unicodedata
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.jobs.odd_data import ABSOLUTE, CAPTIONS, EMPTY, HALF, HANDLED, REJECTED, write_arrays, write_odd
from tests.jobs.processes import run_many
from tests.jobs.tracking_server import serving
from vse.workspace.journal import read

pytestmark = pytest.mark.process

PROGRESS = ("features: ", "train vsepp on ", "run vsepp-", "epoch ", "note: epoch ")
SHARED = ["features.backbone=small", "train.batch_size=32"]


class Odd:
    """The odd data set after `extract_features`, a training and its evaluation."""

    def __init__(self, folder: Path) -> None:
        root = write_odd(folder / "Datensatz ünï 数据" / "odd set")
        self.workspace = folder / "Arbeits platz ñ"
        data = ["data=karpathy", f"data.root={root}", *SHARED]
        at = ["--workspace", str(self.workspace)]
        extraction = ["extract_features", *at, "--preset", "univse_tiny", *data, "extraction.max_rejected=0.5"]
        self.jobs = run_many(
            [
                [*extraction, "outputs=map,pooled"],
                ["train", *at, "--preset", "univse_tiny", *data],
            ],
            folder,
        )
        (run,) = (self.workspace / "runs").iterdir()
        self.jobs += run_many([["evaluate", *at, f"run={run.name}", "measure.attacks.words=shared"]], folder)

    def rejects(self) -> dict[str, str]:
        """Every id and reason of both tables: images of the feature store, captions of the records."""
        (store,) = (self.workspace / "features").glob("*/*/rejects.parquet")
        (records,) = (self.workspace / "datasets").glob("*/manifest.json")
        table = pq.read_table(store).to_pydict()
        return {
            **dict(zip(table["image"], table["reason"], strict=True)),
            **dict(json.loads(records.read_text())["source"]["rejects"]),
        }


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Odd:
    return Odd(tmp_path_factory.mktemp("odd"))


def test_every_job_ends_well(odd: Odd) -> None:
    for status, out, error in odd.jobs:
        assert status == 0, error
        assert Path(out.splitlines()[-1]).is_file()
        assert "Traceback" not in error
        assert "warning" not in error.lower()
    assert len(odd.jobs) == 3


@pytest.mark.parametrize("name", HANDLED)
def test_an_odd_picture_has_features(odd: Odd, name: str) -> None:
    (index,) = (odd.workspace / "features").glob("*/*/index.parquet")
    assert name in pq.read_table(index).column("image").to_pylist()


@pytest.mark.parametrize("name", REJECTED)
def test_an_unusable_picture_is_a_reject_with_its_reason(odd: Odd, name: str) -> None:
    reason = odd.rejects()[name]
    assert REJECTED[name][1] in reason
    assert "\n" not in reason


def test_an_absolute_path_is_a_reject(odd: Odd) -> None:
    assert "leaves its root" in odd.rejects()[ABSOLUTE]


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_odd_captions_are_kept_and_those_without_a_word_are_rejects(odd: Odd, split: str) -> None:
    (file,) = (odd.workspace / "datasets").glob("*/captions.parquet")
    kept = dict(zip(*[pq.read_table(file).column(name).to_pylist() for name in ("id", "text")], strict=True))
    rejects = odd.rejects()
    for what, text in CAPTIONS.items():
        assert kept[f"{split} {what}.png 0"] == unicodedata.normalize("NFC", " ".join(text.split()))
    for what in EMPTY:
        assert rejects[f"{split} {what}.png 0"] == "caption without a word"
        assert rejects[f"{split} {what}.png"] == "image without a caption"
    for what in HALF:
        assert "surrogate" in rejects[f"{split} {what}.png 0"]


def test_any_number_of_captions(odd: Odd) -> None:
    (file,) = (odd.workspace / "datasets").glob("*/captions.parquet")
    owners = pq.read_table(file).column("image").to_pylist()
    assert [owners.count(f"captions {what}.png") for what in ("none", "one", "seven")] == [0, 1, 7]
    assert odd.rejects()["captions none.png"] == "image without a caption"


def test_nothing_is_lost(odd: Odd) -> None:
    """Every image of the file has features or a reason."""
    (folder,) = (odd.workspace / "features").glob("*/*")
    there = pq.read_table(folder / "index.parquet").column("image").to_pylist()
    (file,) = (odd.workspace / "datasets").glob("*/images.parquet")
    assert sorted([*there, *pq.read_table(folder / "rejects.parquet").column("image").to_pylist()]) == sorted(
        pq.read_table(file).column("id").to_pylist()
    )


@pytest.mark.slow
def test_features_that_are_no_numbers_and_a_server_in_trouble(tmp_path: Path) -> None:
    """A failing and an absent tracking server cost one warning each; what they did not get is sent later."""
    values = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    values[1, 3], values[4, 0], values[6, 5] = np.nan, np.inf, 1e30
    root = write_arrays(tmp_path / "Merkmale ü", train=values)
    given = ["--workspace", str(tmp_path / "workspace"), "--preset", "vsepp_tiny", "data=precomp"]
    given += [f"data.root={root}", "features.backbone=arrays"]
    job = ["train", *given]
    ((status, _, error),) = run_many([job], tmp_path)
    assert status == 2
    assert "train: of the first 8 of 16 images 3 cannot be read, more than max_rejected=0.05" in error.splitlines()[-1]
    ((status, _, error),) = run_many([["extract_features", *given, "extraction.max_rejected=0.2"]], tmp_path)
    assert status == 0, error
    assert "rejected train_000004: pooled: not finite in half precision" in error.splitlines()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = f"127.0.0.1:{listener.getsockname()[1]}"
    with serving(None) as failing:
        found = run_many(
            [
                [*job, "--tracking", f"http://{failing}", "seed=1"],
                [*job, "--tracking", f"http://{nobody}", "seed=2"],
                [*job, "seed=3"],
            ],
            tmp_path,
            variables={"MLFLOW_HTTP_REQUEST_TIMEOUT": "2"},
        )
    for (status, out, error), troubled in zip(found, (True, True, False), strict=True):
        assert status == 0, error
        assert json.loads(Path(out.splitlines()[-1]).read_text())["headline"]["epochs"] == 2
        warnings = [line for line in error.splitlines() if not line.startswith(PROGRESS)]
        assert [line.endswith("runs stay in their journals") for line in warnings] == [True] * troubled
    (store,) = (tmp_path / "workspace" / "features").glob("*/*/rejects.parquet")
    rejects = pq.read_table(store).to_pydict()
    assert rejects["image"] == ["train_000001", "train_000004", "train_000006"]
    large = "pooled: too large for half precision (65504); scale all features down"
    assert set(rejects["reason"]) == {"pooled: not finite in half precision", large}
    journals = [read(path) for path in (tmp_path / "workspace").glob("runs/*/journal.jsonl")]
    assert [story.status for story in journals] == ["finished"] * 3
    with closing(sqlite3.connect(tmp_path / "workspace" / "mlflow" / "mlflow.db")) as store:
        assert store.execute("SELECT count(*) FROM runs WHERE status = 'FINISHED'").fetchone() == (3,)
