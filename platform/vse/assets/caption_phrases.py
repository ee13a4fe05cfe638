"""Words in a tree, and the noun phrases of the caption grammar."""

from dataclasses import dataclass, field
from random import Random

from vse.assets.treebank import Sentence
from vse.text import caption_words as W


@dataclass(slots=True)
class Node:
    """A word with the subtrees to its left and right, in order of appearance."""

    word: str
    lemma: str
    pos: str
    tag: str
    dep: str = "ROOT"
    left: list["Node"] = field(default_factory=list)
    right: list["Node"] = field(default_factory=list)

    def add(self, node: "Node", dep: str) -> "Node":
        node.dep = dep
        self.right.append(node)
        return self

    def before(self, node: "Node", dep: str) -> "Node":
        node.dep = dep
        self.left.insert(0, node)
        return self


def linear(root: Node) -> Sentence:
    order: list[tuple[Node, Node]] = []

    def visit(node: Node, head: Node) -> None:
        for child in node.left:
            visit(child, node)
        order.append((node, head))
        for child in node.right:
            visit(child, node)

    visit(root, root)
    index = {id(node): i for i, (node, _) in enumerate(order)}
    words = [node.word for node, _ in order]
    words[0] = words[0][0].upper() + words[0][1:]
    return Sentence(
        words=tuple(words),
        lemmas=tuple(node.lemma for node, _ in order),
        pos=tuple(node.pos for node, _ in order),
        tags=tuple(node.tag for node, _ in order),
        heads=tuple(index[id(head)] for _, head in order),
        deps=tuple(node.dep for node, _ in order),
    )


def adposition(word: str) -> Node:
    return Node(word, word, "ADP", "IN")


class Phrases:
    """Draws noun phrases."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.terse = random.random() < 0.1  # "Man riding wave on surfboard"

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def noun(self, lemma: str, plural: bool) -> Node:
        plural = plural or lemma in W.PLURAL_ONLY
        form = W.PLURALS.get(lemma, W.plural(lemma)) if plural else lemma
        return Node(form, lemma, "NOUN", "NNS" if plural else "NN")

    def phrase(self, nouns: tuple[str, ...] = W.NOUNS, depth: int = 1, modify: float = 0.4) -> Node:
        """A noun phrase: determiner or number, adjectives, compound, noun; sometimes a phrase with "of" around it.

        Args:
            nouns: Lemmas that the noun is drawn from.
            depth: 0 for a phrase without an "of" phrase around it.
            modify: Probability that the noun has a modifier, such as an adjective.
        """
        if depth and self.chance(0.08):
            head = self.determined(self.noun(self.random.choice(W.QUANTITIES), self.chance(0.15)), 0.15)
            inner = self.determined(self.noun(self.random.choice(nouns), True), modify, bare=True)
            return head.add(inner.before(adposition("of"), "case"), "nmod")
        if depth and self.chance(0.05):
            head = self.determined(self.noun(self.random.choice(W.CONTAINERS), self.chance(0.2)), 0.3)
            inner = self.determined(self.noun(self.random.choice(W.CONTENTS), self.chance(0.3)), 0.3, bare=True)
            return head.add(inner.before(adposition("of"), "case"), "nmod")
        return self.determined(self.noun(self.random.choice(nouns), self.chance(0.25)), modify)

    def determined(self, noun: Node, modify: float, bare: bool = False) -> Node:
        """Add to a noun what stands before it: compounds, modifiers, and a determiner, a possessor or a number.

        Args:
            noun: The head of the phrase; it is changed and returned.
            modify: Probability of a modifier.
            bare: Whether the phrase mostly has no determiner, as a plural after "of".
        """
        plural = noun.tag == "NNS"
        if self.chance(0.15):
            first = self.random.choice(W.COMPOUNDS if self.chance(0.7) else W.NOUNS)
            modifier = Node(first, first, "NOUN", "NN")
            noun.before(modifier, "compound")
            if self.chance(0.12):
                second = self.random.choice(W.COMPOUNDS)
                noun.before(Node(second, second, "NOUN", "NN"), "compound")
            if noun.lemma == "bus" and self.chance(0.3):
                modifier.word = modifier.lemma = "decker"
                modifier.before(self.adjective("double"), "amod")
        if self.chance(modify):
            self._modify(noun)
            if self.chance(0.2):
                self._modify(noun)
        if (bare and self.chance(0.8)) or (self.terse and self.chance(0.8)):
            return noun
        if self.chance(0.04):
            owner = self.determined(self.noun(self.random.choice(W.PEOPLE), False), 0.1)
            return noun.before(owner.add(Node("'s", "'s", "PART", "POS"), "case"), "nmod:poss")
        if self.chance(0.08):
            word = self.random.choice(("his", "her", "its", "their"))
            return noun.before(Node(word, word, "PRON", "PRP$"), "nmod:poss")
        if plural:
            draw = self.random.random()
            if draw < 0.35:
                number = self.random.choice(("two", "two", "three", "three", "four", "five", "six", "seven", "ten"))
                return noun.before(Node(number, number, "NUM", "CD"), "nummod")
            if draw < 0.5:
                many = self.random.choice(("several", "many", "various", "different", "multiple"))
                return noun.before(Node(many, many, "ADJ", "JJ"), "amod")
            if draw < 0.72:
                word = self.random.choice(("some", "the", "these"))
                return noun.before(Node(word, word, "DET", "DT"), "det")
            return noun
        word = self.random.choices(("a", "the", "one", "this", "another", "some"), (70, 22, 3, 1, 2, 2))[0]
        if word == "one":
            return noun.before(Node("one", "one", "NUM", "CD"), "nummod")
        following = noun
        while following.left:
            following = following.left[0]
        form = "an" if word == "a" and following.word[0] in "aeiou" else word
        return noun.before(Node(form, word, "DET", "DT"), "det")

    def _modify(self, noun: Node) -> None:
        draw = self.random.random()
        if draw < 0.03:
            verb = self.random.choice(W.INTRANSITIVE)
            noun.before(Node(W.ing(verb), verb, "VERB", "VBG"), "amod")
        elif draw < 0.15:
            verb = self.random.choice(W.PASSIVE)
            noun.before(Node(W.participle(verb), verb, "VERB", "VBN"), "amod")
        elif draw < 0.19:
            verb, what = (
                self.random.choice(("cover", "fill", "line", "top", "soak", "color")),
                self.random.choice(
                    (
                        "grass",
                        "snow",
                        "tree",
                        "leaf",
                        "flower",
                        "rain",
                        "ice",
                        "sand",
                        "dirt",
                        "food",
                        "cheese",
                        "water",
                    )
                ),
            )
            participle = Node(W.participle(verb), verb, "VERB", "VBN")
            noun.before(participle.before(Node(what, what, "NOUN", "NN"), "compound"), "amod")
        elif draw < 0.3:
            first, second = (self.adjective(self.random.choice(W.COLOURS)) for _ in range(2))
            second.before(Node("and", "and", "CCONJ", "CC"), "cc")
            noun.before(first.add(second, "conj"), "amod")
        else:
            adjective = self.adjective(self.random.choice(W.ADJECTIVES + W.COLOURS))
            if self.chance(0.06):
                adjective.before(
                    Node(very := self.random.choice(("very", "very", "extremely", "brightly")), very, "ADV", "RB"),
                    "advmod",
                )
            noun.before(adjective, "amod")

    def adjective(self, word: str) -> Node:
        return Node(word, word, "ADJ", "JJ")

    def coordinated(self, nouns: tuple[str, ...], share: float, modify: float = 0.4) -> Node:
        """A noun phrase, sometimes joined with one or two others by a comma and "and".

        Args:
            nouns: Lemmas that all nouns are drawn from.
            share: Probability that other phrases follow.
            modify: Probability that a noun has a modifier.
        """
        head = self.phrase(nouns, modify=modify)
        if self.chance(share):
            if self.chance(0.2):
                second = self.phrase(nouns, depth=0, modify=modify)
                head.add(second.before(Node(",", ",", "PUNCT", ","), "punct"), "conj")
                if self.chance(0.3):
                    last = self.phrase(nouns, depth=0, modify=modify)
                    last.before(Node("and", "and", "CCONJ", "CC"), "cc")
                    return head.add(last.before(Node(",", ",", "PUNCT", ","), "punct"), "conj")
            last = self.phrase(nouns, depth=0, modify=modify)
            head.add(last.before(Node("and", "and", "CCONJ", "CC"), "cc"), "conj")
        return head
