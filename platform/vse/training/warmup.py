"""The first epochs of a hardest-negative loss, which take the sum over negatives: how many, and a model kept there."""

from vse.training.config import RunConfig


def warmup_epochs(config: RunConfig) -> int:
    """How many epochs train with the sum before the hardest negative; 0 where the whole training has one loss."""
    objective = config.objective
    mined = getattr(objective, "hinge", "") == "hardest" and getattr(objective, "match", "hinge") == "hinge"
    return int(getattr(objective, "warmup", 0)) if mined else 0


def kept_in_warmup(config: RunConfig, best: int) -> str:
    """One line where the epoch with the best validation (1-based) came before the configured loss did, else empty."""
    warmup = warmup_epochs(config)
    if not 0 < best <= warmup < config.train.epochs:
        return ""
    return (
        f"epoch {best}, which validated best, is one of the first {warmup} with the sum over negatives: the kept model "
        "was not trained with objective.hinge=hardest; fewer objective.warmup or another optim.lr may change that"
    )
