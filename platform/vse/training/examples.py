"""One split as arrays: what batches are gathered from."""

import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from vse.adversaries.negatives import Mentions
from vse.data.ragged import Ragged
from vse.data.records import Split
from vse.text.components import Components
from vse.text.tokens import words
from vse.text.vocabulary import END, START, UNKNOWN, Vocabulary


@runtime_checkable
class ComponentSource(Protocol):
    """Whatever knows the components of a caption's text."""

    def components(self, text: str) -> Components: ...


@dataclass(frozen=True, eq=False)
class SentenceVectors:
    """One vector for each of some captions, or for each of their words, made without training.

    Args:
        values: (rows, dim), perhaps in half precision, memory-mapped and with rows of other captions.
        row: (captions,) of each caption's vector, or of the first of them.
        lengths: (captions,) number of vectors of each caption, in rows one after the other; None: one.
    """

    values: np.ndarray
    row: np.ndarray
    lengths: np.ndarray | None = None

    def of(self, captions: np.ndarray) -> Tensor:
        """The vectors of these captions in single precision (double where `values` are).

        Returns:
            Shape (len(captions), dim), or (len(captions), longest, dim) with zeros behind each caption's end.
        """
        rows = self.row[captions]
        if self.lengths is None:
            values = np.ascontiguousarray(self.values[rows])
        else:
            lengths = self.lengths[captions]
            steps = np.arange(int(lengths.max(initial=0)))
            there = steps[None, :] < lengths[:, None]
            values = np.zeros((*there.shape, self.values.shape[1]), dtype=self.values.dtype)
            values[there] = self.values[(rows[:, None] + steps[None, :])[there]]
        vectors = torch.from_numpy(values)
        return vectors.to(torch.promote_types(vectors.dtype, torch.float32))  # several times as fast as NumPy's


@runtime_checkable
class SentenceSource(Protocol):
    """Whatever makes one vector of a text, such as the mean of its word vectors, or one for each of its words."""

    def vectors(self, texts: Sequence[str]) -> SentenceVectors: ...


@dataclass(frozen=True, eq=False)
class Texts:
    """Captions as ids: tokens between <start> and <end>, and components by vocabulary id, one row a caption.

    `sentence` are vectors from fitted features, for families that read them. `nouns` and `modifiers` are further words
    of the captions, which are no objects or attributes but must not become negatives.
    """

    tokens: Ragged
    objects: Ragged
    attributes: Ragged
    relations: Ragged
    sentence: SentenceVectors | None = None
    nouns: Ragged | None = None
    modifiers: Ragged | None = None

    def __post_init__(self) -> None:
        lengths = None if self.sentence is None else self.sentence.lengths
        assert lengths is None or np.array_equal(lengths, self.tokens.lengths), "a state for every token"

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, eq=False)
class Examples:
    """Images and captions of one split.

    features: output name -> array (images, ...), half precision, possibly memory-mapped. `image[c]` is the row of the
    caption's image; captions with equal `text_group` have the same normalised text.
    """

    features: Mapping[str, np.ndarray]
    texts: Texts
    image: np.ndarray
    text_group: np.ndarray
    num_images: int

    def __len__(self) -> int:
        return len(self.texts)

    def release(self) -> None:
        """Release pages of memory-mapped arrays; later reads come from the page cache or the disk."""
        sentence = self.texts.sentence
        for array in (*self.features.values(), *([] if sentence is None else [sentence.values])):
            if isinstance(array.base, mmap.mmap):
                array.base.madvise(mmap.MADV_DONTNEED)

    def mentions(self) -> Mentions:
        """What all captions of each image mention together."""

        def by_image(*parts: Ragged | None) -> Ragged:
            rows = [part for part in parts if part is not None]
            image = np.concatenate([np.repeat(self.image, part.lengths) for part in rows])
            values = np.concatenate([part.values for part in rows])
            table = np.unique(np.column_stack([image, values]), axis=0)
            offsets = np.searchsorted(table[:, 0], np.arange(self.num_images + 1))
            return Ragged(table[:, 1] if values.ndim == 1 else table[:, 1:], offsets)

        texts = self.texts
        return Mentions(
            by_image(texts.objects, texts.nouns),
            by_image(texts.attributes, texts.modifiers),
            by_image(texts.relations),
        )


def encode_texts(
    captions: Sequence[str],
    vocabulary: Vocabulary,
    parses: ComponentSource | None,
    sentences: SentenceSource | None = None,
) -> Texts:
    """Captions as ids of a vocabulary; unknown words are <unk>.

    A caption without a single token becomes one <unk>: encoders need a sequence. A component with an unknown word is
    left out: as <unk> it would be aligned with regions, and be a negative of others, for every word it may stand for.

    Args:
        captions: one row each.
        vocabulary: of the ids.
        parses: components of the captions; None: rows have none.
        sentences: vectors of whole captions; None for a family that reads none.
    """
    tokens = [[START, *(vocabulary.encode(words(c)) or [UNKNOWN]), END] for c in captions]
    components = [parses.components(c) if parses else None for c in captions]

    def rows(items: Callable[[Components], list[tuple[str, ...]]], width: int | None) -> Ragged:
        encoded = []
        for parsed in components:
            distinct = dict.fromkeys(items(parsed)) if parsed else ()
            row = [tuple(vocabulary.encode(map(str.lower, item))) for item in distinct]
            kept = [item for item in row if UNKNOWN not in item]
            encoded.append([item[0] for item in kept] if width is None else kept)
        return Ragged.of(encoded, width)

    return Texts(
        Ragged.of(tokens),
        rows(lambda p: [(o.word,) for o in p.objects], None),
        rows(lambda p: [(a.word, a.noun) for a in p.attributes], 2),
        rows(lambda p: [(r.subject, r.word, r.object) for r in p.relations], 3),
        None if sentences is None else sentences.vectors(captions),
        rows(lambda p: [(word,) for word in p.nouns], None),
        rows(lambda p: [(m.word, m.noun) for m in p.modifiers], 2),
    )


@dataclass(frozen=True, eq=False)
class EncodedCaptions:
    """Captions of a split as ids of a vocabulary, without sentence vectors; fields as of `Examples`."""

    texts: Texts
    text_group: np.ndarray


def encode_captions(split: Split, vocabulary: Vocabulary, parses: ComponentSource | None) -> EncodedCaptions:
    """The slow part of `examples_of`, which depends on these arguments only. Sentence vectors are not part of it.

    Args:
        split: its captions; captions with the same words are of one group.
        vocabulary: of the ids.
        parses: components of the captions; None: rows have none.
    """
    texts = [c.text for c in split.captions]
    groups: dict[str, int] = {}
    text_group = np.array([groups.setdefault(" ".join(words(t)), len(groups)) for t in texts], dtype=np.int64)
    return EncodedCaptions(encode_texts(texts, vocabulary, parses), text_group)


def examples_of(
    split: Split,
    features: Mapping[str, np.ndarray],
    vocabulary: Vocabulary,
    parses: ComponentSource | None,
    sentences: SentenceSource | None = None,
    encoded: EncodedCaptions | None = None,
) -> Examples:
    """Arrays of a split.

    Args:
        split: images and captions.
        features: by output, in the order of `split.images`.
        vocabulary: of the ids.
        parses: components of the captions, if the family reads them.
        sentences: vectors of whole captions, if the family reads them.
        encoded: the result of `encode_captions` for these, if it exists.
    """
    for name, array in features.items():
        assert len(array) == len(split.images), f"{name}: {len(array)} rows for {len(split.images)} images"
    encoded = encoded or encode_captions(split, vocabulary, parses)
    vectors = None if sentences is None else sentences.vectors([c.text for c in split.captions])
    texts = replace(encoded.texts, sentence=vectors)
    return Examples(features, texts, split.caption_to_image, encoded.text_group, len(split.images))
