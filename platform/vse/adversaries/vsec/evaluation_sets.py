"""Evaluation sets of contrastive captions (VSE-C, section 4.1): 20 of nouns, numerals and relations each per caption.

They are kept as edits with their reasons, in the format of all adversaries. Where a caption has few relation
candidates, two of a kind are changed at once: two prepositions, or two pairs of phrases. The plural split alters
numerals of plurals only.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

from vse.adversaries.attacks import contrast_classes
from vse.adversaries.univse.editor import Change
from vse.adversaries.univse.generate import Adversary, Truth, is_new, keyed_random
from vse.adversaries.vsec.candidates import Generator
from vse.adversaries.vsec.slots import Phrases, Slot, change_of
from vse.adversaries.vsec.words import DIGITS, NUMBERS
from vse.text.parsed_caption import ParsedCaption
from vse.text.tokens import words as token_words

PER_CLASS = 20
PLURAL = "plural"
_ENOUGH = 4  # times as many single changes as are wanted: then two at once are not needed


def set_paradigms() -> dict[str, tuple[str, ...]]:
    """Names of the sets and their attacks: every class, each attack of a class that has several, and plurals."""
    classes = contrast_classes()
    finer = (name for names in classes.values() if len(names) > 1 for name in names)
    return {**classes, **{name: (name,) for name in finer}, PLURAL: ("numeral",)}


def evaluation_set(
    images: Iterable[Sequence[ParsedCaption]],
    generator: Generator,
    *,
    seed: int,
    split: str,
    per_class: int = PER_CLASS,
    is_true: Truth | None = None,
    known: Container[str] | None = None,
) -> Iterator[Adversary]:
    """Up to `per_class` adversaries of each class for every caption, image by image, in the order of the captions.

    Attacks are named noun, numeral and relation, its paradigms shuffle and preposition, and plural for the numerals of
    plurals. Draws depend on (seed, split, caption id, class, kind of words) only.

    Args:
        images: The captions of each image, all of them together: no adversary reads like one of them.
        generator: Makes the candidates of each caption.
        seed: Seed of the draws.
        split: Name of the split, part of the key of every draw.
        per_class: Adversaries of a caption in one class.
        is_true: Drops a candidate that it says is true of the image; None drops none.
        known: Words that may be new in a caption, such as the training vocabulary; None for any word.
    """
    kind = generator.words.kind
    for captions in images:
        texts = {token_words(caption.text) for caption in captions}
        for caption, slots in zip(captions, generator.of_image(captions), strict=True):
            for name, paradigms in set_paradigms().items():
                chosen = [s for s in slots if s.paradigm in paradigms and (name != PLURAL or _is_plural(s, caption))]
                rng = keyed_random(seed, split, caption.id, "contrast", name, kind)
                changes = _changes(chosen, caption, generator.phrases, rng, per_class, pairs=name == "relation")
                fitting = _of_known(changes, caption, known)
                for number, change in enumerate(_accepted(fitting, caption, set(texts), per_class, is_true)):
                    yield Adversary.of(caption, name, kind, number, change)


def _is_plural(slot: Slot, caption: ParsedCaption) -> bool:
    """Whether a numeral slot replaces one plural number by another."""
    word = caption.parse[slot.first].text.lower()
    return not slot.fixed and (NUMBERS.get(word) or DIGITS.get(word) or 1) > 1


def _changes(
    slots: Sequence[Slot], caption: ParsedCaption, phrases: Phrases, rng: random.Random, wanted: int, *, pairs: bool
) -> Iterator[Change]:
    """Alternatives in random order, then, with `pairs`, two of different slots at once."""
    every = [(slot, k) for slot in slots for k in slot.choices()]
    rng.shuffle(every)
    for slot, k in every:
        yield change_of(slot, k, phrases, caption.text, caption.parse)
    if not pairs or len(every) >= _ENOUGH * wanted:
        return
    couples = [(a, b) for a, b in combinations(every, 2) if _apart(a[0], b[0]) and not _undone(a[0], b[0])]
    for a, b in rng.sample(couples, len(couples)):
        one, other = (change_of(slot, k, phrases, caption.text, caption.parse) for slot, k in (a, b))
        edits = tuple(sorted((*one.edits, *other.edits), key=lambda edit: edit.start))
        yield Change(edits, f"{one.reason}; {other.reason}", (*one.words_in, *other.words_in))


def _of_known(changes: Iterator[Change], caption: ParsedCaption, known: Container[str] | None) -> Iterator[Change]:
    """Changes whose new words are known; the caption's own words may move about, known or not."""
    own = set(token_words(caption.text))
    return (c for c in changes if known is None or all(word in known or word in own for word in c.words_in))


def _apart(one: Slot, other: Slot) -> bool:
    """Whether the slots change different tokens."""
    spans = [[*slot.fixed, *([(slot.first, slot.last, "")] if slot.last > slot.first else [])] for slot in (one, other)]
    return all(a[1] <= b[0] or b[1] <= a[0] for a in spans[0] for b in spans[1])


def _undone(one: Slot, other: Slot) -> bool:
    """Whether one change may take back what the other does: "a man behind a sign", "a sign in front of a man"."""
    return {one.paradigm, other.paradigm} == {"shuffle", "preposition"}


def _accepted(
    changes: Iterator[Change], caption: ParsedCaption, seen: set[tuple[str, ...]], wanted: int, is_true: Truth | None
) -> Iterator[Change]:
    """The first changes that read like no caption of the image and like none before, and are not known to be true."""
    accepted = 0
    for tried, change in enumerate(changes):
        if accepted == wanted or tried >= 50 * wanted:
            return
        if is_new(change, caption, seen, is_true):
            accepted += 1
            yield change


def eligible_captions(adversaries: Iterable[Adversary], per_class: int = PER_CLASS) -> set[str]:
    """Captions with `per_class` adversaries of every class, as the paper asks of its test captions."""
    counts = Counter((adversary.caption_id, adversary.attack) for adversary in adversaries)
    return {
        caption
        for caption in {caption for caption, _ in counts}
        if all(counts[caption, name] >= per_class for name in contrast_classes(of_paper=True))
    }


def eligible_images(captions: Iterable[tuple[str, str]], eligible: set[str]) -> set[str]:
    """Images all of whose captions are eligible; captions as (caption id, image id)."""
    rows = list(captions)
    return {image for _, image in rows} - {image for caption, image in rows if caption not in eligible}


def report(
    adversaries: Sequence[Adversary], captions: Sequence[ParsedCaption], per_class: int = PER_CLASS
) -> dict[str, Any]:
    """Numbers by class, eligible captions and images, and how often each count stands before a plural of the split.

    Args:
        adversaries: The adversaries of an evaluation set.
        captions: All captions of the split.
        per_class: Adversaries of each class with which a caption is complete and eligible.
    """
    by_attack: dict[str, Counter[str]] = defaultdict(Counter)
    for adversary in adversaries:
        by_attack[adversary.attack][adversary.caption_id] += 1
    eligible = eligible_captions(adversaries, per_class)
    counts: Counter[str] = Counter()
    for caption in captions:
        for token in caption.parse:
            word = token.text.lower()
            if token.dep == "nummod" and (NUMBERS.get(word) or DIGITS.get(word) or 0) > 1:
                counts[word] += 1
    total = max(counts.total(), 1)
    plural_images = {c.image for c in captions if by_attack[PLURAL][c.id]}
    return {
        "captions": len(captions),
        "eligible_captions": len(eligible),
        "eligible_images": len(eligible_images(((c.id, c.image) for c in captions), eligible)),
        "attacks": {
            name: {
                "adversaries": count.total(),
                "captions_attacked": len(count),
                "captions_complete": sum(n >= per_class for n in count.values()),
            }
            for name, count in sorted(by_attack.items())
        },
        "plural_images": len(plural_images),
        "counts_of_plurals": {word: number / total for word, number in counts.most_common()},
    }
