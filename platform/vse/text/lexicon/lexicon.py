"""Relations between nouns: synsets, shared synsets, hypernyms and hyponyms, whatever file they come from."""

from collections.abc import Iterable, Mapping, Sequence

from vse.config import fingerprint

# Endings of plurals and what takes their place, as WordNet's own morphology tries them (Fellbaum, 1998).
_ENDINGS = (
    ("ches", "ch"), ("shes", "sh"), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ies", "y"), ("men", "man"), ("s", ""),
)  # fmt: skip


class Lexicon:
    """Nouns, their senses in order of frequency, and the hypernyms of each sense.

    Lemmas are in lower case, with blanks as underscores. A synset is a number that means nothing outside its lexicon.
    Hypernyms include those of instances.
    """

    def __init__(
        self,
        words: Mapping[str, Sequence[int]],
        parents: Mapping[int, Sequence[int]],
        exceptions: Mapping[str, str],
        source: str,
    ) -> None:
        """exceptions: irregular plural -> singular. source: its origin, for messages."""
        self._words = {word: tuple(synsets) for word, synsets in words.items()}
        self._parents = {synset: tuple(above) for synset, above in parents.items()}
        self._exceptions, self.source = dict(exceptions), source
        self._above: dict[int, frozenset[int]] = {}
        self._spans: dict[tuple[str, bool], tuple[frozenset[int], frozenset[int]]] = {}

    def __contains__(self, noun: str) -> bool:
        return bool(self.synsets(noun))

    def __len__(self) -> int:
        return len(self._words)

    @property
    def words(self) -> tuple[str, ...]:
        """Lemmas in alphabetical order."""
        return tuple(sorted(self._words))

    @property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits over lemmas, senses and relations."""
        return fingerprint(
            [
                {word: list(synsets) for word, synsets in self._words.items()},
                {str(synset): list(above) for synset, above in self._parents.items()},
                self._exceptions,
            ]
        )

    def lemma(self, noun: str) -> str | None:
        """The lemma that a word or its plural is listed under, or None."""
        word = noun.lower().replace(" ", "_")
        if word in self._words:
            return word
        if (singular := self._exceptions.get(word)) in self._words:
            return singular
        stems = (word[: -len(end)] + other for end, other in _ENDINGS if word.endswith(end))
        return next((stem for stem in stems if stem in self._words), None)

    def exception(self, form: str) -> str | None:
        """The singular that an irregular plural is listed with."""
        return self._exceptions.get(form)

    def synsets(self, noun: str) -> tuple[int, ...]:
        """Senses of a noun, the most frequent first; empty if the lexicon does not have it."""
        lemma = self.lemma(noun)
        return () if lemma is None else self._words[lemma]

    def hypernyms(self, synset: int, *, transitive: bool = True) -> frozenset[int]:
        """Synsets above one: all of them, or those one step up."""
        if not transitive:
            return frozenset(self._parents.get(synset, ()))
        if synset not in self._above:
            reached: set[int] = set()
            todo = list(self._parents.get(synset, ()))
            while todo:
                above = todo.pop()
                if above not in reached:
                    reached.add(above)
                    todo += self._parents.get(above, ())
            self._above[synset] = frozenset(reached)
        return self._above[synset]

    def shares_synset(self, one: str, other: str) -> bool:
        """Whether two nouns have a sense in common."""
        return not self._span(one, True)[0].isdisjoint(self._span(other, True)[0])

    def related(self, one: str, other: str, *, transitive: bool = True) -> bool:
        """Whether some sense of one noun is a hypernym or hyponym of some sense of the other.

        Args:
            one: a noun.
            other: another noun. The order does not matter.
            transitive: whether any number of steps counts, or only one.
        """
        first, above_first = self._span(one, transitive)
        second, above_second = self._span(other, transitive)
        return not (above_first.isdisjoint(second) and above_second.isdisjoint(first))

    def _span(self, noun: str, transitive: bool) -> tuple[frozenset[int], frozenset[int]]:
        """Senses of a noun and everything above them, remembered."""
        key = (noun, transitive)
        if key not in self._spans:
            senses = frozenset(self.synsets(noun))
            self._spans[key] = (senses, frozenset(self._all_above(senses, transitive)))
        return self._spans[key]

    def _all_above(self, synsets: Iterable[int], transitive: bool) -> set[int]:
        return set().union(*(self.hypernyms(synset, transitive=transitive) for synset in synsets))

    def is_a(self, noun: str, kind: str, *, senses: int = 1) -> bool:
        """Whether a noun names something of a kind, by their most frequent senses.

        Args:
            noun: one of its first `senses` must be the kind or lie below it.
            kind: a noun, of which the first sense is taken.
            senses: how many senses of `noun` count, in order of frequency.
        """
        anchor = self.synsets(kind)[:1]
        return bool(anchor) and any(
            anchor[0] == synset or anchor[0] in self.hypernyms(synset) for synset in self.synsets(noun)[:senses]
        )

    def part(self, words: Iterable[str], source: str) -> "Lexicon":
        """The lexicon of these words alone: their senses, everything above them, the irregular plurals of them."""
        kept = {lemma: self._words[lemma] for lemma in sorted({w for w in map(self.lemma, words) if w is not None})}
        synsets = {synset for senses in kept.values() for synset in senses}
        synsets |= self._all_above(synsets, transitive=True)
        parents = {synset: self._parents.get(synset, ()) for synset in sorted(synsets)}
        exceptions = {form: lemma for form, lemma in sorted(self._exceptions.items()) if lemma in kept}
        return Lexicon(kept, parents, exceptions, source)

    def tables(self) -> tuple[dict[str, tuple[int, ...]], dict[int, tuple[int, ...]], dict[str, str]]:
        """(words, parents, exceptions) as the constructor takes them."""
        return self._words, self._parents, self._exceptions
