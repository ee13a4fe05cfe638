"""One step of every published preset at its paper's sizes: batch 128, synthetic features of the right shape.

Run with `-s` to see seconds and peak memory of each, a process apiece.
"""

import dataclasses
import functools
import multiprocessing
import resource
import time

import numpy as np
import pytest
import torch

from tests.benchmarks.clocks import costs, median_seconds
from tests.synthetic import Synthetic, synthetic
from vse import presets, registry
from vse.determinism import use_reproducible_arithmetic
from vse.features.arrays import ReadyMade
from vse.training.allocator import keep_freed_memory
from vse.training.batches import Batch
from vse.training.config import RunConfig, family_inputs
from vse.training.examples import SentenceVectors
from vse.training.inputs import initial_family
from vse.training.step import Stepper

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]
PUBLISHED = [name for name in presets.names() if name.endswith(("_coco", "_flickr30k"))]
SIZES = {"map": (49, 2048), "pooled": (2048,), "fc1": (4096,)}  # ResNet-152's grid and mean, VGG-19's fc6
REGIONS = 36  # of bottom-up attention, in the features that SCAN and VSE-infinity read ready-made
GLOVE, FISHER = 300, 6000
LISTS = {"nouns": 6000, "adjectives": 2000, "relations": 1996}  # 10,000 words with the four that are none, as COCO's


def shape_of(config: RunConfig) -> tuple[int, ...]:
    """Of one image's features as the family reads them: ready-made arrays of a width, or a network's output."""
    output, backbone = family_inputs(config).image, config.features.backbone
    return (REGIONS, backbone.width) if isinstance(backbone, ReadyMade.Config) else SIZES[output]


def batch_of_paper(config: RunConfig) -> Synthetic:
    """128 pairs with COCO's vocabulary, features of one output and, where read, sentence vectors."""
    inputs, shape = family_inputs(config), shape_of(config)
    data = synthetic(images=128, **LISTS, most_captions=1, share_copied=0, most_words=20)
    rng = np.random.default_rng(0)
    features = {inputs.image: rng.normal(size=(128, *shape)).astype(np.float16)}
    dim = FISHER if "glmm" in registry.name_of("sentence", config.text.sentence) else GLOVE
    sentence = SentenceVectors(rng.normal(size=(len(data), dim)).astype(np.float32), np.arange(len(data)))
    texts = dataclasses.replace(data.examples.texts, sentence=sentence)
    context = dataclasses.replace(
        data.context,
        feature_dims={inputs.image: shape[-1]},
        word_vectors=torch.randn(data.context.vocabulary_size, GLOVE),
        sentence_dim=dim,
    )
    return Synthetic(dataclasses.replace(data.examples, features=features, texts=texts), data.pools, context)


def stepper_and_batch(
    config: RunConfig, data: Synthetic, device: torch.device, precision: str = "float32"
) -> tuple[Stepper, Batch]:
    """A preset's step and the batch it makes one on, with initial weights from the same seed."""
    torch.manual_seed(0)
    family = initial_family(config, data.context)
    objective = registry.build("objective", config.objective)
    collate = data.collator(family, objective)
    family.fit(lambda: iter([collate(np.arange(len(data)), 0)]))
    batch = {key: value.to(device) for key, value in family.prepared(collate(np.arange(len(data)), 20)).items()}
    family.to(device)
    return Stepper(family, family, objective, config.optim, precision), batch


def one_step(name: str, queue: "multiprocessing.Queue[tuple[float, float, dict[str, float]]]") -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    config = presets.preset(name)
    data = batch_of_paper(config)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stepper, batch = stepper_and_batch(config, data, torch.device("cpu"))
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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_steps_at_the_papers_sizes_on_a_gpu(precision):
    """Milliseconds of a step, the share in which the GPU computes, its memory at most; losses beside single precision's
    at the same weights."""
    device = torch.device("cuda")
    use_reproducible_arithmetic(device)
    print(f"\nbatch 128, {torch.cuda.get_device_name()}, {precision}")
    for name in (each for each in PUBLISHED if each.endswith("_coco")):
        config = presets.preset(name)
        data = batch_of_paper(config)
        if not initial_family(config, data.context).phases():
            continue
        stepper, batch = stepper_and_batch(config, data, device)
        single = {key: float(loss) for key, loss in stepper.step(batch, 20).items()}
        del stepper, batch
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        stepper, batch = stepper_and_batch(config, data, device, precision)
        work = functools.partial(stepper.step, batch, 20)
        losses = {key: float(loss) for key, loss in work().items()}
        step = median_seconds(work, device, rounds=3)
        peak = (torch.cuda.max_memory_allocated() - before) / 2**30
        computing, dearest = costs(work, device)
        apart = max(abs(losses[key] - loss) / max(abs(loss), 1) for key, loss in single.items() if key != "gradient")
        told = ", ".join(f"{key} {100 * share:.0f} %" for key, share in dearest)
        print(
            f"{name:36} {1000 * step:6.1f} ms, computes {100 * min(computing / step, 1):3.0f} %, {peak:5.2f} GiB, "
            f"losses within {100 * apart:.1f} %: {told}"
        )
        assert all(np.isfinite(value) for key, value in losses.items() if key != "gradient")
