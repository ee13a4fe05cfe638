"""Batches: which captions a step sees, the tensors made of them, and their way to the device."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from vse.adversaries.negatives import NegativeSampler
from vse.data import keyed
from vse.text.vocabulary import Vocabulary
from vse.training.examples import Examples, SentenceSource, Texts

Batch = dict[str, Tensor]
BLOCK = 64  # consecutive images read together: 12 MB of a 7x7x2048 map in half precision


def epoch_batches(num: int, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Caption numbers of each global batch of an epoch, in random order. The same on every worker.

    Args:
        num: number of captions.
        batch_size: captions of a global batch; the last may be smaller.
        seed, epoch: they decide the order.
    """
    order = keyed.permutation(seed, epoch, "order", num)
    return [order[k : k + batch_size] for k in range(0, num, batch_size)]


def windowed_batches(
    image: np.ndarray, window: int, batch_size: int, seed: int, epoch: int, block: int = BLOCK
) -> list[np.ndarray]:
    """`epoch_batches` for features that exceed memory: a step reads images of one window of the store only.

    Captions are shuffled within their window. A batch may reach from one window into the next.

    Args:
        image: row of each caption's image.
        window: images of a window, about; it is made of whole blocks.
        batch_size, seed, epoch: as for `epoch_batches`.
        block: consecutive images that stay together when blocks are put in a random order.
    """
    num_blocks = -(-(int(image.max(initial=-1)) + 1) // block)
    place = np.empty(num_blocks, dtype=np.int64)  # of each block in the random order
    place[keyed.permutation(seed, epoch, "blocks", num_blocks)] = np.arange(num_blocks)
    windows = place[image // block] // max(1, window // block)
    random = keyed.permutation(seed, epoch, "order", len(image))
    order = random[np.argsort(windows[random], kind="stable")]
    return [order[k : k + batch_size] for k in range(0, len(order), batch_size)]


def worker_share(batch: np.ndarray, rank: int, world: int) -> np.ndarray:
    """The consecutive part of a global batch that a worker takes; parts differ by at most one caption.

    Args:
        batch: caption numbers.
        rank, world: number of the worker, from 0, and of all workers.
    """
    return np.array_split(batch, world)[rank]


def text_batch(texts: Texts, rows: np.ndarray, components: bool) -> Batch:
    """tokens (batch, time), lengths (batch,); sentence (batch, dim) or states (batch, time, dim) if texts have them.

    Args:
        texts: encoded captions.
        rows: the captions of the batch.
        components: whether to add objects (batch, M), attributes (batch, M, 2) and relations (batch, M, 3).
    """
    tokens, mask = texts.tokens.pad(rows)
    batch = {"tokens": torch.from_numpy(tokens), "lengths": torch.from_numpy(mask.sum(1))}
    if texts.sentence is not None:
        batch["sentence" if texts.sentence.lengths is None else "states"] = texts.sentence.of(rows)
    if components:
        for name in ("objects", "attributes", "relations"):
            batch[name] = torch.from_numpy(getattr(texts, name).pad(rows)[0])
    return batch


def image_batch(features: np.ndarray, rows: np.ndarray) -> Tensor:
    """Features (batch, ...) of the given image rows, copied out of the (possibly memory-mapped) array."""
    return torch.from_numpy(np.ascontiguousarray(features[rows]))


def features_wanted(batch: Batch, image: str) -> dict[str, Tensor]:
    """Rows of images whose features a batch needs, by the name that the features get; row 0 stands for no image."""
    wanted = {image: batch["image_group"]}
    if "negatives" in batch:
        wanted["negative_features"] = batch["negatives"].clamp_min(0)
    return wanted


@runtime_checkable
class Extra(Protocol):
    """Adds tensors to a batch, one row per caption, as functions of caption and epoch alone."""

    def __call__(self, batch: Batch, captions: np.ndarray, images: np.ndarray, epoch: int) -> Batch:
        """The tensors to add to, or replace in, the batch of these captions and their image rows."""
        ...


class Collator:
    """Makes the batch of given captions: features, tokens, and the tensors of the extras, in their order."""

    def __init__(
        self,
        examples: Examples,
        image: str,
        components: bool = False,
        seed: int = 0,
        extras: Iterable[Extra] = (),
        captions: np.ndarray | None = None,
    ) -> None:
        """`captions`: numbers of the captions of an epoch; all by default."""
        self.examples, self.image, self.components = examples, image, components
        self.pixels: Callable[[Tensor, int], Batch] | None = None  # of rows of images and the epoch: replace features
        self.seed, self.extras = seed, tuple(extras)
        self.captions = np.arange(len(examples)) if captions is None else captions

    def __call__(self, captions: np.ndarray, epoch: int) -> Batch:
        """The batch of these caption numbers; `sample`, `image_group` and `text_group` identify its rows.

        The features are those of the images in `image_group`. `draw` holds one 64-bit key a caption and epoch, from
        which a family draws its own random numbers.
        """
        batch = self.without_features(captions, epoch)
        if self.pixels is not None:
            return batch | self.pixels(batch["image_group"], epoch)
        for name, rows in features_wanted(batch, self.image).items():
            batch[name] = image_batch(self.examples.features[self.image], rows.numpy())
        return batch

    def without_features(self, captions: np.ndarray, epoch: int) -> Batch:
        """The batch without image features."""
        examples, images = self.examples, self.examples.image[captions]
        batch = text_batch(examples.texts, captions, self.components)
        batch["sample"] = torch.from_numpy(captions)
        batch["image_group"] = torch.from_numpy(images)
        batch["text_group"] = torch.from_numpy(examples.text_group[captions])
        batch["draw"] = torch.from_numpy(keyed.keys(self.seed, epoch, "draw", captions).view(np.int64))
        for extra in self.extras:
            batch.update(extra(batch, captions, images, epoch))
        return batch


@runtime_checkable
class Drawn(Protocol):
    """Drawn captions as ids: tokens (batch, number, time), lengths (batch, number)."""

    @property
    def tokens(self) -> np.ndarray: ...

    @property
    def lengths(self) -> np.ndarray: ...


@runtime_checkable
class Draws(Protocol):
    """Draws adversaries of captions."""

    def draw(self, captions: np.ndarray, epoch: int) -> Drawn: ...


class Truth:
    """Which images each caption is true of, for the control arm that knows: `true` (images, captions)."""

    def __init__(self, true: np.ndarray) -> None:
        self.true = true

    def __call__(self, batch: Batch, captions: np.ndarray, images: np.ndarray, epoch: int) -> Batch:
        """true_images (batch, images of the split)."""
        return {"true_images": torch.from_numpy(np.ascontiguousarray(self.true[:, captions].T))}


class Drop:
    """Random dropping of parsed attributes and relations in training: set to padding.

    UniVSE, supplement A.2, Table 1, "Train Drop": it stands for a parser of lower recall, so a component that is
    dropped is missing in every epoch. Its "Test Drop" is `vse.evaluation.dropped_parses`.
    """

    def __init__(self, share: float, seed: int) -> None:
        self.share, self.seed = share, seed

    def __call__(self, batch: Batch, captions: np.ndarray, images: np.ndarray, epoch: int) -> Batch:
        """attributes (batch, M, 2) and relations (batch, M, 3) with fewer items."""
        dropped = {}
        for name in ("attributes", "relations"):
            items = batch[name].numpy().copy()
            draws = keyed.uniform(keyed.keys(self.seed, 0, f"drop {name}", captions), items.shape[1])
            items[draws < self.share] = 0
            dropped[name] = torch.from_numpy(items)
        return dropped


class Negatives:
    """Negative components of UniVSE (supplement A.1)."""

    def __init__(self, sampler: NegativeSampler) -> None:
        self.sampler = sampler

    def __call__(self, batch: Batch, captions: np.ndarray, images: np.ndarray, epoch: int) -> Batch:
        """Ids of the negatives of each component, one sampled relation, and the relations of the image."""
        sampler, arrays = self.sampler, {k: batch[k].numpy() for k in ("objects", "attributes", "relations")}
        words, nouns = sampler.attributes(arrays["attributes"], captions, images, epoch)
        arrays_by_name = {
            "object_negatives": sampler.objects(arrays["objects"], captions, images, epoch),
            "attribute_word_negatives": words,
            "attribute_noun_negatives": nouns,
            "relation_negatives": sampler.relations(arrays["relations"], captions, images, epoch),
            "sampled_relation": sampler.spelled(
                _one_relation(arrays["relations"], keyed.keys(sampler.seed, epoch, "one", captions))
            ),
            "mentioned_relations": sampler.mentions.relations.pad(images, at_least=1)[0],
        }
        return {name: torch.from_numpy(array) for name, array in arrays_by_name.items()}


class Contrast:
    """Adversarial captions of each caption (VSE-C, section 3.3), drawn again for every epoch.

    Args:
        sampler: draws them.
        vocabulary: of their ids.
        states: encodes their words, for a family that reads states.
    """

    def __init__(
        self, sampler: Draws, vocabulary: Vocabulary | None = None, states: SentenceSource | None = None
    ) -> None:
        self.sampler, self.vocabulary, self.states = sampler, vocabulary, states

    def __call__(self, batch: Batch, captions: np.ndarray, images: np.ndarray, epoch: int) -> Batch:
        """contrast (batch, adversaries, time) between <start> and <end>; contrast_lengths, 0 where there is none;
        contrast_states (batch, adversaries, time, dim) if words are encoded."""
        drawn = self.sampler.draw(captions, epoch)
        drawn_batch = {"contrast": torch.from_numpy(drawn.tokens), "contrast_lengths": torch.from_numpy(drawn.lengths)}
        if self.states is not None:
            assert self.vocabulary is not None
            there = drawn.lengths > 0
            ids = zip(drawn.tokens[there].tolist(), drawn.lengths[there].tolist(), strict=True)
            texts = [" ".join(self.vocabulary.decode(row[1 : length - 1])) for row, length in ids]
            vectors = self.states.vectors(texts)
            assert vectors.lengths is not None
            assert np.array_equal(vectors.lengths, drawn.lengths[there]), "a state for every token"
            states = torch.zeros(*drawn.tokens.shape, vectors.values.shape[1])
            states[torch.from_numpy(there)] = vectors.of(np.arange(len(texts)))
            drawn_batch["contrast_states"] = states
        return drawn_batch


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


class Siblings:
    """The sentence vector of another caption of the same image, drawn for each caption and epoch."""

    def __init__(self, examples: Examples, seed: int) -> None:
        self.examples, self.seed = examples, seed
        self.order = np.argsort(examples.image, kind="stable")
        counts = np.bincount(examples.image, minlength=examples.num_images)
        self.counts = counts[examples.image]
        self.starts = (np.cumsum(counts) - counts)[examples.image]
        place = np.empty(len(self.order), dtype=np.int64)
        place[self.order] = np.arange(len(self.order))
        self.place = place - self.starts  # of a caption among those of its image

    def of(self, captions: np.ndarray, epoch: int) -> np.ndarray:
        """A caption number for each: itself if the image has no other."""
        others = np.maximum(self.counts[captions] - 1, 1)
        draws = keyed.bits(keyed.keys(self.seed, epoch, "sibling", captions), 1)[..., 0] >> np.uint64(1)
        step = 1 + draws.astype(np.int64) % others
        return self.order[self.starts[captions] + (self.place[captions] + step) % self.counts[captions]]

    def __call__(self, batch: Batch, captions: np.ndarray, images: np.ndarray, epoch: int) -> Batch:
        """sibling (batch, dim); has_sibling (batch,), False where it is the caption itself."""
        sentence = self.examples.texts.sentence
        assert sentence is not None, "siblings are read by families over sentence vectors"
        vectors = sentence.of(self.of(captions, epoch))
        has = self.counts[captions] > 1
        return {"sibling": vectors, "has_sibling": torch.from_numpy(has)}


class Unpaired:
    """Semi-supervision (jWAE, section 4): captions without a known image get the image of another such caption.

    The images of all captions that are not `paired` are shuffled among them in every epoch.
    """

    def __init__(self, examples: Examples, paired: np.ndarray, seed: int) -> None:
        """`paired` (captions,): whether the image of a caption is known."""
        self.examples, self.paired, self.seed = examples, paired, seed
        self.rest = np.flatnonzero(~paired)
        self.place = np.cumsum(~paired) - 1
        self._dealt = (-1, self.rest)  # epoch, and its order

    def dealt(self, epoch: int) -> np.ndarray:
        """For each caption that is not paired, the caption whose image it gets.

        Cached for the epoch, because a permutation of COCO's captions takes as long as a step.
        """
        if self._dealt[0] != epoch:
            self._dealt = epoch, self.rest[keyed.permutation(self.seed, epoch, "unpaired", len(self.rest))]
        return self._dealt[1]

    def __call__(self, batch: Batch, captions: np.ndarray, images: np.ndarray, epoch: int) -> Batch:
        """`image_group` as dealt, whose features the batch gets; paired (batch,)."""
        paired = self.paired[captions]
        groups = images.copy()
        groups[~paired] = self.examples.image[self.dealt(epoch)[self.place[captions[~paired]]]]
        return {"image_group": torch.from_numpy(groups), "paired": torch.from_numpy(paired)}


def known_images(num_images: int, share: float, seed: int) -> np.ndarray:
    """Mask (images,) of the images with known captions, the same for all families.

    Args:
        num_images: of the training split.
        share: of images with known captions; at least one is known, and a larger share has the same ones and more.
        seed: of the choice.
    """
    mask = np.zeros(num_images, dtype=bool)
    mask[keyed.permutation(seed, 0, "known pairs", num_images)[: max(1, round(share * num_images))]] = True
    return mask


SHARE_OF_FEATURES = 1 / 3  # of a trial's memory on a GPU that features may take: the rest is for the steps


class Transfer:
    """Brings batches to a device: on a GPU from pinned memory, in its own stream, parallel to the running step.

    `part` is the share of the GPU for this trial, if several share it.
    """

    def __init__(self, device: torch.device, part: float = 1.0) -> None:
        self.device, self.part = device, part
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.kept: dict[str, Tensor] = {}  # features of all images, by name

    def keep(self, name: str, features: np.ndarray) -> None:
        """Keeps features (images, ...) on the GPU, if they leave enough memory for the steps.

        Batches then carry no features: `sent` looks up the rows of `image_group`.
        """
        if not self._room_for(features.nbytes):
            return
        table = torch.from_numpy(features[:0].copy()).new_empty(features.shape, device=self.device)
        for rows in blocks(len(features), BLOCK):
            table[int(rows[0]) : int(rows[-1]) + 1] = image_batch(features, rows).to(self.device)
        self.kept[name] = table

    def _room_for(self, num_bytes: int) -> bool:
        if self.device.type != "cuda":
            return False
        torch.cuda.empty_cache()  # torch caches memory of an earlier trial of this process
        free, whole = torch.cuda.mem_get_info(self.device)
        return num_bytes <= SHARE_OF_FEATURES * min(free, self.part * whole)

    def pinned(self, batch: Batch) -> Batch:
        """The batch in pinned memory, for asynchronous copies; called in the thread that makes batches."""
        if self.stream is None:
            return batch
        return {name: value.pin_memory() for name, value in batch.items()}

    def sent(self, batch: Batch) -> Batch:
        """The batch on the device. Computations issued from now on wait for the copy."""
        if self.stream is None:
            return self._with_features({name: value.to(self.device) for name, value in batch.items()})
        with torch.cuda.stream(self.stream):
            there = {name: value.to(self.device, non_blocking=True) for name, value in batch.items()}
        computing = torch.cuda.current_stream(self.device)
        computing.wait_stream(self.stream)
        for value in there.values():
            value.record_stream(computing)  # memory of the side stream, read by this one
        return self._with_features(there)

    def _with_features(self, there: Batch) -> Batch:
        with_features = dict(there)
        for image, table in self.kept.items():
            with_features |= {name: table[rows] for name, rows in features_wanted(there, image).items()}
        return with_features
