"""How near training on a GPU comes to its bare steps, with features kept there and sent batch by batch."""

import dataclasses
import time

import numpy as np
import pytest
import torch

from tests.benchmarks.clocks import median_seconds
from tests.benchmarks.test_published_settings import LISTS, SIZES
from tests.synthetic import Synthetic, synthetic
from vse import presets, registry
from vse.config import override
from vse.determinism import use_reproducible_arithmetic
from vse.storage.folder import Folder
from vse.training import batches
from vse.training.checkpoint import Checkpoints
from vse.training.config import family_inputs
from vse.training.inputs import initial_family
from vse.training.loop import Hooks, Loop
from vse.training.step import Stepper

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
]
IMAGES = 4000


def coco(output: str) -> Synthetic:
    """Random features of the shape of COCO's, about five captions an image."""
    data = synthetic(images=IMAGES, **LISTS, most_captions=9, share_copied=0, most_words=20)
    features = np.random.default_rng(0).normal(size=(64, *SIZES[output])).astype(np.float16)
    repeated = {output: np.ascontiguousarray(features[np.arange(IMAGES) % 64])}
    context = dataclasses.replace(data.context, feature_dims={output: 2048})
    return dataclasses.replace(data, examples=dataclasses.replace(data.examples, features=repeated), context=context)


@pytest.mark.parametrize("kept", [True, False], ids=["features on the GPU", "features sent"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["vsepp_coco", "univse_coco"])
def test_training_takes_little_longer_than_its_steps(name, precision, kept, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "SHARE_OF_FEATURES", batches.SHARE_OF_FEATURES if kept else 0.0)
    changes = {"train.epochs": 1, "train.precision": precision, "train.gpus_per_worker": 1.0}
    config = override(presets.preset(name), changes)
    device = torch.device("cuda")
    use_reproducible_arithmetic(device)
    data = coco(family_inputs(config).image)
    torch.manual_seed(0)
    family = initial_family(config, data.context).to(device)
    objective = registry.build("objective", config.objective)
    collate = data.collator(family, objective)
    rows = np.random.default_rng(0).permutation(len(data))[:128]
    made = family.prepared(collate(rows, 0))
    start = time.perf_counter()
    for _ in range(10):
        family.prepared(collate(rows, 0))
    making = (time.perf_counter() - start) / 10
    batch = {key: value.to(device) for key, value in made.items()}
    stepper = Stepper(family, family, objective, config.optim, precision)
    bare = median_seconds(lambda: stepper.step(batch, 0), device)
    quiet = Hooks(lambda family: {"val/rsum": 0.0}, lambda epoch, numbers: None, lambda line: None)
    loop = Loop(config, family, objective, collate, Checkpoints(Folder.open(tmp_path)), quiet)
    assert bool(loop.transfer.kept) == kept
    progress = loop.run()
    steps = len(data) // config.train.batch_size
    took = progress.history[0]["train/seconds"] / steps
    print(
        f"\n{name}, {precision}, features {'on the GPU' if kept else 'sent'}: a step {1000 * took:.2f} ms, bare "
        f"{1000 * bare:.2f} ms, ratio {took / bare:.2f}; {config.train.batch_size / took:.0f} captions/s, waited "
        f"{100 * loop.waited / (took * steps):.0f} %, a batch is made in {1000 * making:.2f} ms"
    )
    assert took / bare < 1.5
