"""Cost of a reproduction: finished trainings, further trainings with their hours, and missing rows."""

from collections.abc import Iterator, Sequence

from vse.cli.command import Request
from vse.config import override
from vse.errors import InputError, NotMadeError
from vse.report.page import count
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
# Other families as multiples of VSE++ (evidence/speed). Families on fixed sentence vectors take a third of it.
_MULTIPLES = {"vsepp": 1, "order": 1.2, "vsec": 3, "cse": 2.4, "univse": 3, "vse_infinity": 4.2, "scan": 8}
_MULTIPLES |= {"relational": 10.5, "jwae_scan": 10.5, "cca": 0.1}
_ON_VECTORS, _JWAE_GRU, _CAPTIONS = 0.35, 5, 5
_IMAGES = {"coco": 113_287, "flickr30k": 29_000, "flickr8k": 6_000}


def foresee(request: Request) -> Iterator[str]:
    """The lines of a dry run. Nothing is written. Raises InputError as the job does before it starts."""
    plan = make_plan(request)
    workspace = Workspace.open(request.workspace)
    yield f"{sweep_name(plan.name, plan.definition())}: {plan.question}"
    yield f"rule: {plan.rule}"
    there, cpu, gpu = 0, 0.0, 0.0
    for arm, config in plan.arms.items():
        runs = _runs(config, plan.seeds, workspace)
        left = [seed for seed in plan.seeds if seed not in runs]
        there += len(runs)
        text = [f"seed {', '.join(map(str, runs))} is there ({', '.join(runs.values())})"] if runs else []
        if left:
            each = by_runs(config, (), workspace) or _by_speed(config)
            assert each.seconds is not None
            cpu += len(left) * each.seconds
            gpu += len(left) * each.seconds * _GPU_STEP / _LARGE_STEP
            text += [f"to train: seed {', '.join(map(str, left))}, about {_time(each.seconds)} each ({each.source})"]
        rows = sum(row.arm == arm for block in plan.blocks for row in block.rows)
        yield f"  {arm}: {count(rows, 'row')}; {'; '.join(text)}"
    total = len(plan.arms) * len(plan.seeds)
    on_gpu = f" (about {_time(gpu)} on one H100)" if request.options.scale == "published" else ""
    to_run = f"{total - there} to run: about {_time(cpu)}{on_gpu}, measuring not counted"
    yield f"{total} trainings, {there} there, {to_run}"
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


def _by_speed(config: RunConfig) -> Estimate:
    """From the measured time of a step."""
    family, data = family_of(config), config.data
    data = getattr(data, "of", data)
    small = hasattr(data, "num_train")
    step = _SMALL_STEP if small or config.model.dim < 1024 else _LARGE_STEP  # type: ignore[attr-defined]
    file = str(getattr(data, "file", ""))
    benchmark = (
        "flickr30k" if "flickr30k" in f"{file} {family_of(config)}" else "coco" if step == _LARGE_STEP else "flickr8k"
    )
    images = data.num_train if small else _IMAGES[benchmark]  # type: ignore[attr-defined]
    reads_words = getattr(config.model, "text", "gru") != "sentence"
    multiple = _MULTIPLES.get(family, _JWAE_GRU if family == "jwae" and reads_words else _ON_VECTORS)
    steps = config.train.epochs * images * _CAPTIONS / config.train.batch_size
    return Estimate(steps * step * multiple / 1000, "by the step times of evidence/speed, on one core")


def _time(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
