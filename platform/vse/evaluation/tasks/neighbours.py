"""Nearest neighbours within a modality and across data sets, by what they have in common (jWAE, Fig. 2)."""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vse.config import knob
from vse.data.keyed import permutation
from vse.data.records import Records
from vse.errors import InputError
from vse.evaluation.file_names import stem
from vse.evaluation.foreign_captions import read_foreign
from vse.evaluation.galleries import best_candidates
from vse.evaluation.image_grid import NeighbourImages, neighbour_figure
from vse.evaluation.metrics import Metric, by_image, count_metric, mean_over_folds
from vse.evaluation.neighbour_tables import CaptionNeighbours, caption_tables
from vse.evaluation.neighbours import (
    Elements,
    Items,
    elements_of,
    membership,
    neighbour_overlaps,
    rows_of,
    score_blocks,
    set_overlaps,
)
from vse.evaluation.task import Context, Task
from vse.registry import ComponentConfig, register
from vse.text.tokens import words

log = logging.getLogger(__name__)

IMAGE, CAPTION, FOREIGN = "image", "caption", "foreign"
GRAPH, CATEGORIES, COMPONENTS = "graph", "categories", "components"
SIDES = {IMAGE: "images", CAPTION: "captions", FOREIGN: "captions and foreign captions"}
TRUTHS = {GRAPH: "scene graphs", CATEGORIES: "categories of boxes", COMPONENTS: "parsed components"}
SHOWN_IMAGES, SHOWN_CAPTIONS, NEAREST_CAPTIONS = 5, 5, 4  # of the picture and of the tables


@dataclass(frozen=True, eq=False)
class _Images:
    """Images of a fold with the elements of each, and the source of these elements."""

    ids: list[str]
    elements: list[Elements]
    truth: str


@register("task", "neighbours")
class NeighboursTask(Task):
    """What nearest images and nearest captions have in common, against random pairs (jWAE, Fig. 2)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        number: int = knob(5, "nearest neighbours of an image or caption", low=1)
        captions: tuple[str, ...] = knob(
            (),
            "files of captions of other data, in which nearest captions are searched too: text with one per line, a "
            "table with a column caption, or JSON of a data set; also as .gz",
            reads="file",
        )

    config: Config
    reads_boxes = True
    parsed = True
    records_queries = True
    revision = 3  # 2: queries of all folds; 3: categories only if most images have some

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._rows: list[tuple[str, list[tuple[str, float, str]]]] = []
        self._tables: dict[str, list[CaptionNeighbours]] = {}

    def list_metrics(self) -> Iterator[Metric]:
        for side in SIDES if self.config.captions else (IMAGE, CAPTION):
            for truth, of in TRUTHS.items() if side != FOREIGN else ((COMPONENTS, TRUTHS[COMPONENTS]),):
                head, group = f"neighbours_{side}/{truth}", f"{SIDES[side]}, {of}"
                yield Metric(name=f"{head}/overlap", heading="overlap", group=group)
                yield Metric(name=f"{head}/random", heading="at random", group=group, higher_is_better=None)
                yield Metric(name=f"{head}/above", heading="above random", group=group, main=False)
                yield count_metric(f"{head}/queries", "queries", group)

    @cached_property
    def foreign(self) -> tuple[str, ...]:
        """The captions of the files, each text once."""
        return tuple(dict.fromkeys(text for file in self.config.captions for text in read_foreign(file)))

    def content(self) -> Any:
        return hashlib.sha256("\n".join(self.foreign).encode()).hexdigest() if self.config.captions else None

    def check(self, records: Records) -> None:
        if self.config.captions and not self.foreign:
            raise InputError(f"measure.neighbours.captions={','.join(self.config.captions)}: holds no captions")

    @torch.inference_mode()
    def measure(self, context: Context) -> dict[str, float]:
        """Mean overlap |A ∩ B| / |A ∪ B| with the nearest items, in percent, and its expectation for random ones.

        Neighbours of an image are other images, of a caption captions of other images. What is compared: of images
        scene graphs if the source knows them, otherwise categories of boxes if at least half of the split's images have
        one (phrase boxes may name a few), otherwise components of all captions; of captions their components, and what
        is known of their images. Items of which nothing is known are left out.
        """
        self._rows, self._tables = [], {}
        foreign = self._foreign(context) if self.config.captions else None
        folds = (self._fold(context, number, foreign) for number in range(len(context.folds)))
        return mean_over_folds(folds, self.metrics)

    def _fold(self, context: Context, number: int, foreign: tuple[Tensor, list[Elements]] | None) -> dict[str, float]:
        fold = context.folds[number]
        images, captions = context.encoded(fold)
        texts = [context.split.captions[row].text for row in fold.captions]
        caption_elements = [elements_of(each) for _, each in context.runs.parsed(texts)]
        facts = _known_images(context, number, caption_elements)
        of_captions = fold.caption_to_image
        vectors = context.runs.vectors(images, "images"), context.runs.vectors(captions, "captions")
        of_images = _Measured(context, number, facts.ids, np.arange(len(facts.ids)))
        of_texts = _Measured(context, number, facts.ids, of_captions)
        values = of_images.values(f"neighbours_{IMAGE}/{facts.truth}", vectors[0], facts.elements, self.config.number)
        if facts.truth != COMPONENTS:
            elements = [facts.elements[row] for row in of_captions.tolist()]
            head = f"neighbours_{CAPTION}/{facts.truth}"
            values |= of_texts.values(head, vectors[1], elements, self.config.number)
        values |= of_texts.values(
            f"neighbours_{CAPTION}/{COMPONENTS}", vectors[1], caption_elements, self.config.number
        )
        if foreign is not None:
            head = f"neighbours_{FOREIGN}/{COMPONENTS}"
            values |= of_texts.values(head, vectors[1], caption_elements, self.config.number, foreign)
        if number == 0:
            self._show_images(facts, vectors[0])
            self._show_captions("other images of the split", texts, vectors[1], caption_elements, of_captions, None)
            if foreign is not None:
                named = ", ".join(map(stem, self.config.captions))
                self._show_captions(named, texts, vectors[1], caption_elements, of_captions, foreign)
        return values

    def _foreign(self, context: Context) -> tuple[Tensor, list[Elements]]:
        """Vectors and components of the captions of files."""
        vectors = context.runs.vectors(context.runs.encode_texts(list(self.foreign)), "captions")
        return vectors, [elements_of(each) for _, each in context.runs.parsed(self.foreign)]

    def _show_images(self, images: _Images, vectors: Tensor) -> None:
        """Keep some images with their neighbours for the picture."""
        (members,) = membership(images.elements)
        every = Items(vectors, members, np.arange(len(vectors)))
        for row, nearest in _nearest(every, every, _drawn("images", len(vectors), SHOWN_IMAGES), self.config.number):
            shared = set_overlaps(rows_of(members, [row]), rows_of(members, nearest))[0] if nearest else []
            neighbours = [
                (images.ids[each], float(overlap), _common(images.elements[row], images.elements[each]))
                for each, overlap in zip(nearest, shared, strict=True)
            ]
            self._rows.append((images.ids[row], neighbours))

    def _show_captions(
        self,
        title: str,
        texts: Sequence[str],
        vectors: Tensor,
        elements: Sequence[Elements],
        groups: np.ndarray,
        foreign: tuple[Tensor, list[Elements]] | None,
    ) -> None:
        """Keep some captions with their neighbours for the tables; of captions of the same words one is shown."""
        others, known, candidates = (vectors, elements, texts) if foreign is None else (*foreign, self.foreign)
        members, other_members = membership(elements, known)
        apart = groups if foreign is None else np.full(len(others), -1)
        drawn = _drawn("captions", len(vectors), SHOWN_CAPTIONS)
        rows = []
        for row, nearest_rows in _nearest(
            Items(vectors, members, groups), Items(others, other_members, apart), drawn, 5 * NEAREST_CAPTIONS
        ):
            distinct = {" ".join(words(candidates[each])): each for each in reversed(nearest_rows)}
            kept = sorted(distinct.values(), key=nearest_rows.index)[:NEAREST_CAPTIONS]
            own = rows_of(members, [row])
            overlaps = set_overlaps(own, rows_of(other_members, kept))[0].tolist() if kept else []
            nearest = tuple((candidates[each], overlap) for each, overlap in zip(kept, overlaps, strict=True))
            rows.append(CaptionNeighbours(texts[row], nearest))
        self._tables[title] = rows

    def pictures(self, context: Context, values: Mapping[str, float]) -> dict[str, bytes]:
        """Some images with their nearest images, and tables of captions with their nearest captions."""
        files = {"captions.md": caption_tables(self._tables).encode()} if self._tables else {}
        try:
            rows = [
                NeighbourImages(
                    context.runs.image(id_),
                    [(context.runs.image(each), overlap, common) for each, overlap, common in neighbours],
                )
                for id_, neighbours in self._rows
            ]
        except InputError as error:  # data of features alone have no images
            log.warning("neighbours: no picture of nearest images: %s", error)
            return files
        return files | ({"images.png": neighbour_figure(rows, "Nearest images")} if rows else {})


@dataclass(frozen=True, eq=False)
class _Measured:
    """Queries of a fold, each of an image, and where their outcomes are recorded."""

    context: Context
    fold: int
    ids: list[str]
    image: np.ndarray

    def values(
        self,
        head: str,
        vectors: Tensor,
        elements: Sequence[Elements],
        number: int,
        foreign: tuple[Tensor, list[Elements]] | None = None,
    ) -> dict[str, float]:
        """Metrics of the items that have elements, among each other or against foreign captions."""
        rows = np.flatnonzero([bool(each) for each in elements])
        candidates = rows if foreign is None else np.flatnonzero([bool(each) for each in foreign[1]])
        if not len(rows) or not len(candidates):
            return {}
        with_elements = [elements[row] for row in rows.tolist()]
        if foreign is None:
            (members,) = membership(with_elements)
            items = others = Items(vectors[torch.as_tensor(rows)], members, self.image[rows])
        else:
            own_members, other_members = membership(with_elements, [foreign[1][row] for row in candidates.tolist()])
            items = Items(vectors[torch.as_tensor(rows)], own_members, self.image[rows])
            others = Items(foreign[0][torch.as_tensor(candidates)], other_members, np.full(len(candidates), -1))
        overlap, random = neighbour_overlaps(items, others, number)
        has_neighbours = ~np.isnan(overlap)
        if not has_neighbours.any():
            return {}
        image, values = self.image[rows][has_neighbours], {f"{head}/queries": float(has_neighbours.sum())}
        drawn = np.unique(image)
        names = [self.ids[row] for row in drawn.tolist()]
        for name, each in (("overlap", overlap), ("random", random), ("above", overlap - random)):
            hits, queries = by_image(each[has_neighbours], image, len(self.ids))[drawn].T
            self.context.record_values(f"{head}/{name}", self.fold, names, hits, queries)
            values[f"{head}/{name}"] = 100 * float(each[has_neighbours].mean())
        return values


def _known_images(context: Context, number: int, of_captions: Sequence[Elements]) -> _Images:
    """What is known of the images of a fold: scene graphs, else categories of boxes, else components of captions."""
    fold, runs = context.folds[number], context.runs
    ids = [context.split.images[row].id for row in fold.images]
    if (graph := runs.scene_graphs) is not None:
        return _Images(ids, [graph(id_) for id_ in ids], GRAPH)
    boxes = runs.records.boxes
    labels: dict[str, Elements] = {
        image.id: {(box.label,) for box in boxes.get(image.id, ()) if not box.caption} for image in context.split.images
    }
    if 2 * sum(map(bool, labels.values())) >= len(labels):
        return _Images(ids, [labels[id_] for id_ in ids], CATEGORIES)
    together: list[set[tuple[str, ...]]] = [set() for _ in ids]
    for image, elements in zip(fold.caption_to_image.tolist(), of_captions, strict=True):
        together[image] |= elements
    return _Images(ids, list(together), COMPONENTS)


def _drawn(purpose: str, total: int, number: int) -> np.ndarray:
    """Some rows, the same for all runs on the same data."""
    return permutation(0, 0, f"neighbours {purpose}", total)[:number]


def _nearest(queries: Items, candidates: Items, drawn: np.ndarray, number: int) -> Iterator[tuple[int, list[int]]]:
    """(query, its nearest candidates) of some queries; equal scores in the order of candidates."""
    some = Items(queries.vectors[torch.as_tensor(drawn)], rows_of(queries.members, drawn), queries.groups[drawn])
    place = np.arange(len(candidates.vectors))
    for rows, scores, allowed in score_blocks(some, candidates):
        masked = scores.masked_fill(~allowed, -torch.inf)
        values, best = best_candidates([(place, masked)], number)
        for row, best_values, positions in zip(drawn[rows].tolist(), values.tolist(), best.tolist(), strict=True):
            yield row, [each for value, each in zip(best_values, positions, strict=True) if value > -np.inf]


def _common(one: Elements, other: Elements) -> str:
    """Nouns or categories of both, of more than a few the first."""
    shared = sorted(each[0] for each in one & other if len(each) == 1)
    return ", ".join(shared[:3]) + (" …" if len(shared) > 3 else "")
