"""Negation in captions: nouns that a caption names as absent, and clauses that it denies.

"No dog", "without a hat", "nobody", "isn't wearing any shoes". A noun in the scope of a negation is absent if it is
indefinite: "is not wearing a helmet" shows no helmet, but "is not on the sofa" may well show the sofa.
"""

from functools import cached_property

from vse.text.syntax import Tree

_NOT = frozenset({"not", "n't", "never", "neither", "nor", "hardly", "nowhere"})
_NOT_NEGATIVE = frozenset({"only", "just", "merely", "simply", "quite"})  # "not only a dog but also a cat"
_NOBODY = frozenset({"nobody", "none", "nothing", "neither"})
_WITHOUT = frozenset({"without", "minus", "lacking", "sans"})
_INDEFINITE = frozenset({"a", "an", "any", "no", "either", "single"})
_FRESH = frozenset({"but", "yet"})  # what follows is said to be there


class Negation:
    """Absent nouns and denied clauses of one tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.parse = tree.parse
        self._words = [token.text.lower() for token in tree.parse]

    @cached_property
    def _any(self) -> bool:
        """Whether the caption has any word of negation. Most captions have none."""
        return not (_NOT | _NOBODY | _WITHOUT | {"no"}).isdisjoint(self._words)

    def absent(self, i: int) -> bool:
        """Whether the caption says that noun `i` is absent."""
        if not self._any:
            return False
        for _ in range(len(self.parse)):
            if self._has_no(i) or self._is_nobody(i) or self._case(i) in _WITHOUT or self._outside(i):
                return True
            first = self._first_conjunct(i)
            if first is None:
                return False
            i = first
        return False

    def denied(self, i: int) -> bool:
        """Whether the caption denies clause `i`, given by its verb or predicate."""
        if not self._any:
            return False
        if self._negated(i):
            return True
        head = self.tree.head(i)
        if head is not None and self.tree.role(i) == "conj" and "or" in self._conjunctions(i):
            return self._negated(head)
        return False

    def _negated(self, i: int) -> bool:
        helpers = [i, *self.tree.below(i, "aux", "cop")]
        if any(self._is_not(child) for helper in helpers for child in self.tree.children[helper]):
            return True
        return any(self._has_no(k) or self._is_nobody(k) for k in self.tree.below(i, "nsubj", "obj"))

    def _is_not(self, i: int) -> bool:
        """A word of negation, by itself: "not only" and "not just" deny nothing, "no longer" does."""
        following = self._words[i + 1] if i + 1 < len(self._words) else ""
        if self._words[i] == "longer":
            return i > 0 and self._words[i - 1] == "no"
        return self._words[i] in _NOT and following not in _NOT_NEGATIVE and following not in ("a", "an", "one", "any")

    def _has_no(self, i: int) -> bool:
        """ "no dog", "not a single dog"; not the name on a sign, as in "a no parking sign"."""
        own = self._own(i)
        if "no" in own:
            return not {"a", "an", "the", "this", "that"}.intersection(own) and not self._is_sign(i)
        start = min([k for k in self.tree.below(i, "det", "amod", "nummod", "compound") if k < i], default=i)
        return start > 0 and self._words[start - 1] == "not" and self._words[start] in ("a", "an", "one", "any")

    def _is_sign(self, i: int) -> bool:
        """ "no parking sign": the sign is there."""
        return any(self.parse[k].tag == "VBG" or self._words[k].endswith("ing") for k in self.tree.below(i, "compound"))

    def _is_nobody(self, i: int) -> bool:
        return self._words[i] in _NOBODY or (i > 0 and self._words[i] == "one" and self._words[i - 1] == "no")

    def _case(self, i: int) -> str:
        head = self.tree.head(i)
        if self.tree.role(i) == "pobj" and head is not None:
            return self._words[head]
        case = self.tree.case(i)
        return self._words[case[0]] if case else ""

    def _outside(self, i: int) -> bool:
        """An indefinite noun that a denied clause says is there, is had or is what something is."""
        if "neither" in self._own(i) and self.tree.role(i) in ("obj", "attr"):
            return True
        if not self._determiners(i) <= _INDEFINITE:
            return False
        if "any" in self._determiners(i) and _NOT.intersection(self._words[:i]):
            return True
        head = self.tree.head(i)
        if self.tree.is_predicate(i):
            return self._negated(i)
        if head is None or not self._negated(head):
            return False
        introduced = self.tree.below(head, "expl") and self.tree.role(i) == "nsubj"
        return bool(introduced or self.tree.role(i) in ("obj", "attr"))

    def _own(self, i: int) -> set[str]:
        """Words before noun `i` that belong to it."""
        return {self._words[k] for k in self.tree.children[i] if k < i}

    def _determiners(self, i: int) -> set[str]:
        return {self._words[k] for k in self.tree.below(i, "det", "poss", "nummod") if k < i}

    def _conjunctions(self, i: int) -> set[str]:
        """Words that join `i` to the first conjunct: below `i`, or, as in CLEAR, below the first conjunct."""
        head = self.parse[i].head
        joining = [*self.tree.below(i, "cc"), *(k for k in self.tree.below(head, "cc") if head < k < i)]
        return {self._words[k] for k in joining}

    def _first_conjunct(self, i: int) -> int | None:
        """The noun whose negation covers its conjunct `i` too: "no chairs or tables", "without a hat and gloves"."""
        head = self.tree.head(i)
        if head is None or self.tree.role(i) != "conj" or head > i or self.tree.case(i):
            return None
        conjunctions = self._conjunctions(i)
        own = self._determiners(i)
        if conjunctions & _FRESH or (own - {"any"} and "or" not in conjunctions and "nor" not in conjunctions):
            return None
        return head
