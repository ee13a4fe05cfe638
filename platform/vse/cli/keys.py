"""The keys of `--help`, and suggestions for unknown keys and names, which the same command accepts."""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vse import registry
from vse.cli.main import listed_jobs
from vse.config import A_KEY_OF, flatten, groups, names_of, type_name, walk
from vse.errors import PRESET, Hint, InputError, UnknownError

Attempt = Callable[[str | None, Mapping[str, Any]], object]
"""Checks the settings of the command with a preset and changes; raises InputError."""


def tried(
    error: UnknownError, job: str, preset: str | None, changes: Mapping[str, Any], attempt: Attempt
) -> InputError:
    """The error with only the hints that the same command accepts, and with other jobs that have the key.

    Args:
        error: of the command with `preset` and `changes`.
        job: name of the job that was started.
        preset: value of `--preset`; None if the job takes none.
        changes: dotted keys and values as typed.
        attempt: checks the command with another preset and other changes.
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

    jobs = _jobs_with(error.key) if error.what == f"{error.key}: no such key" else []
    # A key that this job has too is one of another component, which other jobs would refuse with the same settings.
    elsewhere = [] if job in jobs else [Hint(f"jobs/{name}.py", {}, A_KEY_OF) for name in jobs]
    return error.keeping(accepted, elsewhere)


def _jobs_with(key: str) -> list[str]:
    """The jobs that have a key in their options or, with a preset, in the run configuration."""
    from vse.presets import preset

    def is_own(keys: Sequence[str]) -> bool:
        return key in keys or any(f"{key}.".startswith(each) for each in keys if each.endswith("."))

    return [
        name
        for name, job in listed_jobs().items()
        if is_own(job["keys"]) or (job["preset"] and has_key(preset(job["preset"]), key))
    ]


@functools.cache  # several jobs take the same preset
def has_key(config: Any, key: str) -> bool:
    """Whether a configuration has a key, with the components that are configured or with others."""
    if key in flatten(config) or key in groups(config):
        return True
    for chosen, spec, _, _ in walk(config):
        rest = key.removeprefix(f"{chosen}.")
        if "kind" in spec.metadata and rest != key:
            kind = spec.metadata["kind"]
            return any(has_key(registry.component(kind, name).Config(), rest) for name in registry.names(kind))
    return False


def help_lines(config: Any) -> list[str]:
    """One line per key: name, type, default, documentation; what `--help` prints. Groups with names have one too."""
    lines, seen = list[str](), set[str]()
    for key, spec, hint, value in walk(config):
        above = key.rpartition(".")[0]
        if above not in seen and (named := names_of(config, above.split("."))):
            lines.append(f"  {above}  [{' or '.join(named)}] a named set of the keys below, which may follow it")
        seen.add(above)
        choices = spec.metadata.get("choices")
        kind = " or ".join(map(str, choices)) if choices else type_name(hint)
        if "kind" in spec.metadata:
            kind = " or ".join(registry.names(spec.metadata["kind"]))
        if spec.metadata.get("below"):
            kind, value = "a string, and keys below", value or ""
        if spec.metadata.get("repeated"):
            kind = "a string; may be given several times"
        lines.append(f"  {key}={json.dumps(_six_digits(value))}  [{kind}] {spec.metadata.get('doc', '')}".rstrip())
    return lines


def _six_digits(value: Any) -> Any:
    """Floats with six digits, also in a tuple; files keep every digit."""
    if isinstance(value, tuple):
        return tuple(map(_six_digits, value))
    return float(f"{value:.6g}") if isinstance(value, float) else value
