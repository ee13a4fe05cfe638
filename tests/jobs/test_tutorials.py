"""A reader who copies the commands of the README and the tutorials, one block after the other, gets to the end."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import photographs
from tests.documents import ROOT, blocks
from tests.jobs.processes import environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
SKIPPED = re.compile(r"^(?:make |\. \.venv/).*$", re.MULTILINE)  # installs, opens servers, or has a test of its own
SHIM = f"""#!{sys.executable}
import sys
from vse.cli.main import main
sys.exit(main())
"""


def photographs_in(folder: Path) -> None:
    """Forty pictures with a table of captions, as the tutorial describes them."""
    draw, rows = np.random.default_rng(0), ["image,caption"]
    folder.mkdir()
    for number in range(40):
        Image.fromarray(draw.integers(0, 256, (60, 80, 3), dtype=np.uint8)).save(folder / f"{number}.jpg")
        rows += [f'{number}.jpg,"{caption}"' for caption in photographs.captions_of(number)]
    (folder / "captions.csv").write_text("\n".join(rows))


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/tutorials/first-run.md",
        "docs/tutorials/your-own-photographs.md",
        "docs/tutorials/first-sweep.md",
    ],
)
def test_the_commands_work_as_written(page: str, tmp_path: Path) -> None:
    photographs_in(tmp_path / "photographs")
    (tmp_path / "bin").mkdir()
    shim = tmp_path / "bin" / "vse"
    shim.write_text(SHIM)
    shim.chmod(0o755)
    script = "\n".join(block.source for block in blocks(ROOT / page, "sh") if block.executed)
    script = re.sub(r"^ray submit .*$", "", SKIPPED.sub("", script), flags=re.MULTILINE)
    names = {**environment(), "HOME": str(tmp_path), "VSE_WORKSPACE": str(tmp_path / "workspace")}
    names |= {"PHOTOS": str(tmp_path / "photographs"), "PATH": f"{tmp_path / 'bin'}{os.pathsep}{names['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, env=names, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
