"""Extraction on a GPU beside its floors, the bare forward pass and bare decoding on all cores, in one run."""

import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision

from tests.benchmarks.clocks import median_seconds
from vse.data.images import open_image
from vse.data.records import Image, Records
from vse.determinism import use_reproducible_arithmetic
from vse.features.backbones import TorchvisionBackbone
from vse.features.forward import Forward
from vse.stages.extract import ExtractionConfig, extract
from vse.storage.folder import Folder
from vse.workspace.provenance import usable_cores

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
]
PICTURES, BATCH, TIMES = 256, 256, 60
OUTPUTS = ["pooled"]


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Pictures as cameras make them, 640 x 480 and about 100 kB: smooth shades with noise; several times under distinct
    ids."""
    root = tmp_path_factory.mktemp("photographs")
    rng = np.random.default_rng(0)
    for k in range(PICTURES):
        coarse = torch.from_numpy(rng.uniform(0, 255, (1, 3, 12, 16)))
        smooth = torch.nn.functional.interpolate(coarse, (480, 640), mode="bilinear")[0].permute(1, 2, 0).numpy()
        pixels = np.clip(smooth + rng.normal(0, 14, smooth.shape), 0, 255).astype(np.uint8)
        torchvision.io.write_jpeg(torch.from_numpy(pixels).permute(2, 0, 1), str(root / f"{k}.jpg"), quality=90)
    images = [Image(f"{n}-{k}", f"{k}.jpg", "train") for n in range(TIMES) for k in range(PICTURES)]
    return Records("photographs", tuple(images), ()), str(root)


@pytest.fixture(scope="module")
def resnet(tmp_path_factory):
    """ResNet-152 with random weights, its residual branches shut so that its features are finite in half precision."""
    path = tmp_path_factory.mktemp("weights") / "resnet152.pth"
    torch.manual_seed(0)
    torch.save(torchvision.models.resnet152(zero_init_residual=True).state_dict(), path)
    half = (0.5, 0.5, 0.5)
    return TorchvisionBackbone.Config(arch="resnet152", weights=str(path), mean=half, std=half)


def decoded(work):
    """Images a second of one process."""
    config, root, count = work
    transform = TorchvisionBackbone(config).transform
    start = time.perf_counter()
    for k in range(count):
        transform(open_image(f"{k % PICTURES}.jpg", root))
    return count / (time.perf_counter() - start)


@pytest.fixture(scope="module")
def floors(photographs, resnet):
    """(images a second of the bare forward pass, of the same with pixels from host and features back, of decoding)."""
    device = torch.device("cuda")
    use_reproducible_arithmetic(device)
    network = TorchvisionBackbone(resnet).load(OUTPUTS).prepare(device)
    size = TorchvisionBackbone(resnet).transform.size
    pixels = torch.randint(0, 256, (BATCH, 1, size, size, 3), dtype=torch.uint8)
    there = pixels.to(device)
    bare = BATCH / median_seconds(lambda: network(there), device, rounds=2)
    forward, host = Forward(resnet, OUTPUTS), pixels.numpy()
    whole = BATCH / median_seconds(lambda: forward(host), device, rounds=2)
    with torch.autocast("cuda", torch.bfloat16):
        half = BATCH / median_seconds(lambda: network(there), device, rounds=2)
    cudnn: Any = torch.backends.cudnn
    cudnn.conv.fp32_precision = "tf32"
    tf32 = BATCH / median_seconds(lambda: network(there), device, rounds=2)
    use_reproducible_arithmetic(device)
    cores = usable_cores()
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        decoding = sum(pool.map(decoded, [(resnet, photographs[1], 200)] * cores, chunksize=1))
    print(
        f"\n{torch.cuda.get_device_name()}, ResNet-152: forward {bare:.0f} images/s, with both ways {whole:.0f}, in "
        f"bfloat16 {half:.0f}, in TF32 {tf32:.0f}; decoding {decoding:.0f} on {cores} cores"
    )
    return bare, whole, decoding


@pytest.mark.parametrize("workers", [0, 1], ids=["in this process", "Ray Data"])
def test_extraction_comes_near_the_slower_of_decoding_and_forward(workers, photographs, resnet, floors, tmp_path):
    (records, root), (bare, _, decoding) = photographs, floors
    if workers == 0:
        records = Records("photographs", records.images[: len(records.images) // 10], ())
    start = time.perf_counter()
    store = extract(
        records, resnet, OUTPUTS, Folder.open(tmp_path / "store"), root=root, options=ExtractionConfig(workers=workers)
    )
    spent = time.perf_counter() - start
    commits = sorted(path.stat().st_mtime for path in Path(tmp_path / "store").rglob("*.parquet"))
    rate, floor = len(store.ids) / spent, min(bare, decoding)
    print(
        f"\nworkers={workers}: {len(store.ids)} images in {spent:.1f} s, {rate:.0f} images/s with all starts, "
        f"{rate / floor:.2f} of the floor; {commits[-1] - commits[0]:.1f} s from the first commit to the last"
    )
    assert len(store.ids) == len(records.images)
