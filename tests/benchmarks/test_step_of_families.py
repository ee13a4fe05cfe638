"""A training step of every family's twin on scenes beside VSE++'s, in one run. Run with `-s` to see the table."""

import statistics
import time
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from vse import pipeline, presets, registry
from vse.config import override
from vse.training.allocator import keep_freed_memory
from vse.training.inputs import family_inputs, make_collator, training_inputs
from vse.training.run import build_family
from vse.training.step import Stepper
from vse.workspace import Workspace

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1200)]
SMALL = {"data.num_train": 200, "data.num_val": 10, "data.num_test": 10, "data.num_shifted": 10}
ROUNDS, EPOCH = 5, 12  # an epoch behind every warm-up
SKIPPED = ("_hglmm_scenes", "_obj_scenes", "_attr_scenes", "_rel_scenes", "_maxk_scenes")
PRODUCTS = {f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm")}
TWINS = [name for name in presets.names() if name.endswith("_scenes") and not name.endswith(SKIPPED)]


def _costs(step: Callable[[], object]) -> list[tuple[str, float]]:
    """The three operators in which a step spends most time itself, forward and backward, with their shares.

    All products of matrices are one.
    """
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        step()
    own = Counter[str]()
    for each in seen.key_averages():
        own["matrix products" if each.key in PRODUCTS else each.key.removeprefix("aten::")] += each.self_cpu_time_total
    return [(key, spent / own.total()) for key, spent in own.most_common(3)]


def test_a_step_of_every_family(tmp_path_factory):
    torch.set_num_threads(1)
    keep_freed_memory()
    workspace = Workspace.open(str(tmp_path_factory.getbasetemp() / "families"))
    steps = {}
    for name in TWINS:
        config = override(presets.preset(name), SMALL)
        material, inputs = pipeline.prepare(config, workspace), family_inputs(config)
        data = training_inputs(config, material, inputs)
        family, objective = build_family(config, data), registry.build("objective", config.objective)
        if not family.phases():
            continue
        collate = make_collator(config, data, inputs, objective.negatives)
        order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(0)).numpy()
        batch = collate(order[:128], EPOCH)
        stepper = Stepper(family.train(), family, objective, config.optim, "float32")
        steps[name] = lambda stepper=stepper, batch=batch: stepper.step(batch, EPOCH)
        steps[name]()
    seconds = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            start = time.process_time()
            step()
            seconds[name].append(time.process_time() - start)
    found = {name: statistics.median(each) for name, each in seconds.items()}
    print("\nbatch 128, one thread, sizes of the twins")
    for name, each in sorted(found.items(), key=lambda item: item[1]):
        costs = ", ".join(f"{key} {100 * share:.0f} %" for key, share in _costs(steps[name]))
        ratio = each / found["vsepp_scenes"]
        print(f"{name.removesuffix('_scenes'):24} {1000 * each:7.1f} ms  {ratio:5.1f} x VSE++  {costs}")
    assert all(each > 0 for each in found.values())
