"""The data set that the project renders itself, as a source of records."""

from dataclasses import dataclass

import numpy as np

from vse.config import knob
from vse.data.annotations import AnnotatedObject, AnnotatedRelation, Annotation, Annotations
from vse.data.records import Caption, Image, Records
from vse.data.scenes.grammar import captions_of
from vse.data.scenes.layout import CANVAS, Address, scene_of
from vse.data.scenes.truth import clear_relations, text_truth, true_pairs
from vse.data.scenes.words import WORDINGS
from vse.data.scenes.world import REVISION
from vse.data.source import DataLocation, Source, SourceConfig, Truth
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
        """Nothing: scenes lie nowhere."""
        return ""

    def read(self) -> Records:
        """Records of all four splits, with three to seven captions an image."""
        c = self.config
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
                said = captions_of(address, c.wording)
                captions += [Caption(f"{image.id}_{k}", image.id, text) for k, (_, text) in enumerate(said)]
        source = {"source": "scenes", "revision": REVISION, "seed": c.seed, "wording": c.wording}
        return Records("scenes", tuple(images), tuple(captions), source)

    @classmethod
    def keys_for(cls, location: DataLocation) -> dict[str, str]:
        """Raises InputError."""
        raise InputError(f"{location}: scenes are rendered, not read; leave the path out")

    @staticmethod
    def true_pairs(records: Records, split: str) -> np.ndarray:
        """Which captions are true of which images of a split: bool (images, captions)."""
        return true_pairs(records, split)

    @staticmethod
    def truth(records: Records) -> Truth:
        """A judge of any text: (image id, text) -> whether it holds, None where the text cannot be read."""
        return text_truth(records)

    def annotations(self, records: Records) -> Annotations:
        """Objects with boxes in pixels, attributes, and the relations a caption may state."""
        return Annotations({image.id: annotate(image.uri) for image in records.images})


def annotate(uri: str) -> Annotation:
    """Ground truth of one scene; relations of several objects alike are given for every one of them."""
    scene = scene_of(uri)
    objects: list[AnnotatedObject] = []
    members: list[range] = []
    for thing in scene.things:
        members.append(range(len(objects), len(objects) + thing.count))
        attributes = (thing.colour, thing.size, thing.pattern)
        for box in thing.boxes:
            left, top, right, bottom = (round(v * scene.size / CANVAS) for v in box)
            objects.append(AnnotatedObject(thing.noun, (left, top, right, bottom), attributes))
    relations = [
        AnnotatedRelation(x, name, y) for a, name, b in clear_relations(scene) for x in members[a] for y in members[b]
    ]
    return Annotation(tuple(objects), tuple(relations))
