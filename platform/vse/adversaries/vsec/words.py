"""Words that go into contrastive captions, from the captions of the training images: nouns, numerals, prepositions.

Nouns keep the forms that training captions use, and are divided as UniVSE's are: seventy per cent are `shared` with
training, the rest are for `disjoint` attacks only. Numerals and prepositions are a dozen words each and not divided:
whichever of them training held back would give a true caption away (with {one, two} kept for attacks, "two" is never
false in training).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property

from vse.adversaries.pools import LEAST, NounEntry, PoolConfig, build_pools
from vse.adversaries.univse.editor import article
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.vsec.rules import ChangeRules
from vse.adversaries.vsec.slots import NOTHING
from vse.adversaries.word_lists import SHARED, spellings
from vse.config import fingerprint
from vse.errors import InputError
from vse.text.components import Components
from vse.text.lexicon.compact import Knowledge
from vse.text.lexicon.concreteness import Concreteness
from vse.text.parse import Parse

_PLURALS = {"people": "person", "men": "man", "women": "woman"}  # what a lexicon of singulars has under another word
KINDS = ("shared", "disjoint", "all")
_UNITS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
NUMBERS: dict[str, int] = {
    **{word: value for value, word in enumerate(f"{_UNITS} eighteen nineteen twenty".split(), 1)},
    **{word: 10 * tens for tens, word in enumerate(["thirty", "forty", "fifty", "sixty", "seventy", "eighty"], 3)},
}
DIGITS = {str(value): value for value in range(1, 21)}
ARTICLES = ("a", "an")
FOR_ONE = frozenset(("a", "an", "one", "another", "each", "every", "either"))  # words before a noun in the singular
PREPOSITIONS = frozenset().union(*LISTS.preposition_sets)
PHRASES = ("in front of", "away from")  # counted as prepositions
WORD_SETS = ("heads", "counted", "verbs")  # fields of `Contrast` without an order
_ALWAYS = frozenset(("one", "two", "three", "four", "five"))  # 99.8 % of the plurals of COCO's test captions (4.1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Contrast:
    """Words of one kind (`shared`, `disjoint` or `all`) that may be swapped in, and the heads that may be replaced.

    forms: (singular, plural) of nouns as training captions write them. counted: nouns that take an article. verbs:
    words that are mostly verbs in the third person, whatever a parser takes them for now and then.
    """

    kind: str
    nouns: tuple[NounEntry, ...]
    heads: frozenset[str]
    numerals: tuple[str, ...]
    prepositions: tuple[str, ...]
    forms: Mapping[str, tuple[str | None, str | None]]
    counted: frozenset[str]
    verbs: frozenset[str]

    @property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits over every word."""
        return fingerprint({**asdict(self), **{name: sorted(getattr(self, name)) for name in WORD_SETS}})

    @cached_property
    def phrases(self) -> dict[str, tuple[str, ...]]:
        """The lists that slots point into. Forms that do not exist are empty phrases, which no slot allows."""
        singular = tuple(entry.singular or "" for entry in self.nouns)
        return {
            NOTHING: ("",),
            "singular": singular,
            "plural": tuple(entry.plural or "" for entry in self.nouns),
            "indefinite": tuple(f"{article(form)} {form}" if form else "" for form in singular),
            "numeral": (*self.numerals, *ARTICLES),
            "preposition": self.prepositions,
        }

    @cached_property
    def fitting(self) -> dict[str, int]:
        """Nouns that have a form, as bits: any singular, one with an article, one without, a plural."""
        kinds: dict[str, Callable[[NounEntry], bool]] = {
            "singular": lambda e: takes_article(e) or is_mass(e),
            "counted": takes_article,
            "mass": is_mass,
            "plural": lambda e: e.plural is not None and (e.word not in LISTS.mass or e.word in LISTS.counted_too),
        }
        return {name: sum(1 << k for k, e in enumerate(self.nouns) if fits(e)) for name, fits in kinds.items()}

    @cached_property
    def numerals_by_value(self) -> dict[int, int]:
        """Value -> numerals of that value, as bits; `a` and `an` are one."""
        masks: dict[int, int] = defaultdict(int)
        for k, word in enumerate(self.phrases["numeral"]):
            masks[NUMBERS.get(word, 1)] |= 1 << k
        return dict(masks)

    def numerals_without(self, values: Iterable[int], *, one: bool, articles: bool = False) -> int:
        """Numerals that may stand in a caption, as bits over the list `numeral`.

        Args:
            values: Values that are left out, such as the number that the caption gives.
            one: True for numerals of value one, False for all others.
            articles: Whether `a` and `an` count as numerals of value one; otherwise they are left out.
        """
        chosen = sum(m for v, m in self.numerals_by_value.items() if (v == 1) == one and v not in values)
        return chosen if articles else chosen & ((1 << len(self.numerals)) - 1)


def takes_article(entry: NounEntry) -> bool:
    """Whether the noun takes the article `a`."""
    if (entry.word in LISTS.mass and entry.word not in LISTS.counted_too) or entry.word in LISTS.plural_only:
        return False
    return entry.singular is not None and entry.countable and (entry.determiner == "a" or entry.plural is not None)


def is_mass(entry: NounEntry) -> bool:
    """Whether the noun stands without an article."""
    if entry.singular is None or entry.word in LISTS.plural_only:
        return False
    if entry.word in LISTS.places:
        return False
    return entry.word in LISTS.mass or (not entry.countable and entry.plural is None and entry.determiner == "")


def is_visible(noun: str, concreteness: Concreteness) -> bool:
    """Whether a noun counts as concrete: by its score, the score of its singular, or a short list of exceptions."""
    return noun in LISTS.visible or concreteness.is_concrete(_PLURALS.get(noun, noun))


class ContrastWords:
    """The words of a training split under some rules, of every kind."""

    def __init__(self, captions: Iterable[tuple[Parse, Components]], rules: ChangeRules, knowledge: Knowledge) -> None:
        """Reads the captions (parse, components) once; `rules` and `knowledge` say what is frequent and concrete."""
        self.rules, self.knowledge = rules, knowledge
        self._count, self._texts, self._used, self._third = 0, Counter[str](), Counter[str](), Counter[str]()
        config = PoolConfig(frequent=rules.frequent, minimum=rules.minimum, held_out=rules.held_out)
        pools = build_pools(self._counted(captions), config)
        least = max(LEAST, math.ceil(rules.frequent * self._count)) if rules.minimum is None else rules.minimum
        self._halves = {"shared": pools.training.nouns, "disjoint": pools.attack_only.nouns if rules.held_out else ()}
        whole = (*self._halves["shared"], *self._halves["disjoint"])
        self._halves["all"] = tuple(sorted(whole, key=lambda entry: (-entry.count, entry.word)))
        self._numerals = tuple(n for n in NUMBERS if self._texts[n] or n in _ALWAYS)
        self._prepositions = tuple(sorted(p for p in PREPOSITIONS | set(PHRASES) if self._used[p] >= least))
        self._forms = {entry.word: (entry.singular, entry.plural) for entry in whole}
        self._verbs = frozenset(w for w, n in self._third.items() if n >= 2 and 2 * n > self._texts[w])
        self._articles = spellings(entry.word for entry in whole if takes_article(entry))

    def _counted(self, captions: Iterable[tuple[Parse, Components]]) -> Iterator[tuple[Parse, Components]]:
        """The captions as they come; words and prepositions are counted as they pass."""
        for parse, components in captions:
            lower = [token.text.lower() for token in parse]
            self._count += 1
            self._texts.update(lower)
            self._third.update(w for w, token in zip(lower, parse, strict=True) if token.tag == "VBZ")
            self._used.update(w for w, token in zip(lower, parse, strict=True) if token.pos in ("ADP", "SCONJ"))
            text = f" {' '.join(lower)} "
            self._used.update(phrase for phrase in PHRASES if f" {phrase} " in text)
            yield parse, components

    @cached_property
    def heads(self) -> frozenset[str]:
        """Frequent concrete heads in every spelling: the only nouns that are replaced."""
        return spellings(e.word for e in self._halves["all"] if self._concrete(e.word) and self._known(e.word))

    def _concrete(self, word: str) -> bool:
        return is_visible(word, self.knowledge.concreteness) and word not in SHARED.not_concrete

    def _known(self, word: str) -> bool:
        return word in self.knowledge.lexicon

    def of(self, kind: str) -> Contrast:
        """The words of one kind. Raises InputError if no noun is left to put in."""
        if kind not in KINDS:
            raise InputError(f"words={kind}: expected one of {', '.join(KINDS)}")
        if kind == "disjoint" and not self.rules.held_out:
            raise InputError(
                "disjoint words: text.contrast.held_out=false leaves no nouns that training adversaries never use"
            )
        nouns = tuple(e for e in self._halves[kind] if e.word in self.heads and self._fit(e))
        if not nouns:
            raise InputError(f"contrastive captions, {kind} words: no noun of the training captions is frequent enough")
        return Contrast(
            kind=kind,
            nouns=nouns,
            heads=self.heads,
            numerals=self._numerals,
            prepositions=self._prepositions,
            forms=self._forms,
            counted=self._articles,
            verbs=self._verbs,
        )

    def _fit(self, entry: NounEntry) -> bool:
        """Whether a noun may be put in: its truth can be seen, and it is not in every picture."""
        if not self.rules.image_wide:
            return True
        part = self.knowledge.lexicon.is_a(entry.word, "body_part", senses=2)
        return entry.word not in LISTS.ambient | LISTS.poor and not part

    def report(self) -> dict[str, object]:
        """How many words there are, and which frequent nouns were left out because they are not concrete or known."""
        every = [entry.word for entry in self._halves["all"]]
        return {
            "frequent_nouns": len(every),
            "heads": len(self.heads),
            "not_in_lexicon": sorted(w for w in every if not self._known(w)),
            "not_concrete": sorted(w for w in every if self._known(w) and not self._concrete(w)),
            **{f"nouns_{kind}": len(self.of(kind).nouns) for kind in KINDS if self._halves[kind]},
            "numerals": list(self._numerals),
            "prepositions": list(self._prepositions),
        }


def alternatives(word: str, rules: ChangeRules) -> frozenset[str]:
    """Prepositions that may replace `word` under the rules."""
    return sensible_alternatives(word) if rules.sensible_prepositions else published_alternatives(word, rules.leak)


def sensible_alternatives(word: str) -> frozenset[str]:
    """What may be put in for a preposition (or `next to`, `in front of`) by our own table and the published sets."""
    chosen = LISTS.false_instead.get(word, frozenset())
    if " " not in word:
        chosen &= published_alternatives(word, False)
    phrase = LISTS.phrases_instead.get(word)
    return chosen - {word} if phrase is None else chosen | {phrase}


def published_alternatives(word: str, leak: bool) -> frozenset[str]:
    """Words of the published sets that may replace `word`.

    As written, these are the words that share no set with it. With `leak`, as in the published code, they are all words
    of sets without `word`, although another set may have both.
    """
    sharing = {word}.union(*(group for group in LISTS.preposition_sets if word in group))
    kept = frozenset().union(*(group for group in LISTS.preposition_sets if word not in group))
    return kept - ({word} if leak else sharing)
