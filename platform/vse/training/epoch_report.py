"""What a terminal shows of the epochs of a training."""

from collections.abc import Iterator, Mapping

from vse import registry
from vse.objectives.objective import Objective
from vse.training.config import RunConfig, epochs_of


def mines_hardest(config: RunConfig) -> bool:
    """Whether the loss takes the hardest negative of a positive, before which a warm-up can sum over all."""
    objective = config.objective
    return getattr(objective, "hinge", "") == "hardest" and getattr(objective, "match", "hinge") == "hinge"


def warmup_epochs(config: RunConfig) -> int:
    """How many epochs train with the sum before the hardest negative; 0 where the whole training has one loss."""
    return int(getattr(config.objective, "warmup", 0)) if mines_hardest(config) else 0


def kept_in_warmup(config: RunConfig, best: int) -> str:
    """One line where the epoch with the best validation (1-based) came before the configured loss did, else empty."""
    warmup = warmup_epochs(config)
    if not 0 < best <= warmup < config.train.epochs:
        return ""
    return (
        f"epoch {best}, which validated best, is one of the first {warmup} with the sum over negatives: the kept model "
        "was not trained with objective.hinge=hardest; fewer objective.warmup or another optim.lr may change that"
    )


MOST_LOSSES = 3  # losses shown by name
_VALIDATION = ("val/i2t/r1", "val/t2i/r1", "val/rsum")


def epoch_line(config: RunConfig, numbers: Mapping[str, float], epoch: int) -> str:
    """`epoch 4/8  train/sent 0.301  val/i2t/r1 25.000 …` of the numbers of an epoch.

    Up to three losses with a weight are shown by name. If there are more, the losses of the objective's
    `matching` are shown, or else the weighted sum.

    Args:
        config: of the run.
        numbers: of the epoch, as `report` of a training gets them.
        epoch: number of the epoch, from 1.
    """
    objective: Objective = registry.build("objective", config.objective)
    shown = [*_losses(objective, numbers, epoch), *((key, numbers[key]) for key in _VALIDATION if key in numbers)]
    line = f"epoch {epoch}/{epochs_of(config)}" + "".join(f"  {key} {value:.3f}" for key, value in shown)
    return f"{line}  (sum over negatives)" if epoch <= warmup_epochs(config) else line


def _losses(objective: Objective, numbers: Mapping[str, float], epoch: int) -> Iterator[tuple[str, float]]:
    weights = {name: weight for name, weight in objective.weights(epoch - 1).items() if weight}
    shown = [name for name in weights if f"train/{name}" in numbers]
    if len(shown) > MOST_LOSSES:
        matching = [name for name in shown if name in objective.matching]
        if not matching:
            yield f"sum of {len(shown)} losses", sum(weights[name] * numbers[f"train/{name}"] for name in shown)
        shown = matching
    yield from ((f"train/{name}", numbers[f"train/{name}"]) for name in shown)
