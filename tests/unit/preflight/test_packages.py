"""The first setup command of cluster.yaml, run as a node runs it, with a system's installer that is busy at first."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
SUDO = """#!/bin/bash
echo "$*" >> {home}/asked
case "$*" in *update*) [ $(grep -c update {home}/asked) -gt {busy} ] ;; esac
"""


def ran(home: Path, busy: int) -> tuple[int, list[str]]:
    """(exit status, what was asked of the installer) where the lists are locked for so many times."""
    home.mkdir()
    for name, text in {
        "sudo": SUDO.format(home=home, busy=busy),
        "sleep": "#!/bin/bash\n",
        "python3": "#!/bin/bash\nexit 1\n",
    }.items():
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    for name in ("seq", "grep"):
        os.symlink(f"/usr/bin/{name}", home / name)
    (command, *_) = yaml.safe_load((ROOT / "cluster.yaml").read_text())["setup_commands"]
    done = subprocess.run(["/bin/bash", "-c", command], env={"PATH": str(home)}, check=False)
    return done.returncode, [
        " ".join(w for w in line.split() if w in ("update", "install"))
        for line in (home / "asked").read_text().splitlines()
    ]


@pytest.mark.process
def test_a_node_that_updates_itself_at_its_start_is_waited_for(tmp_path: Path) -> None:
    """`apt-get update` does not wait for the lists' lock, whatever it is told of dpkg's."""
    assert ran(tmp_path / "free", 0) == (0, ["update", "install"])
    assert ran(tmp_path / "busy", 3) == (0, ["update"] * 4 + ["install"])
