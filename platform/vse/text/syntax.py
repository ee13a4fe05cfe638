"""One reading of a dependency tree for both label sets: Universal Dependencies and spaCy's CLEAR labels."""

from vse.text.parse import Parse

# CLEAR label -> the Universal Dependencies label that plays its part (Nivre et al., 2016; ClearNLP guidelines).
_CLEAR = {
    "nsubjpass": "nsubj:pass", "csubjpass": "csubj:pass", "dobj": "obj", "dative": "iobj", "auxpass": "aux:pass",
    "relcl": "acl:relcl", "prt": "compound:prt", "nn": "compound", "poss": "nmod:poss", "possessive": "case",
    "prep": "prep", "pobj": "pobj", "agent": "prep", "acomp": "acomp", "attr": "attr", "oprd": "xcomp", "neg": "advmod",
    "npadvmod": "obl:npmod", "pcomp": "pcomp", "quantmod": "advmod", "predet": "det", "preconj": "cc",
}  # fmt: skip
_NOMINAL = frozenset({"nmod", "obl", "obj", "iobj", "nsubj", "pobj"})
# Clauses that have their subject from the clause above them.
_CLAUSES = frozenset(
    ["conj", "xcomp", "advcl", "ccomp", "parataxis", "acomp", "advmod", "dep", "attr", "pcomp", "prep"]
)
_CLEAR_ONLY = frozenset({"pobj", "dobj", "prep", "nsubjpass", "relcl", "acomp", "attr", "auxpass", "agent", "npadvmod"})


class Tree:
    """Children, roles, subjects and objects of the tokens of one parse."""

    def __init__(self, parse: Parse) -> None:
        self.parse = parse
        self.clear = any(token.dep in _CLEAR_ONLY for token in parse)
        self.children: list[list[int]] = [[] for _ in parse]
        for i, token in enumerate(parse):
            if token.head != i:
                self.children[token.head].append(i)
        self._roles = tuple(map(self._role, range(len(parse))))
        stranded = ((i, self._stranded_subject(i)) for i in range(len(parse)))
        self._stranded = {i: noun for i, noun in stranded if noun is not None}
        self._no_conjuncts = frozenset(self._stranded.values())

    def _stranded_subject(self, i: int) -> int | None:
        """The noun before a finite verb without subject, if a parser took it for a conjunct of the noun before
        "and": "a dog sits on a mat and a cat sits on a chair"."""
        helpers = [child for child in self.below(i, "aux", "cop") if child < i]
        before = min([i, *helpers]) - 1
        finite = any(self.parse[k].tag in ("VBZ", "VBP") for k in (i, *helpers))
        if before < 0 or not finite or self.head(i) is None or self.below(i, "nsubj", "expl", "cc"):
            return None
        subject = self.role(before) == "conj" and self.parse[before].pos in ("NOUN", "PROPN")
        return before if subject and self.role(i) != "acl" and self.head(before) != i else None

    def label(self, i: int) -> str:
        """The label of token `i` with its subtype, in Universal Dependencies terms if there is such a term."""
        dep = self.parse[i].dep
        return _CLEAR.get(dep, dep) if self.clear else dep

    def role(self, i: int) -> str:
        """The label without its subtype; possessives are "poss", verb particles "prt"."""
        return self._roles[i]

    def _role(self, i: int) -> str:
        label = self.label(i)
        if label in ("nmod:poss", "compound:prt"):
            return label.split(":")[1]
        return label.split(":")[0]

    def head(self, i: int) -> int | None:
        head = self.parse[i].head
        return None if head == i else head

    def below(self, i: int, *roles: str) -> list[int]:
        """Children of `i` with one of the roles, in order."""
        return [child for child in self.children[i] if self._roles[child] in roles]

    def is_noun(self, i: int) -> bool:
        """A noun by its coarse part of speech; by its fine tag if the coarse one is an exclamation ("Man on a bench")
        or unknown, or if the token has a nominal role. Not one that rules a clause, as mistagged verbs do."""
        token = self.parse[i]
        if token.pos in ("NOUN", "PROPN"):
            return not self._rules_clause(i)
        return token.tag in ("NN", "NNS") and (token.pos in ("INTJ", "X") or self.role(i) in _NOMINAL)

    def is_verb(self, i: int) -> bool:
        """A verb with a clause of its own: no auxiliary, no copula next to a predicate, no prenominal participle."""
        token = self.parse[i]
        if token.pos == "VERB":
            return self.role(i) not in ("amod", "aux", "cop", "case", "compound") and not self.is_noun(i)
        if token.pos in ("NOUN", "PROPN"):
            return self._rules_clause(i)
        return token.pos == "AUX" and self.role(i) not in ("aux", "cop")

    def _rules_clause(self, i: int) -> bool:
        """A subject before it and an object after it, and no copula."""
        return (
            any(child < i for child in self.below(i, "nsubj"))
            and any(child > i for child in self.below(i, "obj"))
            and not self.below(i, "cop", "det")
        )

    def is_passive(self, i: int) -> bool:
        """A past participle used passively."""
        if any(self.label(c) in ("aux:pass", "nsubj:pass") for c in self.children[i]):
            return True
        return self.parse[i].tag == "VBN" and not self.below(i, "aux", "nsubj")

    def conjuncts(self, i: int) -> list[int]:
        """Tokens coordinated with `i` that come after it, chains included."""
        conjuncts: list[int] = []
        open_ends = [i]
        while open_ends:
            later = [
                child
                for child in self.below(open_ends.pop(), "conj")
                if child > i and child not in conjuncts and not self._is_clause(child)
            ]
            conjuncts += later
            open_ends += later
        return sorted(conjuncts)

    def _is_clause(self, i: int) -> bool:
        """A nominal that is a predicate of its own, or the subject of a clause: "..., and the cup is on a table"."""
        return i in self._no_conjuncts or bool(self.below(i, "cop"))

    def case(self, i: int) -> tuple[int, ...]:
        """The preposition's tokens of nominal `i`, fixed parts included."""
        words: list[int] = []
        for child in self.below(i, "case"):
            if self.parse[child].pos != "PART" or self.parse[child].tag != "POS":
                words += [child, *self.below(child, "fixed")]
        return tuple(sorted(words))

    def prepositional(self, i: int) -> list[tuple[int, tuple[int, ...]]]:
        """(nominal, preposition tokens) of the prepositional phrases below `i`, first conjuncts only."""
        phrases: list[tuple[int, tuple[int, ...]]] = []
        for child in self.children[i]:
            if self.clear and (self.role(child) in ("prep", "agent", "case") or self._next_to(child)):
                phrases += self._clear_phrases(child, (child,))
            elif not self.clear and self.role(child) in ("nmod", "obl") and not self._is_clause(child):
                phrases.append((child, self.case(child)))
        return sorted(phrase for phrase in phrases if phrase[1])  # without a preposition: "last night"

    def _next_to(self, i: int) -> bool:
        """CLEAR writes "next to a wall" as an adverb with a preposition below it."""
        return (
            self.role(i) in ("advmod", "acomp")
            and self.parse[i].pos in ("ADV", "SCONJ", "ADP")
            and bool(self.below(i, "prep"))
        )

    def _clear_phrases(self, i: int, words: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
        phrases = [(child, words) for child in self.below(i, "pobj")]
        for child in self.below(i, "prep"):
            phrases += self._clear_phrases(child, (*words, child))
        return phrases

    def objects(self, i: int) -> list[int]:
        """Direct objects of a verb; the noun that a relative clause without an object of its own modifies."""
        roles = ("obj", "iobj", "attr") if self.clear else ("obj", "iobj")
        objects = [child for child in self.below(i, *roles) if self.label(child) != "obl:npmod"]
        if not objects and self.label(i) == "acl:relcl" and self.parse[i].tag != "VBN":
            subjects = self.below(i, "nsubj")
            if subjects and not any(self.is_relative(s) for s in subjects) and not self.prepositional(i):
                objects = [self.parse[i].head]
        return objects

    def is_relative(self, i: int) -> bool:
        """A relative pronoun inside a relative clause."""
        token = self.parse[i]
        return (
            token.pos in ("PRON", "DET")
            and token.text.lower() in ("that", "which", "who", "whom")
            and (self.antecedent(i) != i)
        )

    def antecedent(self, i: int) -> int:
        """The noun that a relative pronoun stands for, by the tree or, for "which" and "who" outside a relative clause,
        the last one before it; or the token itself."""
        j, seen = i, set()
        while (head := self.head(j)) is not None and j not in seen:
            if self.label(j) == "acl:relcl":
                return head
            seen.add(j)
            j = head
        if self.parse[i].tag in ("WDT", "WP"):
            return next((k for k in range(i - 1, -1, -1) if self.parse[k].pos in ("NOUN", "PROPN")), i)
        return i

    def copula(self, i: int) -> int | None:
        """The form of "be" that makes `i` a predicate."""
        return next(iter(self.below(i, "cop")), None)

    def is_predicate(self, i: int) -> bool:
        return self.copula(i) is not None

    def predicates_of(self, noun: int) -> list[int]:
        """Adjectives said of `noun` in a copular clause, a relative one included."""
        predicates = []
        for i in range(len(self.parse)):
            if self.clear and self.role(i) == "acomp":
                verb = self.parse[i].head
                if self.parse[verb].lemma in ("be", "look", "appear", "seem") and noun in self._stand_for(verb):
                    predicates.append(i)
            elif not self.clear and self.parse[i].pos == "ADJ" and self.is_predicate(i) and noun in self._stand_for(i):
                predicates.append(i)
        return predicates

    def _stand_for(self, i: int) -> list[int]:
        """Own subjects of clause `i`, relative pronouns replaced."""
        own = self.below(i, "nsubj")
        return [self.antecedent(s) if self.is_relative(s) else s for s in own] + [
            c for s in own for c in self.conjuncts(s)
        ]

    def subjects(self, i: int) -> list[int]:
        """The nominals that do (or, passive, undergo) what clause `i` says; found through participles, coordination
        and controlled clauses. What "there is" introduces is its subject."""
        seen: set[int] = set()
        while i not in seen:
            seen.add(i)
            own = [child for child in self.below(i, "nsubj") if not self._gap(child, i)]
            if self.below(i, "expl"):
                own = own or self.below(i, "attr", "obj")
            if own:
                return own
            if i in self._stranded:
                return [self._stranded[i]]
            head, role = self.head(i), self.role(i)
            if head is None:
                return []
            nominal = self.parse[head].pos in ("NOUN", "PROPN", "PRON", "NUM") and not self.is_predicate(head)
            if role in ("acl", "amod", "appos") or (nominal and role in _CLAUSES):
                return [head]
            if role not in _CLAUSES:
                return []
            i = head
        return []

    def _gap(self, child: int, clause: int) -> bool:
        """Parsers sometimes make the thing acted on a second subject; the one nearest the clause's start is kept."""
        return child > clause and any(c < clause for c in self.below(clause, "nsubj"))
