"""Extraction beside the bare loop of decoding and forward passes it cannot avoid. Run with `-s` to see the ratios."""

import multiprocessing
import time

import pytest
import torch

from tests.shared import SHARED
from vse.data.images import open_image
from vse.data.records import Image, Records
from vse.features.backbones import SmallBackbone, TorchvisionBackbone
from vse.stages.extract import ExtractionConfig, extract
from vse.storage.folder import Folder

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(SHARED is None, reason="no shared folder with photographs and real weights"),
]


def photographs(times):
    """All photographs, several times under distinct ids, as paths below their folder."""
    assert SHARED is not None
    root = SHARED / "data" / "flickr8k_800"
    paths = sorted(str(path.relative_to(root)) for path in root.rglob("*.jpg"))
    images = [Image(f"{path}-{n}", path, "train") for n in range(times) for path in paths]
    return Records("photographs", tuple(images), ()), str(root)


def mobilenet():
    assert SHARED is not None
    weights = str(SHARED / "data" / "weights" / "mobilenet_v2_imagenet_fp16.pth")
    half = (0.5, 0.5, 0.5)
    return TorchvisionBackbone.Config(arch="mobilenet_v2", weights=weights, mean=half, std=half)


def bare_loop(count):
    """Images a second of a plain loop: open, transform, forward in batches of 32, nothing kept."""
    torch.set_num_threads(1)
    backbone, (records, root) = TorchvisionBackbone(mobilenet()), photographs(1)
    network = backbone.load(["map", "pooled"]).prepare(torch.device("cpu"))
    images = records.images[:count]
    start = time.perf_counter()
    for first in range(0, count, 32):
        squares = [torch.from_numpy(backbone.transform(open_image(i.uri, root))) for i in images[first : first + 32]]
        network(torch.stack(squares))
    return count / (time.perf_counter() - start)


def bare_rate(processes):
    """Of as many loops side by side, each in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return sum(pool.map(bare_loop, [800] * processes, chunksize=1))


@pytest.mark.parametrize(("workers", "goal"), [(0, 0.9), (2, 0.8)])
def test_extraction_of_photographs_costs_little_more_than_decode_and_forward(workers, goal, tmp_path):
    """In this process, and by two actors of Ray Data with their start-up, beside as many bare loops."""
    records, root = photographs(5)
    before = bare_rate(workers or 1)
    start = time.perf_counter()
    store = extract(
        records,
        mobilenet(),
        ["map", "pooled"],
        Folder.open(tmp_path / "store"),
        root=root,
        options=ExtractionConfig(workers=workers),
    )
    rate = len(records.images) / (time.perf_counter() - start)
    bare = (before + bare_rate(workers or 1)) / 2
    size = sum(entry["bytes"] for entry in store.manifest["files"].values())
    print(
        f"\nworkers={workers}: {rate:.0f} images/s, bare loops {bare:.0f}, ratio {rate / bare:.2f} (goal {goal}), "
        f"{size / 1e6:.0f} MB"
    )
    assert len(store.ids) == len(records.images)


def test_reading_a_cached_store_is_fast(tmp_path):
    scenes = [f"scene:seed=1,split=test,index={k},drawing=plain,size=112" for k in range(2000)]
    records = Records("scenes", tuple(Image(str(k), uri, "test") for k, uri in enumerate(scenes)), ())
    start = time.perf_counter()
    store = extract(records, SmallBackbone.Config(), ["map"], Folder.open(tmp_path / "store"))
    rate = 2000 / (time.perf_counter() - start)
    start = time.perf_counter()
    store.array("map", store.ids, tmp_path / "cache")
    made = time.perf_counter() - start
    start = time.perf_counter()
    total = float(store.array("map", store.ids, tmp_path / "cache").astype("float32").sum())
    read = time.perf_counter() - start
    print(f"\nsmall backbone, scenes rendered: {rate:.0f} images/s; cache made in {made:.2f} s, read in {read:.2f} s")
    assert total > 0
    assert read < 1
