"""UniVSE's attacks where nobody can say whether an adversary is true: only words that are false to the eye go in.

B.2 draws any irrelevant word. On photographs, half of the attributes so drawn are true or cannot be told ("a lone dog",
"black water"), and nouns appended to a subject leave its verb behind. Here attributes contradict the one that they
replace or suit no such noun, nouns are concrete and unrelated by the lexicon to all that the image's captions name,
relations are actions to be seen, and number agrees. Where the truth is known it decides, and B.2 is followed as it is.
"""

import random
from collections.abc import Mapping, Sequence

from vse.adversaries.pools import (
    AttributeEntry,
    NounEntry,
    Pool,
    RelationEntry,
    compound_start,
    determiner_of,
    is_plural,
    noun_phrase_start,
)
from vse.adversaries.univse.edits import Barred, Change, Editor, with_similar
from vse.adversaries.vsec.agreement import agreeing_verbs
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.vsec.mentions import ImageMentions, Relatedness
from vse.adversaries.vsec.reading import has_a
from vse.adversaries.vsec.rules import Rules
from vse.adversaries.vsec.words import NUMBERS, is_mass, is_visible, takes_article
from vse.adversaries.word_lists import SHARED
from vse.text.components import Attribute, Components
from vse.text.lexicon.compact import Knowledge, knowledge
from vse.text.parse import Parse
from vse.text.parsed_caption import ParsedCaption
from vse.text.syntax import Tree

_KIND_OF = {word: kind for kind, words in SHARED.attribute_kinds.items() for word in words}


class Care:
    """What of a pool may be put into captions whose truth nobody knows."""

    def __init__(self, pool: Pool, known: Knowledge | None = None) -> None:
        self.known = known if known is not None else knowledge()
        self.pool = Pool(
            nouns=tuple(entry for entry in pool.nouns if self._is_plain(entry)),
            attributes=tuple(entry for entry in pool.attributes if entry.word == entry.form in _KIND_OF),
            relations=tuple(entry for entry in map(_seen, pool.relations) if entry.forms),
        )
        self._rules = Rules()
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
    """Draws edits as `Editor` does, less those that would be true, untellable or ungrammatical."""

    def __init__(
        self, text: str, parse: Parse, components: Components, care: Care, barred: Barred, rng: random.Random
    ) -> None:
        super().__init__(text, parse, components, care.pool, barred, rng)
        self.care, self.tree = care, Tree(parse)

    def attribute(self) -> Change | None:
        """Replace an adjective by one that contradicts it; in a caption without any insert one that suits no noun."""
        pair = self._draw([a for a in self.components.attributes if self.parse[a.token].pos == "ADJ"])
        if pair is not None:
            found = self._draw(self._against(pair))
            return None if found is None else self._replace_attribute(pair, found)
        item = self._draw(self.components.objects)
        if item is None or self.components.attributes:
            return None
        entry = self._draw(self._strange_to(item.word))
        return None if entry is None else self._insert_attribute(item.token, item.word, entry)

    def _against(self, pair: Attribute) -> list[AttributeEntry]:
        kind = _KIND_OF.get(pair.word)
        if kind is None:
            others = [i for i in self.tree.below(pair.noun_token, "amod") if i != pair.token]
            return [] if others else self._strange_to(pair.noun)  # not "a purple red jacket"
        close = with_similar([pair.word], SHARED.close_attributes)
        return [entry for entry in self.attributes if _KIND_OF[entry.word] == kind and entry.word not in close]

    def _strange_to(self, noun: str) -> list[AttributeEntry]:
        never = SHARED.never_of_living if self.care.is_living(noun) else SHARED.hardly_of_things
        return [entry for entry in self.attributes if entry.word in never]

    def _append_noun(self, index: int, word: str, entry: NounEntry) -> Change | None:
        after = self.parse[index + 1 : index + 2]
        if any(token.pos in ("NOUN", "PROPN", "PART") or token.text.lower() == "of" for token in after):
            return None  # the first half of something
        if is_plural(self.parse, index) and has_a(self.tree, index):
            return None
        if any(token.tag == "VBG" for token in after) and determiner_of(self.parse, index) == "":
            return None  # "rock climbing"
        singular_verb = any(t.tag == "VBZ" or t.text.lower() == "was" for t in self.parse[index + 1 :])
        governed = bool(self.tree.case(index)) or self.tree.role(index) in ("obj", "dobj")
        if not is_plural(self.parse, index) and singular_verb and (not governed or agreeing_verbs(self.tree, index)):
            return None  # "a dog and a kite is"
        return super()._append_noun(index, word, entry)

    def _replace_noun(self, index: int, entry: NounEntry, part: str) -> Change | None:
        start = compound_start(self.parse, index)
        phrase = [self.parse[k].text.lower() for k in range(noun_phrase_start(self.parse, index), start)]
        numbers = [NUMBERS.get(word, 0) for word in phrase]
        if is_plural(self.parse, index):
            return None if has_a(self.tree, index) else super()._replace_noun(index, entry, part)
        if any(n > 1 for n in numbers):
            return None
        if not takes_article(entry) and (set(phrase) & _FOR_ONE or not is_mass(entry)):
            return None
        if not is_mass(entry) and (set(phrase) & _FOR_SOME or (phrase and determiner_of(self.parse, index) == "")):
            return None  # "more restaurant", "formal leash"
        bare = not phrase and determiner_of(self.parse, index) == ""
        if bare and start and self.parse[start - 1].pos in ("ADJ", "ADV", "DET", "NUM", "PUNCT", "PART", "NOUN"):
            return None  # a phrase whose beginning was not found: "a brown and white dog"
        if bare and start > 1 and self.parse[start - 1].tag == "VBG" and self.parse[start - 2].pos == "ADP":
            return None  # "in standing water"
        if bare and start and self.parse[start - 1].head == index and self.tree.role(start - 1) not in ("case", "prep"):
            return None
        return super()._replace_noun(index, entry, part)


_FOR_ONE = {"a", "an", "one", "another", "each", "every", "either"}
_FOR_SOME = {"some", "more", "much", "all", "enough", "most"}
