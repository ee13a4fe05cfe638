"""The task `far_off`."""

from dataclasses import dataclass

from vse.config import knob
from vse.evaluation.metrics import Metric, mean_over_folds
from vse.evaluation.task import Context, Task
from vse.registry import ComponentConfig, register


@register("task", "far_off")
class FarOffTask(Task):
    """Share of captions for which too many wrong images rank above their own."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        more_than: int = knob(10, "wrong images that may rank above the right one", low=0)

    config: Config

    def list_metrics(self) -> list[Metric]:
        return [Metric(name="far_off/share", heading="far off", group="captions", higher_is_better=False)]

    def measure(self, context: Context) -> dict[str, float]:
        folds = []
        for counter in context.counters:
            far = counter.result().t2i.above > self.config.more_than
            folds.append({"far_off/share": 100 * far.double().mean().item()})
        return mean_over_folds(folds)
