"""What a run learns from: vocabulary, word vectors, word pools and the arrays of both splits."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from vse import registry
from vse.adversaries.attacks import contrast_classes
from vse.adversaries.negatives import POOLS, NegativeCounts, NegativeSampler, Pools, one_spelling
from vse.adversaries.pools import PoolConfig, WordPools, build_pools
from vse.adversaries.vsec.sampler import ContrastSampler
from vse.adversaries.vsec.table import Candidates
from vse.config import fingerprint
from vse.data import keyed
from vse.data.records import Caption, Records, Split
from vse.data.source import true_pairs
from vse.errors import InputError
from vse.models.family import Context, Family, Inputs
from vse.text.components import Components
from vse.text.parse import Parse
from vse.text.tokens import bare_words, words
from vse.text.vocabulary import SPECIAL, UNKNOWN, Vocabulary, build_vocabulary
from vse.text.word_vectors import Coverage, WordVectors, coverage
from vse.training.batches import (
    Batch,
    Collator,
    Contrast,
    Drop,
    Extra,
    Negatives,
    Siblings,
    Truth,
    Unpaired,
    blocks,
    known_images,
)
from vse.training.config import RunConfig, adversaries_wanted, family_inputs, identity, own_negatives
from vse.training.examples import EncodedCaptions, Examples, SentenceVectors, encode_captions, examples_of
from vse.training.own_negatives import own_negatives_of

T = TypeVar("T")
MOST_SHARED = 8  # cached values of one data set: a few vocabularies and the captions encoded by them
_shared: "WeakKeyDictionary[Records, dict[Hashable, Any]]" = WeakKeyDictionary()


def shared(records: Records, key: Hashable, make: Callable[[], T]) -> T:
    """The result of `make`, cached as long as the records live. `key` identifies it among all results for them.

    The result must not be changed. A process has each data set once (`stages.describe`).
    """
    cached = _shared.setdefault(records, {})
    if key in cached:
        cached[key] = cached.pop(key)  # the latest is the last
    else:
        while len(cached) >= MOST_SHARED:
            del cached[next(iter(cached))]
        cached[key] = make()
    return cached[key]


log = logging.getLogger(__name__)

_EXAMPLES, _LONGEST_WORD = 5, 24  # shown of words that the vocabulary lacks
REVISION = 6  # of training: raise it whenever the same configuration and data give other weights


@runtime_checkable
class Parses(Protocol):
    """The parse and the components of every caption of a data set, by text; `fingerprint` says how they were made."""

    fingerprint: str

    def parse(self, text: str) -> Parse: ...
    def components(self, text: str) -> Components: ...


@runtime_checkable
class Features(Protocol):
    """Named features of images by id."""

    def channels(self, output: str) -> int: ...
    def array(self, output: str, ids: tuple[str, ...]) -> np.ndarray: ...


@runtime_checkable
class Sentences(Protocol):
    """Vectors of texts, or of their words, made without training, of length `dim`."""

    @property
    def dim(self) -> int: ...

    def vectors(self, texts: Sequence[str]) -> SentenceVectors: ...


@dataclass(frozen=True, eq=False)
class Material:
    """Outputs of earlier stages, opened for reading. `parses` is None for families that read no components.

    `vectors` returns the pre-trained word vectors of a vocabulary. `sentences` are vectors of whole captions, for
    families that read them. `candidates` are adversaries of the training captions, for objectives over them. `words`
    are rules for `pools`, whose words are counted in the captions of `words_split` of these records, or of
    `words_records` with their parses. `backbone_weights` made the features, if they are known.
    """

    records: Records
    features: Features
    parses: Parses | None
    fingerprints: Mapping[str, str]
    vectors: Callable[[Sequence[str]], WordVectors] | None = None
    sentences: Sentences | None = None
    candidates: Candidates | None = None
    words: PoolConfig = field(default_factory=PoolConfig)
    words_split: str = "train"
    words_records: Records | None = None
    words_parses: Parses | None = None
    backbone_weights: str = ""

    @property
    def counted(self) -> tuple[tuple[Caption, ...], Parses]:
        """(captions in which words are counted, parses of them)."""
        parses = self.words_parses or self.parses
        assert parses is not None, "words are counted in parsed captions"
        return (self.words_records or self.records).split(self.words_split).captions, parses

    @cached_property
    def pools(self) -> WordPools:
        """Words of the captions of `words_split`, for negatives and for disjoint attacks."""
        captions, parses = self.counted

        def make() -> WordPools:
            return build_pools(((parses.parse(c.text), parses.components(c.text)) for c in captions), self.words)

        records = self.words_records or self.records
        return shared(records, ("pools", parses.fingerprint, self.words, self.words_split), make)


@dataclass(frozen=True, eq=False)
class TrainingInputs:
    """Everything a run needs before it builds a model."""

    vocabulary: Vocabulary
    pools: WordPools | None
    context: Context
    train: Examples
    val: Examples
    truth: np.ndarray | None = None  # (images, captions) of the training split, for the control arm that knows
    contrast: ContrastSampler | None = None
    extras: tuple[Extra, ...] = ()  # further tensors of the training batches
    coverage: Mapping[str, float] = field(default_factory=dict)  # of the vocabulary by word vectors
    states: Sentences | None = None  # of words of any text, for a family that reads them

    def checkpoint_files(self, material: Material) -> dict[str, object]:
        """Contents of a checkpoint other than weights: vocabulary, sizes of the family, what its inputs were."""
        vectors = self.context.word_vectors
        return {
            "vocabulary.json": json.loads(self.vocabulary.to_json()),
            "context.json": {
                "feature_dims": dict(self.context.feature_dims),
                "word_vector_dim": None if vectors is None else vectors.shape[1],
                "sentence_dim": self.context.sentence_dim,
                "backbone_weights": material.backbone_weights,
                "fingerprints": dict(material.fingerprints),
            },
        }


def split_examples(
    material: Material, split: Split, inputs: Inputs, vocabulary: Vocabulary, encoded: EncodedCaptions | None = None
) -> Examples:
    """The arrays of a split as a family with these inputs reads them; `encoded` as for `examples_of`."""
    ids = tuple(image.id for image in split.images)
    features = {inputs.image: material.features.array(inputs.image, ids)}
    parses = material.parses if inputs.components else None
    return examples_of(split, features, vocabulary, parses, material.sentences if inputs.sentence else None, encoded)


def training_inputs(config: RunConfig, material: Material, inputs: Inputs) -> TrainingInputs:
    """Vocabulary and word pools from the captions of training images only, and the arrays of both splits."""
    train, val = (material.records.split(name) for name in ("train", "val"))
    parses = material.parses if inputs.components else None
    vocabulary = training_vocabulary(config, material.records, parses)
    vectors, shares = None, {}
    if material.vectors is not None:
        pretrained = material.vectors((*SPECIAL, *vocabulary.words))
        vectors, shares = torch.from_numpy(pretrained.vectors), coverage(pretrained, word_counts(train)).numbers()
    contrast = _contrast(config, material, train, vocabulary)
    if contrast is not None:
        unknown = contrast.unknown
        shares |= {"contrast/left_out": unknown["left_out"] / max(unknown["alternatives"], 1)}
    context = Context(
        len(vocabulary),
        {inputs.image: material.features.channels(inputs.image)},
        vectors,
        _sentence_dim(material, inputs),
    )

    def examples(split: Split) -> Examples:
        key = ("captions", split.name, vocabulary.fingerprint, parses and parses.fingerprint)
        encoded = shared(material.records, key, lambda: encode_captions(split, vocabulary, parses))
        return split_examples(material, split, inputs, vocabulary, encoded)

    return TrainingInputs(
        vocabulary=vocabulary,
        pools=material.pools if inputs.components else None,
        context=context,
        train=examples(train),
        val=examples(val),
        truth=_truth(config, material) if getattr(config.objective, "mask", "same") == "truth" else None,
        contrast=contrast,
        extras=(own_negatives_of(config, material.records),) if own_negatives(config) else (),
        coverage=shares,
        states=material.sentences if inputs.states else None,
    )


def _contrast(config: RunConfig, material: Material, train: Split, vocabulary: Vocabulary) -> ContrastSampler | None:
    wanted = adversaries_wanted(config)
    if wanted is None:
        return None
    assert material.candidates is not None, "an objective over adversaries needs candidates"
    sampler = ContrastSampler(
        material.candidates,
        train.captions,
        vocabulary,
        seed=keyed.redrawn(config.seed, "contrast", wanted.redraw),
        num=wanted.number,
        balance=wanted.balance,
        paradigms=tuple(paradigm for kind in wanted.kinds for paradigm in contrast_classes()[kind]),
    )
    if not sampler.sizes().any():
        kinds = ",".join(wanted.kinds)
        log.warning("warning: no training caption has an adversary of objective.kinds=%s, so their loss is zero", kinds)
    return sampler


def _sentence_dim(material: Material, inputs: Inputs) -> int:
    if not inputs.sentence:
        return 0
    assert material.sentences is not None, "a family over sentence vectors needs them"
    return material.sentences.dim


def _truth(config: RunConfig, material: Material) -> np.ndarray:
    """The only place where training uses the truth of the data source: the control arm `objective.mask=truth`."""
    return true_pairs(config.data, material.records, "train", "objective.mask=truth")


def word_counts(train: Split) -> Counter[str]:
    """How often each word occurs in the training captions."""
    return Counter(word for caption in train.captions for word in words(caption.text))


def training_vocabulary(config: RunConfig, records: Records, parses: Parses | None) -> Vocabulary:
    """Words of the training captions, and the lemmas of their components if they are parsed."""
    key = ("vocabulary", config.text.min_count, parses and parses.fingerprint)
    return shared(records, key, lambda: _vocabulary(config.text.min_count, records.split("train"), parses))


def unfamiliar_words(records: Records, vocabulary: Vocabulary) -> str:
    """One line if most words of the validation captions are not in the vocabulary; else empty."""
    counts = Counter(word for caption in records.split("val").captions for word in bare_words(caption.text))
    unknown = Counter({word: count for word, count in counts.items() if word not in vocabulary})
    if 2 * unknown.total() <= counts.total():
        return ""
    examples = ", ".join(repr(word[:_LONGEST_WORD]) for word, _ in unknown.most_common(_EXAMPLES))
    return (
        f"{records.name}: {unknown.total()} of {counts.total()} words of the validation captions "
        f"({100 * unknown.total() / counts.total():.0f} %) are not in the vocabulary of the training captions, such as "
        f"{examples}; likely causes: words are not separated by spaces, validation captions are in another language, a "
        "wrong encoding, or text.min_count is too high"
    )


def warn_unfamiliar(records: Records, vocabulary: Vocabulary) -> None:
    if line := unfamiliar_words(records, vocabulary):
        log.warning("warning: %s", line)


def _vocabulary(min_count: float, train: Split, parses: Parses | None) -> Vocabulary:
    texts = [c.text for c in train.captions]
    lemmas: Counter[str] = Counter()
    for text in texts if parses is not None else ():
        assert parses is not None
        components = parses.components(text)
        lemmas.update(o.word for o in components.objects)
        lemmas.update(word for a in components.attributes for word in (a.word, a.noun))
        lemmas.update(word for r in components.relations for word in (r.subject, r.word, r.object))
    return build_vocabulary(texts, min_count, lemmas)


def known_captions(config: RunConfig, train: Examples) -> np.ndarray:
    """Numbers of the training captions whose image is known, a share `train.pairs` of the images."""
    return np.flatnonzero(known_images(train.num_images, config.train.pairs, config.seed)[train.image])


def make_collator(config: RunConfig, data: TrainingInputs, inputs: Inputs, counts: NegativeCounts | None) -> Collator:
    """Batches of the training split, with negatives if the objective needs them.

    An epoch passes over all captions, or without `train.unpaired` over the captions with a known image.
    """
    captions, extras = known_captions(config, data.train), list(data.extras)
    if config.train.unpaired:
        paired = np.isin(np.arange(len(data.train)), captions)
        extras.append(Unpaired(data.train, paired, config.seed))
        captions = np.arange(len(data.train))
    if inputs.siblings:
        extras.append(Siblings(data.train, config.seed))
    if data.truth is not None:
        extras.append(Truth(data.truth))
    if counts is not None:
        assert data.pools is not None, "an objective over components needs a family that encodes them"
        if config.text.drop_components:
            extras.append(Drop(config.text.drop_components, config.seed))
        pools, ids = pool_ids(data.pools, data.vocabulary, counts.required), data.vocabulary.ids
        extras.append(Negatives(NegativeSampler(pools, data.train.mentions(), counts, config.seed, one_spelling(ids))))
    if data.contrast is not None:
        extras.append(Contrast(data.contrast, data.vocabulary, data.states))
    return Collator(data.train, inputs.image, inputs.components, config.seed, extras, captions)


def pool_ids(pools: WordPools, vocabulary: Vocabulary, required: Set[str] = POOLS) -> Pools:
    """The training pools as sorted ids of words of the vocabulary. Raises InputError if a `required` one is empty."""
    ids = {}
    for kind, entries in pools.training.words().items():
        numbers = set(vocabulary.encode(entries)) - {UNKNOWN}
        ids[kind] = np.array(sorted(numbers), dtype=np.int64)
        if kind in required and not len(ids[kind]):
            raise InputError(
                f"no {kind} occur often enough in the training captions to serve as negatives; "
                "lower text.pools.minimum and text.min_count, or train on more captions"
            )
    return Pools(**ids)


def run_fingerprint(config: RunConfig, material: Material) -> str:
    """Eight digits over `REVISION`, the `identity` of the configuration (with seed) and the outputs of earlier stages.

    A run may continue with another number of workers, if these do the same steps.
    """
    return fingerprint([REVISION, identity(config), dict(material.fingerprints)])


def initial_family(config: RunConfig, context: Context) -> Family:
    """The configured family, with the learnable scalars that the configured objective asks for."""
    family: Family = registry.build("family", config.model, context, config.features.scale)
    family.add_scalars(registry.build("objective", config.objective).scalars)
    return family


def training_batches(train: Examples, inputs: Inputs, captions: np.ndarray, size: int = 1024) -> Iterator[Batch]:
    """The training captions of these numbers in their order, in blocks; with their images, unless states are read.

    States are read for their scale alone, and maps of all images would take long.
    """
    collate = Collator(train, inputs.image, inputs.components)
    for rows in blocks(len(captions), size):
        yield collate.without_features(captions[rows], 0) if inputs.states else collate(captions[rows], 0)


def feature_blocks(features: np.ndarray, size: int = 256) -> Iterator[Tensor]:
    """Features in blocks, for statistics over the training images."""
    for start in range(0, len(features), size):
        yield torch.from_numpy(np.array(features[start : start + size]))


OWN_CAPTIONS = "captions"  # text.word_vectors: made of the training captions


def without_vectors(config: RunConfig) -> str:
    """A line if no word vectors are set although the family's paper starts from pre-trained ones; else empty.

    Scenes get no line, because their vocabulary has about a hundred words.
    """
    family = registry.component("family", registry.name_of("family", config.model))
    scenes = registry.name_of("source", config.data) == "scenes"
    if config.text.word_vectors or scenes or not family.vectors_of_paper or family_inputs(config).states:
        return ""
    paper = family.vectors_of_paper
    return f"text.word_vectors is not set: word vectors are learned from scratch; the paper starts from {paper}"


def tell_coverage(config: RunConfig, vectors: WordVectors, vocabulary: Vocabulary) -> None:
    """Log the share of the training vocabulary with a vector: a warning if it is less than half."""
    result = vector_coverage(vectors, vocabulary)
    log.log(logging.WARNING if result.most_missing else logging.INFO, "%s", result.line(config.text.word_vectors))


def vector_coverage(vectors: WordVectors, vocabulary: Vocabulary) -> Coverage:
    """What vectors know of the training captions of a vocabulary."""
    return coverage(vectors, dict(zip(vocabulary.words, vocabulary.counts, strict=True)))
