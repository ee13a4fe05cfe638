"""What a configured family and objective ask of each other, checked before anything is computed."""

from collections.abc import Mapping
from dataclasses import fields

from vse import registry
from vse.errors import InputError
from vse.models.family import Inputs
from vse.objectives.objective import ContrastDraws, Objective
from vse.training.config import HALF, RunConfig, check_gpus


def family_inputs(config: RunConfig) -> Inputs:
    """What the configured family reads."""
    return registry.component("family", registry.name_of("family", config.model)).requires(config.model)


def check_objective(config: RunConfig) -> None:
    """Raises InputError where the configured family and objective do not train together.

    Such a pair fails at its first step, or leaves parameters of the family without a gradient. Nor does a run without a
    GPU train in half precision, or one whose workers cannot have the GPUs they ask for, and one that keeps its last
    epoch has no patience to lose.
    """
    check_gpus(config.train.workers, config.train.gpus_per_worker)
    if config.train.precision in HALF and not config.train.gpus_per_worker:
        raise InputError(
            f"train.precision={config.train.precision}: on GPUs only; set train.gpus_per_worker, or use float32 or "
            "float64"
        )
    if config.train.patience and config.train.select == "last":
        raise InputError(
            f"train.patience={config.train.patience}: train.select=last keeps the last epoch, better or not; use "
            "train.select=rsum"
        )
    family, name = registry.name_of("family", config.model), registry.name_of("objective", config.objective)
    for other in registry.names("objective"):
        settings: Mapping[str, object] | None = registry.component("objective", other).sole.get(family)
        if other == name or settings is None:
            continue
        if all(getattr(config.model, key) == value for key, value in settings.items()):
            where = "".join(f" with model.{key}={value}" for key, value in settings.items())
            own = {f.name: f for f in fields(registry.component("objective", other).Config)}
            so = "match" in own and name in own["match"].metadata["choices"]
            instead = f"; add objective.match={name} to match that way" if so else ""
            raise InputError(f"objective={name}: family {family}{where} trains with objective={other} only{instead}")
    objective: Objective = registry.build("objective", config.objective)
    if objective.families is not None and family not in objective.families:
        theirs = " or ".join(sorted(objective.families))
        raise InputError(f"objective={name}: trains family {theirs}, not {family}; use objective=ranking")
    objective.check(config.model)
    if registry.component("family", family).pairwise and "scores" not in objective.gathers:
        raise InputError(f"objective={name}: compares codes, but family {family} scores pairs; use objective=ranking")
    adversaries_wanted(config)


def adversaries_wanted(config: RunConfig) -> ContrastDraws | None:
    """The adversaries that the configured objective trains against. Raises InputError where the family encodes none."""
    wanted = registry.build("objective", config.objective).adversaries
    if wanted is not None and not family_inputs(config).contrast:
        raise InputError("objective: compares adversaries of captions, but this family encodes none")
    return wanted
