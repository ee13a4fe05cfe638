"""Relation paradigm 1 (VSE-C, 3.2): noun phrases that are not interchangeable change places."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from vse.adversaries.pools import determiner_of, is_plural
from vse.adversaries.registry import contrast_attack
from vse.adversaries.vsec.grammar import agreeing_verbs, has_loose_clause
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.vsec.reading import Reading
from vse.adversaries.vsec.slots import NOTHING, Slot
from vse.adversaries.word_lists import Words, read_lists
from vse.text.components import Object

_LINKS = ("with", "and", "or")  # the published rule, whose comma never matched
# Prepositions under which a later phrase keeps company with all before it.
_WEAK = frozenset(["with", "near", "beside", "by", "alongside", "along", "and", "or", ",", "&", "to"])
# Verbs whose object and place may be said either way round.
_EITHER = frozenset(("surf", "serve", "fill", "load", "top", "cover"))
_COPULA = frozenset(["is", "are", "was", "were", "be", "'s"])  # "an apple is a fruit"
_BESIDE = frozenset(["near", "beside", "by", "alongside"])
_BE = frozenset(["is", "are", "was", "were", "be", "being", "been"])
_AMONG = frozenset(["between", "among", "amongst", "amid"])
_MAY_AGREE = frozenset(["VB", "VBP", "VBZ", "NN", "NNS"])
_POSSESSIVES = frozenset(["his", "her", "its", "their", "my", "your", "our", "another", "other", "each", "both", "no"])


@dataclass(frozen=True, kw_only=True)
class ShuffleLists:
    """Word lists of a TOML file, which describes each of them."""

    symmetric: Words
    ridden: Words


SHUFFLE = read_lists(ShuffleLists, __file__)


@contrast_attack("shuffle", of_class="relation", paper_rank=3, lists=SHUFFLE)
def shuffle_slots(reading: Reading) -> Iterator[Slot]:
    """One slot, with one alternative, for every pair of noun phrases that may change places."""
    phrases = _noun_phrases(reading)
    linked = _linked(reading, phrases)
    for (one, a), (other, b) in combinations(enumerate(phrases), 2):
        if (one, other) in linked or not _differ(reading, a, b):
            continue
        fixed = ((a[1], a[2], _text(reading, b)), (b[1], b[2], _text(reading, a)))
        slot = Slot(
            paradigm="shuffle",
            first=0,
            last=0,
            phrases=NOTHING,
            allowed=1,
            fixed=fixed,
            reason=f"{a[0].word} and {b[0].word} are not interchangeable here{{}}",
        )
        if _shuffled(reading, slot) not in reading.image.texts:
            yield slot


_Phrase = tuple[Object, int, int]


def _noun_phrases(reading: Reading) -> list[_Phrase]:
    """(head, first, last + 1) of noun phrases that stand by themselves, none overlapping another."""
    phrases: list[_Phrase] = []
    for item in reading.objects:
        first, last = reading.phrase_start(item), item.token + 1
        if reading.compound_start(item) < first or not reading.is_free(first, last) or not reading.whole_phrase(item):
            continue
        if phrases and phrases[-1][2] > first:
            phrases.pop()
            continue
        owned = reading.rules.agreement and not _POSSESSIVES.isdisjoint(reading.lower[first:last])
        if not owned:
            phrases.append((item, first, last))
    return phrases


def _text(reading: Reading, phrase: _Phrase) -> str:
    """The words of a noun phrase as they stand in the middle of a sentence."""
    tokens = reading.caption.parse
    text = reading.caption.text[tokens[phrase[1]].start : tokens[phrase[2] - 1].end]
    proper = tokens[phrase[1]].tag in ("NNP", "NNPS")
    return text if proper or text[1:2].isupper() else text[:1].lower() + text[1:]


def _linked(reading: Reading, phrases: list[_Phrase]) -> set[tuple[int, int]]:
    """Pairs that may change places without a change of meaning, taken transitively where conjunctions link them."""
    group = list(range(len(phrases)))
    for k in range(len(phrases) - 1):
        between = reading.lower[phrases[k][2] : phrases[k + 1][1]]
        joined = len(between) == 0 or (len(between) == 1 and between[0] in (*_LINKS, ",", "&"))
        joined = joined or between in ((",", "and"), (",", "or"))
        if joined:
            group[k + 1] = group[k]
    linked = {(a, b) for a, b in combinations(range(len(phrases)), 2) if group[a] == group[b]}
    if reading.rules.asymmetric:
        linked |= {(a, b) for a, b in combinations(range(len(phrases)), 2) if _symmetric(reading, phrases, a, b)}
    return linked


def _symmetric(reading: Reading, phrases: list[_Phrase], a: int, b: int) -> bool:
    """Whether what relates two phrases, by the parse or by the words between neighbours, holds both ways."""
    one, other = phrases[a], phrases[b]
    if reading.lower[other[1] - 1] in _WEAK or reading.lower[max(0, one[1] - 1)] in _BESIDE:
        return True  # "two bears at a table with honey", "near a curb outside a store"
    if (one[0].word in SHUFFLE.ridden or _is_place(reading, one)) and _is_place(reading, other):
        return True  # "in the sand on the beach", "on skis in the snow"
    if other[0].word in LISTS.tethers:
        return True  # "a dog on a leash"
    before = [reading.caption.parse[phrase[1] - 1] for phrase in (one, other) if phrase[1] > 0]
    if len(before) == 2 and before[0].pos == "ADP" and before[0].text.lower() == before[1].text.lower():
        return True  # "on a skateboard on a street"
    if one[0].token not in reading.subjects and _EITHER.intersection(t.lemma for t in reading.caption.parse):
        return True  # "surfing the waves on a surfboard"
    words = [
        {r.word, *(reading.lower[t] for t in r.tokens)}
        for r in reading.caption.components.relations
        if {r.subject_token, r.object_token} == {one[0].token, other[0].token}
    ]
    if b == a + 1:
        words.append({*reading.lower[one[2] : other[1]], *(t.lemma for t in reading.caption.parse[one[2] : other[1]])})
    if reading.tree.role(other[0].token) == "conj" or other[0].token in reading.tree.conjuncts(one[0].token):
        return True
    return any(between <= _COPULA or not between.isdisjoint(SHUFFLE.symmetric) for between in words)


def _is_place(reading: Reading, phrase: _Phrase) -> bool:
    """Whether a noun phrase says where, so that two of them may be said either way round."""
    word = phrase[0].word
    return word in LISTS.terrain | LISTS.waters | LISTS.tethers or reading.related.is_enclosure(word)


def _differ(reading: Reading, a: _Phrase, b: _Phrase) -> bool:
    """Whether the phrases mean different things, and the sentence stays grammatical."""
    if reading.lower[a[1] : a[2]] == reading.lower[b[1] : b[2]] or a[0].word == b[0].word:
        return False
    if not reading.rules.asymmetric:
        return True
    if reading.related.means_same(a[0].word, b[0].word):
        return False
    if not (_whole(reading, a) and _whole(reading, b)):
        return False
    parse = reading.caption.parse
    if is_plural(parse, a[0].token) == is_plural(parse, b[0].token):
        return True
    finite = any(t.tag == "VB" and parse[k - 1].tag not in ("TO", "MD") for k, t in enumerate(parse) if k > 0)
    if finite or any(parse[k].tag in _MAY_AGREE for _, _, k in (a, b) if k < len(parse)):
        return False  # a verb or a noun taken for one: "the leaves bounds"
    if reading.misread or any(_rules_clause(reading, k, (a[0].token, b[0].token)) for k in range(len(parse))):
        return False
    nouns = a[0].token, b[0].token
    return not any(agreeing_verbs(reading.tree, k) or has_loose_clause(reading.tree, k) for k in nouns)


def _whole(reading: Reading, phrase: _Phrase) -> bool:
    """Whether a phrase is a plainly visible thing: concrete, and not the first half of "a bowl of soup"."""
    if phrase[0].token in reading.misread:
        return False
    if phrase[2] < len(reading.lower) and reading.caption.parse[phrase[2]].tag in ("NN", "NNS"):
        return False  # the first half of something: "the rope swing"
    after = reading.lower[phrase[2] : phrase[2] + 1]
    before = reading.lower[max(0, phrase[1] - 1) : phrase[1]]
    token = phrase[0].token
    if reading.is_bare(token) or reading.shares_determiner(phrase[0]):
        return False
    singular = not is_plural(reading.caption.parse, token) and phrase[0].word not in LISTS.mass
    if singular and reading.has_article and not determiner_of(reading.caption.parse, token):
        return False  # "ankle deep"
    if not _AMONG.isdisjoint(before) or (before and before[0] in _BE and _is_participle(reading, phrase[2])):
        return False  # "between two poles", "is dirt biking"
    return reading.visible(phrase[0]) and after != ("of",) and before != ("of",)


def _rules_clause(reading: Reading, index: int, nouns: tuple[int, int]) -> bool:
    """Whether a token tagged as a noun has one of the nouns as its subject: "a woman climbs rocks" misread."""
    tree = reading.tree
    noun = reading.caption.parse[index].tag in ("NN", "NNS") and not tree.below(index, "cop")
    return noun and not set(nouns).isdisjoint(tree.below(index, "nsubj"))


def _is_participle(reading: Reading, index: int) -> bool:
    return reading.caption.parse[index : index + 1] != () and reading.caption.parse[index].tag == "VBG"


def _shuffled(reading: Reading, slot: Slot) -> tuple[str, ...]:
    (a, a_end, to_a), (b, b_end, to_b) = slot.fixed
    lower = reading.lower
    return (*lower[:a], *lower[b:b_end], *lower[a_end:b], *lower[a:a_end], *lower[b_end:]) if to_a != to_b else lower
