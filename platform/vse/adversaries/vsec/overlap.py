"""Prepositions that may mean the same place: the published semantic overlap sets, and what we add to them."""

from collections.abc import Iterable

# VSE-C (Shi et al., COLING 2018), Appendix A, Table 8: 23 sets; a word may stand in several.
SETS = tuple(
    frozenset(words.split())
    for words in (
        "towards toward beyond to",
        "behind after past",
        "outside out",
        "underneath under beneath down below",
        "on upon up un atop onto over above beyond",
        "in within among at during into inside from between",
        "if while",
        "with by beside",
        "around like",
        "to for of",
        "about within",
        "because as for",
        "as like",
        "near next beside",
        "though",
        "thru through",
        "besides along",
        "against next to",
        "along during across while",
        "off out",
        "without",
        "than",
        "before",
    )
)
LISTED = frozenset().union(*SETS)

UNDER = "beneath under underneath"
# What may be put in for a preposition so that the caption turns false, and false to the eye: our own judgement, on
# photographs. What depends on where the camera stands ("behind" for "on", "above" for "beside") is not here, nor are
# weak words (near, by, with, at), which are true of most things in a picture. A published set still forbids.
_BESIDE = f"atop in inside on {UNDER}"
_LIFTED = f"below in inside {UNDER}"
_FALSE_INSTEAD = {
    **dict.fromkeys(("on", "on top of", "atop"), f"below without {UNDER}"),
    **dict.fromkeys(("in", "inside"), f"atop outside {UNDER}"),
    "outside": f"atop in inside on {UNDER}",
    "with": "without",
    **dict.fromkeys(("near", "next to", "close to", "beside", "alongside", "by", "past"), _BESIDE),
    **dict.fromkeys(("behind", "in front of"), _BESIDE),
    **dict.fromkeys(("around", "at"), f"atop {UNDER}"),
    **dict.fromkeys(("along", "across", "between", "among", "up", "down"), UNDER),
    **dict.fromkeys(("under", "underneath", "beneath", "below"), "above atop inside on over"),
    **dict.fromkeys(("above", "over"), _LIFTED),
    "through": f"outside {UNDER}",
    "into": UNDER,
    "off": f"inside {UNDER}",
    "against": f"atop inside {UNDER}",
}
_PHRASES = {"in front of": ("behind",), "behind": ("in front of",)}
_PHRASES |= dict.fromkeys(("toward", "towards"), ("away from",))
PHRASES = ("in front of", "away from")


def sensible_alternatives(word: str) -> frozenset[str]:
    """What may be put in for a preposition (or `next to`, `in front of`) by our own table and the published sets."""
    chosen = frozenset(_FALSE_INSTEAD.get(word, "").split())
    if " " not in word:
        chosen &= published_alternatives(word, False)
    return (chosen | frozenset(_PHRASES.get(word, ()))) - {word}


def published_alternatives(word: str, leak: bool) -> frozenset[str]:
    """Words of the published sets that may replace `word`.

    As written: those that share no set with it. With `leak`, as the published code does: every word of every set that
    does not hold `word`, although another set may hold both.
    """
    kept = union(group for group in SETS if word not in group)
    return kept - {word} if leak else kept - union(group for group in SETS if word in group) - {word}


def union(groups: Iterable[frozenset[str]]) -> frozenset[str]:
    """Everything in any of the groups."""
    return frozenset().union(*groups)
