"""The rules by which attacks of VSE-C's type change a caption."""

from dataclasses import dataclass

from vse.config import knob
from vse.text.lexicon.compact import SHIPPED
from vse.text.lexicon.concreteness import PUBLISHED_SHARE

# "More than 200 in MS-COCO" (section 3.2), as a share of the 616,767 captions of train and validation 2014.
FREQUENT = 200 / 616_767


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeRules:
    """Which words may be swapped in, and where (VSE-C, section 3.2). `Rules` adds the attacks to generate."""

    frequent: float = knob(
        FREQUENT, "share of the training captions in which a word must occur", low=0, high=1, only="minimum=null"
    )
    minimum: int | None = knob(None, "occurrences in the training captions, instead of the share", low=1)
    held_out: bool = knob(True, "reserve three tenths of the nouns for disjoint attacks; no paper does")
    lexicon: str = knob(SHIPPED, "`shipped`, or the directory of a WordNet database")
    concreteness: str = knob("", "file word<TAB>score; empty: the scores of the lexicon")
    concrete_share: float = knob(
        PUBLISHED_SHARE,
        "share of a source's words that counts as concrete",
        above=0,
        high=1,
        only="lexicon!=shipped or concreteness!=",
    )
    transitive: bool = knob(True, "hypernyms and hyponyms at any distance; false: one step, as published")
    image_wide: bool = knob(True, "insert nothing that a caption of the image mentions or that is related to it")
    agreement: bool = knob(True, "number, articles and verbs agree with the inserted word")
    plain_quantities: bool = knob(True, "`two dogs` never becomes `a dog`, which would still be true")
    asymmetric: bool = knob(True, "noun phrases in a symmetric relation (`next to`) are not shuffled")
    sensible_prepositions: bool = knob(True, "only prepositions of place or direction that cannot both be true")
    leak: bool = knob(
        False,
        "repeat a bug of the published code: the inserted word may be in a set with the replaced one",
        only="sensible_prepositions=false",
    )
