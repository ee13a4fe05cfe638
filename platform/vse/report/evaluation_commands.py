"""The commands that repeat the evaluations of a run, from the tasks and options that are kept with its numbers."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vse.config import dotted, to_dict, typed
from vse.evaluation import tasks
from vse.stages.measuring.options import MeasureOptions
from vse.workspace.redaction import redact_text

_DEVICE = "device"  # where it was computed, which changes no number


def evaluation_commands(
    run: str, evaluations: Iterable[tuple[str, Mapping[str, Any]]], elsewhere: Sequence[str] = ()
) -> list[str]:
    """The commands of jobs/evaluate.py that measure a run as it was measured.

    Tasks share a command if the keys that all tasks have are equal.

    Args:
        run: Name of the run.
        evaluations: (task, options) of each evaluation, as `RunNumbers.evaluations` gives them.
        elsewhere: Arguments that name the workspace.

    Returns:
        One command or more, with the keys that differ from their defaults. Without evaluations, the command that
        measures the default tasks.
    """
    joined = list[tuple[dict[str, Any], dict[str, dict[str, Any]]]]()
    for task, options in evaluations:
        common, own = _changed(task, options)
        for keys, of_tasks in joined:
            if keys == common and of_tasks.get(task, own) == own:
                of_tasks[task] = own
                break
        else:
            joined.append((common, {task: own}))
    return [_command(run, keys, of_tasks, elsewhere) for keys, of_tasks in joined or [({}, {})]]


def _changed(task: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keys that differ from their defaults: those of all tasks, and those of this task."""
    defaults = dotted(to_dict(MeasureOptions()))
    changed = {
        key: value
        for key, value in dotted(options).items()
        if key != _DEVICE and key in defaults and value != defaults[key]
    }
    own = {key: value for key, value in changed.items() if key.startswith(f"{task}.")}
    return {key: value for key, value in changed.items() if key not in own}, own


def _command(
    run: str, common: Mapping[str, Any], of_tasks: Mapping[str, Mapping[str, Any]], elsewhere: Sequence[str]
) -> str:
    parts = ["python", "jobs/evaluate.py", f"run={run}"]
    named = [name for name in tasks.names() if name in of_tasks]
    if named and named != list(tasks.DEFAULT):
        parts.append(f"tasks={','.join(named)}")
    for keys in (common, *(of_tasks[name] for name in named)):
        parts += [f"measure.{key}={typed(value)}" for key, value in keys.items()]
    return shlex.join([*map(redact_text, parts), *elsewhere])
