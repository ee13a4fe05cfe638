"""Pairs of captions whose images a run was trained on."""

import json

import pytest

from tests.unit.asked import asked
from vse.stages import pipeline
from vse.stages.measuring.stage import measure_run
from vse.stages.trained import load_run

pytestmark = pytest.mark.seconds

CHANGES = {"data.num_val": 4, "data.num_test": 6, "data.num_shifted": 4, "train.epochs": 1, "model.dim": 32}


def test_pairs_of_training_images_are_counted_of_the_runs_own_data_alone(caplog, place, vsepp, tmp_path):
    records = pipeline.prepare(load_run(vsepp).config, place).records
    rows = [
        {"filename": caption.image, "caption": caption.text, "negative_caption": f"no {caption.text}"}
        for split in ("train", "test")
        for caption in records.split(split).captions[:1]
    ]
    path = tmp_path / "add_no.json"
    path.write_text(json.dumps(rows))
    options = {"caption_pairs__files": (str(path),)}
    own = measure_run(vsepp, place, *asked("caption_pairs", **options))
    assert (own["pairs/add_no/found"], own["pairs/add_no/training_images"]) == (100.0, 50.0)
    assert "1 of 2 measured pairs have an image that the run was trained on" in caplog.text
    caplog.clear()
    other = measure_run(vsepp, place, *asked("caption_pairs", on=("drawing=second",), **options))
    (name,) = (name for name in other if name.endswith("pairs/add_no/training_images"))
    assert other[name] == 0.0
    assert "trained on" not in caplog.text
