"""UniVSE's attacks for data without ground truth: only words that are visibly false are inserted.

B.2 draws any irrelevant word. On photographs, half of the attributes so drawn are true or cannot be told ("a lone dog",
"black water"), and nouns appended to a subject leave its verb behind. Here attributes contradict the one that they
replace or suit no such noun, nouns are concrete and unrelated by the lexicon to all that the image's captions name,
relations are actions to be seen, and number agrees. Where the truth is known it decides, and B.2 is followed as it is.
"""

import random
from collections.abc import Mapping, Sequence

from vse.adversaries.pools import (
    NounEntry,
    Pool,
    RelationEntry,
    compound_start,
    determiner_of,
    is_plural,
    noun_phrase_start,
)
from vse.adversaries.univse.editor import Barred, Editor
from vse.adversaries.vsec.grammar import agreeing_verbs
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.vsec.reading import ImageMentions, Relatedness, has_a
from vse.adversaries.vsec.rules import ChangeRules
from vse.adversaries.vsec.words import FOR_ONE, NUMBERS, is_mass, is_visible, takes_article
from vse.adversaries.word_lists import SHARED
from vse.text.components import Components
from vse.text.lexicon.compact import Knowledge, knowledge
from vse.text.parse import Parse
from vse.text.parsed_caption import ParsedCaption
from vse.text.syntax import Tree

KIND_OF = {word: kind for kind, words in SHARED.attribute_kinds.items() for word in words}


class CarefulPool:
    """The words of a pool that may be inserted into captions of data without ground truth."""

    def __init__(self, pool: Pool, known: Knowledge | None = None) -> None:
        self.known = known if known is not None else knowledge()
        self.pool = Pool(
            nouns=tuple(entry for entry in pool.nouns if self._is_plain(entry)),
            attributes=tuple(entry for entry in pool.attributes if entry.word == entry.form in KIND_OF),
            relations=tuple(entry for entry in map(_seen, pool.relations) if entry.forms),
        )
        self._rules = ChangeRules()
        words = [entry.word for entry in self.pool.nouns]
        self._related = Relatedness(words, self.known, self._rules)

    def _is_plain(self, entry: NounEntry) -> bool:
        lexicon, word = self.known.lexicon, entry.word
        if word in LISTS.ambient | LISTS.poor or word not in lexicon or not is_visible(word, self.known.concreteness):
            return False
        return not lexicon.is_a(word, "body_part", senses=2) and (takes_article(entry) or is_mass(entry))

    def barred_nouns(self, captions: Sequence[ParsedCaption]) -> frozenset[str]:
        """Nouns that mean something which a caption of the image names."""
        mask = ImageMentions(captions, self._related, self._rules).barred_nouns
        return frozenset(entry.word for k, entry in enumerate(self.pool.nouns) if mask >> k & 1)

    def is_living(self, noun: str) -> bool:
        """Whether a noun names a person or an animal."""
        return self._related.is_person(noun) or self.known.lexicon.is_a(noun, "animal")


def _seen(entry: RelationEntry) -> RelationEntry:
    """The entry with the forms that can be seen to be false and stand by themselves: none of "fallen a head"."""
    forms: Mapping[str, str] = {}
    if entry.word not in SHARED.vague_relations | SHARED.no_relation:
        forms = {slot: form for slot, form in entry.forms.items() if " " in form or not form.endswith(("ed", "en"))}
    return RelationEntry(word=entry.word, count=entry.count, forms=forms)


class CarefulEditor(Editor):
    """Draws edits as `Editor` does, except edits that would be true, undecidable or ungrammatical."""

    def __init__(
        self, text: str, parse: Parse, components: Components, careful: CarefulPool, barred: Barred, rng: random.Random
    ) -> None:
        super().__init__(text, parse, components, careful.pool, barred, rng)
        self.careful, self.tree = careful, Tree(parse)

    def may_append_noun(self, index: int) -> bool:
        """Whether the caption stays grammatical if "and" with another noun follows the noun at `index`."""
        after = self.parse[index + 1 : index + 2]
        if any(token.pos in ("NOUN", "PROPN", "PART") or token.text.lower() == "of" for token in after):
            return False  # the first half of something
        if is_plural(self.parse, index):
            return not has_a(self.tree, index) and not self._before_gerund(index)
        singular_verb = any(t.tag == "VBZ" or t.text.lower() == "was" for t in self.parse[index + 1 :])
        governed = bool(self.tree.case(index)) or self.tree.role(index) in ("obj", "dobj")
        if singular_verb and (not governed or agreeing_verbs(self.tree, index)):
            return False  # "a dog and a kite is"
        return not self._before_gerund(index)

    def _before_gerund(self, index: int) -> bool:
        """Whether a participle follows a noun without determiner: "rock climbing"."""
        after = self.parse[index + 1 : index + 2]
        return any(token.tag == "VBG" for token in after) and determiner_of(self.parse, index) == ""

    def may_replace_noun(self, index: int, entry: NounEntry) -> bool:
        """Whether the words before the noun at `index` go with an entry."""
        if is_plural(self.parse, index):
            return not has_a(self.tree, index)
        start = compound_start(self.parse, index)
        phrase = [self.parse[k].text.lower() for k in range(noun_phrase_start(self.parse, index), start)]
        without = determiner_of(self.parse, index) == ""
        if any(NUMBERS.get(word, 0) > 1 for word in phrase):
            return False
        if not takes_article(entry) and (FOR_ONE.intersection(phrase) or not is_mass(entry)):
            return False
        if not is_mass(entry) and (_FOR_SOME.intersection(phrase) or (phrase and without)):
            return False  # "more restaurant", "formal leash"
        if phrase or not without or start == 0:
            return True
        before = self.parse[start - 1]
        if before.pos in ("ADJ", "ADV", "DET", "NUM", "PUNCT", "PART", "NOUN"):
            return False  # a phrase whose beginning was not found: "a brown and white dog"
        if start > 1 and before.tag == "VBG" and self.parse[start - 2].pos == "ADP":
            return False  # "in standing water"
        return before.head != index or self.tree.role(start - 1) in ("case", "prep")


_FOR_SOME = frozenset(("some", "more", "much", "all", "enough", "most"))
