"""Boxes of objects: read from files, kept with records, as fractions of the image."""

import json
from dataclasses import replace

import pytest

from vse import registry
from vse.data.boxes import in_fractions, of_entry, of_instances
from vse.data.records import Box, Caption, Image, Records, limited
from vse.data.sources.scenes import Scenes, annotate
from vse.errors import InputError
from vse.stages.describe import without
from vse.storage.folder import Folder

INSTANCES = {
    "categories": [{"id": 3, "name": "dining table"}, {"id": 7, "name": "cat"}],
    "images": [{"id": 5, "width": 40, "height": 20}, {"id": 6, "width": 10, "height": 10}],
    "annotations": [
        {"image_id": 5, "category_id": 7, "bbox": [10, 5, 20, 10], "iscrowd": 0},
        {"image_id": 6, "category_id": 3, "bbox": [0, 0, 10, 10]},
        {"image_id": 5, "category_id": 3, "bbox": [0, 0, 40.4, 20]},
        {"image_id": 5, "category_id": 7, "bbox": [0, 0, 30, 10], "iscrowd": 1},
    ],
}
CAT, TABLE = Box("cat", 0.25, 0.25, 0.75, 0.75), Box("dining table", 0.0, 0.0, 1.0, 1.0)


def written(folder, content, name="instances_val2017.json"):
    (folder / name).write_text(json.dumps(content))
    return str(folder / name)


def test_ids_are_read_as_those_of_captions(tmp_path):
    """Such as 5.0, which is written if a library has read ids as numbers."""
    content = json.loads(
        json.dumps(INSTANCES).replace('"id": 5', '"id": 5.0').replace('"image_id": 5', '"image_id": 5.0')
    )
    assert of_instances(written(tmp_path, content), ["5"]) == {"5": ((CAT, TABLE), (40, 20))}


def test_instances_become_fractions_without_crowds(tmp_path):
    assert of_instances(written(tmp_path, INSTANCES), ["5", "9"]) == {"5": ((CAT, TABLE), (40, 20))}
    assert CAT.area == 0.25


@pytest.mark.parametrize(
    ("key", "entry", "message"),
    [
        ("categories", {"id": "x", "name": "cat"}, r"categories\[0\].*'id'"),
        ("images", {"id": 5, "width": 40}, r"images\[0\].*'height'"),
        ("images", {"id": 8, "width": 40, "height": 20}, "lists none of the images"),
        ("annotations", {"image_id": 5, "category_id": 4, "bbox": [0, 0, 1, 1]}, r"annotations\[0\]: category 4"),
        ("annotations", {"image_id": 5, "category_id": 3, "bbox": [0, 0, 1]}, "four numbers"),
        ("annotations", {"image_id": 5, "category_id": 3, "bbox": [0, 0, "1", 2]}, "four numbers"),
        ("annotations", {"image_id": 5, "category_id": 3, "bbox": [0, 0, 10**400, 2]}, "four numbers"),
        ("images", {"id": 5, "width": 10**400, "height": 2}, r"images\[0\]: 'width' and 'height' must be numbers"),
        ("annotations", {"image_id": 5, "category_id": 3, "bbox": [30, 0, 20, 5]}, "not inside an image of 40 x 20"),
        ("annotations", {"image_id": 5, "category_id": 3, "bbox": [3, 3, 0, -5]}, "not inside"),
    ],
)
def test_a_damaged_file_is_refused_by_entry(tmp_path, key, entry, message):
    with pytest.raises(InputError, match=message):
        of_instances(written(tmp_path, {**INSTANCES, key: [entry]}), ["5"])


def test_lines_and_points_are_left_out_with_a_notice(tmp_path, caplog):
    caplog.set_level("INFO")
    lines = [{"image_id": 5, "category_id": 7, "bbox": box} for box in ([3, 3, 0, 5], [3, 3, 5, 0])]
    content = {**INSTANCES, "annotations": [*lines, *INSTANCES["annotations"]]}
    assert of_instances(written(tmp_path, content), ["5"]) == {"5": ((CAT, TABLE), (40, 20))}
    entry = {"width": 40, "height": 20, "objects": [{"category": "cat", "box": [5, 7, 10, 7]}]}
    assert of_entry(entry, "file: images[0]") == ()
    content = {**INSTANCES, "annotations": [{"image_id": 5, "category_id": 7, "bbox": [40, 0, 0.5, 10]}]}
    assert of_instances(written(tmp_path, content), ["5"]) == {"5": ((), (40, 20))}
    assert in_fractions("cat", (5, 5, 5.0001, 9), (40, 20), "file") is None
    assert [record.getMessage().partition("(")[2] for record in caplog.records] == [
        "3, 3, 3, 8) has no area and is left out",
        "3, 3, 8, 3) has no area and is left out",
        "5, 7, 10, 7) has no area and is left out",
        "40, 0, 40.5, 10) has no area and is left out",
        "5, 5, 5.0001, 9) has no area and is left out",
    ]


def test_objects_of_a_karpathy_entry():
    entry = {"width": 40, "height": 20, "objects": [{"category": "cat", "box": [10, 5, 30, 15]}]}
    assert of_entry(entry, "file: images[0]") == (CAT,)
    for without_boxes in ({}, {"objects": None}, {"objects": []}):
        assert of_entry(without_boxes, "file") == ()
    crowd = {"category": "cat", "box": [0, 0, 40, 20], "iscrowd": 1}
    assert of_entry({**entry, "objects": [crowd, {**entry["objects"][0], "iscrowd": 0}]}, "file") == (CAT,)
    with pytest.raises(InputError, match=r"images\[0\].*'width'"):
        of_entry({"objects": entry["objects"]}, "file: images[0]")
    with pytest.raises(InputError, match=r"objects\[0\]: 'box' must be four numbers"):
        of_entry({**entry, "objects": [{"category": "cat", "box": [1, 2, 3]}]}, "file")
    with pytest.raises(InputError, match=r"objects\[0\].*'category'"):
        of_entry({**entry, "objects": [{"box": [1, 2, 3, 4]}]}, "file")


@pytest.mark.parametrize(
    "spelling", [str.title, lambda label: label.replace(" ", "_"), lambda label: f" {label.upper()} "]
)
def test_categories_are_spelled_as_in_captions(spelling, tmp_path):
    """Nouns of captions, synonyms and vocabularies are looked up by them."""
    item = {"width": 40, "height": 20, "objects": [{"category": spelling("dining table"), "box": [0, 0, 40, 20]}]}
    assert of_entry(item, "file") == (TABLE,)
    renamed = [{**each, "name": spelling(each["name"])} for each in INSTANCES["categories"]]
    assert of_instances(written(tmp_path, {**INSTANCES, "categories": renamed}), ["5"]) == {
        "5": ((CAT, TABLE), (40, 20))
    }
    assert in_fractions("A Dining_Table", (0, 0, 40, 20), (40, 20), "file", "c0") == replace(
        TABLE, label="A Dining_Table", caption="c0"
    )


@pytest.mark.parametrize(
    ("category", "box", "message"),
    [
        ("_ ", [1, 2, 3, 4], "'category' is empty; name the object"),
        ("cat", [0.25, 0.25, 0.75, 1], r"box \(0.25, 0.25, 0.75, 1\) is in fractions; expected pixels of 40 x 20"),
        ("cat", [0, 0, 42.5, 20], r"box \(0, 0, 42.5, 20\) is not inside an image of 40 x 20 pixels"),
        ("cat", [0, -3, 40, 20], r"box \(0, -3, 40, 20\) is not inside an image of 40 x 20 pixels"),
    ],
)
def test_boxes_that_no_image_can_have_are_refused(category, box, message):
    item = {"width": 40, "height": 20, "objects": [{"category": category, "box": box}]}
    with pytest.raises(InputError, match=rf"file\.objects\[0\]: {message}"):
        of_entry(item, "file")


def test_two_pixels_outside_are_cut_off_and_an_empty_box_is_left_out():
    item = {"width": 40, "height": 20, "objects": [{"category": "dining table", "box": [-2, -1, 42, 22]}]}
    assert of_entry(item, "file") == (TABLE,)
    assert of_entry({**item, "objects": [{"category": "cat", "box": [0, 0, 0, 0]}]}, "file") == ()


def test_an_image_without_size_is_refused():
    with pytest.raises(InputError, match="0 x 5 pixels"):
        in_fractions("cat", (0, 0, 1, 1), (0, 5), "file")


def karpathy(folder, **more):
    images = [
        {"filename": "a.jpg", "cocoid": 5, "split": "train", "sentences": [{"raw": "a cat"}, {"raw": "a table"}]},
        {"filename": "b.jpg", "cocoid": 6, "split": "val", "sentences": [{"raw": "a dog"}], **more},
    ]
    written(folder, {"images": images}, "dataset_coco.json")
    return {"root": str(folder)}


def test_a_karpathy_file_has_its_own_boxes_or_coco_s(tmp_path):
    own = {"width": 10, "height": 10, "objects": [{"category": "dog", "box": [0, 0, 5, 10]}]}
    keys, dog = karpathy(tmp_path, **own), Box("dog", 0.0, 0.0, 0.5, 1.0)
    source = registry.component("source", "karpathy")
    assert source(source.Config(**keys)).describe().boxes == {"6": (dog,)}
    written(tmp_path, INSTANCES)
    records = source(source.Config(**keys, boxes=("instances_val2017.json",))).describe()
    assert records.boxes == {"5": (CAT, TABLE), "6": (dog,)}


def test_coco_s_files_have_boxes_by_key(tmp_path):
    captions = {"images": [{"id": 5, "file_name": "a.jpg"}], "annotations": [{"image_id": 5, "caption": "a cat"}]}
    written(tmp_path, captions, "captions_val.json")
    written(tmp_path, INSTANCES)
    source = registry.component("source", "coco")
    keys = {"root": str(tmp_path), "train": "", "val": "captions_val.json"}
    assert source(source.Config(**keys)).describe().boxes == {}
    records = source(source.Config(**keys, boxes=("instances_val2017.json",))).describe()
    assert records.boxes == {"5": (CAT, TABLE)}


def test_boxes_of_an_image_in_two_files_add_up(tmp_path):
    """Such as things and stuff, or two rounds of annotation."""
    captions = {"images": [{"id": 5, "file_name": "a.jpg"}], "annotations": [{"image_id": 5, "caption": "a cat"}]}
    written(tmp_path, captions, "captions_val.json")
    for number, name in enumerate(("cats.json", "tables.json")):
        written(tmp_path, {**INSTANCES, "annotations": [INSTANCES["annotations"][2 * number]]}, name)
    karpathy_s, coco = (registry.component("source", name) for name in ("karpathy", "coco"))
    files = {"boxes": ("cats.json", "tables.json")}
    assert karpathy_s(karpathy_s.Config(**karpathy(tmp_path), **files)).describe().boxes == {"5": (CAT, TABLE)}
    keys = {"root": str(tmp_path), "train": "", "val": "captions_val.json"}
    assert coco(coco.Config(**keys, **files)).describe().boxes == {"5": (CAT, TABLE)}


def test_scenes_know_their_boxes():
    config = Scenes.Config(num_train=3, num_val=2, num_test=2, num_shifted=1, size=64)
    records = Scenes(config).describe()
    for image in records.images:
        objects, _ = annotate(image.uri)
        boxes = records.boxes[image.id]
        assert [(box.label, box.attributes) for box in boxes] == [(o.noun, o.attributes) for o in objects]
        for box, thing in zip(boxes, objects, strict=True):
            sides = (box.left, box.top, box.right, box.bottom)
            assert tuple(round(64 * side) for side in sides) == thing.box
            assert 0 <= box.left < box.right <= 1
            assert 0 <= box.top < box.bottom <= 1


def records_with(boxes):
    images = tuple(Image(name, f"{name}.jpg", "test") for name in "abc")
    captions = tuple(Caption(f"{name}#0", name, f"picture {name}") for name in "abc")
    return Records("toy", images, captions, {"seed": 0}, boxes)


def test_boxes_are_kept_with_records_and_go_with_their_image(tmp_path):
    phrase = Box("a cat", 0.1, 0.2, 0.3, 0.7, caption="a#0", attributes=("grey",))
    records = records_with({"a": (phrase, CAT), "c": (TABLE,)})
    records.save(Folder.open(str(tmp_path)))
    loaded = Records.load(Folder.open(str(tmp_path)))
    assert loaded.boxes == records.boxes
    assert loaded.fingerprint == replace(loaded).fingerprint == records.fingerprint
    assert without(records, {"a"}).boxes == {"c": (TABLE,)}
    assert limited(records, 2).boxes == {"a": (phrase, CAT)}


def test_boxes_are_read_when_they_are_asked_for(tmp_path):
    """Training reads the records of millions of boxes, and needs none of them."""
    folder = Folder.open(str(tmp_path))
    records = records_with({"a": (CAT,)})
    records.save(folder)
    (tmp_path / "boxes.parquet").unlink()
    loaded = Records.load(folder)
    assert (loaded.fingerprint, loaded.images) == (records.fingerprint, records.images)
    with pytest.raises(InputError, match="holds no complete records"):
        loaded.boxes["a"]


def test_boxes_belong_to_the_records_and_not_to_what_features_depend_on():
    plain, boxed = records_with({}), records_with({"a": (CAT,)})
    assert plain.fingerprint != boxed.fingerprint != records_with({"b": (CAT,)}).fingerprint
    assert plain.content_fingerprint == boxed.content_fingerprint
