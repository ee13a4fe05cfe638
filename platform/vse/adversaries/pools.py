"""Words that may be swapped into a caption: nouns, attributes and relations of the training captions, with their forms.

Nothing is inflected by rule: an entry keeps the forms that training captions used, five times at least, so every word
that goes in is in the vocabulary of any model. Seventy per cent of each list serve training negatives and the `shared`
attacks; the rest appear only in the `disjoint` attacks.
"""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from vse.adversaries.word_lists import SHARED, spellings
from vse.config import fingerprint, knob
from vse.text.components import Components, Relation
from vse.text.parse import Parse

# More than 100 on MS-COCO (A.1's rule for nouns), as a share of the 566,000 captions of 113,287 images. A.1 names none;
# of the 82,783 images that section 4 trains on it is 2.4e-4, and the preset for COCO counts as printed.
RELATIVE_MINIMUM = 1.8e-4
LEAST = 5  # occurrences, however small the data set: a rarer word has hardly been learned
USUAL = 1 / 3  # of a word's tokens must be of the right kind, so that slips of the parser ("it hides") stay out
FREQUENT_BELOW = 10_000  # captions; a smaller data set has too few of the published attributes
TRAINING_SHARE = 0.7

ADNOMINAL = "adnominal"
"""Form of a relation that can follow a noun directly: a preposition or a participle with its preposition."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolConfig:
    """Which words are negatives (UniVSE, A.1)."""

    frequent: float = knob(
        RELATIVE_MINIMUM,
        "share of the training captions in which a word must occur",
        low=0,
        high=1,
        only="minimum=null",
    )
    minimum: int | None = knob(None, "occurrences in the training captions, instead of the share", low=1)
    attributes: str = knob(
        "auto",
        "frequent ones, the published 37, the corrected 38; auto: frequent below 10,000 captions, else corrected",
        choices=("auto", "frequent", "published", "corrected"),
    )
    held_out: bool = knob(True, "reserve three tenths of each list for disjoint attacks; no paper does")


@dataclass(frozen=True, kw_only=True, slots=True)
class NounEntry:
    """A noun and its commonest forms; `determiner` is what mostly precedes the singular: a, the or nothing."""

    word: str
    count: int
    singular: str | None
    plural: str | None
    determiner: str
    countable: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class AttributeEntry:
    """An attribute and its commonest form."""

    word: str
    count: int
    form: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RelationEntry:
    """A relation word and its commonest phrase for each verb tag, or `adnominal`; phrases end before the object."""

    word: str
    count: int
    forms: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """Entries in descending order of frequency."""

    nouns: tuple[NounEntry, ...]
    attributes: tuple[AttributeEntry, ...]
    relations: tuple[RelationEntry, ...]

    def words(self) -> dict[str, tuple[str, ...]]:
        """Plain words (lemmas) of each list: what negative components are drawn from."""
        return {spec.name: tuple(entry.word for entry in getattr(self, spec.name)) for spec in fields(self)}


@dataclass(frozen=True, kw_only=True, slots=True)
class WordPools:
    """`training`: for negatives in training and shared attacks; `attack_only`: for disjoint attacks."""

    training: Pool
    attack_only: Pool

    def of(self, words: str) -> Pool:
        """The pool of an attack's kind of words, `shared` or `disjoint`."""
        return {"shared": self.training, "disjoint": self.attack_only}[words]

    @property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits over every entry."""
        return fingerprint(asdict(self))


def build_pools(captions: Iterable[tuple[Parse, Components]], config: PoolConfig | None = None) -> WordPools:
    """Pools from the parses and components of the training captions.

    Without `held_out` both pools hold every word.
    """
    config = config or PoolConfig()
    counts = _Counts()
    num_captions = 0
    for parse, components in captions:
        num_captions += 1
        counts.add(parse, components)
    least = config.minimum
    if least is None:
        least = max(LEAST, math.ceil(config.frequent * num_captions))
    attributes = config.attributes
    if attributes == "auto":
        attributes = "frequent" if num_captions < FREQUENT_BELOW else "corrected"
    lists = {"frequent": None, "published": SHARED.published_attributes, "corrected": SHARED.corrected_attributes}
    whole = counts.pool(least, lists[attributes])
    if not config.held_out:
        return WordPools(training=whole, attack_only=whole)
    halves = {spec.name: _divide(spec.name, getattr(whole, spec.name)) for spec in fields(whole)}
    return WordPools(
        training=Pool(**{name: entries for name, (entries, _) in halves.items()}),
        attack_only=Pool(**{name: entries for name, (_, entries) in halves.items()}),
    )


def _divide(kind: str, entries: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Seven tenths and the rest, in order of a hash, so that the parts are exact however few words there are."""
    by_hash = sorted(entries, key=lambda e: hashlib.sha256(f"{kind}:{e.word}".encode()).digest())
    kept = {entry.word for entry in by_hash[: math.ceil(TRAINING_SHARE * len(entries))]}
    return tuple(e for e in entries if e.word in kept), tuple(e for e in entries if e.word not in kept)


class _Counts:
    """Occurrences of words and of their forms."""

    def __init__(self) -> None:
        self.tokens: Counter[str] = Counter()
        self.texts: Counter[str] = Counter()
        self.nouns: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
        self.determiners: dict[str, Counter[str]] = defaultdict(Counter)
        self.attributes: dict[str, Counter[str]] = defaultdict(Counter)
        self.relations: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)

    def add(self, parse: Parse, components: Components) -> None:
        self.tokens.update(word for token in parse for word in {token.lemma, token.text.lower()})
        self.texts.update(token.text.lower() for token in parse)
        for item in components.objects:
            if is_hyphenated(parse, item.token):
                continue
            token = parse[item.token]
            number = "plural" if is_plural(parse, item.token) else "singular"
            self.nouns[item.word][number, token.text.lower()] += 1
            if number == "singular" and not is_compounded(parse, item.token):
                self.determiners[item.word][determiner_of(parse, item.token)] += 1
        for item in components.attributes:
            token = parse[item.token]
            if (token.pos == "ADJ" or token.tag == "VBN") and not is_hyphenated(parse, item.token):
                self.attributes[item.word][token.text.lower()] += 1
        for item in components.relations:
            span = relation_span(parse, item)
            slot, phrase = "", ""
            if span is not None:
                slot = relation_slot(parse, item)
                phrase = " ".join(token.text.lower() for token in parse[span[0] : span[1]])
            self.relations[item.word][slot, phrase] += 1

    def pool(self, least: int, listed: Container[str] | None) -> Pool:
        learned = {word for word, count in self.texts.items() if count >= min(least, LEAST)}
        nouns = [
            self._noun(word, forms, learned)
            for word, forms in _frequent(_merged(self.nouns), least)
            if word not in SHARED.not_concrete and _plain(word) and self._usual(word, forms)
        ]
        attributes = [
            AttributeEntry(word=word, count=forms.total(), form=form)
            for word, forms in _frequent(_merged(self.attributes), least)
            if _plain(word) and self._usual(word, forms)
            if listed is None or any(spelling in listed for spelling in spellings([word]))
            if (form := _commonest(forms, learned)) is not None
        ]
        relations = []
        for word, forms in _frequent(_merged(self.relations), least):
            by_slot: dict[str, Counter[str]] = defaultdict(Counter)
            for (slot, phrase), count in forms.items():
                if phrase:
                    by_slot[slot][phrase] += count
            best = {slot: form for slot in sorted(by_slot) if (form := _commonest(by_slot[slot], learned)) is not None}
            if best and word not in SHARED.no_relation and _plain(word):
                relations.append(RelationEntry(word=word, count=forms.total(), forms=best))
        named = tuple(entry for entry in nouns if entry.singular is not None or entry.plural is not None)
        return Pool(nouns=named, attributes=tuple(attributes), relations=tuple(relations))

    def _usual(self, word: str, forms: Counter[Any]) -> bool:
        return forms.total() >= USUAL * sum(self.tokens[spelling] for spelling in spellings([word]))

    def _noun(self, word: str, forms: Counter[tuple[str, str]], learned: Container[str]) -> NounEntry:
        by_number: dict[str, Counter[str]] = {"singular": Counter(), "plural": Counter()}
        for (number, text), count in forms.items():
            by_number[number][text] += count
        before = sum((self.determiners[spelling] for spelling in sorted(spellings([word]))), Counter[str]())
        common = {name: before[name] for name in ("a", "the", "")}
        return NounEntry(
            word=word,
            count=forms.total(),
            singular=_commonest(by_number["singular"], learned),
            plural=_commonest(by_number["plural"], learned),
            determiner=max(common, key=lambda name: common[name]),
            countable=before["a"] > 0 or not by_number["singular"],
        )


def _merged(counters: Mapping[str, Counter[Any]]) -> dict[str, Counter[Any]]:
    """Counters of words, those of all spellings under the commonest one."""
    merged: dict[str, Counter[Any]] = {}
    for word, forms in counters.items():
        counted = sorted(spelling for spelling in spellings([word]) if spelling in counters)
        if len(counted) == 1:
            merged[word] = forms
        elif word == min(counted, key=lambda spelling: (-counters[spelling].total(), spelling)):
            merged[word] = sum((counters[spelling] for spelling in counted), Counter[Any]())
    return merged


def _frequent(counters: Mapping[str, Counter[Any]], least: int) -> list[tuple[str, Counter[Any]]]:
    kept = [(word, forms) for word, forms in counters.items() if forms.total() >= least]
    return sorted(kept, key=lambda item: (-item[1].total(), item[0]))


def _commonest(forms: Counter[str], learned: Container[str]) -> str | None:
    """The commonest form whose words have been seen often enough to be learned, None if there is none."""
    learned_forms = [form for form in forms if all(word in learned for word in form.split())]
    return min(learned_forms, key=lambda form: (-forms[form], form)) if learned_forms else None


def _plain(word: str) -> bool:
    """Whether a word is made of letters (hyphens inside allowed) and so can stand in a sentence by itself."""
    return len(word) > 1 and word.replace("-", "").isalpha()


def is_plural(parse: Parse, index: int) -> bool:
    """Whether the noun at `index` is tagged as a plural."""
    return parse[index].tag in ("NNS", "NNPS")


def is_hyphenated(parse: Parse, index: int) -> bool:
    """Whether a hyphen joins the token to a neighbour, so that it is only part of a word: `gray-haired`."""
    before = index > 0 and parse[index - 1].text == "-" and parse[index - 1].end == parse[index].start
    after = index + 1 < len(parse) and parse[index + 1].text == "-" and parse[index].end == parse[index + 1].start
    return before or after


def hyphenated_start(parse: Parse, index: int) -> int:
    """Index of the first token of the hyphenated word that ends with the token at `index`."""
    while index > 1 and parse[index - 1].text == "-" and parse[index - 2].end == parse[index - 1].start:
        if parse[index - 1].end != parse[index].start:
            break
        index -= 2
    return index


def is_compounded(parse: Parse, index: int) -> bool:
    """Whether the token before the noun at `index` modifies it as a noun."""
    return index > 0 and parse[index - 1].dep.split(":")[0] in ("compound", "nn", "flat")


_DETERMINING = frozenset(("det", "poss", "nummod", "predet"))
_BEFORE_NOUN = _DETERMINING | {"amod", "compound", "nn", "advmod", "nmod", "flat"}


def noun_phrase_start(parse: Parse, index: int) -> int:
    """Index of the first of the determiners and modifiers that directly precede the noun at `index`."""
    start = index
    while start > 0:
        before = parse[start - 1]
        possessive = before.dep == "nmod:poss" or before.dep.split(":")[0] != "nmod"
        if not (start <= before.head <= index and before.dep.split(":")[0] in _BEFORE_NOUN and possessive):
            break
        start -= 1
    return start


def compound_start(parse: Parse, index: int) -> int:
    """Index of the first of the nouns that form a compound with the noun at `index`."""
    start = hyphenated_start(parse, index)
    while start > 0 and start <= parse[start - 1].head <= index and is_compounded(parse, start):
        start = hyphenated_start(parse, start - 1)
    return start


def determiner_of(parse: Parse, index: int) -> str:
    """`a`, `the`, nothing, or `other` (possessives, numbers, quantifiers) before the noun at `index`."""
    phrase = [t for t in parse[noun_phrase_start(parse, index) : index] if t.dep.split(":")[0] in _DETERMINING]
    phrase += [t for t in parse[:index] if t.dep == "nmod:poss" and t.head == index]
    if not phrase:
        return ""
    word = phrase[0].text.lower()
    return "a" if word in ("a", "an") else word if word == "the" else "other"


def relation_slot(parse: Parse, relation: Relation) -> str:
    """What a phrase must be to take this relation's place: a finite verb of the same tag, or `adnominal`."""
    tag = parse[min(relation.tokens)].tag
    return tag if tag in ("VB", "VBP", "VBZ", "VBD") else ADNOMINAL


def relation_span(parse: Parse, relation: Relation) -> tuple[int, int] | None:
    """(first, last + 1) of the words from the relation up to its object's noun phrase: `sitting on`, `in front of`.

    None if the object does not follow within four words, or other nouns, verbs or punctuation come between.
    """
    first, last = min(relation.tokens), noun_phrase_start(parse, relation.object_token)
    if not first < last <= first + 4:
        return None
    between = [parse[k] for k in range(first, last) if k not in relation.tokens]
    if any(token.pos in ("NOUN", "PROPN", "VERB", "AUX", "PUNCT", "CCONJ", "PRON") for token in between):
        return None
    return first, last
