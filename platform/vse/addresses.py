"""Where a command reads and writes, checked before it works and by its dry run: files, workspace, MLflow's address."""

import os
from pathlib import Path
from typing import Any

from vse import named_files
from vse.config import walk
from vse.errors import InputError
from vse.paths import local_path
from vse.storage import Folder
from vse.tracking.shipping import tracking_uri
from vse.workspace import Workspace


def check_addresses(options: Any, workspace: str, tracking: str | None, *, foresees: bool) -> None:
    """Look for what a job's own options name, and whether the workspace can be reached; nothing is written.

    Args:
        options: of the job, None where it has none.
        workspace: its path or address.
        tracking: MLflow's address as the user gave it, None for the default.
        foresees: whether the workspace is looked at too, which a job itself tries by writing.

    Raises:
        InputError: an address cannot be meant, a file is missing, or a place cannot be written to.
    """
    tracking_uri(workspace, tracking)
    root = Workspace.open(workspace).root
    if foresees and root.is_local:
        _can_be_made(root.local(), "folder", f"--workspace {workspace}")
    elif foresees:
        root.exists()  # asks the store, which refuses an unknown bucket and bad credentials
    for key, spec, _, value in walk(options) if options is not None else ():
        for path in value if isinstance(value, tuple) else (value,):
            if path and spec.metadata.get("reads"):
                _is_there(path, spec.metadata["reads"], f"{key}={path}")
            if path and spec.metadata.get("writes") and not named_files.is_remote(path):
                _can_be_made(local_path(path).absolute(), spec.metadata["writes"], f"{key}={path}")


def _is_there(path: str, kind: str, asked: str) -> None:
    if kind == "file":
        there = named_files.is_file(path)
    else:
        there = Folder.open(path).exists() if named_files.is_remote(path) else local_path(path).is_dir()
    if not there:
        raise InputError(f"{asked}: no such {kind}")


def _can_be_made(place: Path, kind: str, asked: str) -> None:
    """Whether this process may write there, as far as the nearest of its folders that exists tells."""
    if place.is_dir() and kind == "file":
        raise InputError(f"{asked}: is a folder; name a file in it")
    there = place
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir() and (there != place or kind == "folder"):
        raise InputError(f"{asked}: {there} is no folder")
    if not os.access(there, os.W_OK):
        raise InputError(f"{asked}: {there} cannot be written to")
