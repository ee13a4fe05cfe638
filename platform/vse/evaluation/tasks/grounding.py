"""Relevance maps against annotated boxes (UniVSE, eq. 2 and Fig. 6): does a map point to what its text names?"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from vse.config import knob
from vse.data.keyed import permutation
from vse.data.records import Image, Records
from vse.errors import InputError, did_you_mean
from vse.evaluation.box_phrases import KINDS, BoxPhrase, box_phrases, components_of
from vse.evaluation.metrics import Metric, count_metric, mean_over_folds
from vse.evaluation.protocol import Fold
from vse.evaluation.relevance_maps import Grid, Grounding, Rectangle, ground
from vse.evaluation.relevance_pictures import DrawnMap, draw_maps
from vse.evaluation.task import BOXES, ONE_RUN, REGIONS, Capability, Context, Runs, Subject, Task
from vse.models.family import Encoded, Family
from vse.registry import ComponentConfig, register

log = logging.getLogger(__name__)

ATTENTION = Capability(
    "attention over regions, which SCAN has, or measure.grounding.map=similarity",
    lambda subject: all(type(family).attention_map is not Family.attention_map for family in subject.families),
)
_PICTURES = 12
_HEADINGS = {
    "pointing": "pointing game",
    "area": "of a uniform point",
    "centre": "of the centre",
    "over_area": "above a uniform point",
    "over_centre": "above the centre",
    "mass": "mass inside",
    "reachable": "reachable",
}


@register("task", "grounding")
class GroundingTask(Task):
    """Maps of nouns, pairs, triples and phrases against annotated boxes: pointing game and mass inside."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        temperature: float = knob(0.1, "temperature of the map's softmax over regions (UniVSE, Fig. 6)", above=0)
        map: str = knob(
            "similarity",
            "softmax of similarities over regions, or the attention of the family's score (SCAN)",
            choices=("similarity", "attention"),
        )
        image: str = knob("", "id of an image to draw a map of, with measure.grounding.text")
        text: str = knob("", "word, pair, triple or other text to draw a map of")

    config: Config
    reads_boxes = True
    needs = (ONE_RUN, REGIONS, BOXES)
    records_queries = True
    revision = 2  # 2: queries of all folds

    def list_metrics(self) -> Iterator[Metric]:
        for kind, title in KINDS.items():
            for name, heading in _HEADINGS.items():
                better = True if name in ("pointing", "mass", "over_area", "over_centre") else None
                yield Metric(
                    name=f"grounding_{kind}/{name}",
                    heading=heading,
                    group=title,
                    higher_is_better=better,
                    main=name == "pointing",
                )
            yield count_metric(f"grounding_{kind}/queries", "queries", title)

    def missing(self, subject: Subject) -> str:
        """Also attention over regions for `map=attention`."""
        lacks = super().missing(subject)
        return lacks or ("" if self.config.map == "similarity" or ATTENTION.of(subject) else ATTENTION.name)

    def check(self, records: Records) -> None:
        if bool(self.config.image) != bool(self.config.text):
            raise InputError("measure.grounding: image and text go together; give both, or neither")
        ids = [image.id for image in records.images]
        if self.config.image and self.config.image not in ids:
            hint = did_you_mean(self.config.image, ids) or f"one is {ids[0]}"
            raise InputError(f"measure.grounding.image={self.config.image}: no image of {records.name}; {hint}")

    def measure(self, context: Context) -> dict[str, float]:
        """Per kind: the pointing game, the mass inside, what a uniform point and the centre reach, and the share of
        texts with a cell's centre in a box. Texts with a word that the run does not know are left out."""
        unknown = list[str]()
        folds = (self._fold(context, number, fold, unknown) for number, fold in enumerate(context.folds))
        values = mean_over_folds(folds, self.metrics)
        if unknown:
            log.info("grounding: texts of boxes left out for an unknown word: %d, such as %r", len(unknown), unknown[0])
        return values

    def _fold(self, context: Context, number: int, fold: Fold, unknown: list[str]) -> dict[str, float]:
        images = [context.split.images[row] for row in fold.images]
        phrases = [_phrases(context.runs, image, unknown) for image in images]
        sums = {kind: defaultdict[str, np.ndarray](lambda: np.zeros(len(images))) for kind in KINDS}
        queries = {kind: np.zeros(len(images)) for kind in KINDS}
        for row, image in enumerate(images):
            for each, relevance, grid in self._maps(context.runs, image.id, phrases[row]):
                for name, value in _values(ground(relevance, each.boxes, grid)).items():
                    sums[each.kind][name][row] += value
                queries[each.kind][row] += 1
        values = dict[str, float]()
        ids = [image.id for image in images]
        for kind, counts in queries.items():
            if not counts.any():
                continue
            for name, hits in sums[kind].items():
                metric = f"grounding_{kind}/{name}"
                context.record_values(metric, number, ids, hits, counts)
                values[metric] = float(100 * hits.sum() / counts.sum())
            values[f"grounding_{kind}/queries"] = float(counts.sum())
        return values

    def _maps(self, runs: Runs, image: str, phrases: list[BoxPhrase]) -> Iterator[tuple[BoxPhrase, np.ndarray, Grid]]:
        """Phrases of an image with their maps and the grid of these."""
        if not phrases:
            return
        texts = [each.texts[0] for each in phrases]
        stated = {
            text: parts
            for text, each in zip(texts, phrases, strict=True)
            if (parts := components_of(each.kind, text)) is not None
        }
        regions = runs.encode_regions([image])
        with torch.inference_mode():
            maps = (
                self._relevance(runs, dict(regions), dict(runs.encode_queries(texts, stated)))[0].double().cpu().numpy()
            )
        grid = Grid.square(maps.shape[1], Rectangle(*runs.window(image)))
        for each, relevance in zip(phrases, maps, strict=True):
            yield each, relevance.reshape(grid.rows, grid.columns), grid

    def _relevance(self, runs: Runs, regions: Encoded, queries: Encoded) -> torch.Tensor:
        family = runs.families[0]
        if self.config.map == "similarity":
            return family.relevance(regions, queries, self.config.temperature)
        return family.attention_map(regions, queries)

    def pictures(self, context: Context, values: Mapping[str, float]) -> dict[str, bytes]:
        """Maps of some texts, drawn by a key of the split, and the map of `measure.grounding.text`."""
        files = dict[str, bytes]()
        for name, draw in (("maps.png", self._some_maps), ("map.png", self._requested_map)):
            try:
                files |= draw(context)
            except InputError as error:  # a picture is missing or cannot be read, or no word of a text is known
                log.warning("grounding: no %s: %s", name, error)
        return files

    def _some_maps(self, context: Context) -> dict[str, bytes]:
        runs, drawn = context.runs, list[DrawnMap]()
        images = [context.split.images[row] for fold in context.folds[:1] for row in fold.images]
        order = permutation(0, 0, "pictures of grounding", len(images))
        for number, row in enumerate(order[: 2 * _PICTURES]):
            phrases = _phrases(runs, images[row])
            kinds = list(dict.fromkeys(each.kind for each in phrases))
            if not kinds or len(drawn) == _PICTURES:
                continue
            kind = kinds[number % len(kinds)]
            chosen = [each for each in phrases if each.kind == kind]
            chosen = [chosen[(7 * number) % len(chosen)]]
            for each, relevance, grid in self._maps(runs, images[row].id, chosen):
                drawn.append(DrawnMap(runs.image(images[row].id), relevance, grid, each.texts[0], each.boxes))
        return {"maps.png": draw_maps(drawn, self._note(drawn[0].grid))} if drawn else {}

    def _requested_map(self, context: Context) -> dict[str, bytes]:
        if not self.config.image:
            return {}
        text, runs = self.config.text, context.runs
        if runs.unknown_words([text]) == 100:
            raise InputError(f"measure.grounding.text={text}: the run knows none of its words")
        ((_, relevance, grid),) = self._maps(runs, self.config.image, [BoxPhrase("phrase", (text,), ())])
        return {"map.png": draw_maps([DrawnMap(runs.image(self.config.image), relevance, grid, text)])}

    def _note(self, grid: Grid) -> str:
        how = f"temperature {self.config.temperature:g}" if self.config.map == "similarity" else "attention"
        return f"maps of {grid.rows} x {grid.columns} cells, {how}; green: boxes, x: maximum, orange: half of it"


def _phrases(runs: Runs, image: Image, unknown: list[str] | None = None) -> list[BoxPhrase]:
    """Texts that the boxes of an image can ground, in words of the run's vocabulary; others are added to `unknown`."""
    phrases = []
    for each in box_phrases(runs.records.boxes.get(image.id, ()), image.uri):
        readable = [text for text in each.texts if not runs.unknown_words([text])]
        if readable:
            phrases.append(BoxPhrase(each.kind, (readable[0],), each.boxes))
        elif unknown is not None:
            unknown.append(each.texts[0])
    return phrases


def _values(result: Grounding) -> dict[str, float]:
    return {
        "pointing": result.pointing,
        "area": result.area,
        "centre": result.centre,
        "over_area": result.pointing - result.area,
        "over_centre": result.pointing - result.centre,
        "mass": result.mass,
        "reachable": result.reachable,
    }
