"""UniVSE's attacks to the letter of supplement B.2: one word is put in, and nothing else of the caption changes.

The examples of B.2 are "A dog eats meat and table", "A dog plays meat" and "A dog in sky is sleeping". No article is
added or made to agree, no phrase goes in, compounds are not replaced as a whole, and only words that the captions of
the image say, and the six groups of attributes that B.2 lists, are barred.

What B.2 leaves open is read as follows. A noun is irrelevant if no caption of the image has it, an attribute or a
relation word if the caption does not have it. A noun takes the number and a verb the form of the word that it replaces
if training captions have that form, as "plays" does for "eats". The words are those of the training negatives.
"""

from vse.adversaries.pools import ADNOMINAL, NounEntry, RelationEntry, is_plural, relation_slot
from vse.adversaries.univse.editor import Change, Edit, Editor
from vse.text.components import Relation


class PrintedEditor(Editor):
    """Draws edits as `Editor` does, of single words and without any repair."""

    def noun_phrase(self, entry: NounEntry) -> str:
        return entry.singular or entry.plural or entry.word

    def relation_phrase(self, entry: RelationEntry, slot: str = ADNOMINAL) -> str:
        """The relation word in the form for a slot, else in another form."""
        phrase = entry.forms.get(slot) or next(iter(entry.forms.values()), entry.word)
        words = phrase.split()
        return entry.word if entry.word in words else words[0]

    def is_glued(self, index: int) -> bool:
        return False

    def article_before(self, index: int, following: str) -> tuple[Edit, ...]:
        return ()

    def replace_noun(self, index: int, entry: NounEntry, part: str) -> Change:
        """As `Editor.replace_noun`, of one token alone, with nothing around it repaired; always possible.

        Args:
            index: token of the noun; words of a compound before it stay.
            entry: the new noun, in the singular if it has no plural.
            part: what the noun is in its caption or triple, for the reason of the change.
        """
        form = entry.plural if is_plural(self.parse, index) and entry.plural else self.noun_phrase(entry)
        reason = f"{part} {self.parse[index].text.lower()} becomes {entry.word}"
        return Change((self.over(index, index + 1, form),), reason, (entry.word,))

    def replace_relation(self, triple: Relation, entry: RelationEntry) -> Change:
        """The first token of the relation becomes another relation word, and the others go: "sits on" is one word."""
        first, last = min(triple.tokens), max(triple.tokens)
        if {*range(first, last + 1)} != {*triple.tokens}:
            last = first
        phrase = self.relation_phrase(entry, relation_slot(self.parse, triple))
        reason = f"relation {triple.word} becomes {entry.word}"
        return Change((self.over(first, last + 1, phrase),), reason, (entry.word,))
