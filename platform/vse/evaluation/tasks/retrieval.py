"""Retrieval of captions by images and of images by captions, among all of a split."""

from vse.evaluation.metrics import RECALLS, WAYS, Metric, mean_over_folds, rank_metrics
from vse.evaluation.task import Context, Task
from vse.registry import register


@register("task", "retrieval")
class RetrievalTask(Task):
    """Images rank all captions of the split, and captions all images: R@k, ranks, rsum."""

    records_queries = True
    portable = True
    sharded = True

    def list_metrics(self) -> tuple[Metric, ...]:
        terms = tuple(f"{way}/r{k}" for way in WAYS for k in RECALLS)
        return (
            Metric(name="rsum", heading="rsum", terms=terms),
            *(metric for way, sign in WAYS.items() for metric in rank_metrics(way, sign)),
            Metric(name="unknown_words", heading="unknown words", higher_is_better=None, main=False),
        )

    def measure(self, context: Context) -> dict[str, float]:
        folds = [counter.result() for counter in context.counters]
        for number, fold in enumerate(folds):
            context.record("i2t", number, fold.i2t)
            context.record("t2i", number, fold.t2i, captions=True)
        unknown = context.runs.unknown_words(context.texts)
        return mean_over_folds(fold.metrics() for fold in folds) | {"unknown_words": unknown}
