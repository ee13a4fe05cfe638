"""What may be meant by a key or name that is not known: tried before it is told, and the jobs that have the key."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vse.cli.main import listed_jobs
from vse.config import A_KEY_OF, has_key
from vse.errors import PRESET, Hint, InputError, UnknownError

Attempt = Callable[[str | None, Mapping[str, Any]], object]
"""The command with this preset and these changes, as far as settings can be checked; raises InputError."""


def tried(
    error: UnknownError, job: str, preset: str | None, changes: Mapping[str, Any], attempt: Attempt
) -> InputError:
    """The error with those hints that the same command accepts, and with the other jobs that have the key.

    Args:
        error: of the command with `preset` and `changes`.
        job: the name of the job that was started.
        preset: what `--preset` names, None where the job takes none.
        changes: dotted keys with their values, as they were typed.
        attempt: the command with others.
    """
    if error.key != PRESET and error.key not in changes:
        return error  # a key of a file, or of the settings behind a name

    def accepted(instead: Mapping[str, Any]) -> bool:
        other = {key: value for key, value in changes.items() if key != error.key}
        if other.keys() & instead.keys():
            return False  # it would be given twice
        try:
            attempt(instead.get(PRESET, preset), other | {k: v for k, v in instead.items() if k != PRESET})
        except InputError:
            return False
        return True

    is_key = error.what == f"{error.key}: no such key"
    elsewhere = (
        [Hint(f"jobs/{name}.py", {}, A_KEY_OF) for name in _jobs_with(error.key) if name != job] if is_key else []
    )
    return error.keeping(accepted, elsewhere)


def _jobs_with(key: str) -> list[str]:
    """The jobs that have a key, among their own or, if they take a preset, those of run configurations."""
    from vse.presets import preset

    of_runs = functools.cache(lambda name: has_key(preset(name), key))  # several take the same one

    def is_own(keys: Sequence[str]) -> bool:
        return key in keys or any(f"{key}.".startswith(each) for each in keys if each.endswith("."))

    return [
        name for name, job in listed_jobs().items() if is_own(job["keys"]) or (job["preset"] and of_runs(job["preset"]))
    ]
