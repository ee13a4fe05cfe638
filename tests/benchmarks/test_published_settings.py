"""One step of every published preset at its paper's sizes: batch 128, synthetic features of the right shape.

Run with `-s` to see seconds and peak memory of each, a process apiece.
"""

import dataclasses
import multiprocessing
import resource
import time

import numpy as np
import pytest
import torch

from tests.synthetic import Synthetic, synthetic
from vse import presets, registry
from vse.features.arrays import ReadyMade
from vse.training.allocator import keep_freed_memory
from vse.training.config import RunConfig
from vse.training.inputs import family_inputs, initial_family
from vse.training.step import Stepper

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]
PUBLISHED = [name for name in presets.names() if name.endswith(("_coco", "_flickr30k"))]
SIZES = {"map": (49, 2048), "pooled": (2048,), "fc1": (4096,)}  # ResNet-152's grid and mean, VGG-19's fc6
REGIONS = 36  # of bottom-up attention, in the features that SCAN and VSE-infinity read ready-made
WORDS, GLOVE, FISHER = 10_000, 300, 6000


def shape_of(config: RunConfig) -> tuple[int, ...]:
    """Of one image's features as the family reads them: ready-made arrays of a width, or a network's output."""
    output, backbone = family_inputs(config).image, config.features.backbone
    return (REGIONS, backbone.width) if isinstance(backbone, ReadyMade.Config) else SIZES[output]


def batch_of_paper(config: RunConfig) -> Synthetic:
    """128 pairs with COCO's vocabulary, features of one output and, where read, sentence vectors."""
    inputs, shape = family_inputs(config), shape_of(config)
    lists = {"nouns": 6000, "adjectives": 2000, "relations": WORDS - 8004}
    data = synthetic(images=128, **lists, most_captions=1, share_copied=0, most_words=20)
    rng = np.random.default_rng(0)
    features = {inputs.image: rng.normal(size=(128, *shape)).astype(np.float16)}
    dim = FISHER if "glmm" in registry.name_of("sentence", config.text.sentence) else GLOVE
    texts = dataclasses.replace(data.examples.texts, sentence=rng.normal(size=(len(data), dim)).astype(np.float32))
    context = dataclasses.replace(
        data.context,
        feature_dims={inputs.image: shape[-1]},
        word_vectors=torch.randn(data.context.vocabulary_size, GLOVE),
        sentence_dim=dim,
    )
    return Synthetic(dataclasses.replace(data.examples, features=features, texts=texts), data.pools, context)


def one_step(name: str, queue: "multiprocessing.Queue[tuple[float, float, dict[str, float]]]") -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    config = presets.preset(name)
    data = batch_of_paper(config)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.manual_seed(0)
    family = initial_family(config, data.context)
    objective = registry.build("objective", config.objective)
    collate = data.collator(family, objective)
    family.fit(lambda: iter([collate(np.arange(len(data)), 0)]))
    stepper = Stepper(family, family, objective, config.optim, "float32")
    batch = collate(np.arange(len(data)), 20)
    stepper.step(batch, 20)
    start = time.process_time()
    losses = stepper.step(batch, 20)
    seconds = time.process_time() - start
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    queue.put((seconds, peak, {key: float(value) for key, value in losses.items()}))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_step_at_the_papers_sizes(name):
    context = multiprocessing.get_context("spawn")  # a fork would use memory that this process has freed
    queue = context.Queue()
    process = context.Process(target=one_step, args=(name, queue))
    process.start()
    seconds, peak, losses = queue.get(timeout=500)
    process.join()
    print(f"\n{name:32} {seconds:6.2f} s a step, {peak:5.2f} GiB: ", end="")
    print(", ".join(f"{key} {value:.3g}" for key, value in losses.items()))
    assert all(np.isfinite(value) for value in losses.values())
