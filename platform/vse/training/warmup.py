"""The first epochs of a hardest-negative loss, which take the sum over negatives: how many, and a model kept there."""

from vse.training.config import RunConfig


def warmup_epochs(config: RunConfig) -> int:
    """How many epochs train with the sum before the hardest negative; 0 where the whole training has one loss."""
    hinge = getattr(config.objective, "hinge", "")
    return int(getattr(config.objective, "warmup", 0)) if hinge == "hardest" else 0


def kept_in_warmup(config: RunConfig, best: int) -> str:
    """One line where the epoch with the best validation (1-based) came before the configured loss did, else empty."""
    warmup = warmup_epochs(config)
    if not 0 < best <= warmup < config.train.epochs:
        return ""
    return (
        f"epoch {best}, which validated best, is one of the first {warmup} with the sum over negatives: the kept model "
        "was not trained with objective.hinge=hardest; fewer objective.warmup or another optim.lr may change that"
    )
