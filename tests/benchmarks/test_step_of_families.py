"""A training step of every family's twin on scenes beside VSE++'s, in one run. Run with `-s` to see the table."""

import statistics

import pytest
import torch

from tests.benchmarks.clocks import costs, seconds
from vse import presets, registry
from vse.config import override
from vse.determinism import use_reproducible_arithmetic
from vse.stages import pipeline
from vse.stages.train import build_family
from vse.training.allocator import keep_freed_memory
from vse.training.config import family_inputs
from vse.training.inputs import make_collator, training_inputs
from vse.training.step import Stepper
from vse.workspace.layout import Workspace

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1200)]
SMALL = {"data.num_train": 200, "data.num_val": 10, "data.num_test": 10, "data.num_shifted": 10}
ROUNDS, EPOCH = 5, 12  # an epoch behind every warm-up
SKIPPED = ("_hglmm_scenes", "_obj_scenes", "_attr_scenes", "_rel_scenes", "_maxk_scenes")
TWINS = [name for name in presets.names() if name.endswith("_scenes") and not name.endswith(SKIPPED)]


PLACES = [("cpu", "float32")]
if torch.cuda.is_available():
    PLACES += [("cuda", "float32"), ("cuda", "bfloat16")]


@pytest.mark.parametrize(("place", "precision"), PLACES)
def test_a_step_of_every_family(place, precision, tmp_path_factory):
    """On a CPU by one thread; on a GPU with the share of a step in which it computes: it waits for the host else."""
    torch.set_num_threads(1)
    keep_freed_memory()
    device = torch.device(place)
    use_reproducible_arithmetic(device)
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
        batch = {key: value.to(device) for key, value in family.prepared(collate(order[:128], EPOCH)).items()}
        family.train().to(device)
        stepper = Stepper(family, family, objective, config.optim, precision)
        steps[name] = lambda stepper=stepper, batch=batch: stepper.step(batch, EPOCH)
        steps[name]()
    spent = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            spent[name].append(seconds(step, device))
    found = {name: statistics.median(each) for name, each in spent.items()}
    print(f"\nbatch 128, {place}, {precision}, sizes of the twins")
    for name, each in sorted(found.items(), key=lambda item: item[1]):
        computing, dearest = costs(steps[name], device)
        busy = f"  computes {100 * min(computing / each, 1):3.0f} %" if place == "cuda" else ""
        told = ", ".join(f"{key} {100 * share:.0f} %" for key, share in dearest)
        ratio = each / found["vsepp_scenes"]
        print(f"{name.removesuffix('_scenes'):24} {1000 * each:7.1f} ms  {ratio:5.1f} x VSE++{busy}  {told}")
    assert all(each > 0 for each in found.values())
