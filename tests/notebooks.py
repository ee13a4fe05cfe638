"""Executes the notebooks of `docs/notebooks`. `python -m tests.notebooks` writes their outputs into the files."""

import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))
SECONDS = 600  # limit for one cell


def read(notebook: Path) -> nbformat.NotebookNode:
    """The notebook of a file."""
    content: Any = nbformat.read(notebook, as_version=4)  # nbformat declares no types
    return content


def execute(notebook: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs, after running in a folder. Progress lines and times are left out.

    Args:
        notebook: The file to run, which is not changed.
        folder: Where its workspace is created.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raised an exception.
    """
    content = read(notebook)
    NotebookClient(content, timeout=SECONDS, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in content.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    return content


if __name__ == "__main__":
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as made_in:
            nbformat.write(execute(path, Path(made_in)), path)
