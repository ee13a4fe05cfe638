"""Semantic parsing with visual cues: which noun does a word of the caption depend on? (UniVSE, Table 4 and B.4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from vse.config import knob
from vse.evaluation.component_queries import as_component
from vse.evaluation.dependencies import ATTRIBUTE, RELATION, ContentWord, Judge, content_words, earned
from vse.evaluation.metrics import Metric, mean_over_folds, refuse_nan
from vse.evaluation.retrieval import Encoded, as_index, pair_parts, slice_items
from vse.evaluation.task import Context, Task
from vse.registry import ComponentConfig, register

TITLES = {ATTRIBUTE: "attributed object", RELATION: "relational phrase"}
CANDIDATES_AT_ONCE = 4096


@register("task", "visual_parsing")
class VisualParsingTask(Task):
    """Nouns that adjectives and relation words of a caption depend on, chosen by the image (UniVSE, Table 4)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        excluded: tuple[str, ...] = knob(
            ("include", "to", "of"), "relation words that are left out: of ambiguous meaning (B.4)"
        )

    config: Config
    parsed = True

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return tuple(self._metrics())

    def _metrics(self) -> Iterator[Metric]:
        for kind, title in TITLES.items():
            head = f"parsing_{kind}"
            yield Metric(name=f"{head}/accuracy", heading="accuracy", group=title)
            yield Metric(name=f"{head}/random", heading="at random", group=title, higher_is_better=None, main=False)
            yield Metric(
                name=f"{head}/words",
                heading="words",
                group=title,
                unit="",
                higher_is_better=None,
                decimals=0,
                main=False,
            )

    @torch.inference_mode()
    def measure(self, context: Context) -> dict[str, float]:
        """Credit of the candidate with the highest score, in percent of the content words; ties share."""
        folds = []
        for fold in context.folds:
            images, _ = context.encoded(fold)
            captions = [context.split.captions[row] for row in fold.captions]
            asked, rows = self._content_words(context, [(each.image, each.text) for each in captions])
            image = fold.caption_to_image[rows]
            credit = np.array(
                [
                    earned(scores, word.credit)
                    for word, scores in zip(asked, score_candidates(context, images, asked, image), strict=True)
                ]
            )
            values = dict[str, float]()
            for kind in TITLES:
                of_kind = np.array([word.kind == kind for word in asked], dtype=bool)
                if of_kind.any():
                    chance = np.array([word.by_chance for word in asked if word.kind == kind])
                    values[f"parsing_{kind}/accuracy"] = 100 * float(credit[of_kind].mean())
                    values[f"parsing_{kind}/random"] = 100 * float(chance.mean())
                    values[f"parsing_{kind}/words"] = float(of_kind.sum())
            folds.append(values)
        return mean_over_folds(folds)

    def _content_words(
        self, context: Context, captions: Sequence[tuple[str, str]]
    ) -> tuple[list[ContentWord], np.ndarray]:
        """Content words of captions, given as (image id, text), and the row of the caption of each."""
        asked, rows = list[ContentWord](), list[int]()
        judge = context.runs.judge
        parses = context.runs.parsed([text for _, text in captions])
        for row, ((image, _), (parse, components)) in enumerate(zip(captions, parses, strict=True)):
            of_image: Judge | None = None if judge is None else partial(judge, image)
            for word in content_words(parse, components, self.config.excluded, of_image):
                asked.append(word)
                rows.append(row)
        return asked, np.array(rows, dtype=np.int64)


def score_candidates(
    context: Context, images: Encoded, asked: Sequence[ContentWord], image: np.ndarray
) -> Iterator[np.ndarray]:
    """For each content word the scores of its candidates with its image; encoded and scored block by block.

    Args:
        context: Encodes and scores.
        images: Codes of the images.
        asked: Content words.
        image: The position of each word's image.

    Yields:
        Scores of the candidates, in their order.
    """
    start = 0
    while start < len(asked):
        stop, number = start, 0
        while stop < len(asked) and (number == 0 or number + len(asked[stop].candidates) <= CANDIDATES_AT_ONCE):
            number += len(asked[stop].candidates)
            stop += 1
        block = asked[start:stop]
        flat = [words for word in block for words in word.candidates]
        distinct = {words: row for row, words in enumerate(dict.fromkeys(flat))}
        codes = context.runs.encode_phrases([" ".join(each) for each in distinct], list(map(as_component, distinct)))
        lengths = [len(word.candidates) for word in block]
        rows = as_index(np.repeat(image[start:stop], lengths), codes)
        texts = slice_items(codes, np.array([distinct[words] for words in flat]))
        scores = context.model.combine(pair_parts(context.model, images, texts, rows))[0].float()
        refuse_nan(scores)
        yield from np.split(scores.cpu().numpy(), np.cumsum(lengths)[:-1])
        start = stop
