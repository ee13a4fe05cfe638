"""How long steps wait for batches, and memory while features exceed it. Run with `-s` to see the numbers."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from vse import registry
from vse.config import override
from vse.data.ragged import Ragged
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.train import build_family
from vse.storage.folder import Folder
from vse.storage.parallel_reads import prefetched
from vse.training.batches import Collator, windowed_batches
from vse.training.checkpoint import Checkpoints
from vse.training.config import family_inputs
from vse.training.examples import Examples, Texts
from vse.training.inputs import make_collator, training_inputs
from vse.training.loop import Hooks, Loop
from vse.workspace.layout import Workspace

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]
COCO_IMAGES, REGIONS, CHANNELS = 113_287, 49, 2048


@pytest.mark.parametrize("name", ["vsepp_scenes", "univse_scenes"])
def test_steps_wait_little_for_their_batches(name, tmp_path_factory):
    torch.set_num_threads(1)
    workspace = Workspace.open(str(tmp_path_factory.getbasetemp() / "loader"))
    changes = {"data.num_val": 10, "data.num_test": 10, "data.num_shifted": 10, "train.epochs": 3}
    config = override(preset(name), changes)
    material, inputs = pipeline.prepare(config, workspace), family_inputs(config)
    data = training_inputs(config, material, inputs)
    family, objective = build_family(config, data), registry.build("objective", config.objective)
    collate = make_collator(config, data, inputs, objective.negatives)
    checkpoints = Checkpoints(Folder.open(tmp_path_factory.mktemp("run")))
    quiet = Hooks(lambda family: {"val/rsum": 0.0}, lambda epoch, numbers: None, lambda line: None)
    loop = Loop(config, family, objective, collate, checkpoints, quiet)
    start = time.perf_counter()
    loop.run()
    spent = time.perf_counter() - start
    print(f"\n{name}: waited {100 * loop.waited / spent:.2f} % of {spent:.1f} s")
    assert loop.waited / spent < 0.03


def test_memory_stays_flat_while_features_exceed_it(tmp_path):
    """COCO's training maps as a sparse file of 22.7 GB: the pages are zeros, their number is what counts."""
    file = tmp_path / "map.npy"
    np.lib.format.open_memmap(file, "w+", np.float16, (COCO_IMAGES, REGIONS, CHANNELS)).flush()
    features = np.load(file, mmap_mode="r")
    caption_to_image = np.repeat(np.arange(COCO_IMAGES), 5)
    tokens = Ragged.of([[1, 4, 2]] * len(caption_to_image))
    none = np.zeros(len(caption_to_image) + 1, dtype=np.int64)
    words, pairs, triples = (Ragged(np.zeros(shape, dtype=np.int64), none) for shape in (0, (0, 2), (0, 3)))
    texts = Texts(tokens, words, pairs, triples)
    examples = Examples({"map": features}, texts, caption_to_image, np.arange(len(caption_to_image)), COCO_IMAGES)
    window, size, steps = 1024, 128, 240
    batches = windowed_batches(caption_to_image, window, size, seed=0, epoch=0)[:steps]
    collate = Collator(examples, "map")
    before, resident, start = _resident(), [], time.perf_counter()
    for step, batch in enumerate(prefetched(lambda rows: collate(rows, 0), batches)):
        assert batch["map"].shape == (size, REGIONS, CHANNELS)
        if step % (window // size) == 0:
            examples.release()
            resident.append((_resident() - before) / 2**20)
    rate = steps * size / (time.perf_counter() - start)
    one = window * REGIONS * CHANNELS * 2 / 2**20
    print(f"\nwindow of {window} images: {one:.0f} MiB; resident beyond the start: at most {max(resident):.0f} MiB")
    print(
        f"first half {max(resident[: len(resident) // 2]):.0f}, second half {max(resident[len(resident) // 2 :]):.0f}"
    )
    print(f"{rate:.0f} captions/s of {REGIONS * CHANNELS * 2 / 1024:.0f} KiB each")
    assert max(resident) < 2 * one


def _resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
