"""Precision, recall and F1 of extracted components against captions annotated by hand.

Words are compared as sets per caption. Items that are optional may be found or not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vse.data.annotated_captions import KINDS, AnnotatedCaption, Words
from vse.text.components import Components


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Counts over captions; `found` excludes optional finds."""

    right: int
    found: int
    wanted: int

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else float(self.wanted == 0)

    @property
    def recall(self) -> float:
        return self.right / self.wanted if self.wanted else 1.0

    @property
    def f1(self) -> float:
        total = self.found + self.wanted
        return 2 * self.right / total if total else 1.0


def words_of(components: Components) -> dict[str, frozenset[Words]]:
    """Components as sets of word tuples: (noun), (adjective, noun), (subject, word, object)."""
    return {
        "objects": frozenset((o.word,) for o in components.objects),
        "attributes": frozenset((a.word, a.noun) for a in components.attributes),
        "relations": frozenset((r.subject, r.word, r.object) for r in components.relations),
    }


def mistakes(
    gold: AnnotatedCaption, components: Components, kind: str
) -> tuple[int, list[Words], list[frozenset[Words]]]:
    """(number right, wrong finds, missed items) of one caption and kind.

    Each required item is matched by at most one find; further finds among its readings are neither right nor wrong.
    """
    found = words_of(components)[kind]
    missed = [readings for readings in gold.required[kind] if not readings & found]
    known = gold.optional[kind].union(*gold.required[kind]) if gold.required[kind] else gold.optional[kind]
    return len(gold.required[kind]) - len(missed), sorted(found - known), missed


def score(gold: Sequence[AnnotatedCaption], components: Sequence[Components]) -> dict[str, Accuracy]:
    """Accuracy per kind over captions paired in order."""
    assert len(gold) == len(components), f"{len(gold)} annotated captions, {len(components)} extracted"
    result = {}
    for kind in KINDS:
        right = found = wanted = 0
        for annotated, extracted in zip(gold, components, strict=True):
            hits, wrong, missed = mistakes(annotated, extracted, kind)
            right, found, wanted = right + hits, found + hits + len(wrong), wanted + hits + len(missed)
        result[kind] = Accuracy(right, found, wanted)
    return result
