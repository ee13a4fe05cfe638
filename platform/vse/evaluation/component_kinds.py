"""Nouns of components by what they are kinds of, as WordNet's hypernyms say."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.sparse import csr_array

from vse.evaluation.neighbours import Elements
from vse.text.lexicon.lexicon import Lexicon


def shown_sense(noun: str, lexicon: Lexicon) -> set[int]:
    """The first sense of a noun that is a physical entity, else its first one; empty for a noun that is not listed.

    A picture shows a table to sit at, which is the second sense of "table"; the first is a table of numbers.
    """
    senses, physical = lexicon.synsets(noun), set(lexicon.synsets("physical entity")[:1])
    return set([each for each in senses if physical & lexicon.hypernyms(each)][:1] or senses[:1])


def kinds_of(noun: str, lexicon: Lexicon, steps: int) -> Elements:
    """The sense of a noun that pictures show and its hypernyms.

    Args:
        noun: A noun as components have it.
        lexicon: WordNet.
        steps: Levels of hypernyms above the sense; 0 for the sense alone.

    Returns:
        One element for each synset; empty if the noun is not listed.
    """
    level = shown_sense(noun, lexicon)
    kinds = set(level)
    for _ in range(steps):
        level = {above for synset in level for above in lexicon.hypernyms(synset, transitive=False)}
        kinds |= level
    return {(str(synset),) for synset in kinds}


def share_a_kind(some: csr_array, others: csr_array) -> Float64[np.ndarray, "some others"]:
    """1 for a pair of rows of matrices of `membership` that have an element in common, else 0."""
    product: Any = some @ others.T
    return (product.toarray() > 0).astype(np.float64)


def common_kinds(nouns: Sequence[str], lexicon: Lexicon, number: int, most: float = 0.4) -> list[str]:
    """A name for each noun of the kind it is shown as: one of a few hypernyms of many nouns, or "" for none of them.

    Kinds are taken one by one, each the one that most of the nouns without a kind belong to. A kind of more than a
    share of the nouns says too little, and one without a name in the lexicon cannot be shown.

    Args:
        nouns: Words, repeated ones count as often as they occur.
        lexicon: Their hypernyms.
        number: Kinds at most.
        most: The share of nouns that a kind may have.
    """
    names = _names(lexicon)
    above = {noun: _named_above(noun, lexicon, names) for noun in set(nouns)}
    sizes = Counter(synset for noun in nouns for synset in above[noun])
    kinds = dict[str, str]()
    for _ in range(number):
        gains = Counter(
            synset
            for noun in nouns
            if noun not in kinds
            for synset in above[noun]
            if sizes[synset] <= most * len(nouns)
        )
        best = min(gains, key=lambda synset: (-gains[synset], sizes[synset], names[synset]), default=None)
        if best is None or gains[best] < 2:
            break
        kinds |= {noun: names[best] for noun in above if noun not in kinds and best in above[noun]}
    return [kinds.get(noun, "") for noun in nouns]


def _names(lexicon: Lexicon) -> dict[int, str]:
    """The shortest word of each sense that is the first one of a word."""
    names = dict[int, str]()
    for word in lexicon.words:
        first = lexicon.synsets(word)[0]
        names[first] = min(names.get(first, word), word, key=lambda each: (len(each), each))
    return {synset: name.replace("_", " ") for synset, name in names.items()}


def _named_above(noun: str, lexicon: Lexicon, names: dict[int, str]) -> set[int]:
    return {
        synset
        for sense in shown_sense(noun, lexicon)
        for synset in (sense, *lexicon.hypernyms(sense))
        if synset in names
    }
