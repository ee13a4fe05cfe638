"""When a meaning is true of a scene, and which images of a split every caption is true of.

Two strictnesses: a relation is *clear* when any person would agree, and captions state only clear ones; it *holds*
already when nobody could call it wrong. An adversary counts as false only if it does not even hold.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from vse.data.records import Records
from vse.data.scenes.interpret import interpret
from vse.data.scenes.layout import Scene, Thing, scene_of
from vse.data.scenes.meaning import Entity, Meaning
from vse.data.scenes.world import RELATIONS

_INVERSE = {"behind": "front", "front": "behind", "next": "next"}
_MARGIN = 3  # units by which centres must differ for "left of" and its like to hold
_NEAR = 6  # units between things that are next to each other


def relation_holds(scene: Scene, a: int, name: str, b: int) -> bool:
    """Whether thing `a` stands in a relation to thing `b`, in the tolerant reading."""
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
    found = []
    boxes = [thing.box for thing in scene.things]
    for a, first in enumerate(boxes):
        for b, second in enumerate(boxes):
            if a == b:
                continue
            touching = {name for x, name, y in scene.contacts if {x, y} == {a, b}}
            found += [(a, name, b) for x, name, y in scene.contacts if (x, y) == (a, b)]
            found += [(a, _INVERSE[n], b) for x, n, y in scene.contacts if (x, y) == (b, a) and n in _INVERSE]
            if first[2] <= second[0] + 3 and touching <= {"next"}:
                found.append((a, "left", b))
            if second[2] <= first[0] + 3 and touching <= {"next"}:
                found.append((a, "right", b))
            if first[3] <= second[1] + 3 and not touching:
                found.append((a, "above", b))
            if second[3] <= first[1] + 3 and not touching:
                found.append((a, "below", b))
    return found


def describes(entity: Entity, thing: Thing) -> bool:
    """Whether a thing has the entity's noun and all of its attributes, its number aside."""
    return entity.noun == thing.noun and entity.attributes <= {thing.colour, thing.size, thing.pattern}


def holds(meaning: Meaning, scene: Scene) -> bool:
    """Whether a meaning is true of a scene.

    "A" claims at least one thing of the description; a number claims that exactly so many objects of the whole scene
    answer to it, and its relations claim something of every one of them. Different entities are different things.
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
    """Which scenes have something that answers to a description."""

    def __init__(self, scenes: Sequence[Scene]) -> None:
        self._num_scenes = len(scenes)
        self._has: dict[str, dict[str, set[tuple[int, int]]]] = {}
        for row, scene in enumerate(scenes):
            for k, thing in enumerate(scene.things):
                words = self._has.setdefault(thing.noun, {})
                for word in ("", thing.colour, thing.size, thing.pattern):
                    words.setdefault(word, set()).add((row, k))
        self._known: dict[tuple[str, frozenset[str]], np.ndarray] = {}

    def present(self, entity: Entity) -> np.ndarray:
        key = (entity.noun, entity.attributes)
        if key not in self._known:
            words = self._has.get(entity.noun, {})
            answers = set(words.get("", ()))
            for word in entity.attributes:
                answers &= words.get(word, set())
            mask = np.zeros(self._num_scenes, dtype=bool)
            mask[[row for row, _ in answers]] = True
            self._known[key] = mask
        return self._known[key]


def true_pairs(records: Records, split: str) -> np.ndarray:
    """bool of shape (images, captions) of a scenes split: which caption is true of which image."""
    part = records.split(split)
    meanings = []
    for caption in part.captions:
        meaning = interpret(caption.text)
        assert meaning is not None, f"no caption of a scene: {caption.text}"
        meanings.append(meaning)
    return truth_matrix(meanings, [scene_of(image.uri) for image in part.images])


def text_truth(records: Records) -> Callable[[str, str], bool | None]:
    """A function (image id, text) -> whether the text is true of the image, None for a text that cannot be read."""
    uris = {image.id: image.uri for image in records.images}

    def is_true(image: str, text: str) -> bool | None:
        meaning = interpret(text)
        return None if meaning is None else holds(meaning, scene_of(uris[image]))

    return is_true


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """How far a split can be told apart by its captions.

    `images_per_caption` is the mean number of images a caption is true of. The ceilings are what a scorer that knows
    only the truth expects to reach in percent of R@1, ties broken at random: from sentence to image the one image the
    caption was written for, from image to sentence any caption written for the image.
    """

    images_per_caption: float
    share_unique: float
    t2i_r1_ceiling: float
    i2t_r1_ceiling: float


def ambiguity(truth: np.ndarray, caption_to_image: np.ndarray) -> Ambiguity:
    """Statistics of `true_pairs` (images, captions) and the caption -> image vector."""
    per_caption = truth.sum(axis=0)
    own = np.zeros_like(truth)
    own[caption_to_image, np.arange(truth.shape[1])] = True
    assert truth[own].all(), "every caption must be true of its own image"
    own_share = own.sum(axis=1) / np.maximum(truth.sum(axis=1), 1)
    return Ambiguity(
        float(per_caption.mean()),
        float((per_caption == 1).mean()),
        float(100 * (1 / per_caption).mean()),
        float(100 * own_share[own.any(axis=1)].mean()),
    )
