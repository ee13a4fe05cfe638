"""What a search learns from another, finished sweep before its own first trial."""

from typing import Any

from vse.config import canonical, fingerprint, flatten, override
from vse.errors import InputError
from vse.presets import from_data
from vse.sweeps.ledger import DEFINITION, Ledger, definition_of
from vse.sweeps.plan import MATERIAL, SEED, SweepPlan
from vse.sweeps.space import placements
from vse.training.config import RunConfig, identity
from vse.workspace.layout import Workspace


def warm_points(plan: SweepPlan, workspace: Workspace) -> list[tuple[dict[str, Any], float]]:
    """(point, value) of the finished points of another sweep that lie in this one's space.

    Raises InputError where there is no such sweep, or its runs differ in more than what either sweep searches.
    """
    name = plan.options.warm_start
    folder = workspace.existing("sweeps", name, "sweep.warm_start")
    theirs = definition_of(folder)
    if not isinstance(theirs, dict) or not isinstance(theirs.get("config", {}), dict):
        raise InputError(f"sweep.warm_start={name}: {folder}/{DEFINITION} is missing or damaged")
    if theirs.get("kind") != "objective" or theirs.get("objective") != plan.options.objective:
        found = theirs.get("objective", "nothing")
        raise InputError(f"sweep.warm_start={name}: maximises {found}, this sweep {plan.options.objective}")
    base = flatten(identity(plan.config))
    other = from_data(theirs.get("config", {}), f"{folder}/{DEFINITION}")
    for key, value in flatten(other).items():
        if key not in plan.space.keys and base.get(key, value) != value:
            raise InputError(f"sweep.warm_start={name}: its runs have {key}={value}, these {base.get(key)}")
    values: dict[str, list[float]] = {}
    points: dict[str, dict[str, Any]] = {}
    for entry in Ledger(folder):
        if entry.state == "finished" and not entry.stopped and "objective" in entry.result:
            point = _here(plan, other, {k: v for k, v in entry.changes.items() if k not in (SEED, MATERIAL)})
            if point is not None:
                points.setdefault(fingerprint(point), point)
                values.setdefault(fingerprint(point), []).append(entry.result["objective"])
    return [(points[key], sum(found) / len(found)) for key, found in values.items()]


def _here(plan: SweepPlan, other: RunConfig, point: dict[str, Any]) -> dict[str, Any] | None:
    """A point of another sweep as one of this space, completed by that sweep's own configuration; None outside it, or
    where that sweep searched something that is fixed here and not so."""
    space, base = plan.space, flatten(identity(plan.config))
    whole = flatten(override(other, point))
    if any(base.get(key, value) != value for key, value in whole.items() if key not in space.keys):
        return None
    for changes in (point, {key: canonical(whole[key]) for key in space.keys if key in whole}):
        if any(True for _ in placements(space.domains, changes)):
            return changes
    return None
