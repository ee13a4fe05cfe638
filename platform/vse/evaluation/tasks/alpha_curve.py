"""Retrieval and attacks at every α of a grid, exactly, from one encoding (UniVSE, Fig. 5)."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace

from vse.adversaries.attacks import ATTACKS
from vse.adversaries.univse.generate import WORDS
from vse.config import knob
from vse.evaluation.alpha import AlphaPoint, evaluate_alphas
from vse.evaluation.attacks import AttackSet, restrict
from vse.evaluation.ensemble import of_model
from vse.evaluation.metrics import Metric, mean_over_folds
from vse.evaluation.protocol import Fold
from vse.evaluation.task import ONE_RUN, Capability, Context, Task
from vse.evaluation.tasks.attacks import UNIVSE, AttacksTask, attack_metrics
from vse.evaluation.tasks.retrieval import RetrievalTask
from vse.registry import ComponentConfig, register

ALPHA = Capability(
    "a family with alpha, such as UniVSE", lambda subject: "alpha" in subject.families[0].inference_parameters
)


@register("task", "alpha_curve")
class AlphaCurveTask(Task):
    """Retrieval and UniVSE's attacks at every α of a grid, for families whose α changes no embedding."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        alphas: tuple[float, ...] = knob(tuple(k / 10 for k in range(11)), "values of α", low=0, high=1)
        words: str = knob("shared", "words of adversaries", choices=WORDS)

    config: Config
    needs = (ONE_RUN, ALPHA)
    not_empty = ("alphas",)
    portable = True

    def list_metrics(self) -> tuple[Metric, ...]:
        plain = [metric for metric in RetrievalTask().metrics if metric.name != "unknown_words"]
        attacks = [
            metric
            for name in ATTACKS
            for metric in attack_metrics(name, f"{name} attack", ("shared",))
            if metric.name != f"attack_{name}/unknown_words"
        ]
        return tuple(
            replace(metric, name=at(alpha, metric.name), group=f"α = {alpha:g}, {metric.group}".rstrip(", "), terms=())
            for alpha in sorted(self.config.alphas)
            for metric in (*plain, *attacks)
        )

    @property
    def adversaries(self) -> tuple[tuple[str, str], ...]:
        return ((UNIVSE, self.config.words),)

    def measure(self, context: Context) -> dict[str, float]:
        folds = [self._points(context, fold) for fold in context.folds]
        return {
            at(points[0].alpha, name): value
            for points in zip(*folds, strict=True)
            for name, value in mean_over_folds(point.metrics() for point in points).items()
        }

    def _points(self, context: Context, fold: Fold) -> list[AlphaPoint]:
        images, captions = (of_model(items, 0) for items in context.encoded(fold))
        attacks = dict[str, AttackSet]()
        for _, adversaries in context.adversaries(UNIVSE, (self.config.words,)):
            for name, unencoded in adversaries.sets.items():
                every = restrict(unencoded, fold)
                attacks[name] = AttackSet(encoded=of_model(every.encode_all(), 0), caption=every.caption)
        family = context.runs.families[0]
        return evaluate_alphas(family, images, captions, fold.caption_to_image, attacks, self.config.alphas)

    def curve(self, values: Mapping[str, float]) -> dict[float, dict[str, float]]:
        """The values of `measure` by α, ascending, under the names that retrieval and attacks have elsewhere."""
        names = [metric.name for task in (RetrievalTask(), AttacksTask()) for metric in task.metrics]
        return {
            alpha: {name: values[at(alpha, name)] for name in names if at(alpha, name) in values}
            for alpha in sorted(self.config.alphas)
        }

    def pictures(self, context: Context, values: Mapping[str, float]) -> dict[str, bytes]:
        """rsum, and rsum3 under each attack, over α."""
        from matplotlib.figure import Figure  # takes half a second

        figure = Figure(figsize=(6, 3), layout="constrained")
        curve = self.curve(values)
        for axis, names in zip(
            figure.subplots(1, 2), (["rsum"], [f"attack_{name}/rsum3" for name in ATTACKS]), strict=True
        ):
            for name in names:
                shown = {alpha: point[name] for alpha, point in curve.items() if name in point}
                axis.plot([*shown], [*shown.values()], label=name)
            axis.set_xlabel("α")
            axis.legend()
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=150)
        return {"curve.png": file.getvalue()}


def at(alpha: float, name: str) -> str:
    """The name of a metric at an α."""
    return f"alpha-{alpha:.12g}/{name}"
