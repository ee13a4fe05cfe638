"""Extraction with Ray Data on two logical cores: the same store as in one process, resumable, never stuck."""

import numpy as np
import pytest
from PIL import Image as Picture

from vse.cluster import runtime
from vse.data.records import Image, Records
from vse.features import forward
from vse.features.backbones import SmallBackbone
from vse.features.rejects import TooManyRejects
from vse.features.shards import read_receipts
from vse.stages.extract import ExtractionConfig, extract
from vse.storage.folder import Folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SMALL = SmallBackbone.Config(weights="random")
COUNT = 300


@pytest.fixture(scope="module")
def cluster():
    """One Ray for this file."""
    with runtime.running_ray(runtime.Config(address="local", cpus=2, gpus=0, store_mib=150)):
        yield


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    generator = np.random.default_rng(0)
    for k in range(10):
        Picture.fromarray(generator.integers(0, 256, (90, 110, 3), dtype=np.uint8)).save(folder / f"{k}.png")
    (folder / "bad.png").write_bytes(b"")
    return folder


def records(bad=1):
    images = [Image(f"id{k}", f"{k % 10}.png" if k >= bad else "bad.png", "train") for k in range(COUNT)]
    return Records("tiny", tuple(images), ())


def run(folder, pictures, records=records(), **options):  # noqa: B008
    return extract(records, SMALL, ["map", "pooled"], folder, root=str(pictures), options=ExtractionConfig(**options))


def test_ray_makes_the_same_store(cluster, pictures, tmp_path, monkeypatch):
    here = run(Folder.open(tmp_path / "here"), pictures, workers=0)
    there = run(Folder.open(tmp_path / "there"), pictures, workers=2)
    assert there.ids == here.ids == tuple(f"id{k}" for k in range(1, COUNT))
    assert there.rejects == here.rejects == {"id0": "file is empty"}
    for output in ("map", "pooled"):
        ours, theirs = here.array(output, here.ids), there.array(output, there.ids)
        np.testing.assert_allclose(theirs, ours, rtol=2e-3, atol=2e-3)
    stored = [i for r in read_receipts(there.folder) for i in r.ids]
    assert len(stored) == len(set(stored)) == COUNT - 1


def test_a_broken_run_goes_on_with_what_is_missing(cluster, pictures, tmp_path):
    whole = run(Folder.open(tmp_path / "whole"), pictures, workers=1)
    folder = Folder.open(tmp_path / "broken")
    run(folder, pictures, workers=1)
    victims = [r for r in read_receipts(folder) if r.file][:1]
    for receipt in victims:
        folder.delete(f"{receipt.name}.json")  # as a driver leaves it that died between shard and receipt
    folder.delete("manifest.json")
    again = run(folder, pictures, workers=1)
    assert again.ids == whole.ids
    stored = [i for r in read_receipts(folder) for i in r.ids]
    assert len(stored) == len(set(stored)) == COUNT - 1


def test_shards_end_where_the_blocks_of_forward_passes_end(cluster, pictures, tmp_path, monkeypatch):
    row = sum(2 * int(np.prod(shape)) for name, shape in SmallBackbone(SMALL).shapes().items() if name != "fc1")
    monkeypatch.setattr(forward, "SHARD_BYTES", 48 * row)
    folder = Folder.open(tmp_path / "even")
    run(folder, pictures, workers=1)
    sizes = sorted(len(r.ids) + len(r.rejects) for r in read_receipts(folder))
    assert sizes == [COUNT % 32, *[32] * (COUNT // 32)]  # no scraps between full ones


def test_too_many_rejects_end_the_run(cluster, pictures, tmp_path):
    with pytest.raises(TooManyRejects, match=r"of 300 images (\d+ )?cannot be read"):
        run(Folder.open(tmp_path / "bad"), pictures, records(bad=100), workers=1)
