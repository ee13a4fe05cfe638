"""Checks of the files, workspace, MLflow, runs and sweeps that a command names, before it starts and in a dry run."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vse.config import flatten, override, walk
from vse.errors import InputError
from vse.storage import user_files as named_files
from vse.storage.files import local_path
from vse.storage.folder import Folder
from vse.tracking.shipping import tracking_uri
from vse.workspace.layout import Workspace
from vse.workspace.provenance import summarised
from vse.workspace.redaction import redact

DEFAULT_WORKSPACE = "workspace"  # results go here by default


def check_addresses(options: Any, workspace: str, tracking: str | None, *, foresees: bool) -> None:
    """Check the paths of a job's own options, and whether the workspace can be reached; nothing is written.

    Args:
        options: of the job, None if it has none.
        workspace: its path or address.
        tracking: MLflow's address as the user gave it, None for the default.
        foresees: whether the workspace is checked too, as in a dry run; a job fails when it first writes.

    Raises:
        InputError: an address is invalid, a file is missing, or a folder cannot be written to.
    """
    tracking_uri(workspace, tracking)
    root = Workspace.open(workspace).root
    if foresees and root.is_local:
        _check_writable(root.local(), "folder", f"--workspace {workspace}")
    elif foresees:
        root.exists()  # asks the store, which refuses an unknown bucket and bad credentials
    for key, spec, _, value in walk(options) if options is not None else ():
        for path in value if isinstance(value, tuple) else (value,):
            if path and spec.metadata.get("reads"):
                _check_exists(path, spec.metadata["reads"], f"{key}={path}")
            if path and spec.metadata.get("writes") == "file" and named_files.is_remote(path):
                raise InputError(f"{key}={path}: name a local file; it can be copied there afterwards")
            if path and spec.metadata.get("writes") and not named_files.is_remote(path):
                _check_writable(local_path(path).absolute(), spec.metadata["writes"], f"{key}={path}")


def _check_exists(path: str, kind: str, setting: str) -> None:
    if kind == "file":
        exists = named_files.is_file(path)
    else:
        exists = Folder.open(path).exists() if named_files.is_remote(path) else local_path(path).is_dir()
    if not exists:
        raise InputError(f"{setting}: no such {kind}")


def _check_writable(path: Path, kind: str, setting: str) -> None:
    """Raises InputError unless this process may create `path`, by the nearest folder above it that exists."""
    if path.is_dir() and kind == "file":
        raise InputError(f"{setting}: is a folder; name a file in it")
    nearest = path
    while not os.path.lexists(nearest):
        nearest = nearest.parent
    if not nearest.is_dir() and (nearest != path or kind == "folder"):
        raise InputError(f"{setting}: {nearest} is not a folder")
    if not os.access(nearest, os.W_OK):
        raise InputError(f"{setting}: {nearest} cannot be written to")


def workspace_address(given: str | None) -> str:
    """The workspace of a command as one address: `given`, else $VSE_WORKSPACE, else the default folder.

    Raises InputError for an address that cannot be one, or that holds a credential.
    """
    if given is not None and not given.strip():
        raise InputError("--workspace: is empty; expected a folder or s3://bucket/prefix")
    where = given or os.environ.get("VSE_WORKSPACE") or DEFAULT_WORKSPACE
    refuse_undecodable(where)
    if re.match(r"^[a-zA-Z][\w+.-]*://", where) and not where.startswith("file://"):
        refuse_credentials({"--workspace": where})
        if not re.match(r"[\w+.-]+://[^/?]", where):
            raise InputError(f"--workspace {where}: names no bucket; expected s3://bucket/prefix")
        return where.rstrip("/")
    if "?" in where:  # where options of S3 addresses begin
        raise InputError(f"--workspace {where}: the path of a workspace cannot have a '?'")
    return str(local_path(where.removeprefix("file://")).resolve())


def refuse_credentials(settings: Mapping[str, Any]) -> None:
    """Raises InputError if a setting or address holds a credential, since runs write both into their files."""
    for (key, value), shown in zip(settings.items(), redact([*settings.values()]), strict=True):
        if shown == (list(value) if isinstance(value, tuple) else value):
            continue
        raise InputError(
            f"{key}: holds a credential, which would be written with the results; give it in the environment "
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


# key -> folder of the workspace
FOLDERS = {
    "run": "runs",
    "runs": "runs",
    "sweep": "sweeps",
    "sweep.warm_start": "sweeps",
    "train.warm_start": "runs",
}


def _named(settings: Any) -> dict[str, tuple[str, ...]]:
    """Key -> the runs or sweeps of the workspace that it names."""
    values = flatten(settings) if settings is not None else {}
    named = {key: values[key] for key in FOLDERS if key in values}
    return {key: (value,) if isinstance(value, str) else value for key, value in named.items()}


def by_name(settings: Any, workspace: str) -> Any:
    """A job's options or a run's configuration, with paths of runs or sweeps, such as a job prints, made names.

    Raises InputError if a key names one of them twice.
    """
    changes = dict[str, Any]()
    for key, given in _named(settings).items():
        names = tuple(_name(workspace, FOLDERS[key], each) for each in given)
        if again := [name for place, name in enumerate(names) if name in names[:place]]:
            raise InputError(f"{key}: {again[0]} is named twice")
        if names != given:
            changes[key] = ",".join(names)
    return override(settings, changes) if changes else settings


def _name(workspace: str, kind: str, given: str) -> str:
    path, root = (text.partition("?")[0] if "://" in text else text for text in (given, workspace))
    head, slash, name = summarised(path).rpartition("/")
    if not slash:
        return given
    if "://" in root:
        return name if head in (kind, f"{root}/{kind}") else given
    folder = local_path(head.removeprefix("file://"))
    return name if str(folder) == kind or folder.resolve() == Path(root) / kind else given


def existing_names(options: Any, workspace: str) -> list[str]:
    """The settings that name runs or sweeps of the workspace. Raises InputError if one does not exist."""
    space, settings = Workspace.open(workspace), []
    for key, names in _named(options).items():
        for name in names or ("",):
            if name or key == "run":  # `run` is required, the others are not
                space.existing(FOLDERS[key], name, key)
                settings.append(f"{key}={name}")
    return settings
