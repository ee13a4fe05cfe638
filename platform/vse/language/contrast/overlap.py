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

UNDER = "below beneath under underneath"
# What may be put in for a preposition so that the caption turns false: our own judgement, on photographs. Weak ones
# (near, by, with, at) are true of most things in a picture and are never put in. A published set still forbids.
_FALSE_INSTEAD = {
    "on": f"behind {UNDER} without",
    "on top of": f"behind {UNDER} without",
    "atop": f"behind {UNDER} without",
    "in": f"above atop behind outside over {UNDER}",
    "inside": f"above atop behind outside over {UNDER}",
    "outside": f"above atop in inside on {UNDER}",
    "with": "without",
    "near": f"above atop in inside on {UNDER}",
    "next to": f"above atop in inside on {UNDER}",
    "close to": f"above atop in inside on {UNDER}",
    "beside": f"above atop in inside on {UNDER}",
    "alongside": f"above atop in inside on {UNDER}",
    "by": f"above atop in inside on {UNDER}",
    "along": f"above behind {UNDER}",
    "around": f"above atop inside {UNDER}",
    "at": f"above atop {UNDER}",
    "behind": f"above atop in inside on {UNDER}",
    "in front of": f"above atop behind inside over {UNDER}",
    "under": "above atop inside on over",
    "underneath": "above atop inside on over",
    "beneath": "above atop inside on over",
    "below": "above atop inside on over",
    "above": f"behind in inside {UNDER}",
    "over": f"behind in inside {UNDER}",
    "through": f"above atop behind outside {UNDER}",
    "across": f"above behind {UNDER}",
    "down": "above behind under underneath beneath",
    "up": f"behind inside {UNDER}",
    "into": f"above behind off {UNDER}",
    "onto": f"behind off {UNDER}",
    "off": f"above inside into onto {UNDER}",
    "toward": f"above behind inside off {UNDER}",
    "towards": f"above behind inside off {UNDER}",
    "against": f"above atop inside {UNDER}",
    "between": f"above atop on {UNDER}",
    "among": f"above atop {UNDER}",
    "past": f"above atop in inside on {UNDER}",
}
_PHRASES = {"in front of": ("behind",), "behind": ("in front of",), "into": ("out of",), "towards": ("away from",)}
_PHRASES |= {"toward": ("away from",), "under": ("in front of",), "on": ("in front of",), "in": ("in front of",)}
PHRASES = ("in front of", "out of", "away from")


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


def leaked() -> frozenset[str]:
    """Words that the leaking rule replaces by a word they share a set with."""
    return frozenset(
        word for word in LISTED if published_alternatives(word, True) & union(group for group in SETS if word in group)
    )
