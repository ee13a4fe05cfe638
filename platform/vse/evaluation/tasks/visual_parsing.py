"""Semantic parsing with visual cues: which noun does a word of the caption depend on? (UniVSE, Table 4 and B.4)."""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import torch

from vse.adversaries.caption_pairs import CaptionPair, match_images, read_pairs
from vse.config import knob
from vse.data.annotated_captions import AnnotatedCaption, read_annotated
from vse.data.records import Records
from vse.errors import InputError
from vse.evaluation.component_queries import as_component
from vse.evaluation.dependencies import ATTRIBUTE, RELATION, ContentWord, Judge, annotated_words, content_words, earned
from vse.evaluation.file_names import stems
from vse.evaluation.image_grid import ReadImage, reading_figure
from vse.evaluation.metrics import Metric, by_image, count_metric, mean_over_folds, refuse_nan
from vse.evaluation.retrieval import Encoded, as_index, pair_parts, slice_items
from vse.evaluation.task import Context, Task
from vse.registry import ComponentConfig, register

TITLES = {ATTRIBUTE: "attributed object", RELATION: "relational phrase"}
CANDIDATES_AT_ONCE = 4096
SHOWN, LINES = 8, 6  # captions in the picture, and answers to each

OfImage = TypeVar("OfImage", CaptionPair, AnnotatedCaption)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Reading:
    """As `ReadImage`, with the id of the image."""

    image: str
    caption: str
    answers: tuple[tuple[str, bool], ...]


@register("task", "visual_parsing")
class VisualParsingTask(Task):
    """Nouns that adjectives and relation words of a caption depend on, chosen by the image (UniVSE, Table 4)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        excluded: tuple[str, ...] = knob(
            ("include", "to", "of"), "relation words that are left out: of ambiguous meaning (B.4)"
        )
        captions: tuple[str, ...] = knob(
            (), "files of (image, caption, negative caption), such as SugarCrepe's, to be read too", reads="file"
        )
        annotated: tuple[str, ...] = knob(
            (), "JSON files of captions with dependencies that a person annotated, to be read too", reads="file"
        )

    config: Config
    parsed = True
    records_queries = True
    revision = 3  # 2: a file name that several images of the data share is none of theirs; 3: words of all folds

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._shown: list[_Reading] = []

    @cached_property
    def pairs(self) -> tuple[CaptionPair, ...]:
        """Of all files."""
        return tuple(pair for file in self.config.captions for pair in read_pairs(file))

    @cached_property
    def annotated(self) -> tuple[AnnotatedCaption, ...]:
        """Of all files."""
        return tuple(caption for file in self.config.annotated for caption in read_annotated(file))

    def list_metrics(self) -> Iterator[Metric]:
        for kind, title in TITLES.items():
            yield from _numbers(f"parsing_{kind}", title)
        config = self.config
        for files, end in ((config.captions, ""), (config.captions, "swapped"), (config.annotated, "annotated")):
            of = stems(files) if len(files) == 1 else f"{len(files)} files"
            for kind, title in TITLES.items() if files else ():
                yield from _numbers(
                    "/".join(filter(None, (f"parsing_{kind}", stems(files), end))),
                    ", ".join(filter(None, (title, of, end))),
                )

    def content(self) -> Any:
        return (*self.pairs, *self.annotated)

    def check(self, records: Records) -> None:
        images = [(image.id, image.uri) for image in records.images]
        for named, captions in self._of_files():
            matched = match_images(captions, images)
            if not matched.ids:
                advice = matched.warning(captions, "captions", records.name) or "name images as its files do"
                raise InputError(
                    f"{named}: none of {len(captions)} captions is of an image of {records.name}; {advice}"
                )

    def _of_files(self) -> Iterator[tuple[str, Sequence[CaptionPair | AnnotatedCaption]]]:
        """(key with its value, captions of its files)."""
        for key, captions in (("captions", self.pairs), ("annotated", self.annotated)):
            if captions:
                yield f"measure.visual_parsing.{key}={','.join(getattr(self.config, key))}", captions

    @torch.inference_mode()
    def measure(self, context: Context) -> dict[str, float]:
        """Credit of the candidate with the highest score, in percent of the content words; ties share.

        Of captions of files, those of images of the split are read, and `swapped` is the share of words whose
        dependency in the caption scores higher than the one in its negative, which a person has called wrong.
        `annotated` has the dependencies of a person as truth.
        """
        self._shown = []
        records = context.runs.records
        matched = match_images(self.content(), [(image.id, image.uri) for image in records.images])
        for named, captions in self._of_files():
            if unclear := matched.warning(captions, "captions", records.name):
                log.warning("%s: %s", named, unclear)
        image_of, folds = matched.ids, []
        for number, fold in enumerate(context.folds):
            captions = [context.split.captions[row] for row in fold.captions]
            texts = [each.text for each in captions]
            values = self._read(context, number, texts, fold.caption_to_image, "")
            if self.pairs:
                values |= self._read_files(context, number, image_of)
            if self.annotated:
                values |= self._read_annotated(context, number, image_of)
            folds.append(values)
        return mean_over_folds(folds, self.metrics)

    def pictures(self, context: Context, values: Mapping[str, float]) -> dict[str, bytes]:
        """A few captions, drawn by a hash of their texts, with what was chosen for each content word."""
        try:
            rows = [ReadImage(context.runs.image(each.image), each.caption, each.answers) for each in self._shown]
        except InputError as error:  # data of features alone have no images
            log.warning("visual_parsing: no picture of captions: %s", error)
            return {}
        return {"captions.png": reading_figure(rows, "Dependencies chosen by the image")} if rows else {}

    def _read(
        self,
        context: Context,
        number: int,
        texts: Sequence[str],
        image: np.ndarray,
        below: str,
        annotated: Sequence[AnnotatedCaption] = (),
    ) -> dict[str, float]:
        """The numbers of captions of a fold's images.

        Args:
            context: Encodes and scores.
            number: Of the fold.
            texts: The captions.
            image: The position of each caption's image in the fold.
            below: Follows the kind in the names of the metrics.
            annotated: The captions' annotations, if these are the truth.
        """
        fold = context.folds[number]
        ids = [context.split.images[row].id for row in fold.images]
        captions = [(ids[i], text) for i, text in zip(image.tolist(), texts, strict=True)]
        words, rows = self._annotated_words(annotated) if annotated else self._content_words(context, captions)
        scores = list(score_candidates(context, context.encoded(fold)[0], words, image[rows]))
        if number == 0 and not below:
            self._show([captions[row] for row in rows], words, scores)
        return _credited(context, number, below, words, scores, image[rows])

    def _read_files(self, context: Context, number: int, image_of: Mapping[str, str]) -> dict[str, float]:
        """The numbers of the captions of files whose images are in a fold."""
        below = f"/{stems(self.config.captions)}"
        pairs, of_pairs = _inside(context, number, self.pairs, image_of, self.config.captions)
        if not pairs:
            return {}
        distinct = dict.fromkeys((row, pair.caption) for row, pair in zip(of_pairs.tolist(), pairs, strict=True))
        image = np.array([row for row, _ in distinct])
        values = self._read(context, number, [text for _, text in distinct], image, below)
        swapped, owner = self._swapped(context, pairs, of_pairs)
        scores = list(score_candidates(context, context.encoded(context.folds[number])[0], swapped, owner))
        return values | _credited(context, number, f"{below}/swapped", swapped, scores, owner)

    def _read_annotated(self, context: Context, number: int, image_of: Mapping[str, str]) -> dict[str, float]:
        """The numbers of the annotated captions whose images are in a fold."""
        captions, image = _inside(context, number, self.annotated, image_of, self.config.annotated)
        if not captions:
            return {}
        below = f"/{stems(self.config.annotated)}/annotated"
        return self._read(context, number, [each.caption for each in captions], image, below, captions)

    def _annotated_words(self, captions: Sequence[AnnotatedCaption]) -> tuple[list[ContentWord], np.ndarray]:
        """As `_content_words`."""
        by_caption = [list(annotated_words(each, self.config.excluded)) for each in captions]
        rows = np.repeat(np.arange(len(captions)), [len(words) for words in by_caption])
        return [word for words in by_caption for word in words], rows

    def _swapped(
        self, context: Context, pairs: Sequence[CaptionPair], image: np.ndarray
    ) -> tuple[list[ContentWord], np.ndarray]:
        """Content words that a caption and its negative let depend on other nouns, with both answers as the only
        candidates, and the image of each."""
        texts = [text for pair in pairs for text in (pair.caption, pair.negative)]
        parses = context.runs.parsed(texts)
        words, rows = list[ContentWord](), list[int]()
        for row, true, false in zip(image.tolist(), parses[::2], parses[1::2], strict=True):
            stated, denied = (list(content_words(*each, self.config.excluded)) for each in (true, false))
            wrong = {(word.kind, word.word): word.right for word in denied}
            for word in stated:
                others = wrong.get((word.kind, word.word), set()) & set(word.candidates) - word.right
                if others:
                    both = (*sorted(word.right), *sorted(others))
                    credit = np.repeat([1.0, 0.0], [len(word.right), len(others)])
                    words.append(ContentWord(word.kind, word.word, both, credit))
                    rows.append(row)
        return words, np.array(rows, dtype=np.int64)

    def _show(
        self, captions: Sequence[tuple[str, str]], words: Sequence[ContentWord], scores: Sequence[np.ndarray]
    ) -> None:
        """Keep some captions for the picture; those with a single candidate show nothing."""
        answers: dict[tuple[str, str], list[tuple[str, bool]]] = {}
        for caption, word, each in zip(captions, words, scores, strict=True):
            if len(word.candidates) > 1:
                best = int(each.argmax())
                right = bool(word.credit[best] == 1)
                text = " – ".join(word.candidates[best])
                text += "" if right else f"   (right: {' – '.join(sorted(word.right)[0])})" if word.right else ""
                answers.setdefault(caption, []).append((text, right))
        by_hash = sorted(answers, key=lambda caption: hashlib.sha256("\n".join(caption).encode()).digest())
        chosen = [caption for caption in by_hash if len(answers[caption]) > 1] or by_hash
        self._shown = [_Reading(*caption, tuple(answers[caption][:LINES])) for caption in chosen[:SHOWN]]

    def _content_words(
        self, context: Context, captions: Sequence[tuple[str, str]]
    ) -> tuple[list[ContentWord], np.ndarray]:
        """Content words of captions, given as (image id, text), and the row of the caption of each."""
        words, rows = list[ContentWord](), list[int]()
        judge = context.runs.judge
        parses = context.runs.parsed([text for _, text in captions])
        for row, ((image, _), (parse, components)) in enumerate(zip(captions, parses, strict=True)):
            of_image: Judge | None = None if judge is None else partial(judge, image)
            for word in content_words(parse, components, self.config.excluded, of_image):
                words.append(word)
                rows.append(row)
        return words, np.array(rows, dtype=np.int64)


def _inside(
    context: Context, number: int, captions: Sequence[OfImage], image_of: Mapping[str, str], files: Sequence[str]
) -> tuple[list[OfImage], np.ndarray]:
    """The captions of files whose images are in a fold, and the positions of these there; `image_of`: by file name."""
    position = {context.split.images[row].id: place for place, row in enumerate(context.folds[number].images)}
    inside = [each for each in captions if image_of.get(each.filename) in position]
    if not inside:
        log.warning("visual_parsing: no caption of %s is of an image of split %s", stems(files), context.split.name)
    return inside, np.array([position[image_of[each.filename]] for each in inside], dtype=np.int64)


def _credited(
    context: Context,
    number: int,
    below: str,
    words: Sequence[ContentWord],
    scores: Sequence[np.ndarray],
    image: np.ndarray,
) -> dict[str, float]:
    """The numbers of content words by kind; records the credit of each image.

    Args:
        context: Records the credit.
        number: Of the fold.
        below: Follows the kind in the names of the metrics.
        words: The content words.
        scores: Of each word's candidates.
        image: The position of each word's image in the fold.
    """
    ids = [context.split.images[row].id for row in context.folds[number].images]
    credit = np.array([earned(each, word.credit) for word, each in zip(words, scores, strict=True)])
    values = dict[str, float]()
    for kind in TITLES:
        of_kind = np.array([word.kind == kind for word in words], dtype=bool)
        if of_kind.any():
            head = f"parsing_{kind}{below}"
            values[f"{head}/accuracy"] = 100 * float(credit[of_kind].mean())
            values[f"{head}/random"] = 100 * float(np.mean([word.by_chance for word in words if word.kind == kind]))
            values[f"{head}/words"] = float(of_kind.sum())
            sums = by_image(credit[of_kind], image[of_kind], len(ids))
            context.record_values(f"{head}/accuracy", number, ids, sums[:, 0], sums[:, 1])
    return values


def _numbers(head: str, group: str) -> Iterator[Metric]:
    yield Metric(name=f"{head}/accuracy", heading="accuracy", group=group)
    yield Metric(name=f"{head}/random", heading="at random", group=group, higher_is_better=None, main=False)
    yield count_metric(f"{head}/words", "words", group)


def score_candidates(
    context: Context, images: Encoded, queries: Sequence[ContentWord], image: np.ndarray
) -> Iterator[np.ndarray]:
    """For each content word the scores of its candidates with its image; encoded and scored block by block.

    Args:
        context: Encodes and scores.
        images: Codes of the images.
        queries: Content words.
        image: The position of each word's image.

    Yields:
        Scores of the candidates, in their order.
    """
    start = 0
    while start < len(queries):
        stop, number = start, 0
        while stop < len(queries) and (number == 0 or number + len(queries[stop].candidates) <= CANDIDATES_AT_ONCE):
            number += len(queries[stop].candidates)
            stop += 1
        block = queries[start:stop]
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
