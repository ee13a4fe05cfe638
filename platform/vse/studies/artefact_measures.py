"""How well text alone tells adversaries from real captions, and filters that make it harder.

Three measures of every paradigm: baselines by length and unknown words, a classifier over words, and the share of
pairs in which a language model of real captions prefers the caption. Filters make a gap between the two texts of a pair
symmetric: among pairs with gaps of the same size, they keep as many that favour the adversary as favour the caption,
like SugarCrepe's refinement (Hsieh et al., 2023). One filter uses the gap of the language model, the other one also the
gap of the classifier (out of fold).
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from vse.studies.ngram_model import NgramModel
from vse.studies.text_classifier import (
    Interval,
    balanced_accuracy,
    cluster_counts,
    decide_out_of_fold,
    folds_by_image,
    interval,
)
from vse.text.tokens import words

GOAL = 0.65  # the upper bound of the classifier's balanced accuracy should not exceed it
LEAST_IMAGES = 10  # fewer are too few to measure; at least two per fold are needed too
_ALL, _MEAN = (0, 1, 2, 3, 4), 3  # columns of `_numbers`


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A real caption of an image and an adversary made of it under a paradigm (attack)."""

    image: str
    caption: str
    adversary: str
    paradigm: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """What was measured of one paradigm under one filter: `none`, `language model` or `both`. Shares are from 0 to 1.

    `length`, `unknown`, `language_model` and `text` are balanced accuracies; `prefers_caption` the share of pairs whose
    caption the language model finds likelier, ties one half. None if too few pairs are left to measure.
    """

    paradigm: str
    filter: str
    pairs: int
    images: int
    coverage: float
    captions_covered: float
    unknown_captions: float
    unknown_adversaries: float
    prefers_caption: Interval | None = None
    length: Interval | None = None
    unknown: Interval | None = None
    language_model: Interval | None = None
    text: Interval | None = None

    @property
    def reaches_goal(self) -> bool | None:
        """Whether the classifier's upper bound is at most `GOAL`; None if it was not measured."""
        return None if self.text is None else self.text.high <= GOAL

    def numbers(self) -> dict[str, float]:
        """Flat numbers for a journal, named artefacts/<paradigm>/<filter>/<what>, without spaces."""
        at = f"artefacts/{self.paradigm}/{self.filter}".replace(" ", "_")
        numbers: dict[str, float] = {
            f"{at}/{name}": float(getattr(self, name))
            for name in ("pairs", "images", "coverage", "captions_covered", "unknown_captions", "unknown_adversaries")
        }
        for name in ("prefers_caption", "length", "unknown", "language_model", "text"):
            measured: Interval | None = getattr(self, name)
            if measured is not None:
                numbers |= {f"{at}/{name}": measured.value, f"{at}/{name}_high": measured.high}
        return numbers


def measure(
    samples: Sequence[Sample],
    model: NgramModel,
    vocabulary: Collection[str],
    *,
    folds: int = 5,
    ngrams: int = 3,
    seed: int = 0,
) -> list[Row]:
    """A row for every paradigm, in order of first appearance, and filter.

    A caption counts once among the real texts, however many adversaries it has.

    Args:
        samples: Of images that are not in the training split.
        model: Language model of captions of training images.
        vocabulary: Words of these captions.
        folds: Of the classifier.
        ngrams: Longest word n-gram of the classifier.
        seed: Of folds and intervals.
    """
    texts = dict.fromkeys(text for sample in samples for text in (sample.caption, sample.adversary))
    judge = _Judge(
        numbers={text: _numbers(text, model, vocabulary) for text in texts}, folds=folds, ngrams=ngrams, seed=seed
    )
    rows = []
    for paradigm in dict.fromkeys(sample.paradigm for sample in samples):
        every = [sample for sample in samples if sample.paradigm == paradigm]
        keys, by_model = [_key(sample) for sample in every], judge.gaps(every)
        kept = {"none": range(len(every)), "language model": symmetric(by_model[:, None], keys)}
        if judge.can_measure(every):
            by_words = judge.gaps(every, judge.decide(*_texts(every)))
            kept["both"] = symmetric(np.column_stack([by_model, by_words]), keys, bins=8)
        rows += [judge.row([every[k] for k in chosen], every, name) for name, chosen in kept.items()]
    return rows


def symmetric(gaps: Float[np.ndarray, "samples gaps"], keys: Sequence[bytes], bins: int = 20) -> list[int]:
    """Select pairs so that gaps of about the same size occur equally often with either sign.

    In each bin, pairs of the more frequent sign are dropped in the order of their keys, which does not depend on the
    order of the pairs. Pairs without any gap are kept.

    Args:
        gaps: For each pair, one or more differences between its two texts, such as of log-likelihoods. With several,
            all signs of a pair are opposite to those of its counterpart.
        keys: A hash of each pair.
        bins: Sizes of each gap are divided into this many bins with equal numbers of pairs.

    Returns:
        Ascending positions of the pairs to keep.
    """
    cells = np.zeros(gaps.shape, dtype=np.int64)
    for column in range(gaps.shape[1]):
        gap = gaps[:, column]
        sizes = np.abs(gap[gap != 0])
        if len(sizes):
            edges = np.quantile(sizes, np.linspace(0, 1, bins + 1)[1:-1])
            cells[:, column] = np.sign(gap) * (1 + np.searchsorted(edges, np.abs(gap), side="right"))
    members: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for position in range(len(cells)):
        members[tuple(map(int, cells[position]))].append(position)
    kept: list[int] = []
    for cell, here in members.items():
        mirrored = members.get(tuple(-k for k in cell), [])
        kept += sorted(here, key=lambda k: keys[k])[: len(mirrored)]
    return sorted(kept)


def _key(sample: Sample) -> bytes:
    text = "\0".join((sample.image, sample.caption, sample.adversary, sample.paradigm))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _texts(samples: Sequence[Sample]) -> tuple[list[str], np.ndarray, list[str]]:
    """(texts, which are adversaries, their images): captions first, each once an image."""
    reals = list(dict.fromkeys((s.image, s.caption) for s in samples))
    fakes = list(dict.fromkeys((s.image, s.adversary) for s in samples))
    both = [*reals, *fakes]
    return [text for _, text in both], np.arange(len(both)) >= len(reals), [image for image, _ in both]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Judge:
    """Measures of samples; `numbers` holds what `_numbers` gives for every text."""

    numbers: dict[str, tuple[float, ...]]
    folds: int
    ngrams: int
    seed: int

    def can_measure(self, samples: Sequence[Sample]) -> bool:
        return len({sample.image for sample in samples}) >= max(LEAST_IMAGES, 2 * self.folds)

    def gaps(self, samples: Sequence[Sample], decided: Mapping[tuple[str, str], float] | None = None) -> np.ndarray:
        """Gaps (samples,), positive if the adversary is less likely, or looks more like one, than its caption."""
        if decided is not None:
            return np.array([decided[s.image, s.adversary] - decided[s.image, s.caption] for s in samples])
        return np.array([self.numbers[s.caption][_MEAN] - self.numbers[s.adversary][_MEAN] for s in samples])

    def decide(
        self, texts: list[str], is_adversary: np.ndarray, images: list[str], columns: Sequence[int] = _ALL
    ) -> dict[tuple[str, str], float]:
        """Out-of-fold decision of the classifier by image and text: over words and numbers, or over some numbers."""
        given = np.array([[self.numbers[text][k] for k in columns] for text in texts], dtype=np.float64)
        fold = folds_by_image(images, self.folds, self.seed)
        longest = self.ngrams if columns is _ALL else 0
        decided = decide_out_of_fold(texts, is_adversary, fold, given, ngrams=longest)
        return dict(zip(zip(images, texts, strict=True), decided.tolist(), strict=True))

    def row(self, samples: Sequence[Sample], every: Sequence[Sample], name: str) -> Row:
        """All measures of `samples`, which a filter left of `every`."""
        texts, is_adversary, images = _texts(samples)
        row = Row(
            paradigm=every[0].paradigm,
            filter=name,
            pairs=len(samples),
            images=len(set(images)),
            coverage=len(samples) / len(every),
            captions_covered=int((~is_adversary).sum()) / len({(s.image, s.caption) for s in every}),
            unknown_captions=self._unknown_rate(texts, ~is_adversary),
            unknown_adversaries=self._unknown_rate(texts, is_adversary),
        )
        if not self.can_measure(samples):
            return row

        def accuracy(columns: Sequence[int]) -> Interval:
            decided = self.decide(texts, is_adversary, images, columns)
            guessed = np.array([decided[key] > 0 for key in zip(images, texts, strict=True)])
            return balanced_accuracy(guessed, is_adversary, images, seed=self.seed)

        return replace(
            row,
            prefers_caption=self._preference(samples),
            length=accuracy([0]),
            unknown=accuracy([1, 2]),
            language_model=accuracy([_MEAN, 4]),
            text=accuracy(_ALL),
        )

    def _unknown_rate(self, texts: Sequence[str], chosen: np.ndarray) -> float:
        rows = [self.numbers[text] for text, one in zip(texts, chosen, strict=True) if one]
        return sum(n[1] for n in rows) / max(sum(n[0] for n in rows), 1)

    def _preference(self, samples: Sequence[Sample]) -> Interval:
        gap = self.gaps(samples)
        won = np.where(gap > 0, 1.0, np.where(gap == 0, 0.5, 0.0))
        hits, totals = cluster_counts(won, np.ones(len(won)), [s.image for s in samples])
        return interval(lambda weights: weights @ hits / (weights @ totals), len(hits), 2000, self.seed)


def _numbers(text: str, model: NgramModel, vocabulary: Collection[str]) -> tuple[float, ...]:
    """Tokens; words outside the vocabulary, their share; mean and least log-probability of a token."""
    tokens = words(text)
    unknown = sum(word not in vocabulary for word in tokens)
    chances = model.log_probabilities(text)
    return len(tokens), unknown, unknown / max(len(tokens), 1), sum(chances) / len(chances), min(chances)


def table(rows: Sequence[Row]) -> list[str]:
    """Lines for people: one a row, in percent."""
    head = (
        "paradigm",
        "filter",
        "pairs",
        "kept",
        "length",
        "unknown words",
        "language model",
        "text",
        "LM prefers caption",
    )
    form = "{:<22}{:<16}{:>6}{:>7}  {:<19}{:<19}{:<19}{:<19}{:<19}{}"
    lines: list[str] = [form.format(*head, "goal")]
    for row in rows:
        measured = (row.length, row.unknown, row.language_model, row.text, row.prefers_caption)
        texts = [one.text() if one is not None else "too few" for one in measured]
        goal = {None: "", True: "reached", False: "missed"}[row.reaches_goal]
        lines.append(form.format(row.paradigm, row.filter, row.pairs, f"{100 * row.coverage:.0f}%", *texts, goal))
    return lines
