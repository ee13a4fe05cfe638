"""What a run learns from: vocabulary, word pools and the arrays of the training and validation splits."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from vse import registry
from vse.config import fingerprint
from vse.data.batches import Collator
from vse.data.examples import Examples, examples_of
from vse.data.records import Records, Split
from vse.data.vocabulary import SPECIAL, UNKNOWN, Vocabulary, build_vocabulary
from vse.errors import InputError
from vse.language.components import Components
from vse.language.negatives import NegativeCounts, NegativeSampler, Pools
from vse.language.parse import Parse
from vse.language.pools import WordPools, build_pools
from vse.language.word_vectors import load_word_vectors
from vse.models.family import Context, Inputs
from vse.training.config import RunConfig


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


@dataclass(frozen=True, eq=False)
class Material:
    """What earlier stages made, opened for reading. `parses` is None for families that read no components."""

    records: Records
    features: Features
    parses: Parses | None
    fingerprints: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class TrainingInputs:
    """Everything a run needs before it builds a model."""

    vocabulary: Vocabulary
    pools: WordPools | None
    context: Context
    train: Examples
    val: Examples
    truth: np.ndarray | None = None  # (images, captions) of the training split, for the control arm that knows

    def checkpoint_files(self, fingerprints: Mapping[str, str]) -> dict[str, object]:
        """What a checkpoint needs beside weights: vocabulary, sizes of the family, identity of everything outside."""
        vectors = self.context.word_vectors
        return {
            "vocabulary.json": json.loads(self.vocabulary.to_json()),
            "context.json": {
                "feature_dims": dict(self.context.feature_dims),
                "word_vector_dim": None if vectors is None else vectors.shape[1],
                "fingerprints": dict(fingerprints),
            },
        }


def family_inputs(config: RunConfig) -> Inputs:
    """What the configured family reads."""
    return registry.component("family", registry.name_of("family", config.model)).requires(config.model)


def split_examples(material: Material, split: Split, inputs: Inputs, vocabulary: Vocabulary) -> Examples:
    """The arrays of a split as a family with these inputs reads them."""
    ids = tuple(image.id for image in split.images)
    features = {inputs.image: material.features.array(inputs.image, ids)}
    return examples_of(split, features, vocabulary, material.parses if inputs.components else None)


def training_inputs(config: RunConfig, material: Material, inputs: Inputs) -> TrainingInputs:
    """Vocabulary and pools from the captions of training images only; the arrays of both splits."""
    train = material.records.split("train")
    vocabulary = training_vocabulary(config, train, material.parses if inputs.components else None)
    pools = None
    if inputs.components:
        assert material.parses is not None, "a family over components needs parsed captions"
        pools = word_pools(train, material.parses)
    vectors = None
    if config.text.word_vectors:
        vectors = torch.from_numpy(load_word_vectors(config.text.word_vectors, (*SPECIAL, *vocabulary.words)))
    context = Context(len(vocabulary), {inputs.image: material.features.channels(inputs.image)}, vectors)
    return TrainingInputs(
        vocabulary=vocabulary,
        pools=pools,
        context=context,
        train=split_examples(material, train, inputs, vocabulary),
        val=split_examples(material, material.records.split("val"), inputs, vocabulary),
        truth=_truth(config, material) if getattr(config.objective, "mask", "same") == "truth" else None,
    )


def _truth(config: RunConfig, material: Material) -> np.ndarray:
    """The one place where training may look behind the captions: the control arm `objective.mask=truth`."""
    source = registry.component("source", registry.name_of("source", config.data))
    if not hasattr(source, "true_pairs"):
        raise InputError("objective.mask=truth: only a source that knows what is true of its images can serve it")
    return source.true_pairs(material.records, "train")


def training_vocabulary(config: RunConfig, train: Split, parses: Parses | None) -> Vocabulary:
    """Words of the training captions, and the lemmas of their components where they are parsed."""
    texts = [c.text for c in train.captions]
    lemmas: Counter[str] = Counter()
    for text in texts if parses is not None else ():
        assert parses is not None
        found = parses.components(text)
        lemmas.update(o.word for o in found.objects)
        lemmas.update(word for a in found.attributes for word in (a.word, a.noun))
        lemmas.update(word for r in found.relations for word in (r.subject, r.word, r.object))
    return build_vocabulary(texts, config.text.min_count, lemmas)


def word_pools(train: Split, parses: Parses) -> WordPools:
    """Pools of the training captions; 70 per cent serve as negatives, the rest appear in disjoint attacks only."""
    return build_pools((parses.parse(c.text), parses.components(c.text)) for c in train.captions)


def make_collator(config: RunConfig, data: TrainingInputs, inputs: Inputs, counts: NegativeCounts | None) -> Collator:
    """Batches of the training split, with negatives where the objective wants them."""
    sampler = None
    if counts is not None:
        if data.pools is None:
            raise InputError("objective: it compares components, but this family encodes none; use objective=ranking")
        sampler = NegativeSampler(pool_ids(data.pools, data.vocabulary), data.train.mentions(), counts, config.seed)
    drop = config.text.drop_components if inputs.components else 0.0
    return Collator(data.train, inputs.image, inputs.components, sampler, drop, data.truth)


def pool_ids(pools: WordPools, vocabulary: Vocabulary) -> Pools:
    """The training pools as sorted vocabulary ids; words outside the vocabulary serve nobody."""
    ids = {}
    for kind, entries in pools.training.words().items():
        found = set(vocabulary.encode(entries)) - {UNKNOWN}
        ids[kind] = np.array(sorted(found), dtype=np.int64)
        if not len(ids[kind]):
            raise InputError(f"no {kind} occur often enough in the training captions to serve as negatives")
    return Pools(**ids)


def run_fingerprint(config: RunConfig, material: Material) -> str:
    """Eight digits over the configuration (seed included) and what earlier stages made."""
    return fingerprint([config, dict(material.fingerprints)])


def feature_blocks(features: np.ndarray, size: int = 256) -> Iterator[Tensor]:
    """Features in blocks, for statistics over the training images."""
    for start in range(0, len(features), size):
        yield torch.from_numpy(np.array(features[start : start + size]))
