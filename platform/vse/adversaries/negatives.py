"""Negative components for contrastive learning (UniVSE §3.4, supplement A.1).

A drawn component appears in no caption of the image (footnote 2, "also applies to other components"): a noun that no
caption mentions, and a pair or triple that no caption contains. This includes pairs that are not components, such as a
noun with its second adjective. Spelling variants of a word count as the same word. Draws are without replacement,
keyed by sample, and at most as many as the pool allows; a missing draw is 0, the padding word.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from vse.adversaries.word_lists import SHARED
from vse.data import keyed
from vse.data.ragged import Ragged

LARGE = 1024  # words of a pool from which on it is not put into order for every draw
SPARE = 8  # words tried beyond those asked for
POOLS = frozenset({"nouns", "attributes", "relations"})


@dataclass(frozen=True, kw_only=True, slots=True)
class NegativeCounts:
    """Numbers of negatives of each type for a positive component; the published counts are the defaults (A.1).

    Args:
        required: the pools that some loss reads, which must have words.
    """

    nouns: int = 16
    attribute_words: int = 8
    attribute_nouns: int = 8
    relation_words: int = 4
    relation_subjects: int = 2
    relation_objects: int = 2
    required: frozenset[str] = POOLS


@dataclass(frozen=True)
class Pools:
    """Word ids from which negatives are drawn, each a sorted array of distinct vocabulary ids."""

    nouns: np.ndarray
    attributes: np.ndarray
    relations: np.ndarray


@dataclass(frozen=True)
class Mentions:
    """What the captions of an image mention, all captions together: rows are images.

    objects: noun ids, of nouns that are no objects too; attributes: (adjective, noun), of every adjective of a noun;
    relations: (subject, word, object).
    """

    objects: Ragged
    attributes: Ragged
    relations: Ragged


def one_spelling(ids: Mapping[str, int]) -> np.ndarray:
    """Vocabulary ids (vocabulary,) with one id, the smallest, for all spellings of a word.

    Args:
        ids: id of every word of the vocabulary.
    """
    one = np.arange(1 + max(ids.values(), default=0))
    for group in SHARED.spellings:
        same = [ids[word] for word in group if word in ids]
        one[same] = min(same, default=0)
    return one


class NegativeSampler:
    """Draws negatives for the padded components of a batch, vectorised over all of them.

    Args:
        pools: what is drawn from.
        mentions: what is never drawn.
        counts: negatives of each type.
        seed: of the draws.
        spelling: the id under which each vocabulary id is drawn and compared, see `one_spelling`; None: its own.
    """

    def __init__(
        self, pools: Pools, mentions: Mentions, counts: NegativeCounts, seed: int, spelling: np.ndarray | None = None
    ) -> None:
        self.counts, self.seed, self._spelling = counts, seed, spelling
        self.pools = Pools(*(np.unique(self.spelled(p)) for p in (pools.nouns, pools.attributes, pools.relations)))
        self.mentions = Mentions(
            *(
                replace(kind, values=self.spelled(kind.values))
                for kind in (mentions.objects, mentions.attributes, mentions.relations)
            )
        )

    def spelled(self, ids: np.ndarray) -> np.ndarray:
        """Vocabulary ids with one id for all spellings of a word."""
        return ids if self._spelling is None else self._spelling[ids]

    def objects(self, words: np.ndarray, samples: np.ndarray, images: np.ndarray, epoch: int) -> np.ndarray:
        """Draw negative nouns for the objects of captions.

        Args:
            words: (batch, M), the noun of each object; 0 is padding, which gets no negatives.
            samples: (batch,), numbers of the captions, which key the draws.
            images: (batch,), the image of each caption, whose mentioned nouns are never drawn.
            epoch: another epoch gives other draws.

        Returns:
            Nouns of shape (batch, M, nouns); 0 for a missing draw.
        """
        mentioned = self.mentions.objects.pad(images)[0]
        return self._draw(
            self.pools.nouns, self.spelled(words), mentioned[:, None], "noun", samples, epoch, self.counts.nouns
        )

    def attributes(
        self, pairs: np.ndarray, samples: np.ndarray, images: np.ndarray, epoch: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw negatives for attribute-noun pairs: other adjectives for the noun, and other nouns for the adjective.

        Args:
            pairs: (batch, M, 2), adjective and noun; zeros are padding.
            samples: (batch,), numbers of the captions, which key the draws.
            images: (batch,), the image of each caption, whose mentioned pairs are never formed.
            epoch: another epoch gives other draws.

        Returns:
            Adjectives (batch, M, attribute_words) and nouns (batch, M, attribute_nouns); 0 for a missing draw.
        """
        mentioned = self.mentions.attributes.pad(images)[0]
        words = self._replace(self.pools.attributes, pairs, mentioned, 0, "adjective", samples, epoch)
        nouns = self._replace(self.pools.nouns, pairs, mentioned, 1, "adjective's noun", samples, epoch)
        return words, nouns

    def relations(self, triples: np.ndarray, samples: np.ndarray, images: np.ndarray, epoch: int) -> np.ndarray:
        """Draw negative triples, each with one word of a relational triple replaced.

        Args:
            triples: (batch, M, 3), subject, relation word and object; zeros are padding.
            samples: (batch,), numbers of the captions, which key the draws.
            images: (batch,), the image of each caption, whose mentioned triples are never formed.
            epoch: another epoch gives other draws.

        Returns:
            Triples (batch, M, K, 3) with another relation word, then with another subject, then with another object. K
            is the sum of the three counts; a missing draw is a triple of zeros.
        """
        mentioned = self.mentions.relations.pad(images)[0]
        drawn = []
        for slot, pool, purpose in (
            (1, self.pools.relations, "relation"),
            (0, self.pools.nouns, "subject"),
            (2, self.pools.nouns, "object"),
        ):
            words = self._replace(pool, triples, mentioned, slot, purpose, samples, epoch)
            new = np.repeat(triples[:, :, None], words.shape[2], axis=2)
            new[..., slot] = words
            new[words == 0] = 0
            drawn.append(new)
        return np.concatenate(drawn, axis=2)

    def _replace(
        self,
        pool: np.ndarray,
        items: np.ndarray,
        mentioned: np.ndarray,
        slot: int,
        purpose: str,
        samples: np.ndarray,
        epoch: int,
    ) -> np.ndarray:
        """Draws for one slot of pairs or triples; a word is barred where it would make an item known of the image."""
        items, rest = self.spelled(items), [k for k in range(items.shape[2]) if k != slot]
        same = (mentioned[:, None, :, rest] == items[:, :, None, rest]).all(-1)
        barred = np.where(same, mentioned[:, None, :, slot], 0)
        num = {
            "adjective": self.counts.attribute_words,
            "adjective's noun": self.counts.attribute_nouns,
            "relation": self.counts.relation_words,
            "subject": self.counts.relation_subjects,
            "object": self.counts.relation_objects,
        }[purpose]
        return self._draw(pool, items[..., slot], barred, purpose, samples, epoch, num)

    def _draw(
        self,
        pool: np.ndarray,
        words: np.ndarray,
        barred: np.ndarray,
        purpose: str,
        samples: np.ndarray,
        epoch: int,
        num: int,
    ) -> np.ndarray:
        """`num` words of `pool` for every word of (batch, M) that is not padding, none of them itself or barred."""
        batch, width = words.shape
        drawn = np.zeros((batch, width, num), dtype=np.int64)
        present = words != 0
        if not present.any() or len(pool) == 0:
            return drawn
        base = keyed.keys(self.seed, epoch, purpose, samples)[:, None] + np.arange(width, dtype=np.uint64)[None, :]
        keys = keyed.mix(base[present])
        barred = np.broadcast_to(barred, (batch, width, barred.shape[2]))[present]
        barred = np.concatenate([barred, words[present][:, None]], axis=1)
        drawn[present] = (_by_trial if len(pool) > LARGE else _by_order)(pool, keys, barred, num)
        return drawn


def _by_order(pool: np.ndarray, keys: np.ndarray, barred: np.ndarray, num: int) -> np.ndarray:
    """Words (rows, num) of a pool in an order that each row's key shuffles; keys (rows,), barred words (rows, any)."""
    order = keyed.bits(keys, len(pool)) >> np.uint64(1)
    place = np.searchsorted(pool, barred)
    inside = (place < len(pool)) & (barred != 0)
    inside &= pool[np.minimum(place, len(pool) - 1)] == barred
    rows = np.broadcast_to(np.arange(len(barred))[:, None], barred.shape)
    never = np.uint64(2**63)
    order[rows[inside], place[inside]] = never
    most = min(num, len(pool))
    best = np.argpartition(order, most - 1, axis=1)[:, :most]
    ranks = np.take_along_axis(order, best, axis=1)
    # Sorted by key, so that the order of the draws does not depend on how the partition was made.
    inner = np.argsort(ranks, axis=1)
    best, ranks = np.take_along_axis(best, inner, axis=1), np.take_along_axis(ranks, inner, axis=1)
    filled = np.zeros((len(keys), num), dtype=np.int64)
    filled[:, :most] = np.where(ranks < never, pool[best], 0)
    return filled


def _by_trial(pool: np.ndarray, keys: np.ndarray, barred: np.ndarray, num: int) -> np.ndarray:
    """The same in a time that does not depend on the pool: words drawn with replacement, of which barred and repeated
    ones do not count.

    The few rows where too many do not are drawn `_by_order`. No allowed word is favoured: whether a row is one of these
    does not depend on which allowed words are which.
    """
    words = pool[keyed.bits(keys, num + SPARE) % np.uint64(len(pool))]
    again = np.tril(words[:, :, None] == words[:, None, :], -1).any(2)
    counts = ~again & ~(words[:, :, None] == barred[:, None, :]).any(2)
    rank = counts.cumsum(1)
    rows, columns = np.nonzero(counts & (rank <= num))
    filled = np.zeros((len(keys), num), dtype=np.int64)
    filled[rows, rank[rows, columns] - 1] = words[rows, columns]
    short = np.flatnonzero(rank[:, -1] < num)
    if len(short):
        filled[short] = _by_order(pool, keyed.mix(keys[short]), barred[short], num)
    return filled
