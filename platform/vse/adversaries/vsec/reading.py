"""A caption as the generators read it."""

from dataclasses import dataclass
from functools import cached_property

from vse.adversaries.pools import compound_start, determiner_of, is_plural, noun_phrase_start
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.vsec.mentions import ImageMentions, Relatedness
from vse.adversaries.vsec.rules import Rules
from vse.adversaries.vsec.slots import is_free
from vse.adversaries.vsec.words import Contrast
from vse.text.components import Object
from vse.text.parsed_caption import ParsedCaption
from vse.text.syntax import Tree


def has_a(tree: Tree, noun: int) -> bool:
    """Whether the indefinite article belongs to a noun: a plural with one is a verb, "a man in a hat points"."""
    return any(tree.parse[i].text.lower() in ("a", "an") for i in tree.below(noun, "det"))


@dataclass(frozen=True, eq=False)
class Reading:
    """One caption with all that decides what may be changed in it."""

    caption: ParsedCaption
    image: ImageMentions
    words: Contrast
    related: Relatedness
    rules: Rules

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
        found = (subject for i in range(len(self.lower)) if self.tree.is_verb(i) for subject in self.tree.subjects(i))
        return frozenset(found)

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
