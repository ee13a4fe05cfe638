"""Retrieval where every true pair counts: captions of scenes are true of more images than the one they describe."""

from collections.abc import Iterator

import torch

from vse.evaluation.average_precision import map_at_r
from vse.evaluation.metrics import WAYS, Metric, rank_metrics, ranks_among
from vse.evaluation.retrieval import score_matrix
from vse.evaluation.task import Capability, Context, Scope, Task
from vse.registry import register

TRUTH = Capability(
    "a source that knows which captions are true, such as scenes", lambda subject: subject.source.knows_truth
)


@register("task", "true_pairs")
class TruePairsTask(Task):
    """Retrieval with every caption that is true of an image as a positive, where the source knows the truth."""

    needs = (TRUTH,)
    scope = Scope.SPLIT
    revision = 2  # 2: a run of ties is no wider than the tolerance

    def list_metrics(self) -> Iterator[Metric]:
        for way, sign in WAYS.items():
            head, group = f"true_pairs/{way}", f"true pairs, {sign}"
            yield from rank_metrics(head, group)
            yield Metric(name=f"{head}/map_at_r", heading="mAP@R", group=group)

    @torch.inference_mode()
    def measure(self, context: Context) -> dict[str, float]:
        """Holds all scores at once, as float32: meant for thousands of images.

        A true caption that is no description of the image is a positive here and a negative in plain retrieval. Queries
        without a true pair are left out.
        """
        scores = score_matrix(context.model, context.codes.images, context.codes.captions)
        positive = torch.from_numpy(context.runs.truth(context.split.name)).to(scores.device)
        values: dict[str, float] = {}
        for way, ranked, true in (("i2t", scores, positive), ("t2i", scores.T, positive.T)):
            numbers = ranks_among(ranked, true).metrics()
            numbers["map_at_r"] = 100 * float(map_at_r(ranked, true).nanmean())
            values |= {f"true_pairs/{way}/{name}": value for name, value in numbers.items()}
        return values
