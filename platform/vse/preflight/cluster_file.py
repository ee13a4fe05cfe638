"""A cluster file against Ray's own schema and our lint; no network, no cloud."""

import contextlib
import copy
import io
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from vse.cluster import ray_private
from vse.errors import InputError, first_line
from vse.preflight.checks import Check
from vse.preflight.lint import part, problems
from vse.storage.paths import local_path


def read_cluster_file(path: str) -> dict[str, Any]:
    """The file as written. Raises InputError where it cannot be read."""
    import yaml

    try:
        config = yaml.safe_load(local_path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cluster={path}: {getattr(error, 'strerror', None) or error}") from None
    except yaml.YAMLError as error:
        raise InputError(f"cluster={path}: not YAML ({' '.join(str(error).split())})") from None
    if not isinstance(config, dict):
        raise InputError(f"cluster={path}: expected a mapping of settings, found {type(config).__name__}")
    return config


def check_cluster_file(config: Mapping[str, Any], path: str) -> list[Check]:
    """Schema, then lint; the files it mounts and its pins are looked for beside it."""
    root = local_path(path).resolve().parent
    wrong = _schema(config)
    checks = [Check("schema of Ray", path, "problem" if wrong else "ok", wrong or f"Ray {metadata.version('ray')}")]
    constraints = root / "constraints.txt"
    pins = constraints.read_text(encoding="utf-8") if constraints.exists() else ""
    found = list(problems(config, root=root, ray_version=metadata.version("ray"), constraints=pins))
    checks += [Check("lint", path, "problem", problem) for problem in found]
    return (
        checks if found else [*checks, Check("lint", path, "ok", "pins, images, profiles, addresses, mounts, limits")]
    )


def check_token(config: Mapping[str, Any]) -> list[Check]:
    """Whether the token that the file sends to the nodes is on this machine; `ray up` needs it."""
    tokens = [local for local in map(str, part(config, "file_mounts").values()) if local.endswith("auth_token")]
    found = []
    for token in tokens:
        place = local_path(token)
        good = place.is_file() and place.stat().st_size > 0
        wrong = f"{token}: missing or empty; `ray get-auth-token --generate` makes it"
        found.append(Check("token", "this machine", "ok" if good else "problem", token if good else wrong))
    return found


def _schema(config: Mapping[str, Any]) -> str:
    """What Ray says against it, in one line; empty where it is content."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            ray_private.check_cluster_file(copy.deepcopy(dict(config)))
        except Exception as error:  # a schema error, or whatever a provider makes of nonsense
            return first_line(error)
    return ""
