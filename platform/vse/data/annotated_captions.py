"""Captions whose objects, attributes and relations a person has annotated, as JSON.

The file is a list of objects with `image`, `caption`, `objects` (nouns), `attributes` ([adjective, noun]) and
`relations` ([subject, word, object]). {"any": [...]} lists several right readings of one item. `optional_objects`,
`optional_attributes` and `optional_relations` hold what a reader may find or not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vse.data.reading import field, read_json, required_id
from vse.errors import InputError
from vse.text.components import Attribute, Components, Object, Relation

KINDS = {"objects": 1, "attributes": 2, "relations": 3}  # the number of words of an item

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnnotatedCaption:
    """A caption of the image `filename`: by kind the required items, each a set of right readings, and the optional."""

    filename: str
    caption: str
    required: Mapping[str, tuple[frozenset[Words], ...]]
    optional: Mapping[str, frozenset[Words]]

    def components(self) -> Components:
        """Every reading of the required items, with the nouns of attributes and relations among the objects.

        Tokens are unknown and stand as 0.
        """
        objects, attributes, relations = (
            [words for readings in self.required[kind] for words in sorted(readings)] for kind in KINDS
        )
        nouns = [noun for (noun,) in objects]
        nouns += [noun for _, noun in attributes] + [
            noun for subject, _, other in relations for noun in (subject, other)
        ]
        return Components(
            tuple(Object(noun, 0) for noun in dict.fromkeys(nouns)),
            tuple(Attribute(word, noun, 0, 0) for word, noun in attributes),
            tuple(Relation(subject, word, other, 0, (0,), 0) for subject, word, other in relations),
        )


def read_annotated(path: str) -> tuple[AnnotatedCaption, ...]:
    """Annotated captions of a JSON file. Raises InputError naming file, entry and field."""
    rows = read_json(path)
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path}: expected a JSON list of one or more annotated captions")
    return tuple(_caption(row, f"{path}: entry {number}") for number, row in enumerate(rows))


def _caption(row: Any, where: str) -> AnnotatedCaption:
    filename, caption = required_id(row, "image", where), field(row, "caption", str, where)
    required, optional = dict[str, tuple[frozenset[Words], ...]](), dict[str, frozenset[Words]]()
    for kind, length in KINDS.items():
        required[kind] = tuple(_readings(item, length, f"{where}: {kind!r}") for item in field(row, kind, list, where))
        name = f"optional_{kind}"
        items = field(row, name, list, where) if name in row else ()
        optional[kind] = frozenset(_words(item, length, f"{where}: {name!r}") for item in items)
    return AnnotatedCaption(filename, caption, required, optional)


def _readings(item: Any, length: int, where: str) -> frozenset[Words]:
    several = isinstance(item, dict) and isinstance(item.get("any"), list) and item["any"]
    return frozenset(_words(each, length, where) for each in (several or [item]))


def _words(item: Any, length: int, where: str) -> Words:
    words = [item] if isinstance(item, str) else item
    valid = isinstance(words, list) and len(words) == length and all(isinstance(w, str) and w.strip() for w in words)
    if not valid:
        expected = "a word" if length == 1 else f"a list of {length} words"
        raise InputError(f'{where}: expected {expected}, or {{"any": [...]}} of several readings, got {item!r:.60}')
    return tuple(words)
