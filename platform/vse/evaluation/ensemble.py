"""Several models scored as one by the mean of their similarity matrices, as SCAN's published t-i + i-t ensemble."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from vse.evaluation.retrieval import Encoded, ScoresParts


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Models whose scores are averaged with equal weights, block by block: no matrix of a whole split is ever held.

    Scores are averaged as they are, so a model whose scores spread more counts for more. `settings[k]` are arguments of
    the k-th model's `combine`, such as its own α. Codes of all models travel together, as `joined` puts them. `scored`
    is told of how many pairs each block was.
    """

    models: Sequence[ScoresParts]
    settings: Sequence[Mapping[str, Any]]
    scored: Callable[[int], object] | None = None

    @property
    def pairwise(self) -> frozenset[str]:
        """Names of the codes that any of its models scores pair by pair (`Family.pairwise`)."""
        return frozenset[str]().union(*(getattr(model, "pairwise", ()) for model in self.models))

    def score_parts(self, images: Encoded, captions: Encoded) -> dict[str, Tensor]:
        """The one part `mean`, images x captions; only the parts of one model and the sum are in memory."""
        total: Tensor | None = None
        for k, (model, settings) in enumerate(zip(self.models, self.settings, strict=True)):
            scores = model.combine(model.score_parts(of_model(images, k), of_model(captions, k)), **settings)
            total = scores if total is None else total + scores
        assert total is not None, "an ensemble of no model"
        if self.scored is not None:
            self.scored(total.numel())
        return {"mean": total / len(self.models)}

    def combine(self, parts: Mapping[str, Tensor]) -> Tensor:
        """The mean itself: every model is scored at its own settings before."""
        return parts["mean"]


def joined(codes: Sequence[Encoded]) -> dict[str, Tensor]:
    """The same items as each model encodes them, in the models' order, under names that keep them apart."""
    return {f"{k}/{name}": value for k, each in enumerate(codes) for name, value in each.items()}


def of_model(items: Encoded, k: int) -> dict[str, Tensor]:
    """What `joined` has of the k-th model."""
    own = f"{k}/"
    return {name.removeprefix(own): value for name, value in items.items() if name.startswith(own)}
