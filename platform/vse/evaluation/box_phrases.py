"""Texts that annotated boxes can ground: nouns, attributes with a noun, relations of scenes, phrases of captions."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import vse.data
from vse.data.records import Box
from vse.data.sources.scenes import annotate
from vse.evaluation.relevance_maps import Rectangle
from vse.text.components import Attribute, Components, Object, Relation

KINDS = {"noun": "nouns", "pair": "attribute-noun pairs", "triple": "relational triples", "phrase": "phrases"}


@dataclass(frozen=True)
class BoxPhrase:
    """A text with the boxes that a map of it should point to.

    Args:
        kind: One of KINDS.
        texts: Ways to say it, the preferred one first.
        boxes: Of every object that it names.
    """

    kind: str
    texts: tuple[str, ...]
    boxes: tuple[Rectangle, ...]


def box_phrases(boxes: Sequence[Box], uri: str = "") -> Iterator[BoxPhrase]:
    """All texts that the boxes of one image can ground, each once.

    A box of a caption gives a phrase, any other its label as a noun, and a pair with each attribute. All boxes of the
    same text count. A `scene:` address adds the relations that are true of the scene, as "subject word object", with
    the boxes of both.

    Args:
        boxes: Of the image.
        uri: Its address.
    """
    groups = dict[tuple[str, ...], list[Rectangle]]()
    for box in boxes:
        sides = Rectangle(box.left, box.top, box.right, box.bottom)
        if box.caption:
            groups.setdefault(("phrase", box.caption, box.label), []).append(sides)
            continue
        groups.setdefault(("noun", *category_nouns(box.label)), []).append(sides)
        for attribute in box.attributes:
            groups.setdefault(("pair", f"{attribute} {box.label}"), []).append(sides)
    if uri.startswith("scene:"):
        objects, relations = annotate(uri)  # its objects are the boxes, in this order
        for subject, word, other in relations:
            text = f"{objects[subject].noun} {word} {objects[other].noun}"
            sides = [Rectangle(b.left, b.top, b.right, b.bottom) for b in (boxes[subject], boxes[other])]
            groups.setdefault(("triple", text), []).extend(sides)
    for (kind, *texts), rectangles in groups.items():
        yield BoxPhrase(kind, tuple(texts[1:] if kind == "phrase" else texts), tuple(rectangles))


def components_of(kind: str, text: str) -> Components | None:
    """The component that a text of this kind is; None for a phrase, which has to be parsed."""
    words = text.split()
    if kind == "noun" and len(words) == 1:
        return Components((Object(text, 0),), (), ())
    if kind == "pair" and len(words) == 2:
        return Components((Object(words[1], 1),), (Attribute(words[0], words[1], 0, 1),), ())
    if kind == "triple" and len(words) == 3:
        relation = Relation(words[0], words[1], words[2], 0, (1,), 2)
        return Components((Object(words[0], 0), Object(words[2], 2)), (), (relation,))
    return None


def category_nouns(label: str) -> tuple[str, ...]:
    """Nouns by which captions name a category, the most common first."""
    return _table().get(label, (label,))


@cache
def _table() -> dict[str, tuple[str, ...]]:
    path = Path(vse.data.__file__).with_name("coco_nouns.toml")
    return {label: tuple(nouns) for label, nouns in tomllib.loads(path.read_text(encoding="utf-8")).items()}
