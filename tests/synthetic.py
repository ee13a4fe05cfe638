"""Random captioned images as arrays: ragged captions, captions without components, texts that several images share.

Nothing here goes through a tokeniser or a parser, so that numerical tests need neither.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import vse.models
import vse.objectives
from vse import registry
from vse.adversaries.negatives import NegativeSampler, Pools
from vse.data.ragged import Ragged
from vse.models.family import Context, Family
from vse.objectives.objective import Objective
from vse.training.batches import Batch, Collator, Drop, Extra, Negatives, Siblings
from vse.training.examples import Examples, SentenceVectors, Texts

__all__ = ["Synthetic", "make_family", "make_objective", "synthetic", "vse", "with_word_vectors"]

START, END, UNKNOWN, FIRST = 1, 2, 3, 4
SENTENCE = 5  # length of a caption's untrained vector


class SyntheticContrast:
    """Adversaries that differ from their caption in one word; every fourth caption has none, others up to `num`."""

    def __init__(self, examples: Examples, vocabulary: int, num: int) -> None:
        self.examples, self.vocabulary, self.num = examples, vocabulary, num

    def __call__(self, batch: Batch, captions: np.ndarray, images: np.ndarray, epoch: int) -> Batch:
        tokens = batch["tokens"].numpy()
        others = np.repeat(tokens[:, None], self.num, axis=1)
        lengths = np.repeat(batch["lengths"].numpy()[:, None], self.num, axis=1)
        for row, caption in enumerate(captions.tolist()):
            rng = np.random.default_rng([caption, epoch])
            for k in range(self.num):
                others[row, k, 1 + rng.integers(lengths[row, k] - 2)] = rng.integers(FIRST, self.vocabulary)
                if caption % 4 == 0 or (k and rng.random() < 0.3):
                    others[row, k] = 0
                    lengths[row, k] = 0
        drawn = {"contrast": torch.from_numpy(others), "contrast_lengths": torch.from_numpy(lengths)}
        if "states" in batch:
            states = synthetic_states(others.reshape(lengths.size, others.shape[2]), lengths.ravel())
            drawn["contrast_states"] = torch.from_numpy(states).view(*others.shape, states.shape[-1])
        return drawn


def synthetic_states(tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """A state (texts, time, `SENTENCE`) for every token, which depends on its text and place; zeros behind the end."""
    of_token, of_place = (np.random.default_rng(seed).normal(size=(99, SENTENCE)) for seed in (21, 22))
    place = np.arange(tokens.shape[1])
    states = of_token[tokens] + of_place[place] * np.sin(tokens.sum(1))[:, None, None]
    return states * (place[None, :] < lengths[:, None])[..., None]


@dataclass(frozen=True, eq=False)
class Synthetic:
    """A split, the pools of its words and the context a family is built with."""

    examples: Examples
    pools: Pools
    context: Context

    def collator(self, family: Family, objective: Objective, seed: int = 0, drop: float = 0.0) -> Collator:
        """Batches as training makes them."""
        examples = self.by_word().examples if family.inputs.states else self.examples
        extras: list[Extra] = [Drop(drop, seed)] if drop else []
        if objective.negatives is not None:
            sampler = NegativeSampler(self.pools, self.examples.mentions(), objective.negatives, seed)
            extras.append(Negatives(sampler))
        if family.inputs.siblings:
            extras.append(Siblings(self.examples, seed))
        if objective.adversaries is not None:
            extras.append(SyntheticContrast(self.examples, self.context.vocabulary_size, objective.adversaries.number))
        return Collator(examples, family.inputs.image, family.inputs.components, seed, extras)

    def by_word(self) -> "Synthetic":
        """The same data with a state for each word in place of one vector for each caption."""
        tokens = self.examples.texts.tokens
        padded, there = tokens.pad(np.arange(len(tokens)))
        vectors = SentenceVectors(synthetic_states(padded, tokens.lengths)[there], tokens.offsets[:-1], tokens.lengths)
        texts = dataclasses.replace(self.examples.texts, sentence=vectors)
        return dataclasses.replace(self, examples=dataclasses.replace(self.examples, texts=texts))

    def __len__(self) -> int:
        return len(self.examples)


def synthetic(
    seed: int = 0,
    images: int = 9,
    regions: int = 6,
    channels: int = 5,
    nouns: int = 14,
    adjectives: int = 6,
    relations: int = 5,
    most_captions: int = 4,
    most_components: int = 3,
    most_words: int = 7,
    share_bare: float = 0.25,
    share_copied: float = 0.15,
) -> Synthetic:
    """One to `most_captions` captions an image; `share_bare` of them without any component, others without some type;
    `share_copied` repeat an earlier caption word for word."""
    rng = np.random.default_rng(seed)
    noun_ids = np.arange(FIRST, FIRST + nouns)
    adjective_ids = np.arange(FIRST + nouns, FIRST + nouns + adjectives)
    relation_ids = np.arange(FIRST + nouns + adjectives, FIRST + nouns + adjectives + relations)
    vocabulary = FIRST + nouns + adjectives + relations

    def several(make: Any) -> list[Any]:
        return list(dict.fromkeys(make() for _ in range(rng.integers(0, most_components + 1))))

    def caption() -> tuple[list[int], list[Any], list[Any], list[Any]]:
        tokens = [START, *rng.integers(UNKNOWN, vocabulary, rng.integers(1, most_words + 1)).tolist(), END]
        if rng.random() < share_bare:
            return tokens, [], [], []
        objects = several(lambda: int(rng.choice(noun_ids)))
        pairs = several(lambda: (int(rng.choice(adjective_ids)), int(rng.choice(noun_ids))))
        triples = several(lambda: tuple(int(rng.choice(ids)) for ids in (noun_ids, relation_ids, noun_ids)))
        return tokens, objects, pairs, triples

    caption_to_image = np.repeat(np.arange(images), rng.integers(1, most_captions + 1, images))
    rows: list[tuple[list[int], list[Any], list[Any], list[Any]]] = []
    groups: list[int] = []
    for c in range(len(caption_to_image)):
        if c and rng.random() < share_copied:
            source = int(rng.integers(c))
            rows.append(rows[source])
            groups.append(groups[source])
        else:
            rows.append(caption())
            groups.append(c)
    tokens, objects, pairs, triples = (list(column) for column in zip(*rows, strict=True))
    # As far apart as words are: equal captions have equal vectors.
    vectors = np.random.default_rng(seed + 1000).normal(size=(len(rows), SENTENCE))[np.array(groups)]
    sentence = SentenceVectors(vectors, np.arange(len(rows)))
    texts = Texts(Ragged.of(tokens), Ragged.of(objects), Ragged.of(pairs, 2), Ragged.of(triples, 3), sentence)
    features = {
        "map": rng.normal(size=(images, regions, channels)),
        "pooled": rng.normal(size=(images, channels)),
    }
    return Synthetic(
        Examples(features, texts, caption_to_image.astype(np.int64), np.array(groups, dtype=np.int64), images),
        Pools(noun_ids, adjective_ids, relation_ids),
        Context(vocabulary, {"map": channels, "pooled": channels}, sentence_dim=SENTENCE),
    )


def with_word_vectors(context: Context, dim: int = 5) -> Context:
    """The context with given vectors of two words out of three; markers and padding have none."""
    vectors = torch.randn(context.vocabulary_size, dim, generator=torch.Generator().manual_seed(17))
    vectors[:FIRST] = 0
    vectors[FIRST + 1 :: 3] = 0
    return dataclasses.replace(context, word_vectors=vectors)


def make_family(
    name: str, context: Context, seed: int = 0, double: bool = True, *, vectors: bool = False, **changes: Any
) -> Any:
    """A family of a few dimensions with seeded weights, in float64 unless `double` is off; its modules are its own.

    vectors: with those of `with_word_vectors`.
    """
    context = with_word_vectors(context) if vectors else context
    config = registry.component("family", name).Config()
    sizes = {"dim": 7, "word_dim": 4, "basic_dim": 4, "modifier_dim": 3, "k": 3}
    sizes |= {"hidden_dim": 5, "gru_dim": 3, "discriminator_dim": 4, "product_dim": 4, "convolution_dim": 4}
    sizes |= {
        "heads": 1,
        "feedforward_dim": 5,
        "pools": 3,
        "joint_dim": 6,
        "concept_dim": 3,
        "weight_dim": 4,
        "concepts": 3,
    }
    known = {field.name for field in dataclasses.fields(config)}
    config = dataclasses.replace(config, **{k: v for k, v in (sizes | changes).items() if k in known})
    torch.manual_seed(seed)
    family = registry.build("family", config, context)
    family.add_scalars(make_objective(name, **changes).scalars)
    with torch.no_grad():
        for parameter in family.parameters():  # biases too, so that no term is missed because it is zero
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return family.double() if double else family


def make_objective(family: str, objective: str = "", **changes: Any) -> Objective:
    """The named objective, else the one that bears the family's name or its first word, else the ranking loss."""
    known = registry.names("objective")
    name = objective or next((n for n in (family, family.split("_")[0]) if n in known), "ranking")
    config = registry.component("objective", name).Config()
    counts = {"draws": 3, "nouns": 5, "attribute_words": 3, "attribute_nouns": 3, "relation_words": 2}
    fields = {field.name for field in dataclasses.fields(config)}
    config = dataclasses.replace(config, **{k: v for k, v in (counts | changes).items() if k in fields})
    return registry.build("objective", config)


def gradients(family: Family) -> Mapping[str, Tensor]:
    """A copy of every parameter's gradient; zeros where it has none."""
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in family.named_parameters()
        if p.requires_grad
    }
