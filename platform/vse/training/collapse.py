"""A ranking loss stuck where all codes coincide: how that is detected, and which settings help."""

from collections.abc import Mapping

from vse.training.config import RunConfig

SHARE = "train/collapse"  # an epoch's loss per caption as a share of its level when all codes coincide
_NEAR = 0.02
_BY_CHANCE = 5  # R@10 over R@1: 10 where codes say nothing, below 4 where a model ranks


def collapse(config: RunConfig, numbers: Mapping[str, float], epoch: int) -> str:
    """One line of advice where the numbers of an epoch (1-based) are those of collapsed codes, else empty.

    A share well above one is no collapse: codes fresh from a phase with the sum over negatives are worse than equal
    under the hardest ones, and apart. Nor is the level itself where validation, if it was due, finds images: with few
    data or many alike the hardest negative may stand as far before the right one at one time as behind it at another.
    """
    if SHARE not in numbers or abs(numbers[SHARE] - 1) > _NEAR:
        return ""
    if numbers.get("val/t2i/r10", 0.0) < _BY_CHANCE * numbers.get("val/t2i/r1", 0.0):
        return ""
    lower = f"an optim.lr below {config.optim.lr:g}"
    warmup = getattr(config.objective, "warmup", None)
    if warmup is None:
        advice = f"try {lower}"
    elif warmup == 0:
        advice = f"try objective.warmup=1 or {lower}"
    else:
        advice = f"objective.warmup={warmup} did not prevent it; try more of it or {lower}"
    return f"epoch {epoch}: the loss is that of codes that are all alike ({SHARE} {numbers[SHARE]:.3f}); {advice}"
