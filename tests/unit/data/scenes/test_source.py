import pytest

from vse.config import override, validate
from vse.data.scenes.layout import Address, scene_of
from vse.data.scenes.world import NOUNS
from vse.data.sources.scenes import Scenes, annotate
from vse.errors import InputError
from vse.registry import build, component

SMALL = Scenes.Config(num_train=12, num_val=4, num_test=6, num_shifted=5)


def test_records_have_the_sizes_asked_for() -> None:
    records = build("source", SMALL).describe()
    assert {name: len(records.split(name).images) for name in records.split_names} == {
        "train": 12,
        "val": 4,
        "test": 6,
        "shifted": 5,
    }
    assert records.fingerprint == Scenes(SMALL).describe().fingerprint
    assert component("source", "scenes") is Scenes


def test_default_sizes() -> None:
    c = Scenes.Config()
    assert (c.num_train, c.num_val, c.num_test, c.num_shifted) == (700, 150, 300, 300)


def test_drawing_and_wording_change_separately() -> None:
    plain = Scenes(SMALL).describe()
    drawn = Scenes(override(SMALL, {"drawing": "second"})).describe()
    worded = Scenes(override(SMALL, {"wording": "second"})).describe()
    assert [c.text for c in drawn.captions] == [c.text for c in plain.captions]
    assert [i.uri for i in drawn.images] != [i.uri for i in plain.images]
    assert [i.uri for i in worded.images] == [i.uri for i in plain.images]
    changed = sum(a.text != b.text for a, b in zip(worded.captions, plain.captions, strict=True))
    assert changed > 0.9 * len(plain.captions)


def test_a_larger_data_set_begins_with_the_smaller_one() -> None:
    small, large = Scenes(SMALL).describe(), Scenes(override(SMALL, {"num_train": 20})).describe()
    assert large.split("train").images[:12] == small.split("train").images


def test_wrong_settings_are_input_errors() -> None:
    with pytest.raises(InputError, match="drawing"):
        override(SMALL, {"drawing": "third"})
    with pytest.raises(InputError, match="num_test"):
        validate(Scenes.Config(num_test=-1))


def test_annotations_list_every_object_in_pixels() -> None:
    for image in Scenes(SMALL).describe().images:
        scene, (objects, relations) = scene_of(image.uri), annotate(image.uri)
        assert len(objects) == sum(t.count for t in scene.things)
        assert all(o.noun in NOUNS and len(o.attributes) == 3 for o in objects)
        assert all(0 <= o.box[0] < o.box[2] <= 112 for o in objects)
        assert all(0 <= k < len(objects) for subject, _, other in relations for k in (subject, other))


def test_annotated_boxes_scale_with_the_picture() -> None:
    (small, relations), (large, same) = (
        annotate(Address(0, "test", 1).uri),
        annotate(Address(0, "test", 1, size=224).uri),
    )
    assert [tuple(2 * v for v in o.box) for o in small] == [o.box for o in large]
    assert relations == same
