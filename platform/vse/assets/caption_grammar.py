"""A small grammar that writes caption-like sentences together with their Universal Dependencies trees.

Treebanks of web text hardly contain the sentences people describe pictures with (noun phrases with participles, "next
to", "wearing"), so the parser's training mixes these in. Attachment follows the English EWT conventions: "next to" is
two case markers, "front" in "in front of X" is a nominal with X below it, a passive's by-phrase is obl:agent.
"""

from random import Random

from vse.assets.caption_phrases import Node, Phrases, adposition, linear
from vse.assets.treebank import Sentence
from vse.text import caption_words as W

_MOST_TOKENS = 24


def captions(random: Random, count: int) -> list[Sentence]:
    """`count` captions drawn with `random`, none longer than 24 tokens."""
    drawn: list[Sentence] = []
    while len(drawn) < count:
        sentence = linear(_Writer(random).caption())
        if len(sentence.words) <= _MOST_TOKENS:
            drawn.append(sentence)
    return drawn


class _Writer(Phrases):
    """Draws prepositional phrases, clauses and captions."""

    def place(self, dep: str = "nmod") -> tuple[Node, str]:
        """A prepositional phrase of place and its label; `dep` is nmod below a noun, obl below a verb."""
        draw = self.random.random()
        if draw < 0.16:
            noun = self.random.choice(W.LOCATIONS[:2] if self.chance(0.5) else W.LOCATIONS)
            preposition = "on" if noun in ("top", "side", "edge") else self.random.choice(("in", "at"))
            if noun in ("left", "right"):
                preposition = self.random.choice(("to", "to", "on"))
            spot = Node(noun, noun, "NOUN", "NN")
            if noun not in ("front", "top"):
                spot.before(Node("the", "the", "DET", "DT"), "det")
            return spot.before(adposition(preposition), "case").add(
                self.phrase(modify=0.3).before(adposition("of"), "case"), "nmod"
            ), dep
        if draw < 0.3:
            pair = self.random.choice(W.DOUBLE_PREPOSITIONS)
            thing = self.phrase(modify=0.3)
            if self.chance(0.08):
                thing = Node("each", "each", "DET", "DT").add(Node("other", "other", "ADJ", "JJ"), "fixed")
            for word in reversed(pair):
                thing.before(adposition(word), "case")
            return thing, dep
        if draw < 0.38:
            spot = Node(word := self.random.choice(("background", "foreground", "distance")), word, "NOUN", "NN")
            spot.before(Node("the", "the", "DET", "DT"), "det")
            return spot.before(adposition("in"), "case"), dep
        if draw < 0.42:
            word = self.random.choice(("it", "them"))
            return Node(word, "they" if word == "them" else word, "PRON", "PRP").before(
                adposition(self.random.choice(("on", "in", "near", "around", "behind"))), "case"
            ), dep
        thing = self.coordinated(W.PLACES if self.chance(0.6) else W.NOUNS, 0.08)
        if self.chance(0.1):
            self.attach_place(thing)
        return thing.before(adposition(self.random.choice(W.PREPOSITIONS)), "case"), dep

    def attach_place(self, node: Node, dep: str = "nmod") -> Node:
        return node.add(*self.place(dep))

    def having(self) -> Node:
        """A phrase with "with": what somebody carries or something has."""
        thing = self.coordinated(W.NOUNS, 0.2, modify=0.5)
        draw = self.random.random()
        if draw < 0.15:
            thing.add(self._on_it(), "nmod")
        elif draw < 0.25:
            self.attach_place(thing)
        elif draw < 0.4:
            self.participle(thing, places=1)
        elif draw < 0.46:
            self.attach_place(thing)
            last = self.attach_place(self.phrase(depth=0))
            thing.add(last.before(Node("and", "and", "CCONJ", "CC"), "cc"), "conj")
        elif draw < 0.5:
            thing.add(self.adjective(self.random.choice(("open", "closed", "visible", "nearby", "full"))), "acl")
        word = self.random.choices(("with", "without", "for", "like"), (88, 5, 5, 2))[0]
        return thing.before(adposition(word), "case")

    def _on_it(self) -> Node:
        word = self.random.choice(("it", "them"))
        return Node(word, "they" if word == "them" else word, "PRON", "PRP").before(
            adposition(self.random.choice(("on", "in", "around"))), "case"
        )

    # -- verbs -------------------------------------------------------------------------------------------------

    def complete(self, verb: Node, kind: str, places: int, subject: str) -> Node:
        """Give a verb its object, particle and places."""
        if kind == "transitive":
            obj = self.coordinated(W.OBJECTS.get(verb.lemma, W.NOUNS), 0.12, modify=0.4)
            draw = self.random.random()
            if draw < 0.18:
                obj.add(self.having(), "nmod")
            elif draw < 0.28:
                self.attach_place(obj)
                places -= 1
            elif draw < 0.36 and (obj.lemma in W.ANIMATE or self.chance(0.3)):
                self.participle(obj, places=1)
                places -= 1
            verb.add(obj, "obj")
            if self.chance(0.5):
                places -= 1
        elif self.chance(0.12):
            word = self.random.choice(("together", "down", "outside", "nearby", "up", "around", "away"))
            verb.add(Node(word, word, "ADV", "RB"), "advmod")
        if kind == "aimed":
            thing = self.coordinated(W.NOUNS, 0.1)
            preposition = {
                "look": "at",
                "stare": "at",
                "point": "at",
                "wait": "for",
                "prepare": "for",
                "talk": "on",
                "play": "with",
                "walk": "with",
            }.get(verb.lemma, "at")
            verb.add(thing.before(adposition(preposition), "case"), "obl")
            places -= 1
        for _ in range(max(places, 0)):
            self.attach_place(verb, "obl")
        draw = self.random.random()
        if draw < 0.05:
            clause = self.verb_form(*self._active(subject), "VBG", places=self.random.choice((0, 1)), subject=subject)
            clause.before(Node("while", "while", "SCONJ", "IN"), "mark")
            verb.add(clause, "advcl")
        elif draw < (0.16 if kind == "transitive" else 0.1):
            clause = self.verb_form(*self._active(subject), "VBG", places=1, subject=subject)
            if self.chance(0.2):
                clause.before(Node(",", ",", "PUNCT", ","), "punct")
            verb.add(clause, "advcl")
        elif draw < 0.19:
            ready = self.adjective("ready") if self.chance(0.5) else None
            clause = self.verb_form(*self._active("man"), "VB", places=self.random.choice((0, 1)), subject=subject)
            clause.before(Node("to", "to", "PART", "TO"), "mark")
            verb.add(ready.add(clause, "xcomp") if ready else clause, "xcomp" if ready else "advcl")
        return verb

    def _active(self, subject: str) -> tuple[str, str]:
        """A verb, and what it takes, for a subject: people and animals do things, vehicles move, things rest."""
        draw = self.random.random()
        if subject not in W.ANIMATE and draw < 0.8:
            return self.random.choice(W.MOVING if subject in W.MOBILE else W.RESTING), "intransitive"
        if draw < 0.12:
            return self.random.choice(("ride", "wear", "wear", "eat", "hold", "hold", "watch", "play")), "transitive"
        kind = self.random.choices(("transitive", "intransitive", "aimed"), (45, 45, 10))[0]
        words = {"transitive": W.TRANSITIVE, "intransitive": W.INTRANSITIVE, "aimed": W.AIMED}[kind]
        return self.random.choice(words), kind

    def verb_form(self, lemma: str, kind: str, tag: str, places: int, subject: str = "man") -> Node:
        form = {"VBG": W.ing, "VBZ": W.third, "VBP": str, "VBN": W.participle, "VB": str}[tag](lemma)
        return self.complete(Node(form, lemma, "VERB", tag), kind, places, subject)

    def passive(self, places: int) -> Node:
        """A past participle with its by-phrase, "with", "in" or "of"; or with a place only."""
        lemma = self.random.choice(W.PASSIVE)
        verb = Node(W.participle(lemma), lemma, "VERB", "VBN")
        draw = self.random.random()
        if lemma in W.AGENTLESS or draw < 0.35:
            for _ in range(max(places, 1)):
                self.attach_place(verb, "obl")
            return verb
        thing = self.coordinated(W.NOUNS, 0.15)
        if draw < 0.65:
            return verb.add(thing.before(adposition("by"), "case"), "obl:agent")
        return verb.add(
            thing.before(adposition(self.random.choice(("with", "in", "with", "for", "to"))), "case"), "obl"
        )

    def participle(self, noun: Node, places: int = 1) -> Node:
        """Below `noun`: "riding a horse", "parked by a tree", "that is holding a bat", "which sits on a hill"."""
        draw = self.random.random()
        if draw < (0.15 if noun.lemma in W.ANIMATE else 0.4):
            return noun.add(self.passive(places), "acl")
        if draw < 0.9:
            verb = self.verb_form(*self._active(noun.lemma), "VBG", places, noun.lemma)
            if self.chance(0.08):
                second = self.verb_form(*self._active(noun.lemma), "VBG", places=1, subject=noun.lemma)
                verb.add(second.before(Node("and", "and", "CCONJ", "CC"), "cc"), "conj")
            return noun.add(verb, "acl")
        relative = Node(
            word := self.random.choice(("that", "who", "which")), word, "PRON", "WP" if word == "who" else "WDT"
        )
        return noun.add(self.predicate(relative, plural=noun.tag == "NNS", finite=True), "acl:relcl")

    # -- sentences ---------------------------------------------------------------------------------------------

    def predicate(self, subject: Node, plural: bool, finite: bool = True) -> Node:
        """A clause about `subject`: progressive, simple, passive, copular."""
        be = Node("are" if plural else "is", "be", "AUX", "VBP" if plural else "VBZ")
        draw = self.random.random()
        places = self.random.choices((0, 1, 2), (30, 55, 15))[0]
        if draw < 0.34:
            verb = self.verb_form(*self._active(subject.lemma), "VBG", places, subject.lemma)
            return verb.before(be, "aux").before(subject, "nsubj")
        if draw < 0.6:
            verb = self.verb_form(*self._active(subject.lemma), "VBP" if plural else "VBZ", places, subject.lemma)
            if self.chance(0.15):
                second = self.verb_form(*self._active(subject.lemma), verb.tag, places=1, subject=subject.lemma)
                verb.add(second.before(Node("and", "and", "CCONJ", "CC"), "cc"), "conj")
            return verb.before(subject, "nsubj")
        if draw < 0.7:
            return self.passive(places).before(be, "aux:pass").before(subject, "nsubj:pass")
        if draw < 0.8:
            have = Node("have" if plural else "has", "have", "VERB", "VBP" if plural else "VBZ")
            thing = self.coordinated(W.NOUNS, 0.2, modify=0.5)
            if self.chance(0.3):
                self.attach_place(thing)
            return have.add(thing, "obj").before(subject, "nsubj")
        if draw < 0.92:
            place, _ = self.place()
            return self._copular(place, be, subject)
        return self._copular(self.adjective(self.random.choice(W.ADJECTIVES + W.COLOURS)), be, subject)

    def _copular(self, predicate: Node, be: Node, subject: Node) -> Node:
        return predicate.before(be, "cop").before(subject, "nsubj")

    def caption(self) -> Node:
        """A noun phrase, an existential or a picture of something, or one or two clauses."""
        classes = (W.PEOPLE, W.ANIMALS, W.VEHICLES, W.FOOD, W.PLACES, W.NOUNS)
        nouns = self.random.choices(classes, (40, 14, 8, 5, 8, 25))[0]
        draw = self.random.random()
        subject = self.coordinated(nouns, 0.3 if 0.38 <= draw < 0.46 else 0.13)
        if self.chance(0.18):
            subject.add(self.having(), "nmod")
        if draw < 0.38:
            root = self._described(subject, 0.62, 0.28)
        elif draw < 0.46:
            many = subject.tag == "NNS"
            root = Node("are" if many else "is", "be", "VERB", "VBP" if many else "VBZ")
            root.before(Node("there", "there", "PRON", "EX"), "expl")
            root.add(self._described(subject, 0.4, 0.4), "nsubj")
        elif draw < 0.5:
            root = self.noun(self.random.choice(W.PICTURES), False)
            inner = self._described(subject, 0.5, 0.4).before(adposition("of"), "case")
            root.before(Node("a", "a", "DET", "DT"), "det").add(inner, "nmod")
        else:
            root = self._clauses(subject)
        if self.chance(0.9):
            root.add(Node(".", ".", "PUNCT", "."), "punct")
        return root

    def _described(self, noun: Node, participle: float, place: float) -> Node:
        """`noun` with a participle or a place below it, with these probabilities."""
        draw = self.random.random()
        if draw < participle:
            return self.participle(noun, self.random.choices((0, 1, 2), (20, 60, 20))[0])
        return self.attach_place(noun) if draw < participle + place else noun

    def _clauses(self, subject: Node) -> Node:
        """A clause about `subject`; sometimes a second one after "as", "while" or "and"."""
        plural = subject.tag == "NNS" or any(node.dep == "conj" for node in subject.right)
        if self.chance(0.12):
            self.attach_place(subject)
        root = self.predicate(subject, plural)
        draw = self.random.random()
        if draw < 0.2:
            other = self.phrase(W.PEOPLE if self.chance(0.4) else W.NOUNS, depth=0)
            clause = self.predicate(other, other.tag == "NNS")
            if draw < 0.11:
                word = self.random.choice(("as", "while"))
                root.add(clause.before(Node(word, word, "SCONJ", "IN"), "mark"), "advcl")
            else:
                clause.before(Node("and", "and", "CCONJ", "CC"), "cc")
                if self.chance(0.6):
                    clause.before(Node(",", ",", "PUNCT", ","), "punct")
                root.add(clause, "conj")
        return root
