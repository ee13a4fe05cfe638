"""The rules by which contrastive adversarial captions are made: ours, and VSE-C's as published."""

from dataclasses import dataclass

from vse.config import knob
from vse.text.lexicon.compact import SHIPPED
from vse.text.lexicon.concreteness import PUBLISHED_SHARE

REVISION = 3  # part of a stage's fingerprint: raise it whenever the same inputs give other candidates
PARADIGMS = ("noun", "numeral", "shuffle", "preposition")
CLASSES = {"noun": ("noun",), "numeral": ("numeral",), "relation": ("shuffle", "preposition")}
BALANCES = ("paradigm", "candidate")  # of what a draw takes one with equal chances

# "More than 200 in MS-COCO" (section 3.2), as a share of the 616,767 captions of train and validation 2014.
FREQUENT = 200 / 616_767


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """How candidates are made (VSE-C, section 3.2). Defaults are ours; `PUBLISHED` follows the paper and its code,
    which takes words from 200 occurrences where the paper says more than 200. Not its own are our lists, which hold for
    both: nouns of the plural only and of places are never put in, those without a picture are abstract, `a group of` is
    no numeral, and phrases linked by a comma are taken for linked, so that a symmetric pair is not swapped.

    A run takes the one or the other by name: `text.contrast=published`.
    """

    paradigms: tuple[str, ...] = knob(PARADIGMS, "which kinds of candidates are made", choices=PARADIGMS)
    frequent: float = knob(FREQUENT, "share of the training captions in which a word must occur", low=0, high=1)
    minimum: int | None = knob(None, "occurrences in the training captions, instead of the share", low=1)
    held_out: bool = knob(True, "reserve three tenths of the nouns for disjoint attacks; no paper does", later=True)
    lexicon: str = knob(SHIPPED, "`shipped`, or the directory of a WordNet database")
    concreteness: str = knob("", "file word<TAB>score; empty: the scores of the lexicon")
    concrete_share: float = knob(PUBLISHED_SHARE, "share of a source's words that counts as concrete", above=0, high=1)
    transitive: bool = knob(True, "hypernyms and hyponyms at any distance; false: one step, as published")
    image_wide: bool = knob(True, "swap in nothing that any caption of the image mentions, or anything related to it")
    agreement: bool = knob(True, "number, articles and verbs agree with what is swapped in")
    plain_quantities: bool = knob(True, "`two dogs` never becomes `a dog`, which would still be true")
    asymmetric: bool = knob(True, "noun phrases in a symmetric relation (`next to`) are not shuffled")
    sensible_prepositions: bool = knob(True, "only places and directions that cannot hold at the same time")
    leak: bool = knob(False, "repeat the published code's slip: what is swapped in may share a set with the word")


PUBLISHED = Rules(
    minimum=200,
    held_out=False,
    transitive=False,
    image_wide=False,
    agreement=False,
    plain_quantities=False,
    asymmetric=False,
    sensible_prepositions=False,
    leak=True,
)
NAMED = {"ours": Rules(), "published": PUBLISHED}
