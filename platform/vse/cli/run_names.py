"""Runs and sweeps of a workspace as users name them in options: by name, or by a path that a job printed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from vse.storage.paths import local_path
from vse.workspace.layout import Workspace
from vse.workspace.summary import summarised

FOLDERS = {"run": "runs", "runs": "runs", "sweep": "sweeps"}  # options that name folders of the workspace


def _named(options: Any) -> dict[str, tuple[str, ...]]:
    """Option -> the runs or sweeps of the workspace that it names."""
    values = {key: getattr(options, key, None) for key in FOLDERS}
    return {k: (v,) if isinstance(v, str) else v for k, v in values.items() if isinstance(v, str | tuple)}


def by_name(options: Any, workspace: str) -> Any:
    """The options with names where the user gave paths of runs or sweeps, such as the line a job printed last."""
    changes: dict[str, Any] = {}
    for key, given in _named(options).items():
        names = tuple(_name(workspace, FOLDERS[key], each) for each in given)
        changes[key] = names if isinstance(getattr(options, key), tuple) else names[0]
    return replace(options, **changes) if changes else options


def _name(workspace: str, kind: str, given: str) -> str:
    path, root = (text.partition("?")[0] if "://" in text else text for text in (given, workspace))
    head, slash, name = summarised(path).rpartition("/")
    if not slash:
        return given
    if "://" in root:
        return name if head in (kind, f"{root}/{kind}") else given
    there = local_path(head.removeprefix("file://"))
    return name if str(there) == kind or there.resolve() == Path(root) / kind else given


def are_there(options: Any, workspace: str) -> list[str]:
    """The options whose runs or sweeps were found in the workspace. Raises InputError as the job itself would."""
    place, found = Workspace.open(workspace), []
    for key, names in _named(options).items():
        for name in names or ("",):
            if name or key == "run":  # a job on one kind of thing needs it; others take one or the other
                place.existing(FOLDERS[key], name, key)
                found.append(f"{key}={name}")
    return found
