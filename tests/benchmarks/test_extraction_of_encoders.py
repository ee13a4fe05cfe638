"""Extraction by encoders of timm and open_clip on one core, beside the bare loop of decoding and forward passes.

Random weights: they take the same time. Run with `-s` to see the rates.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.benchmarks.test_extraction import photographs
from tests.shared import SHARED
from vse.data.images import open_image
from vse.data.records import Records
from vse.features.open_clip_backbone import OpenClipBackbone
from vse.features.timm_backbone import TimmBackbone
from vse.registry import ComponentConfig, build
from vse.stages.extract import ExtractionConfig, extract
from vse.storage.folder import Folder

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(SHARED is None, reason="no shared folder with photographs"),
]
ENCODERS = {
    "EfficientNet-Lite1, 240 pixels": TimmBackbone.Config(arch="tf_efficientnet_lite1", weights="random"),
    "ViT-S/16, 224 pixels": TimmBackbone.Config(arch="vit_small_patch16_224", weights="random"),
    "Swin-T, 224 pixels": TimmBackbone.Config(arch="swin_tiny_patch4_window7_224", weights="random"),
    "ConvNeXt-T, 224 pixels": TimmBackbone.Config(arch="convnext_tiny", weights="random"),
    "CLIP ViT-B/32, 224 pixels": OpenClipBackbone.Config(arch="ViT-B-32", weights="random"),
}
OUTPUTS, IMAGES, BATCH, ROUNDS = ["map", "pooled"], 96, 32, 2


def spent(work: Callable[[], object]) -> float:
    """Processor time, in which other programs do not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.parametrize("name", ENCODERS)
def test_extraction_costs_little_more_than_decode_and_forward(name: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    config: ComponentConfig = ENCODERS[name]
    backbone = build("backbone", config)
    every, root = photographs(1)
    records = Records("some", every.images[:IMAGES], ())
    network = backbone.load(OUTPUTS).prepare(torch.device("cpu"))

    def bare() -> None:
        for first in range(0, IMAGES, BATCH):
            images = records.images[first : first + BATCH]
            network(torch.stack([torch.from_numpy(backbone.transform(open_image(i.uri, root))) for i in images]))

    def stage(number: int) -> None:
        options = ExtractionConfig(workers=0, batch=BATCH)
        extract(records, config, OUTPUTS, Folder.open(tmp_path / str(number)), root=root, options=options)

    bare()
    loading = spent(lambda: backbone.load(OUTPUTS).prepare(torch.device("cpu")))
    seconds = [(spent(bare), spent(lambda n=n: stage(n)) - loading) for n in range(ROUNDS)]
    plain, whole = (min(each) for each in zip(*seconds, strict=True))
    print(f"\n{name}: {IMAGES / whole:.1f} images/s, bare {IMAGES / plain:.1f}, ratio {plain / whole:.2f}")
    assert plain / whole > 0.8
