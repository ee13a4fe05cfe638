"""Dependency trees written by hand: `word/lemma/pos/tag/head/label`, heads counted from 1, 0 for a root."""

from vse.text.components import extract
from vse.text.parse import ParsedToken


def tree(spec):
    tokens, start = [], 0
    for i, item in enumerate(spec.split()):
        word, lemma, pos, tag, head, dep = item.split("/")
        tokens.append(
            ParsedToken(word, start, start + len(word), lemma, tag, pos, int(head) - 1 if head != "0" else i, dep)
        )
        start += len(word) + 1
    return tuple(tokens)


def words(spec):
    """(objects, attributes, relations) of a tree, as sets of strings."""
    found = extract(tree(spec))
    return (
        {o.word for o in found.objects},
        {f"{a.word} {a.noun}" for a in found.attributes},
        {f"{r.subject} {r.word} {r.object}" for r in found.relations},
    )


# The paper's example (section 3.2): "A white clock on the wall is above a wooden table".
CLOCK_UD = (
    "A/a/DET/DT/3/det white/white/ADJ/JJ/3/amod clock/clock/NOUN/NN/10/nsubj on/on/ADP/IN/6/case the/the/DET/DT/6/det "
    "wall/wall/NOUN/NN/3/nmod is/be/AUX/VBZ/10/cop above/above/ADP/IN/10/case a/a/DET/DT/10/det "
    "table/table/NOUN/NN/0/ROOT"
)
CLOCK_CLEAR = (
    "A/a/DET/DT/3/det white/white/ADJ/JJ/3/amod clock/clock/NOUN/NN/7/nsubj on/on/ADP/IN/3/prep the/the/DET/DT/6/det "
    "wall/wall/NOUN/NN/4/pobj is/be/AUX/VBZ/0/ROOT above/above/ADP/IN/7/prep a/a/DET/DT/10/det "
    "table/table/NOUN/NN/8/pobj"
)
