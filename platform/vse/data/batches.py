"""Batches: which captions a step sees, and the tensors made of them."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from vse.data import keyed
from vse.data.examples import Examples, Texts
from vse.language.negatives import NegativeSampler

Batch = dict[str, Tensor]


def epoch_batches(num: int, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Caption numbers of each global batch of an epoch; the last may be smaller. The same on every worker."""
    order = keyed.permutation(seed, epoch, "order", num)
    return [order[k : k + batch_size] for k in range(0, num, batch_size)]


def worker_share(batch: np.ndarray, rank: int, world: int) -> np.ndarray:
    """The consecutive part of a global batch that a worker takes; parts differ by at most one caption."""
    return np.array_split(batch, world)[rank]


def text_batch(texts: Texts, rows: np.ndarray, components: bool) -> Batch:
    """tokens (batch, time), lengths (batch,); objects (batch, M), attributes (batch, M, 2), relations (batch, M, 3)."""
    tokens, mask = texts.tokens.pad(rows)
    batch = {"tokens": torch.from_numpy(tokens), "lengths": torch.from_numpy(mask.sum(1))}
    if components:
        for name in ("objects", "attributes", "relations"):
            batch[name] = torch.from_numpy(getattr(texts, name).pad(rows)[0])
    return batch


def image_batch(features: np.ndarray, rows: np.ndarray) -> Tensor:
    """Features (batch, ...) of the given image rows, copied out of the (possibly memory-mapped) array."""
    return torch.from_numpy(np.ascontiguousarray(features[rows]))


class Collator:
    """Makes the batch of given captions: features, tokens and, for component families, negatives keyed by caption."""

    def __init__(
        self,
        examples: Examples,
        image: str,
        components: bool,
        sampler: NegativeSampler | None,
        drop: float = 0.0,
        truth: np.ndarray | None = None,
    ) -> None:
        """`drop`: share of parsed attributes and relations left out; `truth`: (images, captions), for `mask=truth`."""
        assert not drop or sampler is not None, "only components that a loss compares can be dropped"
        self.examples, self.image, self.components = examples, image, components
        self.sampler, self.drop, self.truth = sampler, drop, truth

    def __call__(self, captions: np.ndarray, epoch: int) -> Batch:
        """The batch of these caption numbers; `sample`, `image_group` and `text_group` identify its rows."""
        examples, images = self.examples, self.examples.image[captions]
        batch = text_batch(examples.texts, captions, self.components)
        batch[self.image] = image_batch(examples.features[self.image], images)
        batch["sample"] = torch.from_numpy(captions)
        batch["image_group"] = torch.from_numpy(images)
        batch["text_group"] = torch.from_numpy(examples.text_group[captions])
        if self.truth is not None:
            batch["true_images"] = torch.from_numpy(np.ascontiguousarray(self.truth[:, captions].T))
        if self.sampler is not None:
            if self.drop:
                self._drop(batch, captions, epoch)
            batch.update(self._negatives(batch, captions, images, epoch))
        return batch

    def _drop(self, batch: Batch, captions: np.ndarray, epoch: int) -> None:
        """Random dropping of attributes and relations (supplement A.2, Table 1): set to padding."""
        assert self.sampler is not None
        for name in ("attributes", "relations"):
            items = batch[name].numpy()
            draws = keyed.uniform(keyed.keys(self.sampler.seed, epoch, f"drop {name}", captions), items.shape[1])
            items[draws < self.drop] = 0

    def _negatives(self, batch: Batch, captions: np.ndarray, images: np.ndarray, epoch: int) -> Batch:
        assert self.sampler is not None
        sampler, arrays = self.sampler, {k: batch[k].numpy() for k in ("objects", "attributes", "relations")}
        words, nouns = sampler.attributes(arrays["attributes"], captions, images, epoch)
        made = {
            "object_negatives": sampler.objects(arrays["objects"], captions, images, epoch),
            "attribute_word_negatives": words,
            "attribute_noun_negatives": nouns,
            "relation_negatives": sampler.relations(arrays["relations"], captions, images, epoch),
            "sampled_relation": _one_relation(arrays["relations"], keyed.keys(sampler.seed, epoch, "one", captions)),
            "mentioned_relations": sampler.mentions.relations.pad(images, at_least=1)[0],
        }
        return {name: torch.from_numpy(array) for name, array in made.items()}


def _one_relation(relations: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """One of each caption's relations (batch, 3), zeros where it has none: A.1's negative from each other caption."""
    present = relations.any(axis=-1)
    order = np.where(present, keyed.bits(draws, relations.shape[1]) >> np.uint64(1), np.uint64(2**63))
    if relations.shape[1] == 0:
        return np.zeros((len(relations), 3), dtype=np.int64)
    chosen = relations[np.arange(len(relations)), order.argmin(1)]
    chosen[~present.any(axis=-1)] = 0
    return chosen


def blocks(num: int, size: int) -> Iterator[np.ndarray]:
    """Consecutive row numbers in blocks of at most `size`."""
    for start in range(0, num, size):
        yield np.arange(start, min(start + size, num))
