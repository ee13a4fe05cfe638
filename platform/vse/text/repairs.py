"""Repairs of the shipped parser's trees by rules.

The pipeline learned from web text, which has few captions such as "a dog on the left and a cat on the right". It errs
on them in the same few ways: the coarse part of speech contradicts the fine tag, the object of a relative clause
becomes the subject of the main verb, and a conjunct is attached to the noun of the preposition before it. Labels are
those of Universal Dependencies. A parse without these errors is returned as it is.
"""

import bisect
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from vse.text.caption_words import AIMED, INTRANSITIVE, PASSIVE, TRANSITIVE
from vse.text.component_words import GARMENTS, LOCATIONS, LOCATIVE, SAYING
from vse.text.parse import Parse

Lemma = Callable[[str, str, str], str]  # (form, coarse part of speech, fine tag) -> base form

# A word that may be a plural noun or a verb is read as a verb only if it is one of these.
_VERBS = frozenset((*TRANSITIVE, *INTRANSITIVE, *PASSIVE, *AIMED))
_FINITE = ("VBZ", "VBP", "VBD")
_NOUN, _VERB = ("NOUN", "PROPN"), ("VERB", "AUX")


class _Draft:
    """The tokens of a parse while they change."""

    def __init__(self, parse: Parse, lemma_of: Lemma) -> None:
        self.tokens = list(parse)
        self.lemma_of = lemma_of
        self._below: list[list[int]] = [[] for _ in parse]
        for i, token in enumerate(parse):
            if token.head != i:
                self._below[token.head].append(i)

    def __len__(self) -> int:
        return len(self.tokens)

    def children(self, i: int, *deps: str) -> list[int]:
        return [k for k in self._below[i] if not deps or self.tokens[k].dep in deps]

    def attach(self, i: int, head: int, dep: str) -> None:
        """Move token `i` with all below it; nothing moves below itself."""
        old, above, seen = self.tokens[i].head, head, set[int]()
        while head != i and above not in seen:
            if above == i:
                return
            seen.add(above)
            above = self.tokens[above].head
        if old != i:
            self._below[old].remove(i)
        if head != i:
            bisect.insort(self._below[head], i)
        self.tokens[i] = replace(self.tokens[i], head=head, dep=dep)

    def replace_head(self, noun: int, verb: int, dep: str = "nsubj") -> None:
        """Let a verb take the place of a noun in the tree, and the noun be its subject."""
        place = self.tokens[noun]
        self.attach(verb, verb if place.head == noun else place.head, place.dep)
        self.attach(noun, verb, dep)

    def retag(self, i: int, pos: str, tag: str) -> None:
        lemma = self.lemma_of(self.tokens[i].text, pos, tag)
        self.tokens[i] = replace(self.tokens[i], pos=pos, tag=tag, lemma=lemma)

    def word(self, i: int) -> str:
        return self.tokens[i].text.lower() if 0 <= i < len(self) else ""

    def is_noun(self, i: int) -> bool:
        return self.tokens[i].pos in _NOUN

    def first(self, i: int) -> int:
        """Position of the leftmost token of the phrase that token `i` heads."""
        while before := [k for k in self.children(i) if k < i]:
            i = min(before)
        return i

    def case(self, i: int) -> list[int]:
        return [k for k in self.children(i, "case") if k < i]

    def finite(self, i: int) -> bool:
        helpers = [k for k in self.children(i, "aux", "aux:pass", "cop") if k < i]
        return any(self.tokens[k].tag in _FINITE for k in (helpers or [i]) if self.tokens[k].pos in _VERB)


def repaired(parse: Parse, lemma_of: Lemma) -> Parse:
    """The parse with the errors of these kinds mended; `lemma_of` gives base forms of words with another tag."""
    draft = _Draft(parse, lemma_of)
    for rule in (_by_tag, _singular_article, _loose_roots, _main_verbs, _coordination):
        rule(draft)
    return tuple(draft.tokens)


def _by_tag(draft: _Draft) -> None:
    """If coarse part of speech and fine tag disagree, the tag is right if the tree agrees with it; "left" is a verb
    only with a subject."""
    for i, token in enumerate(draft.tokens):
        if token.pos == "VERB" and token.tag in ("NN", "NNS"):
            if _stands_as_noun(draft, i):
                draft.retag(i, "NOUN", token.tag)
        elif token.pos == "NOUN" and (token.tag in _FINITE or (token.tag == "VBG" and draft.children(i, "aux"))):
            draft.retag(i, "VERB", token.tag)
        elif token.lemma == "leave" and token.text.lower() == "left":
            if draft.word(i + 1) == "of":
                draft.retag(i, "ADP", "IN")
            elif token.dep == "amod":
                draft.retag(i, "ADJ", "JJ")
            elif draft.word(i - 1) in ("the", "far") and not (i + 1 < len(draft) and draft.is_noun(i + 1)):
                draft.retag(i, "NOUN", "NN")


def _stands_as_noun(draft: _Draft, i: int) -> bool:
    token = draft.tokens[i]
    if draft.children(i, "nsubj", "obj"):
        return False
    return (
        bool(draft.children(i, "det", "amod", "nummod", "nmod:poss", "case"))
        or token.dep in ("nmod", "obl", "obj", "compound", "nsubj")
        or (token.dep == "conj" and draft.is_noun(token.head))
    )


def _singular_article(draft: _Draft) -> None:
    """ "a child drinks": a plural cannot follow "a", so it is the verb of the noun before it; in "a man in a costume
    sings" it is the verb of the noun before the preposition."""
    for i, token in enumerate(draft.tokens):
        noun = i - 1
        if (
            token.tag != "NNS"
            or token.dep in ("nsubj", "nsubj:pass", "conj")
            or noun not in draft.children(i, "compound")
        ):
            continue
        singular = draft.tokens[noun].tag == "NN" and any(
            draft.word(k) in ("a", "an") for k in draft.children(i, "det")
        )
        lemma = draft.lemma_of(token.text, "VERB", "VBZ")
        if not singular or lemma not in _VERBS or draft.word(i + 1) in ("and", "or", ",", "of"):
            continue
        case, above = draft.case(i), token.head
        if case and (token.dep != "nmod" or draft.tokens[above].dep not in ("ROOT", "conj", "parataxis")):
            continue
        for k in [k for k in draft.children(i) if k < noun]:
            draft.attach(k, noun, draft.tokens[k].dep)
        draft.retag(i, "VERB", "VBZ")
        if case:
            draft.attach(noun, above, "nmod")
            draft.replace_head(above, i)
        else:
            draft.attach(noun, i, "nsubj")
        for k in draft.children(i, "nmod"):
            draft.attach(k, i, "obl")


def _loose_roots(draft: _Draft) -> None:
    """A prepositional phrase in front of the clause that it belongs to: "to the right of the sofa there is a plant"."""
    roots = [i for i, token in enumerate(draft.tokens) if token.head == i]
    for root, clause in pairwise(roots):
        if draft.is_noun(root) and draft.case(root) and draft.tokens[clause].pos in _VERB and draft.finite(clause):
            draft.attach(root, clause, "obl")


def _main_verbs(draft: _Draft) -> None:
    """The object of a noun's clause that became the subject of the main verb.

    "A woman who wears a dress stands" and "a woman wearing a dress stands" were read as "a dress stands".
    """
    for verb in range(len(draft)):
        if draft.tokens[verb].pos not in _VERB and not draft.children(verb, "cop"):
            continue
        subjects = [k for k in draft.children(verb, "nsubj", "nsubj:pass") if k < verb]
        if not subjects or not draft.finite(verb):
            continue
        taken = subjects[-1]
        if draft.tokens[taken].pos == "VERB" and draft.is_noun(subjects[0]) and draft.children(taken, "nsubj"):
            draft.attach(taken, subjects[0], "acl:relcl")  # "the cake that the woman is cutting sits"
            continue
        clause = _clause_before(draft, verb, taken, subjects[0])
        if clause is None:
            continue
        noun = draft.tokens[clause].head
        if len(subjects) == 1:
            draft.replace_head(noun, verb, draft.tokens[taken].dep)
        _give_back(draft, taken, verb, clause)


def _clause_before(draft: _Draft, verb: int, taken: int, first: int) -> int | None:
    """The verb of the clause between the true subject and `taken`, or None if the tree does not have this error."""
    if draft.children(verb, "cc", "mark") and draft.tokens[verb].dep != "conj":
        return None
    if first != taken:  # two subjects
        inner = [k for k in draft.children(first, "acl", "acl:relcl") if first < k < taken]
        return inner[-1] if inner and draft.is_noun(first) and draft.is_noun(taken) else None
    clause = draft.tokens[verb].head
    head = draft.tokens[clause].head
    fits = (
        draft.tokens[clause].dep in ("acl", "acl:relcl")
        and head < clause < taken
        and draft.is_noun(head)
        and draft.is_noun(taken)
        and draft.tokens[head].dep in ("ROOT", "conj", "nsubj", "parataxis")
        and draft.tokens[clause].lemma not in SAYING
        and not any(draft.is_noun(k) for k in draft.children(clause, "obj"))
    )
    return clause if fits else None


def _give_back(draft: _Draft, noun: int, verb: int, clause: int) -> None:
    """Make a noun the object of its clause, or its oblique if a preposition precedes it."""
    before = draft.first(noun) - 1
    word = draft.tokens[before]
    if before > clause and (word.tag in ("IN", "RP", "TO") or word.pos == "ADP") and word.head in (verb, clause):
        draft.attach(before, noun, "case")
    draft.attach(noun, clause, "obl" if draft.case(noun) else "obj")


def _coordination(draft: _Draft) -> None:
    """A conjunct with a prepositional phrase of its own that was attached to the noun of the phrase before "and"."""
    for noun, token in enumerate(draft.tokens):
        placed = token.head
        if token.dep != "conj" or not (draft.is_noun(noun) and draft.is_noun(placed)) or placed > noun:
            continue
        before, own = draft.case(placed), _phrase_after(draft, noun)
        if not before or draft.case(noun) or draft.tokens[placed].dep not in ("nmod", "obl"):
            continue
        if not _parallel(draft, placed, noun, before[0], own):
            continue
        owner = draft.tokens[placed].head
        while draft.tokens[owner].dep in ("acl", "acl:relcl") or draft.tokens[owner].lemma in LOCATIONS:
            if draft.tokens[owner].head == owner:
                break
            owner = draft.tokens[owner].head  # "in front of a house and a truck behind a barn": past the place
        draft.attach(noun, owner, "conj")
        if own is not None:
            draft.attach(own, noun, "nmod")


def _phrase_after(draft: _Draft, noun: int) -> int | None:
    """The nominal of the prepositional phrase that follows `noun` at once."""
    for k in range(noun + 1, len(draft)):
        case = draft.case(k)
        if case and case[0] == noun + 1:
            return k
        if k - noun > 6:
            break
    return None


def _parallel(draft: _Draft, placed: int, noun: int, before: int, own: int | None) -> bool:
    """Whether "... PREPOSITION placed and noun PREPOSITION own" has two phrases side by side."""
    if _is_bare_place(draft, placed) and draft.tokens[noun].lemma not in LOCATIONS:
        return True
    if own is None or {draft.tokens[placed].lemma, draft.tokens[noun].lemma} <= GARMENTS:
        return False
    one, other = draft.word(before), draft.word(draft.case(own)[0])
    several = draft.tokens[noun].tag == "NNS" and draft.children(placed, "det")
    determined = bool(draft.children(noun, "det", "nummod") or several)
    if draft.tokens[draft.tokens[placed].head].pos in _VERB:
        return one == other and determined
    return determined and (one == other or {one, other} <= LOCATIVE)


def _is_bare_place(draft: _Draft, i: int) -> bool:
    """ "the left", "the far left", but not "the top of a hill" or "a red top"."""
    own = draft.children(i, "nmod", "compound", "amod", "nmod:poss")
    return draft.tokens[i].lemma in LOCATIONS and all(draft.word(k) in LOCATIONS | {"far", "near"} for k in own)
