"""What a command names, checked before it works and by its dry run: files, workspace, MLflow, runs and sweeps."""

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from vse.config import walk
from vse.errors import InputError
from vse.storage import user_files as named_files
from vse.storage.files import local_path
from vse.storage.folder import Folder
from vse.tracking.shipping import tracking_uri
from vse.workspace.layout import Workspace
from vse.workspace.provenance import summarised
from vse.workspace.redaction import redact

DEFAULT_WORKSPACE = "workspace"  # where results go if nothing else is said


def check_addresses(options: Any, workspace: str, tracking: str | None, *, foresees: bool) -> None:
    """Look for what a job's own options name, and whether the workspace can be reached; nothing is written.

    Args:
        options: of the job, None if it has none.
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


def workspace_address(given: str | None) -> str:
    """The workspace of a command as one address: what is given, else $VSE_WORKSPACE, else the default folder.

    Raises InputError for an address that cannot be one, or that holds a credential.
    """
    if given is not None and not given.strip():
        raise InputError("--workspace: is empty; expected a folder or s3://bucket/prefix")
    where = given or os.environ.get("VSE_WORKSPACE") or DEFAULT_WORKSPACE
    refuse_undecodable(where)
    if re.match(r"^[a-zA-Z][\w+.-]*://", where) and not where.startswith("file://"):
        refuse_credential("--workspace", where)
        if not re.match(r"[\w+.-]+://[^/?]", where):
            raise InputError(f"--workspace {where}: names no bucket; expected s3://bucket/prefix")
        return where.rstrip("/")
    if "?" in where:  # where options of S3 addresses begin
        raise InputError(f"--workspace {where}: the path of a workspace cannot have a '?'")
    return str(local_path(where.removeprefix("file://")).resolve())


def refuse_credential(key: str, value: Any) -> None:
    """Raises InputError if a setting or address holds a credential, since runs write both into their files."""
    if redact(value) != (list(value) if isinstance(value, tuple) else value):
        raise InputError(
            f"{key}: holds a credential, which would be written beside the results; give it in the environment "
            "(AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3://)"
        )


def refuse_undecodable(argument: str) -> None:
    """Raises InputError for an argument that this locale cannot decode, since settings are written as UTF-8."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{argument}: is not text in this locale's encoding ({sys.getfilesystemencoding()}); "
            "with LC_ALL=C.UTF-8 arguments are read as UTF-8"
        ) from None


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
