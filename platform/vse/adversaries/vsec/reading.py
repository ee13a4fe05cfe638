"""A caption as the attacks read it, with the facts that all captions of its image state."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from vse.adversaries.pools import compound_start, determiner_of, is_plural, noun_phrase_start
from vse.adversaries.univse.editor import with_similar
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.vsec.rules import ChangeRules
from vse.adversaries.vsec.slots import is_free
from vse.adversaries.vsec.words import DIGITS, NUMBERS, Contrast, is_visible
from vse.adversaries.word_lists import SHARED
from vse.text.components import Object
from vse.text.lexicon.compact import Knowledge
from vse.text.parsed_caption import ParsedCaption
from vse.text.syntax import Tree
from vse.text.tokens import words as token_words

_PEOPLE = next(g for g in SHARED.similar_nouns if "person" in g) | {"player", "team", "audience", "couple"}
_DOERS = ("er", "or", "ist", "man", "woman")


class Relatedness:
    """Nouns of the list that may not replace or follow a given noun, as bits; each noun is looked up once."""

    def __init__(self, candidates: Sequence[str], knowledge: Knowledge, rules: ChangeRules) -> None:
        self._lexicon, self._concreteness, self._rules = knowledge.lexicon, knowledge.concreteness, rules
        self._candidates = list(candidates)
        self._personal = [self._is_personal(word) for word in self._candidates]
        self._people = [self.is_person(word) for word in self._candidates]
        self._of: dict[str, int] = {}
        self._named: dict[str, int] = {}
        self._visible: dict[str, bool] = {}
        self._worn: dict[str, bool] = {}
        self._same: dict[tuple[str, str], bool] = {}
        self._index = {word: k for k, word in enumerate(self._candidates)}

    def is_person(self, noun: str) -> bool:
        """Whether a noun's first sense is a person, it is a word for people, or for who does something: "climber"."""
        doer = noun.endswith(_DOERS) and self._lexicon.is_a(noun, "person", senses=9)
        return doer or noun in _PEOPLE or self._lexicon.is_a(noun, "person")

    def _is_personal(self, noun: str) -> bool:
        return any(self._lexicon.is_a(noun, kind, senses=2) for kind in LISTS.personal)

    def named(self, word: str) -> int:
        """Candidates that a word of any part of speech names, or that look like it."""
        if word not in self._named:
            near = with_similar([word], SHARED.similar_nouns if self._rules.image_wide else ())
            self._named[word] = sum(1 << self._index[w] for w in near if w in self._index)
        return self._named[word]

    def of(self, noun: str) -> int:
        """Candidates with the meaning of `noun`, a wider or a narrower one; for people also what they have on them."""
        if noun not in self._of:
            self._of[noun] = self._compute(noun)
        return self._of[noun]

    def is_visible(self, noun: str) -> bool:
        """Whether a noun, frequent or not, names something to see."""
        if noun not in self._visible:
            self._visible[noun] = noun not in SHARED.not_concrete and is_visible(noun, self._concreteness)
        return self._visible[noun]

    def is_enclosure(self, noun: str) -> bool:
        """Whether something can be visibly outside of the thing that the noun names."""
        return noun in LISTS.enclosed or any(self._lexicon.is_a(noun, kind, senses=2) for kind in LISTS.enclosures)

    def has_front(self, noun: str) -> bool:
        """Whether the noun has a front of its own, so that "behind a boat" does not depend on the viewpoint."""
        return self.is_person(noun) or any(self._lexicon.is_a(noun, kind) for kind in ("vehicle", "animal"))

    def is_worn(self, noun: str) -> bool:
        """Whether the noun is clothing or a part of the body, for which "in" and "on" have other meanings."""
        if noun not in self._worn:
            self._worn[noun] = self._is_personal(noun) and not self._lexicon.is_a(noun, "bag")
        return self._worn[noun]

    def means_same(self, one: str, other: str) -> bool:
        """Whether two nouns share a synset, or one includes the other."""
        key = (one, other)
        if key not in self._same:
            lexicon = self._lexicon
            self._same[key] = lexicon.shares_synset(one, other) or lexicon.related(one, other)
        return self._same[key]

    def _compute(self, noun: str) -> int:
        lexicon, person = self._lexicon, self._rules.image_wide and self.is_person(noun)
        mask = self.named(noun)
        for k, word in enumerate(self._candidates):
            apart = not lexicon.shares_synset(noun, word)
            apart = apart and not lexicon.related(noun, word, transitive=self._rules.transitive)
            if not apart or (person and (self._people[k] or self._personal[k])):
                mask |= 1 << k
        return mask


class ImageMentions:
    """What the captions of one image mention, all together."""

    def __init__(self, captions: Sequence[ParsedCaption], related: Relatedness, rules: ChangeRules) -> None:
        self._captions, self._related, self._rules = captions, related, rules

    @cached_property
    def texts(self) -> frozenset[tuple[str, ...]]:
        """Every caption as its lower-case tokens."""
        return frozenset(token_words(caption.text) for caption in self._captions)

    @cached_property
    def barred_nouns(self) -> int:
        """Candidates that some caption names, or that mean something a caption mentions."""
        mask = 0
        for caption in self._captions:
            for token in caption.parse:
                mask |= self._related.named(token.lemma) | self._related.named(token.text.lower())
            if self._rules.image_wide:
                for item in caption.components.objects:
                    mask |= self._related.of(item.word)
        return mask

    @cached_property
    def numbers(self) -> frozenset[int]:
        """Values of the numerals in any caption."""
        texts = (token.text.lower() for caption in self._captions for token in caption.parse)
        return frozenset(value for w in texts if (value := NUMBERS.get(w) or DIGITS.get(w)))

    @cached_property
    def plurals(self) -> frozenset[str]:
        """Nouns that some caption has in the plural, with those like them: there may be several of these."""
        nouns = {
            item.word
            for caption in self._captions
            for item in caption.components.objects
            if is_plural(caption.parse, item.token)
        }
        several = {"group", "couple", "crowd", "team", "several", "many", "people", "pair", "family", "others"}
        if any(token.text.lower() in several for caption in self._captions for token in caption.parse):
            nouns |= _PEOPLE
        return with_similar(nouns, SHARED.similar_nouns)

    def may_be_several(self, noun: str) -> bool:
        """Whether another caption speaks of more than one of what `noun` names."""
        if noun in self.plurals or (self._related.is_person(noun) and not self.plurals.isdisjoint(_PEOPLE)):
            return True
        return any(self._related.means_same(noun, other) for other in self.plurals)

    @cached_property
    def placed(self) -> frozenset[tuple[str, str]]:
        """(word, noun) for every word that comes before a noun in some caption, up to four tokens away."""
        return frozenset(
            (token.text.lower(), item.word)
            for caption in self._captions
            for item in caption.components.objects
            for token in caption.parse[max(0, item.token - 4) : item.token]
        )


def has_a(tree: Tree, noun: int) -> bool:
    """Whether the indefinite article belongs to a noun: a plural with one is a verb, "a man in a hat points"."""
    return any(tree.parse[i].text.lower() in ("a", "an") for i in tree.below(noun, "det"))


@dataclass(frozen=True, eq=False)
class Reading:
    """One caption, with everything that determines which changes are allowed."""

    caption: ParsedCaption
    image: ImageMentions
    words: Contrast
    related: Relatedness
    rules: ChangeRules

    @cached_property
    def tree(self) -> Tree:
        """The dependency tree."""
        return Tree(self.caption.parse)

    @cached_property
    def lower(self) -> tuple[str, ...]:
        """Tokens in lower case."""
        return tuple(token.text.lower() for token in self.caption.parse)

    @cached_property
    def objects(self) -> tuple[Object, ...]:
        """Nouns that stand for things and by themselves."""
        return tuple(
            item
            for item in self.caption.components.objects
            if is_free(self.caption.text, self.caption.parse, item.token, item.token + 1)
        )

    @cached_property
    def subjects(self) -> frozenset[int]:
        """Tokens of the subjects of any clause, of participles too."""
        subjects = (
            subject for i in range(len(self.lower)) if self.tree.is_verb(i) for subject in self.tree.subjects(i)
        )
        return frozenset(subjects)

    @cached_property
    def has_article(self) -> bool:
        """Whether there is any article, so that a noun without one is meant to have none."""
        return not {"a", "an", "the"}.isdisjoint(self.lower)

    @cached_property
    def misread(self) -> frozenset[int]:
        """Tokens taken for nouns that must be verbs: elsewhere they nearly always are, or `a` does not go with them."""
        tokens = enumerate(self.caption.parse)
        nouns = {k: token.tag for k, token in tokens if token.tag in ("NN", "NNS")}
        return frozenset(
            k for k, tag in nouns.items() if self.lower[k] in self.words.verbs or (tag == "NNS" and has_a(self.tree, k))
        )

    def concrete(self, item: Object) -> bool:
        """Whether the noun is a frequent concrete head."""
        return item.word in self.words.heads

    def visible(self, item: Object) -> bool:
        """Whether the noun names something to see, however rare."""
        return self.related.is_visible(item.word)

    def whole_phrase(self, item: Object) -> bool:
        """Whether the noun phrase begins where its words in a row do: not so in "a blue and red plane"."""
        first = self.phrase_start(item)
        before = [c for c in self.tree.children[item.token] if c < first]
        if any(self.tree.role(c) in ("det", "amod", "nummod", "compound", "poss") for c in before):
            return False
        if "other" in self.lower[first : item.token] and "each" in self.lower[: item.token]:
            return False
        return first == 0 or self.caption.parse[first - 1].pos not in ("ADJ", "DET", "NUM")

    def is_bare(self, token: int) -> bool:
        """Whether a noun is a singular that should have an article and has none."""
        parsed = self.caption.parse[token]
        counted = parsed.lemma in self.words.counted and parsed.lemma not in LISTS.mass
        return counted and not is_plural(self.caption.parse, token) and not determiner_of(self.caption.parse, token)

    def shares_determiner(self, item: Object) -> bool:
        """Whether a conjunct leans on the article of this noun: "a dog and cat"."""
        return any(self.is_bare(conjunct) for conjunct in self.tree.conjuncts(item.token))

    def phrase_start(self, item: Object) -> int:
        """First token of the noun phrase, determiner included."""
        return noun_phrase_start(self.caption.parse, item.token)

    def compound_start(self, item: Object) -> int:
        """First token of the noun with what it forms a compound with."""
        return compound_start(self.caption.parse, item.token)

    def is_free(self, first: int, last: int) -> bool:
        """Whether tokens [first, last) are joined to nothing."""
        return is_free(self.caption.text, self.caption.parse, first, last)
