"""Phrase localisation as a retrieval of regions within a photograph (jWAE, section 5.2, Table 7)."""

import logging
from collections.abc import Mapping

import numpy as np
import torch

from vse.data.records import Records
from vse.errors import InputError
from vse.evaluation.localisation import Localised, Photograph, localised, photographs_of
from vse.evaluation.localisation_figure import Example, localisation_figure
from vse.evaluation.metrics import RECALLS, Metric
from vse.evaluation.retrieval import score_matrix, slice_items
from vse.evaluation.task import Capability, Context, Scope, Subject, Task
from vse.registry import register

log = logging.getLogger(__name__)

HEAD = "phrase_localisation"
REGIONS = Capability(
    "phrases and regions (data=phrase_regions)",
    lambda subject: subject.records.source.get("source") == "phrase_regions",
)
EXAMPLES, FEWEST = 6, 2  # photographs that are drawn, with at least so many phrases


@register("task", HEAD)
class PhraseLocalisationTask(Task):
    """Recall of the box of a phrase among the region proposals of its photograph, with the upper bound they allow."""

    needs = (REGIONS,)
    reads_boxes = True
    scope = Scope.SPLIT
    records_queries = True

    def list_metrics(self) -> tuple[Metric, ...]:
        recalls = [Metric(name=f"{HEAD}/r{k}", heading=f"R@{k}", group="phrase localisation") for k in RECALLS]
        bound = Metric(name=f"{HEAD}/upper_bound", heading="upper bound", group="phrase localisation", main=False)
        baselines = [
            Metric(name=f"{HEAD}/{name}", heading="R@1", group=f"phrase localisation, {title}", main=False)
            for name, title in (
                ("chance", "a random region"),
                ("whole", "the whole picture"),
                ("centre", "the middle of the picture"),
            )
        ]
        return (*recalls, bound, *baselines)

    def missing(self, subject: Subject) -> str:
        """Also all proposals of the measured splits, if any split has them."""
        lacks, complete = super().missing(subject), subject.records.source.get("complete") or ()
        partial = [split for split in subject.splits if complete and split not in complete]
        if lacks or not partial:
            return lacks
        return (
            f"all proposals of split {partial[0]}, which has training regions only; phrases are localised in "
            f"{', '.join(complete)}, or in a split that data.complete names at training"
        )

    def check(self, records: Records) -> None:
        """Raises InputError if no split has all proposals."""
        if not records.source.get("complete"):
            raise InputError(
                "data.complete: no split has all proposals; data.complete=test gives them to the test split"
            )

    @torch.inference_mode()
    def measure(self, context: Context) -> dict[str, float]:
        """Holds the scores of one photograph."""
        photographs = photographs_of(context.split, context.runs.records.boxes)
        met = [localised(each, _scores(context, each), RECALLS) for each in photographs]
        values = dict[str, float]()
        for name, hits in _hits(met).items():
            phrases = np.array([len(each) for each in hits])
            sums = np.array([each.sum() for each in hits])
            values[f"{HEAD}/{name}"] = 100 * float(sums.sum() / phrases.sum())
            context.record_values(f"{HEAD}/{name}", 0, [each.id for each in photographs], sums, phrases)
        return values

    def pictures(self, context: Context, values: Mapping[str, float]) -> dict[str, bytes]:
        """The first photographs with several phrases."""
        photographs = photographs_of(context.split, context.runs.records.boxes)
        chosen = [each for each in photographs if len(each.captions) >= FEWEST][:EXAMPLES]
        if not chosen:
            return {}
        try:
            examples = [_example(context, each) for each in chosen]
        except InputError as error:  # a photograph is missing or cannot be read
            log.warning("phrase_localisation: no picture of phrases: %s", error)
            return {}
        return {"localisation.png": localisation_figure(examples, values[f"{HEAD}/r1"])}


def _scores(context: Context, photograph: Photograph) -> torch.Tensor:
    codes = context.codes
    images, captions = slice_items(codes.images, photograph.regions), slice_items(codes.captions, photograph.captions)
    return score_matrix(context.model, images, captions).T


def _hits(met: list[Localised]) -> dict[str, list[np.ndarray]]:
    hits = {f"r{k}": [each.hits[k] for each in met] for k in RECALLS}
    return hits | {
        "upper_bound": [each.possible.astype(np.float64) for each in met],
        "chance": [each.chance for each in met],
        "whole": [each.whole.astype(np.float64) for each in met],
        "centre": [each.centre.astype(np.float64) for each in met],
    }


@torch.inference_mode()
def _example(context: Context, photograph: Photograph) -> Example:
    first, right = _scores(context, photograph).argmax(dim=1).cpu().numpy(), photograph.right()
    phrases = [
        (context.split.captions[caption].text, photograph.boxes[row], photograph.sides[best], bool(right[row, best]))
        for row, (caption, best) in enumerate(zip(photograph.captions, first, strict=True))
    ]
    return Example(context.runs.image(photograph.id), phrases)
