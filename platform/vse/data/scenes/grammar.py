"""Captions of a scene: their meanings, and sentences for them.

Meanings and sentences are drawn from separate streams, so the second wording has the same meanings in other words.
"""

from vse.data.scenes.layout import Address, Draw, ObjectGroup, Scene, scene_of
from vse.data.scenes.meaning import Entity, Meaning, Relation, clear_relations, holds
from vse.data.scenes.world import (
    ATTRIBUTE_WORDS,
    COLOURS,
    CONTACTS,
    NOUN_WORDS,
    NOUNS,
    NUMBERS,
    PATTERNS,
    POSTURES,
    PRESENTATIONS,
    RELATION_PHRASES,
)

_NUM_CAPTIONS = (3, 7)
_SHAPES = (
    ("pair", 0.5),
    ("list", 0.1),
    ("chain", 0.14),
    ("relative", 0.1),
    ("clauses", 0.06),
    ("shared", 0.1),
)


def captions_of(address: Address, wording: str = "plain") -> list[tuple[Meaning, str]]:
    """Three to seven different meanings of a scene with their captions."""
    scene = scene_of(address.uri)
    key = (address.seed, address.split, address.index)
    ideas = Draw("meaning", *key)
    number = ideas.between(*_NUM_CAPTIONS)
    clear = clear_relations(scene)
    meanings: list[Meaning] = []
    for _ in range(60):
        meaning = _meaning(scene, clear, ideas)
        if meaning is not None and not any(meaning.same_as(m) for m in meanings):
            meanings.append(meaning)
        if len(meanings) == number:
            break
    return [(meaning, say(meaning, Draw("wording", wording, *key, k), wording)) for k, meaning in enumerate(meanings)]


def _meaning(scene: Scene, clear: list[tuple[int, str, int]], draw: Draw) -> Meaning | None:
    """A true meaning of a random shape; None if the scene has nothing of that shape."""
    shape = draw.weighted(_SHAPES)
    if shape == "list" or not clear:
        chosen = draw.shuffled(range(len(scene.things)))[: draw.between(2, 3)]
        return _checked(scene, draw, chosen, [])
    first = _relation(draw, clear)
    a, _, b = first
    if shape == "pair":
        return _checked(scene, draw, [a, b], [first])
    if shape == "chain":
        others = [r for r in clear if r[0] == b and r[2] not in (a, b)]
    elif shape == "relative":
        others = [r for r in clear if r[0] == a and r[2] not in (a, b)]
    elif shape == "clauses":
        others = [r for r in clear if {r[0], r[2]}.isdisjoint((a, b))]
    else:
        others = [r for r in clear if r[1:] == first[1:] and r[0] != a]
    if not others:
        return _checked(scene, draw, [a, b], [first])
    second = _relation(draw, others)
    if shape == "clauses":
        return _checked(scene, draw, [a, b, second[0], second[2]], [first, second])
    if shape == "shared":
        return _checked(scene, draw, [a, second[0], b], [first, second])
    return _checked(scene, draw, [a, b, second[2]], [first, second])


def _relation(draw: Draw, options: list[tuple[int, str, int]]) -> tuple[int, str, int]:
    """One relation, contacts preferred: positions outnumber them and say less."""
    contacts = [r for r in options if r[1] in CONTACTS]
    return draw.choice(contacts if contacts and draw.chance(0.65) else options)


def _checked(scene: Scene, draw: Draw, things: list[int], relations: list[tuple[int, str, int]]) -> Meaning | None:
    meaning = Meaning(
        tuple(_entity(scene.things[k], draw) for k in things),
        tuple(Relation(things.index(a), name, things.index(b)) for a, name, b in relations),
    )
    return meaning if holds(meaning, scene) else None


def _entity(thing: ObjectGroup, draw: Draw) -> Entity:
    """A description with one to three attributes."""
    attributes = set()
    if draw.chance(0.85):
        attributes.add(thing.colour)
    if thing.size != "medium" and draw.chance(0.5):
        attributes.add(thing.size)
    if draw.chance(0.1 if thing.pattern == "plain" else 0.7):
        attributes.add(thing.pattern)
    return Entity(thing.noun, frozenset(attributes or {thing.colour}), thing.count)


def say(meaning: Meaning, draw: Draw, wording: str = "plain") -> str:
    """One of the sentences that have this meaning.

    Args:
        meaning: what the sentence says.
        draw: stream of the choices between words and forms.
        wording: the words that may be used, `plain` or `second`.
    """
    text = _Speaker(draw, wording).sentence(meaning)
    return text[0].upper() + text[1:] + ("." if draw.chance(0.5) else "")


class _Speaker:
    def __init__(self, draw: Draw, wording: str) -> None:
        self.draw, self.wording = draw, wording

    def sentence(self, meaning: Meaning) -> str:
        e, r = meaning.entities, meaning.relations
        if not r:
            return self._list(e)
        if len(r) == 1:
            return self._pair(e[0], r[0].name, e[1])
        if len(e) == 4:
            joint = self.draw.choice((" and ", ", and ", " while "))
            return joint.join(self._clause(e[x.subject], x.name, e[x.object]) for x in r)
        if r[0].object == r[1].object:
            a, b = self._noun_phrase(e[r[0].subject]), self._noun_phrase(e[r[1].subject])
            return f"{a} and {b} {self._finite(r[0].name, plural=True)} {self._noun_phrase(e[r[0].object])}"
        a, b, c = self._noun_phrase(e[0]), self._noun_phrase(e[1]), self._noun_phrase(e[2])
        if r[1].subject == 1:
            start = f"{a} {self._finite(r[0].name, e[0].count > 1)} {b}"
            return f"{start} {self._relative(r[1].name, e[1].count > 1)} {c}"
        modifier = self._relative if self.draw.chance(0.6) else self._reduced
        start = f"{a} {modifier(r[0].name, e[0].count > 1)} {b}"
        return f"{start} {self._finite(r[1].name, e[0].count > 1)} {c}"

    def _list(self, entities: tuple[Entity, ...]) -> str:
        *rest, last = [self._noun_phrase(e) for e in entities]
        if not rest:
            listed = last
        elif len(rest) == 1 and self.wording == "second":
            listed = rest[0] + self.draw.choice((" together with ", " along with ")) + last
        else:
            listed = ", ".join(rest) + self.draw.choice((" and ", ", and ") if len(rest) > 1 else (" and ",)) + last
        return f"{self._presentation(entities[0])} {listed}" if self.draw.chance(0.5) else listed

    def _pair(self, a: Entity, relation: str, b: Entity) -> str:
        plural = a.count > 1
        form = self.draw.weighted((("clause", 0.5), ("present", 0.17), ("phrase", 0.18), ("predicate", 0.15)))
        attributes = sorted(a.attributes & ({*COLOURS, *PATTERNS} - {"plain"}))
        if form == "predicate" and attributes:
            predicate = self.draw.choice(attributes)
            subject = self._noun_phrase(Entity(a.noun, a.attributes - {predicate}, a.count), definite=True)
            link = self._reduced(relation, plural)
            return f"{subject} {link} {self._noun_phrase(b)} {'are' if plural else 'is'} {self._attribute(predicate)}"
        if form == "clause" or form == "predicate":
            return self._clause(a, relation, b)
        modifier = self._relative if self.draw.chance(0.3) else self._reduced
        phrase = f"{self._noun_phrase(a)} {modifier(relation, plural)} {self._noun_phrase(b)}"
        return f"{self._presentation(a)} {phrase}" if form == "present" else phrase

    def _clause(self, a: Entity, relation: str, b: Entity) -> str:
        return f"{self._noun_phrase(a)} {self._finite(relation, a.count > 1)} {self._noun_phrase(b)}"

    def _finite(self, relation: str, plural: bool) -> str:
        """A verb and the relation: "is on", "is sitting on", "sits on"."""
        phrase, be = self._phrase(relation), "are" if plural else "is"
        form = self.draw.weighted((("be", 0.76), ("progressive", 0.12), ("simple", 0.12)))
        if form == "be":
            return f"{be} {phrase}"
        third, stem, participle = self.draw.choice(POSTURES[relation])
        if form == "progressive" or stem == "stand":
            return f"{be} {participle} {phrase}"
        return f"{stem if plural else third} {phrase}"

    def _relative(self, relation: str, plural: bool) -> str:
        return f"{self.draw.choice(('that', 'that', 'which'))} {self._finite(relation, plural)}"

    def _reduced(self, relation: str, plural: bool) -> str:
        """The relation right behind its noun: "on", "sitting on"."""
        phrase = self._phrase(relation)
        return f"{self.draw.choice(POSTURES[relation])[2]} {phrase}" if self.draw.chance(0.15) else phrase

    def _presentation(self, first: Entity) -> str:
        opening = self.draw.choice(PRESENTATIONS[self.wording])
        return opening.replace(" is", " are") if first.count > 1 else opening

    def _phrase(self, relation: str) -> str:
        return self.draw.choice(RELATION_PHRASES[self.wording][relation])

    def _attribute(self, name: str) -> str:
        return self.draw.choice(ATTRIBUTE_WORDS[self.wording].get(name, (name,)))

    def _noun_phrase(self, entity: Entity, definite: bool = False) -> str:
        """Number or article, attributes in the order size, pattern, colour, and the noun."""
        rank = dict.fromkeys(COLOURS, 2) | dict.fromkeys(PATTERNS, 1)
        adjectives = [self._attribute(name) for name in sorted(entity.attributes, key=lambda n: (rank.get(n, 0), n))]
        kind = NOUNS[entity.noun]
        forms = NOUN_WORDS[self.wording].get(entity.noun, (kind.name, kind.plural_form))
        rest = [*adjectives, forms[1] if entity.count > 1 else forms[0]]
        if entity.count > 1:
            rest.insert(0, NUMBERS[entity.count])
        if definite:
            rest.insert(0, "the")
        elif entity.count == 1:
            rest.insert(0, "an" if rest[0][0] in "aeiou" else "a")
        return " ".join(rest)
