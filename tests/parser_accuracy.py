"""Precision, recall and F1 of extracted components against captions annotated by hand.

A gold item is a word or a tuple of words, or {"any": [...]} where several readings describe the same picture; a reading
counts once. Items under "optional_<kind>" may be found or not. Words are compared as sets per caption.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vse.errors import InputError
from vse.text.components import Components

KINDS = ("objects", "attributes", "relations")

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gold:
    """One annotated caption: per kind the required items (each a set of right readings) and the optional ones."""

    image: str
    caption: str
    required: Mapping[str, tuple[frozenset[Words], ...]]
    optional: Mapping[str, frozenset[Words]]


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


def read_gold(path: Path) -> list[Gold]:
    """Annotated captions of a JSON file. Raises InputError naming the file and the caption that is malformed."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as annotated captions ({error})") from None
    gold = []
    for number, row in enumerate(rows):
        try:
            required = {kind: tuple(_readings(item) for item in row[kind]) for kind in KINDS}
            optional = {kind: frozenset(map(_words, row.get(f"optional_{kind}", ()))) for kind in KINDS}
            gold.append(Gold(row["image"], row["caption"], required, optional))
        except (KeyError, TypeError) as error:
            raise InputError(f"{path}: caption {number} is malformed ({error!r})") from None
    return gold


def _words(item: Any) -> Words:
    return (item,) if isinstance(item, str) else tuple(item)


def _readings(item: Any) -> frozenset[Words]:
    return frozenset(map(_words, item["any"])) if isinstance(item, Mapping) else frozenset({_words(item)})


def words_of(components: Components) -> dict[str, frozenset[Words]]:
    """Components as sets of word tuples: (noun), (adjective, noun), (subject, word, object)."""
    return {
        "objects": frozenset((o.word,) for o in components.objects),
        "attributes": frozenset((a.word, a.noun) for a in components.attributes),
        "relations": frozenset((r.subject, r.word, r.object) for r in components.relations),
    }


def mistakes(gold: Gold, components: Components, kind: str) -> tuple[int, list[Words], list[frozenset[Words]]]:
    """(number right, wrong finds, missed items) of one caption and kind.

    Each required item is matched by at most one find; further finds among its readings are neither right nor wrong.
    """
    found = words_of(components)[kind]
    missed = [readings for readings in gold.required[kind] if not readings & found]
    known = gold.optional[kind].union(*gold.required[kind]) if gold.required[kind] else gold.optional[kind]
    return len(gold.required[kind]) - len(missed), sorted(found - known), missed


def score(gold: Sequence[Gold], components: Sequence[Components]) -> dict[str, Accuracy]:
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
