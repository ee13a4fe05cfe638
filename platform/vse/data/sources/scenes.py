"""The data set that the project renders itself, as a source of records and of ground truth."""

import functools
from dataclasses import dataclass

import numpy as np

from vse.config import knob
from vse.data.records import Box, Caption, Image, Records
from vse.data.scenes.grammar import captions_of
from vse.data.scenes.interpret import interpret
from vse.data.scenes.layout import CANVAS, Address, scene_of
from vse.data.scenes.layout import Box as Pixels
from vse.data.scenes.meaning import clear_relations, holds, truth_matrix
from vse.data.scenes.world import ATTRIBUTES, REVISION, WORDINGS
from vse.data.source import DataLocation, SceneGraphs, Source, SourceConfig, Truth
from vse.errors import InputError
from vse.registry import register


@register("source", "scenes")
class Scenes(Source):
    """Rendered scenes. Splits draw from disjoint streams of one seed; `pretrain` (for backbones) is no split of it."""

    image_keys = ()
    knows_truth = True

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SourceConfig):
        num_train: int = knob(700, "training images, with biased co-occurrence", low=0)
        num_val: int = knob(150, "validation images, biased like training", low=0)
        num_test: int = knob(300, "test images, biased like training", low=0)
        num_shifted: int = knob(300, "test images in which the usual pairings are broken", low=0)
        seed: int = knob(0, "seed of everything in the scenes and captions", low=0)
        drawing: str = knob("plain", "style of drawing; what is drawn stays the same", choices=("plain", "second"))
        wording: str = knob("plain", "choice of words; what is said stays the same", choices=WORDINGS)
        size: int = knob(CANVAS, "width and height of an image in pixels", low=16, high=4096)

    config: Config

    @property
    def image_root(self) -> str:
        """Empty, because scenes are rendered."""
        return ""

    def read(self) -> Records:
        """Records of all four splits, with three to seven captions an image."""
        return _records(self.config)

    @classmethod
    def keys_for(cls, location: DataLocation) -> dict[str, str]:
        """Raises InputError."""
        raise InputError(f"{location}: scenes are rendered, not read; leave the path out")

    @staticmethod
    def truth(records: Records) -> Truth:
        """Judges any text: (image id, text) -> whether it holds, None if it cannot be read."""
        uris = {image.id: image.uri for image in records.images}

        def is_true(image: str, text: str) -> bool | None:
            meaning = interpret(text)
            return None if meaning is None else holds(meaning, scene_of(uris[image]))

        return is_true

    @staticmethod
    def true_pairs(records: Records, split: str) -> np.ndarray:
        """Which captions are true of which images of a split: bool (images, captions)."""
        part = records.split(split)
        meanings = []
        for caption in part.captions:
            meaning = interpret(caption.text)
            assert meaning is not None, f"not a caption of a scene: {caption.text}"
            meanings.append(meaning)
        return truth_matrix(meanings, [scene_of(image.uri) for image in part.images])

    @staticmethod
    def scene_graphs(records: Records) -> SceneGraphs:
        """Nouns, attributes that captions may state, and clear relations; of two that say the same, one."""
        uris = {image.id: image.uri for image in records.images}
        return lambda image: scene_graph(uris[image])


# Stages, checks and measurements each begin with the records; the same configuration has the same ones.
@functools.lru_cache(maxsize=4)
def _records(c: Scenes.Config) -> Records:
    images, captions = [], []
    for split, number in (
        ("train", c.num_train),
        ("val", c.num_val),
        ("test", c.num_test),
        ("shifted", c.num_shifted),
    ):
        for index in range(number):
            address = Address(c.seed, split, index, c.drawing, c.size)
            image = Image(f"{split}_{index:06d}", address.uri, split)
            images.append(image)
            meanings = captions_of(address, c.wording)
            captions += [Caption(f"{image.id}_{k}", image.id, text) for k, (_, text) in enumerate(meanings)]
    source = {"source": "scenes", "revision": REVISION, "seed": c.seed, "wording": c.wording}
    boxes = {image.id: boxes_of(image.uri) for image in images}
    return Records("scenes", tuple(images), tuple(captions), source, boxes)


_SAME = {"right": "left", "below": "above", "front": "behind"}  # "a right of b" says what "b left of a" does


def scene_graph(uri: str) -> frozenset[tuple[str, ...]]:
    """The nouns, pairs and triples of a `scene:` address."""
    scene = scene_of(uri)
    stated = {word for words in ATTRIBUTES.values() for word in words}
    elements = set[tuple[str, ...]]()
    for thing in scene.things:
        elements |= {(thing.noun,)} | {(word, thing.noun) for word in (thing.colour, thing.size, thing.pattern)}
    elements = {each for each in elements if len(each) == 1 or each[0] in stated}
    for a, name, b in clear_relations(scene):
        subject, other = scene.things[a].noun, scene.things[b].noun
        if name in _SAME:
            subject, name, other = other, _SAME[name], subject
        elif name == "next":
            subject, other = sorted((subject, other))
        elements.add((subject, name, other))
    return frozenset(elements)


def boxes_of(uri: str) -> tuple[Box, ...]:
    """The objects of a `scene:` address by noun, with colour, size and pattern as attributes."""
    boxes = []
    for thing in scene_of(uri).things:
        for box in thing.boxes:
            left, top, right, bottom = (side / CANVAS for side in box)
            attributes = (thing.colour, thing.size, thing.pattern)
            boxes.append(Box(thing.noun, left, top, right, bottom, attributes=attributes))
    return tuple(boxes)


@dataclass(frozen=True, slots=True)
class SceneObject:
    """An object of a rendered picture. `box` is left, top, right, bottom in pixels; right and bottom are outside."""

    noun: str
    box: Pixels
    attributes: tuple[str, str, str]


def annotate(uri: str) -> tuple[tuple[SceneObject, ...], tuple[tuple[int, str, int], ...]]:
    """The ground truth of one `scene:` address.

    Returns:
        The objects, and the relations that a caption may state as (subject, relation, object) with the numbers of
        objects. A relation of several objects alike is listed for each of them.
    """
    scene = scene_of(uri)
    objects: list[SceneObject] = []
    members: list[range] = []
    for thing in scene.things:
        members.append(range(len(objects), len(objects) + thing.count))
        for box in thing.boxes:
            left, top, right, bottom = (round(v * scene.size / CANVAS) for v in box)
            attributes = (thing.colour, thing.size, thing.pattern)
            objects.append(SceneObject(thing.noun, (left, top, right, bottom), attributes))
    relations = ((x, name, y) for a, name, b in clear_relations(scene) for x in members[a] for y in members[b])
    return tuple(objects), tuple(relations)
