"""Unified text-to-image retrieval: images by objects, attributes, relations and sentences (UniVSE, Table 3 and B.3)."""

import hashlib
import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL.Image

from vse.adversaries.pools import LEAST, RELATIVE_MINIMUM
from vse.config import knob
from vse.data.records import Split
from vse.errors import InputError
from vse.evaluation.average_precision import random_average_precision
from vse.evaluation.component_queries import (
    KINDS,
    EncodesComponents,
    Query,
    average_precisions,
    frequent,
    label_queries,
    query_scores,
    valid_queries,
)
from vse.evaluation.image_grid import RankedImages, ranking_figure
from vse.evaluation.metrics import Metric, by_image, count_metric, mean_over_folds
from vse.evaluation.protocol import Fold
from vse.evaluation.retrieval import Encoded, slice_items
from vse.evaluation.task import Context, Runs, Task
from vse.registry import ComponentConfig, register
from vse.text.components import EMPTY, Components
from vse.text.tokens import words

log = logging.getLogger(__name__)

TITLES = {
    "obj": "objects",
    "attr": "attribute-noun pairs",
    "rel": "relational triples",
    "obj_det": "labels of boxes",
    "sentence": "sentences",
}
COLUMNS = ("obj", "attr", "rel", "obj_det")  # of Table 3
CHOSEN: tuple[str, ...] = ("obj", "attr", "obj_det")  # kinds of which UniVSE has two encoders
SHOWN, BEST = 2, 6  # queries of a kind in the picture, and images of each
PHI, PSI = "φ, the object encoder", "ψ, as a short sentence"


@dataclass(frozen=True, slots=True)
class _Ranking:
    """As `RankedImages`, with the ids of the images."""

    title: str
    note: str
    images: tuple[str, ...]
    relevant: tuple[bool, ...]

    def shown(self, image: Callable[[str], PIL.Image.Image]) -> RankedImages:
        return RankedImages(self.title, self.note, [image(id_) for id_ in self.images], self.relevant)


@register("task", "unified_retrieval")
class UnifiedRetrievalTask(Task):
    """Images for a noun, a pair, a relation or a sentence: mean average precision (UniVSE, Table 3)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        frequent: int | None = knob(
            None,
            "training captions in which a query must occur; default: A.1's 100 on COCO, scaled to the captions",
            low=1,
        )
        least_nouns: int = knob(5, "relevant images that a noun needs to be a query (B.3)", low=1)
        least: int = knob(3, "relevant images that a pair or a triple needs to be a query (B.3)", low=1)

    config: Config
    reads_boxes = True
    reads_training = True
    parsed = True
    records_queries = True
    revision = 3  # 2: queries of all folds; 3: a run of ties is no wider than the tolerance

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._rows: list[_Ranking] = []

    def list_metrics(self) -> Iterator[Metric]:
        yield Metric(name="unified_sum", heading="sum of mAP", terms=tuple(f"unified_{kind}/map" for kind in COLUMNS))
        for kind, title in TITLES.items():
            head = f"unified_{kind}"
            yield Metric(name=f"{head}/map", heading="mAP", group=title)
            yield Metric(name=f"{head}/random", heading="mAP at random", group=title, higher_is_better=None, main=False)
            yield count_metric(f"{head}/queries", "queries", title)
            if kind in CHOSEN:
                yield count_metric(f"{head}/phi", "by φ", title, summed=False)

    def measure(self, context: Context) -> dict[str, float]:
        """Mean over queries of the average precision over all relevant images, in percent, ties in random order.

        `phi` is 1 if the queries of a kind are read by the encoder of objects, 0 if they are read as short sentences:
        the better one on the validation split. Kinds without a valid query are left out.
        """
        candidates, labels = self._candidates(context), _labels(context.runs, context.split)
        phi = self._choose(context.runs, candidates)
        captions = [each for _, each in context.runs.parsed([caption.text for caption in context.split.captions])]
        folds = []
        self._rows = []
        for number, fold in enumerate(context.folds):
            inside = [captions[row] for row in fold.captions]
            there = None if labels is None else [labels[row] for row in fold.images]
            every = self._queries(candidates, inside, fold.caption_to_image, there)
            values = dict[str, float]()
            for kind, queries in every.items():
                encoded = encode_queries(context.runs, queries, phi.get(kind, True))
                values |= self._ranked(context, number, kind, queries, encoded)
                if kind in phi:
                    values[f"unified_{kind}/phi"] = float(phi[kind])
            if sentences := same_text(context.split, fold):
                values |= self._ranked(context, number, "sentence", sentences, context.encoded(fold)[1])
            folds.append(values)
        means = mean_over_folds(folds, self.metrics)
        columns = [f"unified_{kind}/map" for kind in COLUMNS]
        return means | ({"unified_sum": sum(means[name] for name in columns)} if means.keys() >= set(columns) else {})

    def pictures(self, context: Context, values: Mapping[str, float]) -> dict[str, bytes]:
        """The best images of a few queries of each kind, drawn by a hash of their texts."""
        try:
            rows = [row.shown(context.runs.image) for row in self._rows]
        except InputError as error:  # data of features alone have no images
            log.warning("unified_retrieval: no picture of ranked images: %s", error)
            return {}
        return {"queries.png": ranking_figure(rows, "Best images of some queries")} if rows else {}

    def _ranked(
        self, context: Context, number: int, kind: str, queries: Sequence[Query], encoded: Encoded
    ) -> dict[str, float]:
        """The numbers of a kind in a fold; keeps the outcome of each query, and of some the images."""
        fold = context.folds[number]
        images, _ = context.encoded(fold)
        precision = average_precisions(context.model, images, encoded, [each.relevant for each in queries]).numpy()
        chance = random_average_precision(np.array([len(each.relevant) for each in queries]), len(fold.images))
        if kind == "sentence":
            ids = [context.split.images[row].id for row in fold.images]
            sums = by_image(precision, fold.caption_to_image, len(ids))
            context.record_values(f"unified_{kind}/map", number, ids, sums[:, 0], sums[:, 1])
        else:
            texts = [each.text for each in queries]
            context.record_values(f"unified_{kind}/map", number, texts, precision, np.ones(len(queries)))
        if number == 0:
            self._show(context, kind, queries, encoded, precision, chance)
        return {
            f"unified_{kind}/map": 100 * float(precision.mean()),
            f"unified_{kind}/random": 100 * float(chance.mean()),
            f"unified_{kind}/queries": float(len(queries)),
        }

    def _show(
        self,
        context: Context,
        kind: str,
        queries: Sequence[Query],
        encoded: Encoded,
        precision: np.ndarray,
        chance: np.ndarray,
    ) -> None:
        """Keep the best images of some queries for the picture."""
        fold = context.folds[0]
        images, _ = context.encoded(fold)
        drawn = sorted(range(len(queries)), key=lambda k: hashlib.sha256(f"{kind} {queries[k].text}".encode()).digest())
        chosen = np.array(drawn[: 1 if kind == "sentence" else SHOWN])
        scores = query_scores(context.model, images, slice_items(encoded, chosen))
        for row, order in zip(
            chosen, scores.argsort(dim=1, descending=True, stable=True)[:, :BEST].tolist(), strict=True
        ):
            query = queries[row]
            here = tuple(context.split.images[fold.images[position]].id for position in order)
            note = (
                f"{TITLES[kind]}\n{len(query.relevant)} of {len(fold.images)} relevant\n"
                f"AP {100 * precision[row]:.1f} %, at random {100 * chance[row]:.1f} %"
            )
            self._rows.append(_Ranking(query.text, note, here, tuple(np.isin(order, query.relevant).tolist())))

    def _candidates(self, context: Context) -> dict[str, dict[tuple[str, ...], int]]:
        """Components that are frequent in training captions; of data without a training split, in those measured."""
        records = context.runs.records
        counted = records.split("train") if "train" in records.split_names else context.split
        captions = [each for _, each in context.runs.parsed([caption.text for caption in counted.captions])]
        least = self.config.frequent or max(LEAST, math.ceil(RELATIVE_MINIMUM * len(captions)))
        return {kind: frequent(captions, kind, least) for kind in KINDS}

    def _queries(
        self,
        candidates: Mapping[str, Mapping[tuple[str, ...], int]],
        captions: Sequence[Components],
        image: np.ndarray,
        labels: Sequence[Collection[str]] | None,
    ) -> dict[str, list[Query]]:
        """Valid queries by kind, for kinds that have any; `labels`: those of each image, if the data have boxes."""
        least = {kind: self.config.least_nouns if kind == "obj" else self.config.least for kind in KINDS}
        every = {kind: valid_queries(candidates[kind], captions, image, kind, least[kind]) for kind in KINDS}
        if labels is not None:
            every["obj_det"] = label_queries(labels, self.config.least_nouns)
        return {kind: queries for kind, queries in every.items() if queries}

    def _choose(self, runs: Runs, candidates: Mapping[str, Mapping[tuple[str, ...], int]]) -> dict[str, bool]:
        """Whether φ reads the queries of a kind: whether it is no worse than ψ on the validation split (B.3)."""
        if not any(isinstance(family, EncodesComponents) for family in runs.families):
            return {}
        if "val" not in runs.records.split_names:
            log.warning("unified_retrieval: no validation split to choose between φ and ψ on; φ encodes the queries")
            return dict.fromkeys(CHOSEN, True)
        part = runs.records.split("val")
        captions = [each for _, each in runs.parsed([caption.text for caption in part.captions])]
        images = runs.encode_images(tuple(image.id for image in part.images))
        chosen = dict.fromkeys(CHOSEN, True)
        for kind, queries in self._queries(candidates, captions, part.caption_to_image, _labels(runs, part)).items():
            if kind not in CHOSEN:
                continue
            relevant = [each.relevant for each in queries]
            by_phi, by_psi = (
                float(average_precisions(runs.model, images, encode_queries(runs, queries, phi), relevant).mean())
                for phi in (True, False)
            )
            chosen[kind] = by_phi >= by_psi
            log.info(
                "unified_retrieval: %s are encoded by %s (mAP on the validation split %.1f by φ, %.1f by ψ)",
                TITLES[kind],
                PHI if chosen[kind] else PSI,
                100 * by_phi,
                100 * by_psi,
            )
        return chosen


def encode_queries(runs: Runs, queries: Sequence[Query], phi: bool) -> Encoded:
    """Codes of queries.

    Args:
        runs: The runs that are measured.
        queries: Queries of one kind.
        phi: Whether the family's encoder of components reads them, if it has one; otherwise they are read as captions.
    """
    components = [each.components if phi else EMPTY for each in queries]
    return runs.encode_phrases([each.text for each in queries], components)


def same_text(split: Split, fold: Fold) -> list[Query]:
    """The captions of a fold as queries: relevant are the images of the fold that have a caption of the same words."""
    images: dict[str, set[int]] = {}
    texts = [split.captions[row].text for row in fold.captions]
    same = [" ".join(words(text)) for text in texts]
    for text, image in zip(same, fold.caption_to_image.tolist(), strict=True):
        images.setdefault(text, set()).add(image)
    return [Query(text, EMPTY, np.array(sorted(images[key]))) for text, key in zip(texts, same, strict=True)]


def _labels(runs: Runs, split: Split) -> list[set[str]] | None:
    """The categories of the boxes of each image of a split; None if no image has any. Phrases are no categories."""
    boxes = runs.records.boxes
    labels = [{box.label for box in boxes.get(image.id, ()) if not box.caption} for image in split.images]
    return labels if any(labels) else None
