"""The meaning of a caption of a scene, also if words in it have been replaced or added."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from vse.data.scenes.meaning import Entity, Meaning, Relation
from vse.data.scenes.world import ATTRIBUTE_OF, LEAD_INS, NOUN_OF, NUMBER_OF, POSTURES, RELATION_OF, VERBS
from vse.text.tokens import words

_ARTICLES = ("a", "an", "the", "one")
_COORDINATION = frozenset({",", "and", "while", "together", "along", "with"})
_RELATIVE = frozenset({"that", "which"})
_SINGULAR = frozenset({"is"} | {forms[0] for options in POSTURES.values() for forms in options})
_FINITE = _SINGULAR | {"are"} | {forms[1] for options in POSTURES.values() for forms in options}
_FILLERS = frozenset({"to", "the", "of", "than", "side"})  # the rest of a phrase whose main word was replaced
_LONGEST = max(map(len, RELATION_OF))


def interpret(text: str) -> Meaning | None:
    """The meaning of a sentence of the grammar in either wording, or None for a text that it cannot read.

    Words may be replaced by other words of the grammar, nouns may be appended ("and table") and attributes added:
    contradictory attributes stay, and make the meaning false of every scene.
    """
    tokens = list(words(text))
    while tokens and tokens[-1] in ".!":
        tokens.pop()
    for lead in LEAD_INS:
        if tuple(tokens[: len(lead)]) == lead:
            tokens = tokens[len(lead) :]
            break
    reading = _Reading()
    between: list[str] = []
    at = 0
    while at < len(tokens):
        phrase = _noun_phrase(tokens, at)
        if phrase is None:
            between.append(tokens[at])
            at += 1
            continue
        entity, at = phrase
        if not reading.add(entity, between):
            return None
        between = []
    return reading.finish(between)


def _noun_phrase(tokens: Sequence[str], at: int) -> tuple[Entity, int] | None:
    """The entity that starts at a token and the position behind it."""
    count, attributes = 1, set()
    if at < len(tokens) and tokens[at] in _ARTICLES:
        at += 1
    if at < len(tokens) and tokens[at] in NUMBER_OF:
        count = NUMBER_OF[tokens[at]]
        at += 1
    while at < len(tokens) and tokens[at] in ATTRIBUTE_OF:
        attributes.add(ATTRIBUTE_OF[tokens[at]])
        at += 1
    if at < len(tokens) and tokens[at] in NOUN_OF:
        return Entity(NOUN_OF[tokens[at]], frozenset(attributes), count), at + 1
    return None


@dataclass(slots=True)
class _Reading:
    """Entities and relations so far; `group` are the coordinated entities that a verb would take as its subject."""

    entities: list[Entity] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    joined: list[int] = field(default_factory=list)  # coordinated after the clause's verb: maybe the next clause
    verb_seen: bool = False
    first_clause: bool = True

    def add(self, entity: Entity, between: Sequence[str]) -> bool:
        """Take in an entity and the words before it; False if these cannot be read."""
        new = len(self.entities)
        self.entities.append(entity)
        if new == 0:
            self.group = [0]
            return not between
        if not between:
            return False
        if set(between) <= _COORDINATION:
            if self.verb_seen or self.relations:
                self.joined.append(new)
            else:
                self.group.append(new)
            return True
        names = _relation_names(between)
        if not names:
            return False
        subjects = [new - 1]
        if _RELATIVE.isdisjoint(between) and not _FINITE.isdisjoint(between):
            if self.verb_seen and self.joined:
                self.group, self.joined, self.first_clause = self.joined, [], False
            singular = not _SINGULAR.isdisjoint(between)
            subjects = self.group[-1:] if singular and not self.first_clause else self.group
            self.verb_seen = True
        self.relations += [Relation(s, name, new) for s in subjects for name in names]
        return True

    def finish(self, rest: Sequence[str]) -> Meaning | None:
        """The meaning, with a predicate like "is red and striped" at the end given to the subject."""
        if not self.entities:
            return None
        if rest:
            attributes = [ATTRIBUTE_OF[word] for word in rest if word in ATTRIBUTE_OF]
            if not attributes or any(w not in ATTRIBUTE_OF and w not in ("is", "are", "and") for w in rest):
                return None
            for k in self.group:
                e = self.entities[k]
                self.entities[k] = Entity(e.noun, e.attributes | set(attributes), e.count)
        return Meaning(tuple(self.entities), tuple(self.relations))


def _relation_names(between: Sequence[str]) -> list[str] | None:
    """Relations named by the words between two noun phrases, or None if some word does not belong there."""
    matches: list[tuple[int, int, str]] = []
    at = 0
    while at < len(between):
        for length in range(min(_LONGEST, len(between) - at), 0, -1):
            name = RELATION_OF.get(tuple(between[at : at + length]))
            if name is not None:
                matches.append((at, length, name))
                at += length
                break
        else:
            word = between[at]
            if not (
                word in _FILLERS or word in _RELATIVE or word in VERBS or word in ("is", "are", "and", ",", "while")
            ):
                return None
            at += 1
    # "on the behind of" and "in left of" are "on the left of" and "in front of" with another main word.
    names = []
    for k, (start, length, name) in enumerate(matches):
        after = list(between[start + length : matches[k + 1][0]]) if k + 1 < len(matches) else None
        if not (name in ("on", "in") and length == 1 and after in ([], ["the"])):
            names.append(name)
    return names
