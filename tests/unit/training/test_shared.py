"""What trainings of one process share, and that nothing of it changes what they read."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vse.config import override
from vse.data.records import Caption, Image, Records
from vse.features.store import FeatureStore
from vse.presets import preset
from vse.stages import describe as describe_stage
from vse.stages import pipeline
from vse.text.vocabulary import Vocabulary
from vse.training import examples, inputs
from vse.training.config import family_inputs
from vse.training.inputs import TrainingInputs, training_inputs
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

PRESET = preset("univse_tiny")


def opened(workspace: Workspace, **changes: Any) -> TrainingInputs:
    """As every trial opens what it reads; processes of trials are told what the driver found."""
    config = override(PRESET, {key.replace("__", "."): value for key, value in changes.items()})
    return training_inputs(config, pipeline.prepare(config, workspace), family_inputs(config))


def arrays(data: TrainingInputs) -> list[np.ndarray]:
    parts = [getattr(split.texts, name) for split in (data.train, data.val) for name in ("tokens", "objects", "nouns")]
    return [array for part in parts for array in (part.values, part.offsets)] + [data.train.text_group]


@pytest.mark.parametrize("rejected", [False, True])
def test_words_pools_and_captions_are_made_once_a_process(
    rejected: bool, stages: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = stages(tmp_path / "workspace")
    driver = pipeline.prepare(PRESET, place)
    told = Workspace.open(place.root.uri, place.external.answers)
    if rejected:
        one = driver.records.split("train").images[0].id
        monkeypatch.setattr(FeatureStore, "rejects", property(lambda store: {one: "unreadable"}))
    describe_stage._kept.cache_clear()
    made: list[str] = []

    def counted(module: Any, name: str) -> None:
        make = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, **k: made.append(name) or make(*a, **k))

    counted(inputs, "build_pools")
    counted(inputs, "build_vocabulary")
    counted(examples, "encode_texts")
    first = opened(told, seed=1)
    assert made == ["build_vocabulary", "build_pools", "encode_texts", "encode_texts"]
    again = opened(told, seed=2, objective__margin=0.1)
    assert len(made) == 4
    assert isinstance(again.vocabulary, Vocabulary)
    assert again.vocabulary is first.vocabulary
    other = opened(told, text__min_count=3)
    assert made[4:] == ["build_vocabulary", "encode_texts", "encode_texts"]
    assert len(other.vocabulary) < len(first.vocabulary)
    inputs._shared.clear()
    fresh = opened(told, seed=2)
    assert (fresh.vocabulary, fresh.pools) == (again.vocabulary, again.pools)
    for one_of, another in zip(arrays(fresh), arrays(again), strict=True):
        np.testing.assert_array_equal(one_of, another)


def test_what_is_shared_lives_as_long_as_its_records_and_is_limited() -> None:
    before = len(inputs._shared)
    records = Records("x", (Image("1", "1", "train"),), (Caption("1", "1", "a dog"),))
    found = [inputs.shared(records, key, lambda key=key: [key]) for key in (0, 1, 0, *range(2, inputs.MOST_SHARED + 1))]
    assert found[0] is found[2]
    assert inputs.shared(records, 0, list) is found[0]  # used later than what had to go
    assert inputs.shared(records, 1, list) == []
    del records
    gc.collect()
    assert len(inputs._shared) == before
