"""Settings that do nothing: a key declares what else must be set for it to have an effect (`knob(only=...)`).

`only` is one condition or several: `pooling=maxk`, `structure=pool|attention`, `eta_o>0`, `text.word_vectors!=`. All
conditions between spaces must hold, or all of another set after ` or `. A name without a dot is a key of the same
group, and its condition holds if the group has no such key. A name with a dot, and `model` and `objective`, are keys of
the run. Keys of steps are computed here instead: they have no effect on a family that is not trained by steps.
"""

import operator
import re
from collections.abc import Iterable, Mapping
from typing import Any

from vse import registry
from vse.config import flatten, typed, walk
from vse.errors import InputError
from vse.training.config import RunConfig

_CONDITION = re.compile(r"([\w.]+)(!=|=|>|<)(.*)")
_OF_STEPS = re.compile(
    r"(optim|objective)\..*|train\.(epochs|batch_size|select|unpaired|window|patience|evaluate_every)"
)
_COMPARISONS = {">": operator.gt, "<": operator.lt}


def unmet(only: str, group: str, leaves: Mapping[str, Any]) -> tuple[str, str] | None:
    """The key and the condition of the first requirement that does not hold; None if a set of conditions holds.

    Args:
        only: the conditions.
        group: the group of the key that has them, as `model`.
        leaves: value of every key of the run.
    """
    first = None
    for alternative in filter(None, only.split(" or ")):
        broken = next(filter(None, (_broken(each, group, leaves) for each in alternative.split())), None)
        if broken is None:
            return None
        first = first or broken
    return first


def _broken(condition: str, group: str, leaves: Mapping[str, Any]) -> tuple[str, str] | None:
    match = _CONDITION.fullmatch(condition)
    assert match is not None, condition
    name, sign, wanted = match.groups()
    of_run = "." in name or name in leaves
    key = name if of_run else f"{group}.{name}"
    if key not in leaves:
        return (key, f"{key}{sign}{wanted}") if of_run else None
    value = leaves[key]
    if sign in _COMPARISONS:
        met = _COMPARISONS[sign](float(value), float(wanted))
    else:
        met = (typed(value) in wanted.split("|")) == (sign == "=")
    return None if met else (key, f"{key}{sign}{wanted}")


def without_effect(config: RunConfig) -> dict[str, tuple[str, str]]:
    """Keys that have no effect on a run: the key that prevents it, and the condition that it would have to meet."""
    leaves = flatten(config)
    declared = ((key, spec.metadata.get("only", "")) for key, spec, _, _ in walk(config) if "kind" not in spec.metadata)
    conditions = ((key, unmet(only, key.rpartition(".")[0], leaves)) for key, only in declared if only)
    idle = {key: broken for key, broken in conditions if broken is not None}
    if not registry.component("family", leaves["model"]).by_steps:
        idle |= {key: ("model", "a family that is trained by steps") for key in leaves if _OF_STEPS.fullmatch(key)}
    return idle


def check_effects(config: RunConfig, keys: Iterable[str]) -> None:
    """Raises InputError if one of the keys, which a user has set, has no effect.

    Args:
        config: the configuration with the keys set.
        keys: the dotted keys; names of groups and components are passed over.
    """
    leaves, idle = flatten(config), without_effect(config)
    for key in keys:
        if key in idle:
            other, condition = idle[key]
            state = f"{other}={typed(leaves[other])}" if other in leaves else f"{other.rpartition('.')[0]} without it"
            raise InputError(f"{key}={typed(leaves[key])}: has no effect with {state}; it needs {condition}")
