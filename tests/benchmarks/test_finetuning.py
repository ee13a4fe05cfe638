"""A fine-tuning step beside the bare forward and backward pass of its network, in processor time and peak memory."""

import resource
import time
from typing import Any

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse import registry
from vse.features.gradient_checkpointing import checkpoint_blocks
from vse.features.timm_backbone import TimmBackbone
from vse.models.family import Family
from vse.objectives.objective import Objective
from vse.stages.processes import process_pool
from vse.training.adapters import add_adapters
from vse.training.allocator import keep_freed_memory
from vse.training.batches import Batch
from vse.training.config import OptimConfig
from vse.training.pixels import PIXEL_ROW, PIXELS
from vse.training.step import Stepper
from vse.training.tuning import Tuner

pytestmark = pytest.mark.benchmark
IMAGES, ROUNDS, CHUNK, RANK = 16, 2, 4, 8
CPU = torch.device("cpu")
NETWORKS = {"tf_efficientnet_lite1": 240, "vit_small_patch16_224": 224}  # side in pixels
VARIANTS = ("bare", "frozen", "all weights", "checkpointing", "chunks", "checkpointing and chunks")


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def batch_of(channels: int) -> tuple[Family, Objective, Batch]:
    """A VSE++ on features of so many channels, and a batch with features of the images."""
    data = synthetic(seed=4, images=IMAGES, channels=channels)
    family, objective = make_family("vsepp", data.context, double=False), make_objective("vsepp")
    _, captions = np.unique(data.examples.image, return_index=True)
    return family, objective, data.collator(family, objective)(captions, 2)


def work(arch: str, variant: str) -> tuple[float, float]:
    """(processor seconds of a step, MiB by which it raises the peak); in a process of its own."""
    torch.set_num_threads(1)
    keep_freed_memory()
    side = NETWORKS[arch]
    backbone: Any = registry.build("backbone", TimmBackbone.Config(arch=arch, weights="random"))
    network = backbone.load(("pooled",))
    family, objective, batch = batch_of(backbone.shapes()["pooled"][0])
    if variant == "adapters":
        add_adapters(network, RANK, 16.0, seed=0)
    network.prepare(CPU)
    if "checkpointing" in variant:
        checkpoint_blocks(network)
    pixels = torch.randint(0, 256, (IMAGES, 1, side, side, 3), dtype=torch.uint8)
    if variant == "bare":
        network.trunk.requires_grad_(True)

        def step() -> None:
            network.zero_grad()
            network.differentiable(pixels)["pooled"].square().sum().backward()
    else:
        tuner = None if variant == "frozen" else Tuner(network, "pooled", chunk=CHUNK if "chunks" in variant else 0)
        if tuner is not None:
            batch.pop("pooled")
            batch |= {PIXELS: pixels, PIXEL_ROW: torch.arange(IMAGES)}
        stepper = Stepper(family, family, objective, OptimConfig(), "float32", tuner)

        def step() -> None:
            stepper.step(batch, 2)

    before, seconds = peak_mib(), []
    for _ in range(ROUNDS):
        start = time.process_time()
        step()
        seconds.append(time.process_time() - start)
    return min(seconds), peak_mib() - before


@pytest.mark.parametrize("arch", NETWORKS)
def test_a_step_costs_what_its_network_costs(arch: str) -> None:
    variants = [*VARIANTS, *(["adapters"] if arch.startswith("vit") else [])]
    with process_pool(1, tasks_per_process=1) as pool:
        found = {variant: pool.submit(work, arch, variant).result() for variant in variants}
    print(f"\n{arch}, {IMAGES} images of {NETWORKS[arch]} pixels, VSE++, one thread")
    bare, memory = found["bare"]
    for variant, (seconds, mib) in found.items():
        print(f"{variant:26} {seconds:7.2f} s  {seconds / bare:5.2f} x bare", end="")
        print(f"  {mib:6.0f} MiB  {mib / memory:4.2f} x bare")
    assert found["all weights"][0] < 1.3 * bare
    assert found["checkpointing"][1] < 0.6 * found["all weights"][1]
    assert found["chunks"][1] < 0.6 * found["all weights"][1]
