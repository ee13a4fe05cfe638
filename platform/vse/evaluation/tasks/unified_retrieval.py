"""Unified text-to-image retrieval: images by objects, attributes, relations and sentences (UniVSE, Table 3 and B.3)."""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vse.adversaries.pools import LEAST, RELATIVE_MINIMUM
from vse.config import knob
from vse.data.records import Split
from vse.evaluation.component_queries import (
    KINDS,
    EncodesComponents,
    Query,
    average_precisions,
    frequent,
    valid_queries,
)
from vse.evaluation.metrics import Metric, mean_over_folds, random_average_precision
from vse.evaluation.protocol import Fold
from vse.evaluation.retrieval import Encoded
from vse.evaluation.task import Context, Runs, Task
from vse.registry import ComponentConfig, register
from vse.text.components import EMPTY, Components
from vse.text.tokens import words

log = logging.getLogger(__name__)

TITLES = {"obj": "objects", "attr": "attribute-noun pairs", "rel": "relational triples", "sentence": "sentences"}
CHOSEN: tuple[str, ...] = ("obj", "attr")  # kinds of which UniVSE has two encoders
PHI, PSI = "φ, the object encoder", "ψ, as a short sentence"


@register("task", "unified_retrieval")
class UnifiedRetrievalTask(Task):
    """Images for a noun, a pair, a relation or a sentence: mean average precision (UniVSE, Table 3)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        frequent: int | None = knob(
            None,
            "training captions that a query must be in; default: A.1's 100 on COCO, in proportion",
            low=1,
        )
        least_nouns: int = knob(5, "relevant images without which a noun is no query (B.3)", low=1)
        least: int = knob(3, "relevant images without which a pair or a triple is no query (B.3)", low=1)

    config: Config
    parsed = True

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return tuple(self._metrics())

    def _metrics(self) -> Iterator[Metric]:
        for kind, title in TITLES.items():
            head = f"unified_{kind}"
            yield Metric(name=f"{head}/map", heading="mAP", group=title)
            yield Metric(name=f"{head}/random", heading="mAP at random", group=title, higher_is_better=None, main=False)
            for name, heading in (("queries", "queries"), *([("phi", "by φ")] if kind in CHOSEN else [])):
                yield Metric(
                    name=f"{head}/{name}",
                    heading=heading,
                    group=title,
                    unit="",
                    higher_is_better=None,
                    decimals=0,
                    main=False,
                )

    def measure(self, context: Context) -> dict[str, float]:
        """Mean over queries of the average precision over all relevant images, in percent, ties in random order.

        `phi` is 1 if the queries of a kind are read by the encoder of objects, 0 if they are read as short sentences:
        the better one on the validation split. Kinds without a valid query are left out.
        """
        candidates = self._candidates(context)
        phi = self._choose(context.runs, candidates)
        captions = [each for _, each in context.runs.parsed([caption.text for caption in context.split.captions])]
        folds = []
        for fold in context.folds:
            images, sentences = context.encoded(fold)
            values = dict[str, float]()
            inside = [captions[row] for row in fold.captions]
            for kind, queries in self._queries(candidates, inside, fold.caption_to_image).items():
                encoded = encode_queries(context.runs, queries, phi.get(kind, True))
                precision = average_precisions(context.model, images, encoded, [each.relevant for each in queries])
                values |= self._values(kind, precision.numpy(), [len(each.relevant) for each in queries], fold)
                if kind in phi:
                    values[f"unified_{kind}/phi"] = float(phi[kind])
            relevant = same_text(context.split, fold)
            precision = average_precisions(context.model, images, sentences, relevant)
            values |= self._values("sentence", precision.numpy(), [len(each) for each in relevant], fold)
            folds.append(values)
        return mean_over_folds(folds)

    def _values(self, kind: str, precision: np.ndarray, relevant: Sequence[int], fold: Fold) -> dict[str, float]:
        chance = random_average_precision(np.array(relevant), len(fold.images))
        return {
            f"unified_{kind}/map": 100 * float(precision.mean()),
            f"unified_{kind}/random": 100 * float(chance.mean()),
            f"unified_{kind}/queries": float(len(precision)),
        }

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
    ) -> dict[str, list[Query]]:
        """Valid queries by kind, for kinds that have any."""
        least = {kind: self.config.least_nouns if kind == "obj" else self.config.least for kind in KINDS}
        every = {kind: valid_queries(candidates[kind], captions, image, kind, least[kind]) for kind in KINDS}
        return {kind: queries for kind, queries in every.items() if queries}

    def _choose(self, runs: Runs, candidates: Mapping[str, Mapping[tuple[str, ...], int]]) -> dict[str, bool]:
        """Whether φ reads the queries of a kind: whether it is no worse than ψ on the validation split (B.3)."""
        if not any(isinstance(family, EncodesComponents) for family in runs.families):
            return {}
        if "val" not in runs.records.split_names:
            log.warning("unified_retrieval: no validation split to choose between φ and ψ by; φ reads the queries")
            return dict.fromkeys(CHOSEN, True)
        part = runs.records.split("val")
        captions = [each for _, each in runs.parsed([caption.text for caption in part.captions])]
        images = runs.encode_images(tuple(image.id for image in part.images))
        chosen = dict.fromkeys(CHOSEN, True)
        for kind, queries in self._queries(candidates, captions, part.caption_to_image).items():
            if kind not in CHOSEN:
                continue
            relevant = [each.relevant for each in queries]
            by_phi, by_psi = (
                float(average_precisions(runs.model, images, encode_queries(runs, queries, phi), relevant).mean())
                for phi in (True, False)
            )
            chosen[kind] = by_phi >= by_psi
            log.info(
                "unified_retrieval: %s are read by %s (mAP on the validation split %.1f by φ, %.1f by ψ)",
                TITLES[kind],
                PHI if chosen[kind] else PSI,
                100 * by_phi,
                100 * by_psi,
            )
        return chosen


def encode_queries(runs: Runs, queries: Sequence[Query], phi: bool) -> Encoded:
    """Codes of queries: by the family's encoder of components if it has one and `phi` asks for it, else as captions."""
    components = [each.components if phi else EMPTY for each in queries]
    return runs.encode_phrases([each.text for each in queries], components)


def same_text(split: Split, fold: Fold) -> list[np.ndarray]:
    """For each caption of a fold the images, by their positions in the fold, that have a caption of the same words."""
    images: dict[str, set[int]] = {}
    texts = [" ".join(words(split.captions[row].text)) for row in fold.captions]
    for text, image in zip(texts, fold.caption_to_image.tolist(), strict=True):
        images.setdefault(text, set()).add(image)
    return [np.array(sorted(images[text])) for text in texts]
