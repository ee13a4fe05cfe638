"""Cost of a reproduction: finished trainings, further trainings with their hours, and missing rows."""

import heapq
from collections.abc import Iterator, Mapping, Sequence

from vse.cli.command import Request
from vse.config import override
from vse.display.counts import count
from vse.errors import InputError, NotMadeError
from vse.reproduction.options import PUBLISHED
from vse.reproduction.plan import about, family_of, make_plan
from vse.stages import pipeline
from vse.stages.train import run_name
from vse.storage.read_only import SealedFolder
from vse.sweeps.estimates import Estimate, by_runs
from vse.sweeps.ledger import sweep_name
from vse.training.config import RunConfig
from vse.training.run_journal import finished
from vse.workspace.layout import Workspace

# Of a step of 128 captions, in milliseconds (evidence/speed): VSE++ on scenes, at a paper's sizes, there on an H100.
_SMALL_STEP, _LARGE_STEP, _GPU_STEP = 44.0, 600.0, 5.5
# Other families as multiples of VSE++ (evidence/speed), on a core and on an H100. Families on fixed sentence vectors
# take a third of it on a core.
_MULTIPLES = {"vsepp": 1, "order": 1.2, "vsec": 3, "cse": 2.4, "univse": 3, "vse_infinity": 4.2, "scan": 8}
_MULTIPLES |= {"relational": 10.5, "jwae_scan": 10.5, "cca": 0.1}
_ON_VECTORS, _JWAE_GRU, _CAPTIONS = 0.35, 5, 5
_ON_GPU = {"vsepp": 1, "order": 1.2, "vsec": 2.1, "cse": 1.5, "univse": 3.5, "vse_infinity": 4.6, "scan": 3.6}
_ON_GPU |= {"relational": 2.4, "jwae_scan": 12.4, "cca": 0.1, "similarity_network": 0.5, "embedding_network": 0.6}
_VECTORS_ON_GPU, _GRU_ON_GPU = 2.2, 4.9  # of jWAE
_BEYOND_STEPS, _START = 1.4, 5.0  # a training in times of its bare steps; seconds to start its process
_GPUS = (1, 8, 64)
_IMAGES = {"coco": 113_287, "flickr30k": 29_000, "flickr8k": 6_000}


def foresee(request: Request) -> Iterator[str]:
    """The lines of a dry run. Nothing is written. Raises InputError as the job does before it starts."""
    plan = make_plan(request)
    workspace = Workspace.open(request.workspace)
    yield f"{sweep_name(plan.name, plan.definition())}: {plan.question}"
    yield f"rule: {plan.rule}"
    there, cpu, gpu = 0, 0.0, dict[int, list[float]]()
    for arm, config in plan.arms.items():
        runs = _runs(config, plan.seeds, workspace)
        left = [seed for seed in plan.seeds if seed not in runs]
        there += len(runs)
        text = [f"seed {', '.join(map(str, runs))} is there ({', '.join(runs.values())})"] if runs else []
        if left:
            each = by_runs(config, (), workspace) or _by_speed(arm, config)
            assert each.seconds is not None
            cpu += len(left) * each.seconds
            for seed in left:
                gpu.setdefault(seed, []).append(_seconds_on_gpu(arm, config))
            text += [f"to train: seed {', '.join(map(str, left))}, about {_time(each.seconds)} each ({each.source})"]
        rows = sum(row.arm == arm for block in plan.blocks for row in block.rows)
        yield f"  {arm}: {count(rows, 'row')}; {'; '.join(text)}"
    total = len(plan.arms) * len(plan.seeds)
    yield f"{total} trainings, {there} there, {total - there} to run: about {_time(cpu)}, measuring not counted"
    if request.options.scale == PUBLISHED and gpu:
        in_order = [seconds for seed in sorted(gpu) for seconds in gpu[seed]]
        walls = ", ".join(f"{_time(wall_seconds(in_order, gpus))} on {gpus}" for gpus in _GPUS)
        price = request.options.sweep.price
        cost = f"; {price * sum(in_order) / 3600:.0f} of money at {price:g} an hour" if price else ""
        yield f"by step times on an H100: {sum(in_order) / 3600:.1f} GPU-hours, {walls} GPUs{cost}"
    yield from about(plan)


def _runs(config: RunConfig, seeds: Sequence[int], workspace: Workspace) -> dict[int, str]:
    """Finished runs by seed, found by the fingerprint of configuration and data."""
    sealed = Workspace(SealedFolder(workspace.root.uri))
    runs = {}
    for seed in seeds:
        own = override(config, {"seed": seed})
        try:
            name = run_name(own, pipeline.prepare(own, sealed))
        except (NotMadeError, InputError):  # the data were never read here
            break
        if finished(workspace.run(name)) is not None:
            runs[seed] = name
    return runs


def wall_seconds(trainings: Sequence[float], gpus: int) -> float:
    """Seconds until all trainings have ended, one to a GPU, each started as soon as a GPU is free.

    Args:
        trainings: Seconds of each, in the order of their start.
        gpus: How many there are.
    """
    ends = [0.0] * gpus
    for seconds in trainings:
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


def _by_speed(arm: str, config: RunConfig) -> Estimate:
    """From the measured time of a step."""
    # pyrefly: ignore[missing-attribute]  # it has one
    small = _benchmark(arm) == "flickr8k" and config.model.dim < 1024
    multiple = _multiple(config, _MULTIPLES, _JWAE_GRU, _ON_VECTORS)
    seconds = _steps(arm, config) * (_SMALL_STEP if small else _LARGE_STEP) * multiple / 1000
    return Estimate(seconds, "by the step times of evidence/speed, on one core")


def _seconds_on_gpu(arm: str, config: RunConfig) -> float:
    multiple = _multiple(config, _ON_GPU, _GRU_ON_GPU, _VECTORS_ON_GPU)
    return _START + _BEYOND_STEPS * _steps(arm, config) * _GPU_STEP * multiple / 1000


def _multiple(config: RunConfig, multiples: Mapping[str, float], gru: float, vectors: float) -> float:
    family = family_of(config)
    reads_words = getattr(config.model, "text", "gru") != "sentence"
    return multiples.get(family, gru if family == "jwae" and reads_words else vectors)


def _steps(arm: str, config: RunConfig) -> float:
    """The number of steps of a training."""
    data = getattr(config.data, "of", config.data)
    images = getattr(data, "num_train", None) or _IMAGES[_benchmark(arm)]
    return config.train.epochs * images * _CAPTIONS / config.train.batch_size


def _benchmark(arm: str) -> str:
    """The photographs on which an arm trains, by the name of its preset."""
    preset = arm.partition(" ")[0]
    return next((name for name in ("flickr30k", "coco") if preset.endswith(name)), "flickr8k")


def _time(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
