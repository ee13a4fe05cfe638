"""Boxes whose width and height are not of the picture as it is read, turned upright."""

import dataclasses
import json

import PIL.Image
import pytest

from vse import registry
from vse.data import frames
from vse.data.frames import other_shapes
from vse.presets import preset
from vse.stages.describe import describe
from vse.workspace.layout import Workspace

BOXES = [{"category": "dog", "box": [0, 0, 10, 10]}]


def photographs(folder, *stated, rotation=6):
    """A Karpathy file of pictures that are stored as 40 x 20 pixels and turned by EXIF data."""
    exif = PIL.Image.Exif()
    exif[0x0112] = rotation
    images = []
    for number, (width, height) in enumerate(stated):
        name = f"{number}.jpg"
        PIL.Image.new("RGB", (40, 20)).save(folder / name, exif=exif)
        entry = {"filename": name, "split": "train", "sentences": [{"raw": "a dog"}], "objects": BOXES}
        images.append({**entry, "width": width, "height": height})
    (folder / "dataset_toy.json").write_text(json.dumps({"images": images}))
    component = registry.component("source", "karpathy")
    return component.Config(root=str(folder))


def line_of(config):
    source = registry.build("source", config)
    return other_shapes(source.describe(), source.image_root)


@pytest.mark.parametrize("rotation", range(1, 9))
def test_width_and_height_are_of_the_upright_picture(tmp_path, rotation):
    upright, stored = ((20, 40), (40, 20)) if rotation >= 5 else ((40, 20), (20, 40))
    config = photographs(tmp_path, upright, stored, (upright[0] * 10, upright[1] * 10), rotation=rotation)
    line = line_of(config)
    assert "data set 'toy': 1 of 3 checked images with boxes" in line
    assert f"1.jpg (stated {stored[0]} x {stored[1]}, found {upright[0]} x {upright[1]}" in line
    assert (f"turned by its EXIF orientation {rotation}" in line) == (rotation > 1)


def test_pictures_that_cannot_be_read_and_rounding_are_no_reason(tmp_path):
    config = photographs(tmp_path, (41, 80), (333, 667), (20, 40), (20, 40))
    (tmp_path / "2.jpg").write_bytes(b"no picture")
    (tmp_path / "3.jpg").unlink()
    assert line_of(config) == ""


def test_at_most_some_headers_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "MOST", 2)
    assert ": 2 of 2 checked images" in line_of(photographs(tmp_path, *[(40, 20)] * 4))
    assert ": 2 of 2 checked images" in line_of(photographs(tmp_path, *[(40, 20)] * 3))


def test_instances_of_coco_and_phrases_state_sizes_too(tmp_path):
    photographs(tmp_path, (20, 40))
    captions = {"images": [{"id": 5, "file_name": "0.jpg"}], "annotations": [{"image_id": 5, "caption": "a dog"}]}
    instances = {
        "categories": [{"id": 1, "name": "dog"}],
        "images": [{"id": 5, "width": 40, "height": 20}],
        "annotations": [{"image_id": 5, "category_id": 1, "bbox": [0, 0, 9, 9]}],
    }
    phrases = {"phrase": "a dog", "boxes": [[1, 1, 9, 9]]}
    entities = {"0.jpg": {"split": "test", "width": 40, "height": 20, "caption": 0, "phrases": [phrases]}}
    for name, content in (("captions", captions), ("instances", instances), ("entities", entities)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    coco, of_phrases = (registry.component("source", name) for name in ("coco", "flickr30k_entities"))
    keys = {"train": "", "val": "captions.json", "val_images": "", "boxes": ("instances.json",)}
    assert "0.jpg (stated 40 x 20" in line_of(coco.Config(root=str(tmp_path), **keys))
    entities = of_phrases.Config(root=str(tmp_path), file="entities.json", captions="dataset_toy.json")
    assert "0.jpg (stated 40 x 20" in line_of(entities)
    regions = registry.component("source", "phrase_regions")
    assert "0.jpg (stated 40 x 20" in line_of(regions.Config(of=entities))


def test_the_first_job_on_a_data_set_warns(tmp_path, caplog):
    config = photographs(tmp_path, (40, 20))
    run, place = dataclasses.replace(preset("vsepp_tiny"), data=config), Workspace.open(str(tmp_path / "workspace"))
    for warnings in (1, 0):
        caplog.clear()
        describe(run, place)
        assert sum("another shape" in record.getMessage() for record in caplog.records) == warnings
