"""Jobs on a workspace that nobody can write to end with one line."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.processes import run_without_ray

pytestmark = pytest.mark.process
TINY = ("train", "--preset", "vsepp_tiny")


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that even root cannot write to."""
    place = tmp_path / "read only"
    place.mkdir()
    for command in (["mount", "--bind", place, place], ["mount", "-o", "remount,ro,bind", place]):
        if subprocess.run(command, capture_output=True, check=False).returncode:
            subprocess.run(["umount", place], capture_output=True, check=False)
            pytest.skip("this machine lets nobody mount a folder read-only")
    yield place
    subprocess.run(["umount", place], check=True, capture_output=True)


@pytest.mark.slow
def test_an_unwritable_workspace(read_only: Path, tmp_path: Path) -> None:
    jobs = [[*TINY], ["extract_features", "--preset", "vsepp_tiny"], ["parse_captions", "--preset", "univse_tiny"]]
    found = run_without_ray([[*job, "--workspace", str(read_only / "workspace")] for job in jobs], tmp_path)
    for (job, *_), (status, out, error) in zip(jobs, found, strict=True):
        assert (status, out) == (2, ""), error
        assert len(error.splitlines()) == 1
        assert error.startswith(f"{job}: {read_only}/workspace")
        assert "cannot" in error
        assert "Read-only file system" in error
