"""Semantic components of a caption: objects, attributes and relations, by rules over its dependency parse.

UniVSE (Wu et al., CVPR 2019), section 3.2 and supplement A.1: single-word nouns, the first modifier of each noun,
and relations of subject, one relation word, object. Works on Universal Dependencies labels (the shipped parser) and on
the CLEAR labels of spaCy's published English pipelines; both are read through `vse.text.syntax`.

Conventions, fixed here because the paper leaves them open:

- Of a compound the head counts ("tennis racket" -> racket). Counting nouns before "of" ("a group of men") are looked
  through; words for places on things ("front", "side") are no objects, but the word of a relation ("in front of a
  bus" -> front, "on the side of a road" -> side). Other "of" phrases give a relation (bowl of soup).
- An attribute is a noun's first adjective or participle, in the form it has (a "tiled" floor), else the adjective
  said of it ("the dog is black"). Numbers and words like "several" or "other" are none.
- A relation's word is the verb if there is one ("sits next to a wall" -> sit), else the preposition's main word. The
  agent of a passive is its subject ("surrounded by trees" -> tree surround). Pronouns take no part; relative pronouns
  stand for their noun.
- What a caption says is not there is no object, and what it denies is no relation and no attribute
  (`vse.text.negation`).

What a caption says beyond its components, the second adjective of a noun and the first noun of a compound, is kept
with them: neither may serve as a negative of its image.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from vse.text.component_words import GARMENTS, LOCATIONS, NO_ATTRIBUTES, NO_OBJECTS, QUANTITIES, STATIC
from vse.text.negation import Negation
from vse.text.parse import Parse
from vse.text.syntax import Tree

REVISION = 3


@dataclass(frozen=True, slots=True)
class Object:
    """A noun: its lower-case singular and the index of its token."""

    word: str
    token: int


@dataclass(frozen=True, slots=True)
class Attribute:
    """An adjective, the noun that it modifies, and the indices of both tokens."""

    word: str
    noun: str
    token: int
    noun_token: int


@dataclass(frozen=True, slots=True)
class Relation:
    """Subject, word, object as lemmas; `tokens` are the indices of every token of the relation's word or phrase."""

    subject: str
    word: str
    object: str
    subject_token: int
    tokens: tuple[int, ...]
    object_token: int


@dataclass(frozen=True, slots=True)
class Modifier:
    """A word, in one of its forms, and the noun of which the caption says it."""

    word: str
    noun: str


@dataclass(frozen=True, slots=True)
class Components:
    """What a caption names, every occurrence in order of its tokens.

    `nouns` and `modifiers` hold what else it says, each once: nouns that are not objects (as lemma and as written), and
    modifiers of objects that are not their attributes.
    """

    objects: tuple[Object, ...]
    attributes: tuple[Attribute, ...]
    relations: tuple[Relation, ...]
    nouns: tuple[str, ...] = ()
    modifiers: tuple[Modifier, ...] = ()


EMPTY = Components((), (), ())


def extract(parse: Parse) -> Components:
    """Objects, attributes and relations of a parsed caption; everything empty for an empty parse."""
    if not parse:
        return EMPTY
    reader = _Reader(Tree(parse))
    objects = tuple(Object(parse[i].lemma, i) for i in range(len(parse)) if reader.is_object(i))
    attribute_of = {i: reader.attribute(i) for i in (o.token for o in objects)}
    attributes = tuple(
        Attribute(reader.form(a), parse[i].lemma, a, i) for i, a in attribute_of.items() if a is not None
    )
    unique: dict[tuple[int, int], Relation] = {}
    for subject, word, tokens, obj in reader.relations():
        if reader.is_object(subject) and reader.is_object(obj) and subject != obj:
            unique.setdefault(
                (subject, obj), Relation(parse[subject].lemma, word, parse[obj].lemma, subject, tokens, obj)
            )
    ordered = sorted(unique.values(), key=lambda r: (r.tokens[0], r.subject_token, r.object_token))
    named, paired = {o.word for o in objects}, {Modifier(a.word, a.noun) for a in attributes}
    nouns = [word for word in dict.fromkeys(reader.noun_forms()) if word not in named]
    modifiers = dict.fromkeys(Modifier(word, o.word) for o in objects for word in reader.modifier_forms(o.token))
    return Components(
        objects, attributes, tuple(ordered), tuple(nouns), tuple(each for each in modifiers if each not in paired)
    )


_OF_PLACES = NO_ATTRIBUTES | LOCATIONS | {"far", "near", "very", "upper", "lower"}  # "the far left", "the left corner"
_Link = tuple[int, str, tuple[int, ...], int]  # subject token, word, tokens of the word, object token


class _Reader:
    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.parse = tree.parse
        self.negation = Negation(tree)

    def is_object(self, i: int) -> bool:
        """A noun that stands for a thing in the picture."""
        token = self.parse[i]
        if not self.tree.is_noun(i) or token.lemma in NO_OBJECTS or not any(map(str.isalpha, token.text)):
            return False
        if self.tree.role(i) in ("compound", "flat", "fixed", "amod") or self.resolved(i) != i:
            return False
        return not (token.lemma in LOCATIONS and self._bare_place(i)) and not self.negation.absent(i)

    def _bare_place(self, i: int) -> bool:
        """A location word with nothing of its own: "in the background", "on top", not "in a red top"."""
        if self._of(i) is not None:
            return True
        own = ("amod", "compound", "poss", "nummod")
        return not any(
            self.tree.role(c) in own and self.parse[c].lemma not in _OF_PLACES for c in self.tree.children[i]
        )

    def _of(self, i: int) -> int | None:
        """The noun after "of" below token `i`."""
        for child, words in self.tree.prepositional(i):
            if child > i and words and self.parse[words[0]].lemma == "of":
                return child
        return None

    def resolved(self, i: int) -> int:
        """The noun meant by token `i`: past "a group of" and "the side of"."""
        for _ in range(4):
            lemma = self.parse[i].lemma
            inner = self._of(i) if lemma in QUANTITIES or lemma in LOCATIONS else None
            if inner is None:
                return i
            i = inner
        return i

    def nouns(self, i: int) -> list[int]:
        """The nouns a nominal stands for: itself, resolved, and its conjuncts; antecedent for a relative pronoun."""
        if self.tree.is_relative(i):
            i = self.tree.antecedent(i)
        return [self.resolved(j) for j in (i, *self.tree.conjuncts(i))]

    def form(self, i: int) -> str:
        """An attribute's word: adjectives as lemma ("bigger" -> big), participles as they stand."""
        token = self.parse[i]
        return token.lemma if token.pos == "ADJ" and token.tag in ("JJR", "JJS") else token.text.lower()

    def attribute(self, noun: int) -> int | None:
        """The token of the first modifier of `noun`."""
        before, after = [], []
        for child in self.tree.children[noun]:
            token, role = self.parse[child], self.tree.role(child)
            if token.text.lower() in NO_ATTRIBUTES or token.lemma in NO_ATTRIBUTES or not token.text.isalpha():
                continue
            if role == "amod" and token.pos in ("ADJ", "VERB") and token.tag not in ("NN", "NNS"):
                (before if child < noun else after).append(child)
            elif role == "acl" and token.pos == "ADJ" and child > noun:
                after.append(child)
        if before:
            return min(before)
        predicates = [p for p in self.tree.predicates_of(noun) if self._adjective(p) and not self.negation.denied(p)]
        candidates = [c for c in after if self._adjective(c)] + predicates
        return min(candidates, default=None)

    def noun_forms(self) -> Iterator[str]:
        """The lemma and the form of every noun of the caption."""
        for i, token in enumerate(self.parse):
            if self.tree.is_noun(i) or token.pos in ("NOUN", "PROPN"):
                yield from (token.lemma, token.text.lower())

    def modifier_forms(self, noun: int) -> Iterator[str]:
        """Form and lemma of all modifiers and predicates of `noun`: several adjectives, modifiers of an adjective
        ("dark blue"), other nouns of a compound."""
        waiting = [*self.tree.below(noun, "amod", "acl", "compound", "flat"), *self.tree.predicates_of(noun)]
        while waiting:
            i = waiting.pop()
            if self.parse[i].pos in ("ADJ", "NOUN", "PROPN") or self.tree.role(i) == "amod":
                yield from dict.fromkeys((self.form(i), self.parse[i].lemma, self.parse[i].text.lower()))
                waiting += [*self.tree.conjuncts(i), *self.tree.below(i, "amod", "compound", "advmod")]

    def _adjective(self, i: int) -> bool:
        token = self.parse[i]
        return token.pos == "ADJ" and token.text.lower() not in NO_ATTRIBUTES and token.text.isalpha()

    # -- relations ---------------------------------------------------------------------------------------------

    def relations(self) -> Iterator[_Link]:
        for i, token in enumerate(self.parse):
            if self.negation.denied(i):
                continue
            if self.tree.is_verb(i):
                yield from self._of_verb(i)
            elif token.pos in ("PRON", "NUM") or self.tree.is_noun(i):
                yield from self._of_noun(i)
                if self.tree.is_predicate(i):
                    yield from self._of_predicate(i)
            elif token.pos in ("ADJ", "ADV", "ADP"):
                yield from self._of_adjective(i)

    def _link(self, subjects: list[int], word: str, tokens: tuple[int, ...], objects: list[int]) -> Iterator[_Link]:
        for subject in subjects:
            for obj in objects:
                yield subject, word, tokens, obj

    def _subjects(self, i: int) -> list[int]:
        groups = [
            self._wearer(subject) if self.parse[i].tag == "VBG" else [subject] for subject in self.tree.subjects(i)
        ]
        return [noun for subjects in groups for subject in subjects for noun in self.nouns(subject)]

    def _wearer(self, noun: int) -> list[int]:
        """The wearers of `noun` if it is a garment, which does nothing itself ("boys in suits holding a board")."""
        head, case = self.tree.head(noun), [self.parse[word].lemma for word in self.tree.case(noun)]
        if self.tree.clear and self.tree.role(noun) == "pobj" and head is not None:
            case, head = [self.parse[head].lemma], self.tree.head(head)
        if head is None or self.parse[noun].lemma not in GARMENTS:
            return [noun]
        if self.tree.is_verb(head):
            worn = self.parse[head].lemma in ("wear", "dress") and self.tree.role(noun) in ("obj", "obl", "pobj")
            return self.tree.subjects(head) if worn else [noun]
        return [head] if case in (["in"], ["with"]) else [noun]

    def _of_verb(self, i: int) -> Iterator[_Link]:
        lemma = self.parse[i].lemma
        subjects = self._subjects(i)
        passive = self.tree.is_passive(i)
        if lemma == "be" and not subjects:
            return
        for obj in self.tree.objects(i):
            yield from self._link(subjects, lemma, (i,), self.nouns(obj))
        for nominal, case in self.tree.prepositional(i):
            agent = passive and case and self.parse[case[0]].lemma == "by" and lemma not in STATIC
            if agent:
                yield from self._link(self.nouns(nominal), lemma, (i,), subjects)
            elif lemma == "be":
                yield from self._placed(subjects, nominal, case)
            else:
                yield from self._link(subjects, lemma, (i,), self.nouns(nominal))
            # "holding it next to a wall": nothing more; "sits with a cat on a mat" is the nominal's own relation

    def _of_noun(self, i: int) -> Iterator[_Link]:
        """Prepositional phrases below a noun, for the noun and the conjuncts before the phrase."""
        quantity = self.resolved(i) != i
        for nominal, case in self.tree.prepositional(i):
            if quantity and self.resolved(nominal) == self.resolved(i):
                continue
            owners = [self.resolved(i)] + [self.resolved(c) for c in self.tree.conjuncts(i) if c < nominal]
            if self.tree.is_predicate(i):
                owners = [self.resolved(i)]
            yield from self._placed(owners, nominal, case)

    def _of_predicate(self, i: int) -> Iterator[_Link]:
        """ "a clock is above a table", "a beagle is a dog"."""
        case = self.tree.case(i)
        subjects = self._subjects(i)
        if case:
            yield from self._placed(subjects, i, case)
        elif self.parse[i].pos in ("NOUN", "PROPN"):
            copula = self.tree.copula(i)
            yield from self._link(subjects, "be", (i if copula is None else copula,), self.nouns(i))

    def _of_adjective(self, i: int) -> Iterator[_Link]:
        """ "full of bananas", "close to a wall", "next to a bus" with "next" as the head."""
        subjects, head = self._subjects(i), self.tree.head(i)
        if self.parse[i].pos == "ADV" and head is not None and self.tree.is_verb(head):
            word, tokens = self.parse[head].lemma, (head,)  # "returns the ball back to him": the verb says it
        else:
            word, tokens = self.parse[i].lemma, (i,)
        for nominal, case in self.tree.prepositional(i):
            yield from self._link(subjects, word, (*tokens, *case), self.nouns(nominal))

    def _placed(self, subjects: list[int], nominal: int, case: tuple[int, ...]) -> Iterator[_Link]:
        """Subjects related to a prepositional phrase by its main word; "in front of a bus" by "front"."""
        if not case:
            return
        lemma = self.parse[nominal].lemma
        inner = self._of(nominal) if lemma in LOCATIONS else None
        if inner is not None:
            of_case = self.tree.case(inner)
            yield from self._link(subjects, lemma, (*case, nominal, *of_case), self.nouns(inner))
        else:
            yield from self._link(subjects, self._main_word(case), case, self.nouns(nominal))

    def _main_word(self, case: tuple[int, ...]) -> str:
        """ "next to" -> next, "out of" -> out, "in front of" (as three case words) -> front."""
        words = [self.parse[i].text.lower() for i in case]
        return next((word for word in words if word in LOCATIONS), words[0])
