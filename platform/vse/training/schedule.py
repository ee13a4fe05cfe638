"""Learning rates as functions of the progress of a run."""

import math

from vse.training.config import OptimConfig


def learning_rate(config: OptimConfig, epoch: float, epochs: int) -> float:
    """Rate at `epoch` (0-based, fractional within an epoch) of `epochs`.

    `step`: lr · factor^⌊epoch / every⌋ (VSE++). `halving`: lr for the first `every` epochs, then halved at each further
    one down to `floor` (UniVSE A.3, "decayed by 2 for each next epoch"). `cosine`: half a cosine to zero. `milestones`:
    lr before the first, then lr times the factor that belongs to the last one passed.
    """
    if epoch < config.warmup:
        return config.lr * min(1.0, (epoch + 1e-3) / config.warmup)
    whole = math.floor(epoch)
    if config.schedule == "step":
        return config.lr * config.factor ** (whole // config.every)
    if config.schedule == "milestones":
        passed = sum(whole >= milestone for milestone in config.milestones)
        shares = (1.0, *config.factors)
        return config.lr * shares[min(passed, len(shares) - 1)]
    if config.schedule == "halving":
        return max(config.lr * 0.5 ** max(0, whole - config.every + 1), min(config.floor, config.lr))
    if config.schedule == "cosine":
        return config.lr * 0.5 * (1 + math.cos(math.pi * min(1.0, epoch / epochs)))
    assert config.schedule == "constant", config.schedule
    return config.lr
