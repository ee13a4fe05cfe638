"""The Dockerfile: what it copies and installs, and its build steps in a clean Debian root."""

import fnmatch
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.cluster.image_build import Image, instructions, why_not
from tests.jobs.processes import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_it_copies_what_the_cluster_file_mounts() -> None:
    copied = {word for name, rest in instructions(DOCKERFILE) if name == "COPY" for word in rest.split()[:-1]}
    mounts = yaml.safe_load((ROOT / "cluster.yaml").read_text())["file_mounts"].values()
    assert copied == {local for local in mounts if not local.startswith("~")}


def test_the_context_holds_what_it_copies_and_nothing_else() -> None:
    """`.dockerignore` leaves everything out except the names behind `!`."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    copied = {word for name, rest in instructions(DOCKERFILE) if name == "COPY" for word in rest.split()[:-1]}
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == copied
    assert any(fnmatch.fnmatch("platform/vse/__pycache__", line) for line in lines[-2:])


def test_versions_are_held_and_no_index_is_named() -> None:
    installs = [rest for name, rest in instructions(DOCKERFILE) if name == "RUN" and "pip install " in rest]
    assert len(installs) == 2
    assert all("-c constraints.txt" in rest for rest in installs)
    assert not re.search(r"https?://", DOCKERFILE)
    assert [rest for name, rest in instructions(DOCKERFILE) if name == "USER"] == ["vse"]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(3600)
@pytest.mark.skipif(bool(why_not()), reason=why_not() or "an image can be built")
def test_its_steps_build_an_image_in_which_jobs_run(tmp_path: Path) -> None:
    """The user of the image trains in it; a build that asks for the other kind of torch ends with one line."""
    image = Image(tmp_path / "root")
    try:
        image.build(DOCKERFILE)
        assert image.run("id -un").strip() == "vse"
        assert image.run("vse --version").strip() == image.run("python -c 'import vse; print(vse.__version__)'").strip()
        pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
        installed = image.run("python -m pip list --format freeze --disable-pip-version-check").split()
        versions = dict(line.split("==") for line in installed)
        known = {re.sub("[-_.]+", "-", name).lower(): version for name, version in pins.items()}
        other = {
            name: version
            for name, version in versions.items()
            if known.get(re.sub("[-_.]+", "-", name).lower(), version) != version
        }
        assert other == {}
        assert "ray, version 2.60.0" in image.run("ray --version")
        image.run("vse train --preset vsepp_tiny train.epochs=1 --workspace /home/vse/w ray.address=local")
        check = next(rest for name, rest in instructions(DOCKERFILE) if name == "RUN" and "torch.version.cuda" in rest)
        with pytest.raises(AssertionError, match="ACCELERATOR=other: pip installed torch"):
            image.run(check.replace('ACCELERATOR="$ACCELERATOR"', "ACCELERATOR=other"))
    finally:
        shutil.rmtree(tmp_path / "root", ignore_errors=True)
