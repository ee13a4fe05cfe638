"""Retrieval by published positives beyond the captions of an image: ECCV Caption and CxC."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vse.config import knob
from vse.data.records import Records
from vse.errors import InputError
from vse.evaluation.component_queries import SCORES_AT_ONCE, relevance
from vse.evaluation.extended_positives import check_positives, located, precisions, read_positives
from vse.evaluation.metrics import RECALLS, WAYS, Metric, by_image, count_metric
from vse.evaluation.retrieval import slice_items, spans
from vse.evaluation.task import Context, Scope, Task
from vse.registry import ComponentConfig, register

SHARES = {"map_at_r": "mAP@R", "r_precision": "R-Precision", **{f"r{k}": f"R@{k}" for k in RECALLS}}


@register("task", "extended_positives")
class ExtendedPositivesTask(Task):
    """Retrieval by positives of files (ECCV Caption, CxC): mAP@R, R-Precision and recall in both directions."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        image_to_caption: str = knob("", "JSON file of image ids, each with the ids of its captions", reads="file")
        caption_to_image: str = knob("", "JSON file of caption ids, each with the ids of its images", reads="file")

    config: Config
    scope = Scope.SPLIT
    records_queries = True
    revision = 2  # 2: a run of ties is no wider than the tolerance

    @cached_property
    def positives(self) -> dict[str, Mapping[str, tuple[str, ...]]]:
        """Of each direction that has a file."""
        files = {"i2t": self.config.image_to_caption, "t2i": self.config.caption_to_image}
        return {way: read_positives(file) for way, file in files.items() if file}

    def list_metrics(self) -> Iterator[Metric]:
        for way, group in WAYS.items():
            head = f"extended_{way}"
            for name, title in SHARES.items():
                yield Metric(name=f"{head}/{name}", heading=title, group=group)
            yield count_metric(f"{head}/queries", "queries", group)
            yield count_metric(f"{head}/positives", "positives per query", group, decimals=2, summed=False)

    def content(self) -> Any:
        return self.positives

    def check(self, records: Records) -> None:
        if not self.positives:
            raise InputError(
                "measure.extended_positives: name a file with image_to_caption or caption_to_image, such as "
                "eccv_image_to_caption.json of the package eccv_caption"
            )
        images = {image.id for image in records.images}
        captions = {caption.id for caption in records.captions}
        sides = {"i2t": ("image_to_caption", images, captions), "t2i": ("caption_to_image", captions, images)}
        for way, positives in self.positives.items():
            key, queries, candidates = sides[way]
            where = f"measure.extended_positives.{key}={getattr(self.config, key)}"
            check_positives(positives, where, queries, candidates)

    @torch.inference_mode()
    def measure(self, context: Context) -> dict[str, float]:
        """Means over the queries that have a positive in the split; all its images or captions are candidates."""
        split, values = context.split, dict[str, float]()
        images, captions = [image.id for image in split.images], [caption.id for caption in split.captions]
        for way, positives in self.positives.items():
            sides = (images, captions) if way == "i2t" else (captions, images)
            rows, relevant = located(positives, *sides)
            if not len(rows):
                continue
            measured = self._precisions(context, way, rows, relevant)
            image = rows if way == "i2t" else split.caption_to_image[rows]
            drawn = np.unique(image)
            for name, each in measured.items():
                metric = f"extended_{way}/{name}"
                values[metric] = 100 * each.mean().item()
                hits, queries = by_image(each.numpy(), image, len(images))[drawn].T
                context.record_values(metric, 0, [images[k] for k in drawn], hits, queries)
            values[f"extended_{way}/queries"] = float(len(rows))
            values[f"extended_{way}/positives"] = float(np.mean([len(each) for each in relevant]))
        return values

    def _precisions(
        self, context: Context, way: str, rows: np.ndarray, relevant: list[np.ndarray]
    ) -> dict[str, Tensor]:
        """By query. Scores are held one block of queries at a time."""
        images, captions, model = context.codes.images, context.codes.captions, context.model
        number = len(context.split.captions if way == "i2t" else context.split.images)
        blocks = list[dict[str, Tensor]]()
        for part in spans(len(rows), max(1, SCORES_AT_ONCE // number)):
            if way == "i2t":
                scores = model.combine(model.score_parts(slice_items(images, rows[part]), captions)).float()
            else:
                scores = model.combine(model.score_parts(images, slice_items(captions, rows[part]))).float().T
            blocks.append(precisions(scores, relevance(relevant[part], number).to(scores.device)))
        return {name: torch.cat([block[name].double().cpu() for block in blocks]) for name in SHARES}
