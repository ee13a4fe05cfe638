"""A training step of each family on scenes, beside VSE++'s, its own bare modules, and a plain step as published."""

import statistics
import time

import pytest
import torch
from torch import nn

from vse import registry
from vse.config import flatten, override
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.train import build_family
from vse.training.allocator import keep_freed_memory
from vse.training.config import OptimConfig
from vse.training.inputs import make_collator, training_inputs
from vse.training.step import Stepper
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.benchmark
BATCHES, ROUNDS = 2, 5
SMALL = {"data.num_train": 200, "data.num_val": 10, "data.num_test": 10, "data.num_shifted": 10}


class Published(nn.Module):
    """VSE++ as the public code writes it: linear image map, packed GRU over padded captions, last state."""

    def __init__(self, words: int, channels: int, dim: int, word_dim: int) -> None:
        super().__init__()
        self.image, self.embed = nn.Linear(channels, dim), nn.Embedding(words, word_dim)
        self.gru = nn.GRU(word_dim, dim, batch_first=True)

    def forward(self, batch):
        images = nn.functional.normalize(self.image(batch["pooled"].float()), dim=1)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embed(batch["tokens"]), batch["lengths"], batch_first=True, enforce_sorted=False
        )
        captions = nn.functional.normalize(self.gru(packed)[1][0], dim=1)
        scores = images @ captions.T
        own = scores.diagonal()
        eye = torch.eye(len(scores), dtype=torch.bool)
        over_captions = (0.2 + scores - own[:, None]).clamp_min(0).masked_fill(eye, 0)
        over_images = (0.2 + scores - own[None]).clamp_min(0).masked_fill(eye, 0)
        return over_captions.amax(1).sum() + over_images.amax(0).sum()


def published_step(words, channels, dim, word_dim):
    model = Published(words, channels, dim, word_dim)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)

    def step(batch):
        optimizer.zero_grad()
        model(batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()

    return step


def bare_step(family, objective):
    """The family's own forward, objective and backward, without clip, optimiser and logging."""

    def step(batch):
        encoded = dict(family(batch)) | {k: batch[k] for k in ("sample", "image_group", "text_group")}
        losses = objective(encoded, encoded, 5)
        family.zero_grad()
        torch.stack(list(losses.values())).sum().backward()

    return step


@pytest.mark.parametrize("dim", [256, 1024])
def test_a_step_costs_little_more_than_its_mathematics(tmp_path_factory, dim):
    torch.set_num_threads(1)
    keep_freed_memory()
    workspace = Workspace.open(str(tmp_path_factory.getbasetemp() / "steps"))
    steps, batches, making = {}, {}, {}
    for name in ("vsepp_scenes", "vsepp_maxk_scenes", "univse_scenes"):
        config = override(preset(name), {**SMALL, "model.dim": dim})
        material = pipeline.prepare(config, workspace)
        inputs = registry.component("family", registry.name_of("family", config.model)).requires(config.model)
        data = training_inputs(config, material, inputs)
        family = build_family(config, data)
        objective = registry.build("objective", config.objective)
        collate = make_collator(config, data, inputs, objective.negatives)
        order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(0)).numpy()
        start = time.process_time()
        batches[name] = [collate(order[k * 128 : (k + 1) * 128], 5) for k in range(BATCHES)]
        making[name] = (time.process_time() - start) / BATCHES
        stepper = Stepper(family, family, objective, OptimConfig(), "float32")
        steps[name] = lambda batch, stepper=stepper: stepper.step(batch, 5)
        twin = build_family(config, data)
        steps[f"{name} bare"] = bare_step(twin, objective)
        batches[f"{name} bare"] = batches[name]
        if name == "vsepp_scenes":
            channels = data.context.feature_dims["pooled"]
            word_dim = flatten(config)["model.word_dim"]
            steps["published"] = published_step(data.context.vocabulary_size, channels, dim, word_dim)
            batches["published"] = batches[name]
    seconds = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            start = time.process_time()
            for batch in batches[name]:
                step(batch)
            seconds[name].append((time.process_time() - start) / BATCHES)
    found = {name: statistics.median(each) for name, each in seconds.items()}
    print(f"\nd = {dim}, batch 128, one thread")
    for name, each in found.items():
        print(f"{name:26} {1000 * each:7.1f} ms  {each / found['vsepp_scenes']:5.2f} x VSE++", end="")
        print(f"  batch made in {1000 * making[name]:.1f} ms" if name in making else "")
    for name in making:
        print(f"{name}: step / bare {found[name] / found[f'{name} bare']:.2f}")
    assert found["vsepp_scenes"] < found["published"]
