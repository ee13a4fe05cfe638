"""Vectors of components by level: t-SNE, and whether neighbours share a WordNet hypernym (UniVSE, supplement B.5)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from vse.config import knob
from vse.data.records import Records
from vse.errors import InputError
from vse.evaluation.component_kinds import common_kinds, kinds_of, share_a_kind
from vse.evaluation.component_picture import COLOURS, FEWEST, Level, component_figure
from vse.evaluation.component_queries import KINDS, Words, as_component, frequent
from vse.evaluation.metrics import Metric, count_metric
from vse.evaluation.neighbours import Items, membership, neighbour_means
from vse.evaluation.task import Context, Scope, Task
from vse.registry import ComponentConfig, register
from vse.text.lexicon.compact import SHIPPED, read_compact
from vse.text.lexicon.lexicon import Lexicon
from vse.text.lexicon.wordnet import read_wordnet

TITLES = {"obj": "objects", "attr": "attribute-noun pairs", "rel": "relational triples"}
# metric -> level, place of the noun that is compared, row of tables
COMPARED = {
    "obj": ("obj", 0, TITLES["obj"]),
    "attr": ("attr", 1, TITLES["attr"]),
    "rel_subject": ("rel", 0, "subjects of relational triples"),
    "rel_object": ("rel", 2, "objects of relational triples"),
}
NOUN = {"obj": 0, "attr": 1, "rel": 0}  # the word that colours a point
SHOWN = 250  # components of a level in the picture


@register("task", "component_neighbours")
class ComponentNeighboursTask(Task):
    """Whether neighbours among nouns, pairs and triples share a WordNet hypernym; t-SNE (UniVSE, B.5)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        number: int = knob(5, "nearest neighbours of a component", low=1)
        steps: int = knob(2, "hypernyms up to this many steps above a noun's sense can be shared", low=1)
        least: int = knob(2, "captions of the split in which a component must occur", low=1)
        most: int = knob(1000, "components of a level: the most frequent ones", low=FEWEST)
        lexicon: str = knob(
            SHIPPED,
            "hypernyms: `shipped`, 4,179 nouns of WordNet 3.0, or the directory of a WordNet database (Debian: "
            "wordnet-base, /usr/share/wordnet)",
        )

    config: Config
    scope = Scope.SPLIT
    parsed = True
    records_queries = True

    def list_metrics(self) -> Iterator[Metric]:
        for name, (_, _, group) in COMPARED.items():
            head = f"component_neighbours_{name}"
            yield Metric(name=f"{head}/shared", heading="share a hypernym", group=group)
            yield Metric(name=f"{head}/random", heading="at random", group=group, higher_is_better=None)
            yield Metric(name=f"{head}/above", heading="above random", group=group, main=False)
            yield count_metric(f"{head}/queries", "components", group)

    @cached_property
    def lexicon(self) -> Lexicon:
        """The hypernyms. Raises InputError for a directory that is no WordNet database."""
        named = self.config.lexicon
        return read_compact().lexicon if named == SHIPPED else read_wordnet(named)

    def content(self) -> str:
        return self.lexicon.fingerprint

    def check(self, records: Records) -> None:
        try:
            _ = self.lexicon
        except InputError as error:
            raise InputError(f"measure.component_neighbours.lexicon={error}") from None

    @torch.inference_mode()
    def measure(self, context: Context) -> dict[str, float]:
        """The share of the nearest components whose noun shares a hypernym with the component's, in percent.

        Components are those of captions of the split. Neighbours have another noun at the place that is compared, so
        that "red car" is none of "blue car". Components whose noun the lexicon lacks are left out. `random` is the
        expectation for random neighbours: the mean over all candidates.
        """
        values = dict[str, float]()
        levels = {level: (words, self._vectors(context, words)) for level, words in self._components(context).items()}
        for name, (level, place, _) in COMPARED.items():
            if level in levels:
                values |= self._compared(context, f"component_neighbours_{name}", *levels[level], place)
        return values

    def pictures(self, context: Context, values: Mapping[str, float]) -> dict[str, bytes]:
        """The most frequent components of each level in two dimensions, coloured by a hypernym of their noun."""
        shown = {level: words[:SHOWN] for level, words in self._components(context).items()}
        shown = {level: words for level, words in shown.items() if len(words) >= FEWEST}
        nouns = sorted({each[NOUN[level]] for level, words in shown.items() for each in words})
        kinds = dict(zip(nouns, common_kinds(nouns, self.lexicon, len(COLOURS)), strict=True))
        levels = [
            Level(
                TITLES[level],
                [" ".join(each) for each in words],
                [kinds[each[NOUN[level]]] for each in words],
                self._vectors(context, words).cpu().numpy(),
            )
            for level, words in shown.items()
        ]
        return {"components.png": component_figure(levels)} if levels else {}

    def _components(self, context: Context) -> dict[str, list[Words]]:
        """By level, the components of enough captions, most frequent first; only levels with any."""
        captions = [each for _, each in context.runs.parsed([caption.text for caption in context.split.captions])]
        every = {level: list(frequent(captions, level, self.config.least))[: self.config.most] for level in KINDS}
        return {level: words for level, words in every.items() if words}

    def _vectors(self, context: Context, words: Sequence[Words]) -> Tensor:
        """Unit vectors of components: by the family's encoder of components if it has one, else as short captions."""
        codes = context.runs.encode_phrases([" ".join(each) for each in words], [as_component(each) for each in words])
        return context.runs.vectors(codes, "captions")

    def _compared(
        self, context: Context, head: str, words: Sequence[Words], vectors: Tensor, place: int
    ) -> dict[str, float]:
        """The numbers of a level by the nouns at a place."""
        kinds = [kinds_of(each[place], self.lexicon, self.config.steps) for each in words]
        rows = np.flatnonzero([bool(each) for each in kinds])
        if not len(rows):
            return {}
        (members,) = membership([kinds[row] for row in rows.tolist()])
        _, noun = np.unique([words[row][place] for row in rows.tolist()], return_inverse=True)
        items = Items(vectors[torch.as_tensor(rows)], members, noun)
        shared, random = neighbour_means(items, items, self.config.number, share_a_kind)
        has_neighbours = ~np.isnan(shared)
        if not has_neighbours.any():
            return {}
        texts = [" ".join(words[row]) for row in rows[has_neighbours].tolist()]
        values = {f"{head}/queries": float(has_neighbours.sum())}
        for name, each in (("shared", shared), ("random", random), ("above", shared - random)):
            context.record_values(f"{head}/{name}", 0, texts, each[has_neighbours], np.ones(len(texts)))
            values[f"{head}/{name}"] = 100 * float(each[has_neighbours].mean())
        return values
