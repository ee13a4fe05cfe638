"""Decoding of training batches in Ray tasks: the same pixels, the same run, and one line for what goes wrong."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from tests.levels import slow_but
from tests.unit.stages.test_tuning import TUNED, configured
from vse import registry
from vse.cluster import runtime
from vse.config import override
from vse.errors import InputError
from vse.features.augmentation import Augmentation
from vse.stages import decode_ray, pipeline
from vse.stages.decode_ray import RayDecoder
from vse.stages.train import run_training
from vse.training.pixels import Pictures
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with runtime.running_ray(runtime.Config(address="local", cpus=2, gpus=0, store_mib=150)):
        yield


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("decoding")))


@pytest.fixture(scope="module")
def pictures(space: Workspace) -> Pictures:
    config = configured()
    images = pipeline.prepare(config, space).records.split("train").images
    source = registry.build("source", config.data)
    backbone: Any = registry.build("backbone", config.features.backbone)
    return Pictures(images, source.image_root, backbone.transform, Augmentation(crop_area=0.3, flip=True), seed=3)


@pytest.mark.parametrize("decoders", slow_but([1, 2], 2))
def test_tasks_decode_what_the_worker_itself_would(cluster: None, pictures: Pictures, decoders: int) -> None:
    decode = RayDecoder(pictures, decoders)
    for rows in ([5, 0, 11, 2, 17, 9, 3], [4], []):
        np.testing.assert_array_equal(decode(rows, 2), pictures.augmented(rows, 2))
        np.testing.assert_array_equal(decode(rows), pictures.plain(rows))


@pytest.mark.slow  # two trainings; the pictures are held by the test above
def test_a_run_with_decoders_is_the_run_without(cluster: None, space: Workspace) -> None:
    """The same name, so that a run may continue with other decoders; the same numbers to the last bit."""
    config = override(configured(), TUNED)
    decoding = override(config, {"train.decoders": 2})
    here = run_training(config, space)
    assert run_training(decoding, space).run == here.run
    there = run_training(decoding, Workspace.open(f"{space.root.local()}-there"))
    assert there.run == here.run
    assert there.metrics == here.metrics
    files = ("model.safetensors", "backbone.safetensors")
    assert all(there.checkpoint.read_bytes(file) == here.checkpoint.read_bytes(file) for file in files)


def test_a_missing_image_is_one_line(cluster: None, pictures: Pictures, tmp_path: Path) -> None:
    broken = replace(pictures, images=(*pictures.images, replace(pictures.images[0], id="lost", uri="lost.png")))
    with pytest.raises(InputError, match="image 'lost': could be read when features were extracted, but now"):
        RayDecoder(broken, 2)([0, len(broken.images) - 1], 1)


def test_tasks_without_a_cpu_are_one_line(cluster: None, pictures: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = RayDecoder(pictures, 1)
    decode._task = ray.remote(decode_ray._squares).options(num_cpus=3)
    monkeypatch.setattr(decode_ray, "placement_seconds", lambda: 1.0)
    with pytest.raises(InputError, match=r"train\.decoders=1: no node had a CPU for a decoding task within 1 s"):
        decode([0, 1], 1)
