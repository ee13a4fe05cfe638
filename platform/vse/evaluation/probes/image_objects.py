"""Which words name objects of an image and which do not (VSE-C, section 4.3 and Table 5).

Objects are the heads of noun phrases that occur often in the captions of the whole data set, as lemmas. Those that a
caption of the image has as a head are its positive objects. Negative objects share no sense with a positive one and
are no direct hypernym or hyponym of it. Words that a caption mentions otherwise, such as the first noun of a compound,
are neither.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from vse.adversaries.pools import LEAST
from vse.adversaries.vsec.words import is_visible
from vse.adversaries.word_lists import SHARED
from vse.text.components import Components
from vse.text.lexicon.compact import Knowledge
from vse.text.lexicon.lexicon import Lexicon
from vse.text.parse import Parse


@dataclass(frozen=True, eq=False)
class ImageObjects:
    """Positive and negative objects of images, both (images, words); a word may be neither."""

    words: tuple[str, ...]
    positive: Bool[np.ndarray, "images words"]
    negative: Bool[np.ndarray, "images words"]

    @property
    def labelled(self) -> Bool[np.ndarray, "images words"]:
        """Candidates of each image."""
        return self.positive | self.negative

    @property
    def queries(self) -> Bool[np.ndarray, " images"]:
        """Images with an object of either kind; only these are queries."""
        return np.logical_and(self.positive.any(1), self.negative.any(1))


def frequent_objects(
    captions: Iterable[tuple[Parse, Components]], share: float, knowledge: Knowledge | None
) -> dict[str, str]:
    """Heads of noun phrases that occur often, each with the form that captions use most, whose vector is read.

    The most frequent come first, ties in alphabetical order.

    Args:
        captions: Of the whole data set.
        share: Least number of occurrences as a share of the captions (the paper: 200 in those of MS-COCO), but never
            fewer than five.
        knowledge: Keeps concrete nouns of a lexicon only (section 3.2); None for all.
    """
    number, forms = 0, defaultdict[str, Counter[str]](Counter)
    for parse, components in captions:
        number += 1
        for item in components.objects:
            forms[item.word][parse[item.token].text.lower()] += 1
    least = max(LEAST, math.ceil(share * number))
    counts = {word: each.total() for word, each in forms.items() if each.total() >= least}
    if knowledge is not None:
        counts = {w: n for w, n in counts.items() if w in knowledge.lexicon and _is_concrete(w, knowledge)}
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: min(forms[word], key=lambda form: (-forms[word][form], form)) for word in ordered}


def _is_concrete(word: str, knowledge: Knowledge) -> bool:
    return is_visible(word, knowledge.concreteness) and word not in SHARED.not_concrete


def related_words(words: Sequence[str], lexicon: Lexicon) -> Bool[np.ndarray, "words words"]:
    """Which pairs of words share a sense or are direct hypernym and hyponym of each other; each word with itself."""
    related = np.eye(len(words), dtype=bool)
    for i, one in enumerate(words):
        for j in range(i):
            same = lexicon.shares_synset(one, words[j]) or lexicon.related(one, words[j], transitive=False)
            related[i, j] = related[j, i] = same
    return related


def image_objects(
    images: Iterable[Sequence[Components]], words: Sequence[str], related: Bool[np.ndarray, "words words"]
) -> ImageObjects:
    """Positive and negative objects of images.

    Args:
        images: Components of the captions of each image.
        words: Objects that may be candidates.
        related: As `related_words` gives it.
    """
    row = {word: k for k, word in enumerate(words)}
    positive, mentioned = list[np.ndarray](), list[np.ndarray]()
    for captions in images:
        heads = {item.word for components in captions for item in components.objects}
        others = {word for components in captions for word in components.nouns}
        positive.append(_mask(heads, row))
        mentioned.append(_mask(others, row))
    present = np.array(positive, dtype=bool).reshape(-1, len(words))
    barred = np.array(mentioned, dtype=bool).reshape(-1, len(words))
    near = (present.astype(np.float32) @ related.astype(np.float32)) > 0
    return ImageObjects(tuple(words), present, ~(near | barred | present))


def _mask(chosen: Iterable[str], row: dict[str, int]) -> Bool[np.ndarray, " words"]:
    mask = np.zeros(len(row), dtype=bool)
    mask[[row[word] for word in chosen if word in row]] = True
    return mask
