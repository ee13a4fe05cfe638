"""Jobs in a workspace on S3, as users run them, while the server has its troubles."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import s3
from tests.jobs.processes import run, summary_of
from vse.storage.folder import Folder

TINY = ("--preset", "vsepp_tiny", "data.num_train=40", "data.num_val=10", "data.num_test=10", "data.num_shifted=0")


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[s3.Proxy]:
    monkeypatch.setenv("HOME", str(tmp_path))  # where this machine's cache is
    with s3.server() as place, s3.proxied(place) as found:
        yield found


def troubles(seed: int, number: int) -> list[tuple[str, tuple[int, bytes] | str]]:
    """Faults of every kind that passes, one after the other."""
    drawn = random.Random(seed)
    kinds = (s3.error(503, "SlowDown"), s3.error(500, "InternalError"), "drop", "lose")
    found: list[tuple[str, tuple[int, bytes] | str]] = []
    for _ in range(number):
        found += [("PUT", drawn.choice(kinds)), ("GET", drawn.choice((*kinds[:3], "truncate")))]
    return found


@pytest.mark.slow
def test_training_there_equals_training_here(proxy: s3.Proxy, tmp_path: Path) -> None:
    here = summary_of(run("train", tmp_path / "here", *TINY))
    proxy.faults = troubles(0, 5)
    result = run("train", s3.address(proxy.place), *TINY, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert proxy.faults == []
    *_, name, _ = result.stdout.splitlines()[-1].split("/")
    there = Folder.open(s3.address(proxy.place)).child("runs", name).read_json("summary.json")
    assert there["headline"] == here["headline"]
    assert len(proxy.seen) < 200  # requests cost money and time


@pytest.mark.slow
def test_credentials_that_expire_end_a_job_in_one_line_and_lose_nothing(proxy: s3.Proxy, tmp_path: Path) -> None:
    expired = s3.error(400, "ExpiredToken")
    place = s3.address(proxy.place, "expired")  # servers of one process share their buckets
    before = run("extract_features", place, *TINY, folder=tmp_path)
    assert before.returncode == 0, before.stderr
    proxy.faults = [*[("PUT", "")] * 4, *[("PUT", expired)] * 40]
    result = run("train", place, *TINY, folder=tmp_path)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert "the credentials have expired; renew them; finished work is kept, and the same command continues" in last
    assert "Traceback" not in result.stderr
    proxy.faults = []
    again = run("train", place, *TINY, folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "features:" not in again.stderr  # what was extracted is there


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_sweep_there_can_be_run_again(proxy: s3.Proxy, tmp_path: Path) -> None:
    space = tmp_path / "few.py"
    space.write_text("from ray import tune\nSPACE = {'objective.margin': tune.grid_search([0.1, 0.2])}\n")
    asked = (s3.address(proxy.place, "swept"), *TINY, "train.epochs=1", f"sweep.space={space}")
    first, again = (run("sweep_margin", *asked, folder=tmp_path) for _ in range(2))
    for result in (first, again):
        assert result.returncode == 0, result.stderr
    assert again.stdout.splitlines()[-1] == first.stdout.splitlines()[-1]
    assert "nothing is left to do" in again.stderr
