"""Content words of captions, and the nouns that they may depend on: semantic parsing with visual cues.

UniVSE (Wu et al., CVPR 2019), section 4.4 and supplement B.4. A content word is an adjective or a relation word. Its
candidates are all dependencies among the nouns of its caption: (adjective, noun), or (subject, word, object) with two
nouns of the caption in either order.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from vse.data.annotated_captions import AnnotatedCaption
from vse.evaluation.component_queries import Words
from vse.evaluation.metrics import Ties
from vse.text.components import Components, Relation
from vse.text.parse import Parse

ATTRIBUTE, RELATION = "attribute", "relation"

Judge = Callable[[str], bool | None]
"""Whether a text is true of a caption's image; None if it cannot be read."""

_OF_THE_NOUN = ("det", "amod", "nummod", "compound", "poss", "nmod:poss", "advmod")


@dataclass(frozen=True, eq=False)
class ContentWord:
    """A content word whose dependency is to be recovered.

    Args:
        kind: `attribute` or `relation`.
        word: The adjective, or the relation word.
        candidates: Its possible dependencies, each once.
        credit: What each candidate earns: 1 for a right one; half for a relation with one right argument.
    """

    kind: str
    word: str
    candidates: tuple[Words, ...]
    credit: np.ndarray

    @property
    def by_chance(self) -> float:
        """Expected credit of a candidate that is drawn at random."""
        return float(self.credit.mean())

    @property
    def right(self) -> set[Words]:
        """The candidates with full credit."""
        return {each for each, credit in zip(self.candidates, self.credit, strict=True) if credit == 1}


def content_words(
    parse: Parse, components: Components, excluded: Collection[str] = (), judge: Judge | None = None
) -> Iterator[ContentWord]:
    """The content words of a caption, each distinct one once: attributes, then relations.

    A word that occurs twice ("a red ball and a red box") has one question and several right answers. So has the
    relation of several subjects ("a cat and a dog on a mat").

    Args:
        parse: Of the caption.
        components: Of the caption. They are right if nobody knows better.
        excluded: Relation words that are left out.
        judge: Knows what is true of the image. Words of which it can read no candidate, or finds none true, are left
            out.

    Returns:
        Words with the nouns of the caption as candidates; relations need two nouns.
    """
    nouns = [each.word for each in components.objects]
    for adjective in dict.fromkeys(each.word for each in components.attributes):
        candidates = tuple(dict.fromkeys((adjective, noun) for noun in nouns))
        if judge is None:
            right = {(each.word, each.noun) for each in components.attributes}
        else:
            right = {pair for pair in candidates if judge(f"a {pair[0]} {pair[1]}")}
        if right & set(candidates):
            yield ContentWord(ATTRIBUTE, adjective, candidates, credits(candidates, right))
    pairs = tuple(dict.fromkeys(permutations(nouns, 2)))
    for word in dict.fromkeys(each.word for each in components.relations if each.word not in excluded):
        candidates = tuple((subject, word, other) for subject, other in pairs)
        stated = [each for each in components.relations if each.word == word]
        if judge is None:
            right = {(each.subject, word, each.object) for each in stated}
        else:
            phrases = {relation_phrase(parse, each) for each in stated}
            right = {(s, word, o) for s, o in pairs for phrase in phrases if judge(f"a {s} {phrase} a {o}")}
        if right & set(candidates):
            yield ContentWord(RELATION, word, candidates, credits(candidates, right))


def annotated_words(caption: AnnotatedCaption, excluded: Collection[str] = ()) -> Iterator[ContentWord]:
    """The content words of a caption that a person annotated. Optional dependencies are no candidates."""
    for word in content_words((), caption.components(), excluded):
        optional = caption.optional[f"{word.kind}s"] - word.right
        kept = [k for k, each in enumerate(word.candidates) if each not in optional]
        yield ContentWord(word.kind, word.word, tuple(word.candidates[k] for k in kept), word.credit[kept])


def relation_phrase(parse: Parse, relation: Relation) -> str:
    """The words of a caption from a relation's word to its object, without the object's own: "sitting on"."""
    first, last = relation.tokens[0], relation.object_token
    inner = range(first, last)
    return " ".join(
        parse[i].text.lower() for i in inner if not (parse[i].head == last and parse[i].dep in _OF_THE_NOUN)
    )


def credits(candidates: Sequence[Words], right: Collection[Words]) -> np.ndarray:
    """What each candidate earns (B.4): 1 for a right pair; half for each argument of a triple that the right triple has
    too. Of several right triples the one that earns most counts."""
    if len(candidates[0]) == 2:
        return np.array([float(each in right) for each in candidates])
    return np.array(
        [max(0.5 * (each[0] == one[0]) + 0.5 * (each[2] == one[2]) for one in right) for each in candidates]
    )


def earned(scores: np.ndarray, credit: np.ndarray) -> float:
    """The credit of the candidate with the highest score; the mean over candidates that tie with it."""
    best = scores.max()
    width = Ties().tolerance * max(abs(float(best)), 1.0)
    return float(credit[scores >= best - width].mean())
