"""A small language model: interpolated Kneser-Ney n-grams over captions (Chen and Goodman, 1999, section 2.7).

It scores how usual a text is, given the training captions. It counts instead of training a network, so fitting takes
seconds, gives the same result twice, and every probability can be checked by hand.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vse.text.tokens import words

START, END, UNKNOWN = "<s>", "</s>", "<unk>"


@dataclass(frozen=True, eq=False)
class _Order:
    """N-grams of one order: counts (of continuations below the highest order), totals and kinds by history."""

    counts: dict[tuple[str, ...], int]
    totals: dict[tuple[str, ...], int]
    kinds: dict[tuple[str, ...], int]
    discount: float


@dataclass(frozen=True, eq=False)
class NgramModel:
    """Probabilities of the next word given the `order - 1` before it; unseen words count as `<unk>`."""

    order: int
    vocabulary: frozenset[str]
    _orders: tuple[_Order, ...]

    @classmethod
    def fit(cls, texts: Iterable[str], order: int = 3) -> "NgramModel":
        """Count the captions' n-grams up to `order`."""
        assert order >= 1, "an n-gram has a word"
        highest: Counter[tuple[str, ...]] = Counter()
        for text in texts:
            padded = _padded(words(text), order)
            highest.update(tuple(padded[k : k + order]) for k in range(len(padded) - order + 1))
        counts: dict[tuple[str, ...], int] = highest
        orders = [_order_of(counts)]
        for _ in range(order - 1):
            counts = Counter(gram[1:] for gram in counts)  # in how many contexts a gram was seen, not how often
            orders.append(_order_of(counts))
        vocabulary = frozenset(gram[-1] for gram in orders[-1].counts) | {END, UNKNOWN}
        return cls(order, vocabulary, tuple(reversed(orders)))

    def probability(self, word: str, history: Sequence[str]) -> float:
        """P(word | the last `order - 1` of history); sums to one over `vocabulary` for every history."""
        token = word if word in self.vocabulary else UNKNOWN
        past = tuple(w if w in self.vocabulary or w == START else UNKNOWN for w in history)
        value = 1.0 / len(self.vocabulary)
        for length, order in enumerate(self._orders):
            context = past[len(past) - length :] if length else ()
            total = order.totals.get(context, 0)
            if len(context) < length or not total:
                break
            seen = max(order.counts.get((*context, token), 0) - order.discount, 0.0)
            value = (seen + order.discount * order.kinds[context] * value) / total
        return value

    def log_probabilities(self, text: str) -> list[float]:
        """Natural logarithm of the probability of every token and of the end."""
        padded = _padded(words(text), self.order)
        first = self.order - 1
        return [math.log(self.probability(padded[k], padded[max(0, k - first) : k])) for k in range(first, len(padded))]


def _padded(tokens: Sequence[str], order: int) -> list[str]:
    return [START] * (order - 1) + list(tokens) + [END]


def _order_of(counts: dict[tuple[str, ...], int]) -> _Order:
    totals: defaultdict[tuple[str, ...], int] = defaultdict(int)
    kinds: defaultdict[tuple[str, ...], int] = defaultdict(int)
    for gram, count in counts.items():
        totals[gram[:-1]] += count
        kinds[gram[:-1]] += 1
    once = sum(count == 1 for count in counts.values())
    twice = sum(count == 2 for count in counts.values())
    # n1 / (n1 + 2 n2); never 0, so that unseen words keep some probability
    discount = min(0.9, max(0.1, once / (once + 2 * twice))) if once else 0.5
    return _Order(dict(counts), dict(totals), dict(kinds), discount)
