"""The meaning of a caption as data, and whether it is true of a scene.

There are two degrees of strictness. A relation is *clear* if any person would agree, and captions state only clear
relations. A relation *holds* if nobody could call it wrong. An adversary counts as false only if it does not even hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from vse.data.scenes.layout import ObjectGroup, Scene
from vse.data.scenes.world import RELATIONS


@dataclass(frozen=True, slots=True)
class Entity:
    """A description: canonical noun and attributes; `count` 1 is "a", at least one; 2 to 5 are exact."""

    noun: str
    attributes: frozenset[str] = frozenset()
    count: int = 1

    def spelled(self) -> str:
        """The same text for the same description."""
        return f"{self.count} {' '.join(sorted(self.attributes))} {self.noun}"


@dataclass(frozen=True, slots=True)
class Relation:
    """Canonical relation `name` of `world.RELATIONS` between two entities, given by their positions."""

    subject: int
    name: str
    object: int


@dataclass(frozen=True, slots=True)
class Meaning:
    """All of its entities exist, as different things, and all of its relations hold between them."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...] = ()

    def same_as(self, other: "Meaning") -> bool:
        """Whether both say the same, whatever the order of entities and relations."""
        return self._spelled() == other._spelled()

    def _spelled(self) -> tuple[object, ...]:
        names = [entity.spelled() for entity in self.entities]
        return sorted(names), sorted((names[r.subject], r.name, names[r.object]) for r in self.relations)


_INVERSE = {"behind": "front", "front": "behind", "next": "next"}
_MARGIN = 3  # units by which centres must differ for "left of" and its like to hold
_NEAR = 6  # units between things that are next to each other


def relation_holds(scene: Scene, a: int, name: str, b: int) -> bool:
    """Whether one thing stands in a relation to another, in the tolerant reading.

    Args:
        scene: the scene with boxes and contacts of its things.
        a: position of the subject among the things.
        name: canonical relation, one of `RELATIONS`.
        b: position of the object.
    """
    if (a, name, b) in scene.contacts or (b, _INVERSE.get(name), a) in scene.contacts:
        return True
    (left, top, right, bottom), (l2, t2, r2, b2) = scene.things[a].box, scene.things[b].box
    across, down = (l2 + r2 - left - right) / 2, (t2 + b2 - top - bottom) / 2  # from a's centre to b's
    if name == "left":
        return across > _MARGIN
    if name == "right":
        return across < -_MARGIN
    if name == "above":
        return down > _MARGIN
    if name == "below":
        return down < -_MARGIN
    shared_x, shared_y = min(right, r2) - max(left, l2), min(bottom, b2) - max(top, t2)
    if name == "next":
        return -_NEAR <= shared_x <= 8 and shared_y >= 0.3 * min(bottom - top, b2 - t2)
    if name == "under":
        beneath = down < -_MARGIN and shared_x >= 0.5 * min(right - left, r2 - l2)
        return (b, "on", a) in scene.contacts or (beneath and top - b2 <= 2 * _NEAR)
    assert name in RELATIONS, name
    return False


def clear_relations(scene: Scene) -> list[tuple[int, str, int]]:
    """Every (subject, relation, object) that a caption may state."""
    relations = []
    boxes = [thing.box for thing in scene.things]
    for a, first in enumerate(boxes):
        for b, second in enumerate(boxes):
            if a == b:
                continue
            touching = {name for x, name, y in scene.contacts if {x, y} == {a, b}}
            relations += [(a, name, b) for x, name, y in scene.contacts if (x, y) == (a, b)]
            relations += [(a, _INVERSE[n], b) for x, n, y in scene.contacts if (x, y) == (b, a) and n in _INVERSE]
            if first[2] <= second[0] + 3 and touching <= {"next"}:
                relations.append((a, "left", b))
            if second[2] <= first[0] + 3 and touching <= {"next"}:
                relations.append((a, "right", b))
            if first[3] <= second[1] + 3 and not touching:
                relations.append((a, "above", b))
            if second[3] <= first[1] + 3 and not touching:
                relations.append((a, "below", b))
    return relations


def describes(entity: Entity, thing: ObjectGroup) -> bool:
    """Whether a thing has the entity's noun and all of its attributes, its number aside."""
    return entity.noun == thing.noun and entity.attributes <= {thing.colour, thing.size, thing.pattern}


def holds(meaning: Meaning, scene: Scene) -> bool:
    """Whether a meaning is true of a scene.

    "A" means at least one object of the description. A number means exactly so many objects of the whole scene, and the
    relations hold for all of them. Different entities are different objects.
    """
    choices: list[list[tuple[int, ...]]] = []
    for entity in meaning.entities:
        fitting = [k for k, thing in enumerate(scene.things) if describes(entity, thing)]
        if not fitting:
            return False
        if entity.count == 1:
            choices.append([(k,) for k in fitting])
        elif sum(scene.things[k].count for k in fitting) == entity.count:
            choices.append([tuple(fitting)])
        else:
            return False
    return any(_consistent(meaning, scene, chosen) for chosen in product(*choices))


def _consistent(meaning: Meaning, scene: Scene, chosen: tuple[tuple[int, ...], ...]) -> bool:
    used = [k for things in chosen for k in things]
    return len(set(used)) == len(used) and all(
        relation_holds(scene, a, r.name, b)
        for r in meaning.relations
        for a in chosen[r.subject]
        for b in chosen[r.object]
    )


def truth_matrix(meanings: Sequence[Meaning], scenes: Sequence[Scene]) -> np.ndarray:
    """bool of shape (scenes, meanings): which meaning is true of which scene.

    Descriptions are looked up for all scenes at once; only scenes that have every entity are examined one by one.
    """
    index = _Descriptions(scenes)
    truth = np.zeros((len(scenes), len(meanings)), dtype=bool)
    for column, meaning in enumerate(meanings):
        candidates = np.logical_and.reduce([index.present(e) for e in meaning.entities])
        for row in np.flatnonzero(candidates):
            truth[row, column] = holds(meaning, scenes[int(row)])
    return truth


class _Descriptions:
    """The scenes that have an object of a description."""

    def __init__(self, scenes: Sequence[Scene]) -> None:
        self._num_scenes = len(scenes)
        self._has: dict[str, dict[str, set[tuple[int, int]]]] = {}
        for row, scene in enumerate(scenes):
            for k, thing in enumerate(scene.things):
                words = self._has.setdefault(thing.noun, {})
                for word in ("", thing.colour, thing.size, thing.pattern):
                    words.setdefault(word, set()).add((row, k))
        self._present: dict[tuple[str, frozenset[str]], np.ndarray] = {}

    def present(self, entity: Entity) -> np.ndarray:
        key = (entity.noun, entity.attributes)
        if key not in self._present:
            words = self._has.get(entity.noun, {})
            answers = set(words.get("", ()))
            for word in entity.attributes:
                answers &= words.get(word, set())
            mask = np.zeros(self._num_scenes, dtype=bool)
            mask[[row for row, _ in answers]] = True
            self._present[key] = mask
        return self._present[key]
