"""What may be meant by a key or name that is not known: tried before it is told, and the jobs that have the key."""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

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


@functools.cache
def _jobs_with(key: str) -> tuple[str, ...]:
    """The jobs that have a key, among their own or, if they take a preset, those of run configurations."""
    import jobs
    from vse.presets import preset

    found = list[str]()
    for name in (each.name for each in pkgutil.iter_modules(jobs.__path__)):
        module = importlib.import_module(f"jobs.{name}")
        settings = [module.OPTIONS, *([preset(module.PRESET)] if hasattr(module, "PRESET") else [])]
        if any(has_key(each, key) for each in settings):
            found.append(name)
    return tuple(found)
