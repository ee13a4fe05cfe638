"""The notebooks of the documentation run, and their committed outputs are those of their cells."""

import itertools
from pathlib import Path

import pytest

from tests.notebooks import NOTEBOOKS, execute, read

LARGEST = 500_000  # bytes of a notebook with its outputs


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_outputs_are_complete_and_small(notebook: Path):
    content = read(notebook)
    cells = [cell for cell in content.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)
    assert notebook.stat().st_size < LARGEST


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(notebook: Path, tmp_path: Path):
    """Every cell, in an empty folder; each gives outputs of the same kinds as those in the file."""
    kept, run = read(notebook), execute(notebook, tmp_path)
    for before, after in zip(kept.cells, run.cells, strict=True):
        outputs = [[output.output_type for output in cell.get("outputs", ())] for cell in (before, after)]
        kinds = [[kind for kind, _ in itertools.groupby(each)] for each in outputs]  # prints come in parts
        assert kinds[0] == kinds[1], before.source
