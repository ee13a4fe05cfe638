"""The trial of every sweep: a training, continued from its last checkpoint, and then measures.

Trials run in Tune's actors, which import them by name. Arguments and results are plain data.
"""

import functools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vse.adversaries.attacks import ATTACKS
from vse.config import override, to_dict
from vse.errors import DamagedError, InputError
from vse.evaluation.outcomes import unpack
from vse.evaluation.per_image import PerImage
from vse.evaluation.tasks.alpha_curve import AlphaCurveTask
from vse.presets import from_data
from vse.report.response import PAIRS
from vse.stages import pipeline
from vse.stages.measuring.options import MeasureOptions, SharedOptions
from vse.stages.measuring.stage import measure, measure_run, measures_file
from vse.stages.trained import load_run
from vse.storage.files import entry_of
from vse.storage.folder import Folder
from vse.sweeps.plan import ARM, MATERIAL, SweepCall, label_of
from vse.sweeps.progress import Epochs
from vse.sweeps.trial_process import Function, report_epoch, say
from vse.training.checkpoint import Checkpoints, read_progress
from vse.training.config import RunConfig, epochs_of
from vse.training.inputs import Material
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)

SPLITS = ("val", "test")  # that an α sweep measures
WORDS = "shared"  # adversaries use words that training negatives also use
OBJECTIVES = {
    "rsum": "validation rsum of the epoch that the run keeps",
    "pairs": "pair accuracy on validation, mean over the attacks",
    "both": "mean of (validation rsum / 6, which is the mean recall) and pair accuracy on validation (mean over the "
    "attacks), both in percent",
    "front": "the mean of (validation rsum / 6, which is the mean recall) and pair accuracy on validation (mean over "
    "the attacks), both in percent; the search maximises the two apart",
}
_TEST_TASK = "retrieval"  # measured on the test split, if there is one


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialSetting:
    """What all trials of a sweep share.

    Args:
        workspace: Its address.
        parent: The sweep's name.
        configs: Run configurations as plain data, by arm; a sweep without arms has one, by the name "".
        external: What the driver read outside the workspace, as `Workspace.open` takes it.
        halving: Whether trials report every epoch to a scheduler that may end them.
    """

    workspace: str
    parent: str
    configs: dict[str, dict[str, Any]]
    external: dict[str, str] = field(default_factory=dict)
    halving: bool = False

    def at(self) -> Workspace:
        """The workspace, opened."""
        return Workspace.open(self.workspace, self.external)

    def configured(self, changes: dict[str, Any]) -> RunConfig:
        """The run configuration of a trial."""
        base = from_data(self.configs[changes.get(ARM, "")], "configuration of the sweep")
        return override(base, {key: value for key, value in changes.items() if key not in (ARM, MATERIAL)})


def trial_function(
    function: Callable[..., dict[str, Any]],
    call: SweepCall,
    configs: Mapping[str, RunConfig],
    *,
    halving: bool = False,
    **more: Any,
) -> Function:
    """A trial of this call with all but its changes bound.

    Args:
        function: `objective_trial` or `alpha_trial`.
        call: The call, after the stages that trials share have run.
        configs: Run configurations by arm.
        halving: Whether a scheduler may end trials.
        more: Further arguments of the function.
    """
    setting = TrialSetting(
        workspace=call.workspace.root.uri,
        parent=call.folder.name,
        configs={arm: to_dict(config) for arm, config in configs.items()},
        external=call.workspace.external.answers,
        halving=halving,
    )
    return functools.partial(function, setting=setting, **more)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedRun:
    """A run with its best checkpoint. `numbers` are the part of a trial's result that is about the training."""

    run: Folder
    workspace: Workspace
    material: Material
    device: str
    numbers: dict[str, Any]


def objective_trial(changes: dict[str, Any], setting: TrialSetting, objective: str) -> dict[str, Any]:
    """Train, measure, and compute the number to be maximised. The test split is measured too, if there is one.

    Args:
        changes: The trial: dotted keys and values, with its seed.
        setting: What all trials share.
        objective: A key of `OBJECTIVES`. All but `rsum` measure attacks on the validation split.

    Returns:
        Numbers of the training, with `objective`, `metrics` (the finite ones), and `hits`, the name of the file with
        the outcome of every query on test (empty without a test split).
    """
    trained = train_arm(changes, setting)
    run, metrics = trained.run, trained.numbers["metrics"]
    if objective != "rsum":
        metrics |= measure_run(run, trained.workspace, ["attacks"], _options(trained, ("val",)))
        metrics |= mean_pairs(metrics)
    hits = ""
    if "test" in trained.material.records.split_names:
        tested, hits = measure_test(run, trained.workspace, trained.device)
        metrics |= tested
    return {
        **trained.numbers,
        "objective": objective_of(metrics, objective),
        "metrics": {key: value for key, value in metrics.items() if math.isfinite(value)},
        "hits": hits,
    }


def alpha_trial(changes: dict[str, Any], setting: TrialSetting, swept: str, alphas: Sequence[float]) -> dict[str, Any]:
    """Train an arm at a seed, then measure retrieval and attacks.

    Args:
        changes: Arm and seed.
        setting: What all trials share.
        swept: The arm that is measured at every α, from codes encoded once. Other arms are measured at their own α.
        alphas: The grid.

    Returns:
        Numbers of the training. The swept arm also has `points`, (α, metrics). Other arms have `metrics`, and `alpha`
        if they learned one.
    """
    trained = train_arm(changes, setting)
    say(f"{label_of(changes)}: measuring")
    if changes[ARM] == swept:
        return {**trained.numbers, "points": list(measure_alphas(trained, alphas).items())}
    metrics = measure_run(trained.run, trained.workspace, options=_options(trained, SPLITS))
    result = {**trained.numbers, "metrics": metrics}
    best = load_run(trained.run)
    if getattr(best.config.model, "learn_alpha", False):
        result["alpha"] = float(best.family.alpha)  # pyrefly: ignore[bad-argument-type]  # a 0-dimensional tensor
    return result


def _options(trained: TrainedRun, splits: tuple[str, ...]) -> SharedOptions:
    """Attacks with one kind of words."""
    return override(MeasureOptions(splits=splits, device=trained.device), {"attacks.words": (WORDS,)})


def measure_alphas(trained: TrainedRun, alphas: Sequence[float]) -> dict[float, dict[str, float]]:
    """Metrics of both splits at every α, exactly what encoding with that α would give."""
    keys = {"alpha_curve.alphas": tuple(alphas), "alpha_curve.words": WORDS}
    options = override(MeasureOptions(splits=SPLITS, device=trained.device), keys)
    folder = trained.run.child("evaluation")
    measures = measure([trained.run], folder, trained.workspace, ["alpha_curve"], options).tasks["alpha_curve"]
    assert isinstance(measures.task, AlphaCurveTask)
    curves = {split: measures.task.curve(values) for split, values in measures.values.items()}
    return {
        alpha: {f"{split}/{name}": value for split, curve in curves.items() for name, value in curve[alpha].items()}
        for alpha in sorted(alphas)
    }


def train_arm(changes: dict[str, Any], setting: TrialSetting) -> TrainedRun:
    """Train the run of a trial, or continue it."""
    from vse.stages.train import run_name, run_training

    config, workspace = setting.configured(changes), setting.at()
    material = pipeline.prepare(config, workspace)
    run = workspace.run(run_name(config, material))
    curve = _Curve(config, setting.halving, label_of(changes), run.name)
    for epoch, row in enumerate(past_epochs(run), start=1):
        curve.add({**row, "epoch": epoch})
    curve.before = len(curve.values)
    result = run_training(config, workspace, parent=setting.parent, report=curve.add)
    for epoch, row in [*enumerate(past_epochs(run), start=1)][len(curve.values) :]:
        curve.add({**row, "epoch": epoch})  # another process trained these while this one waited
    numbers = {
        "run": result.run,
        "metrics": {key: value for key, value in result.metrics.items() if key.startswith("val/")},
        "curve": curve.values,
        "epochs": result.epochs,
        "best": result.best,
        "seconds": result.seconds,
        "trained": result.trained,
        "trained_by": result.trained_by,
    }
    # A training of several workers has released its GPUs on other nodes; a GPU of this node belongs to another trial.
    device = "auto" if config.train.gpus_per_worker and config.train.workers == 1 else "cpu"
    return TrainedRun(run=run, workspace=workspace, material=material, device=device, numbers=numbers)


def mean_pairs(metrics: Mapping[str, float]) -> dict[str, float]:
    """`PAIRS`, over the attacks that validation has adversaries of; empty if there are none."""
    names = [f"val/attack_{attack}/pair_accuracy" for attack in ATTACKS]
    each = [metrics[name] for name in names if name in metrics]
    return {PAIRS: sum(each) / len(each)} if each else {}


def objective_of(metrics: dict[str, float], objective: str) -> float:
    """The number that a sweep maximises (see `OBJECTIVES`), over the attacks that the split has adversaries of.

    Raises:
        InputError: The split has no adversaries, or the number is not finite.
    """
    rsum = metrics["val/rsum"]
    value = rsum
    if objective != "rsum":
        pairs = metrics.get(PAIRS, math.nan)
        value = pairs if objective == "pairs" else (rsum / 6 + pairs) / 2
    if not math.isfinite(value):
        raise InputError(f"sweep.objective={objective}: {value} on this validation split, which may lack adversaries")
    return float(value)


class _Curve:
    """The epochs of a run as they end. The objective so far is the validation rsum of the epoch that it would keep."""

    def __init__(self, config: RunConfig, halving: bool, name: str, run: str) -> None:
        self.config, self.halving, self.name, self.run = config, halving, name, run
        self.values: list[float] = []  # after each epoch; never NaN
        self.seconds = self.waited = 0.0
        self.before: int | None = None  # epochs of earlier processes, once all are added

    def add(self, numbers: dict[str, float]) -> None:
        """Add the numbers of an epoch that has ended, and report it to the driver.

        A run killed between checkpoint and journal reports an epoch twice; it counts once.
        """
        if int(numbers["epoch"]) <= len(self.values):
            return
        before = self.values[-1] if self.values else 0.0
        now = numbers.get("val/rsum", before)
        self.values.append(max(now, before) if self.config.train.select == "rsum" else now)
        self.seconds += numbers.get("train/seconds", 0.0)
        self.waited = numbers.get("waited", self.waited)
        epoch, last = int(numbers["epoch"]), epochs_of(self.config)
        text = f"{self.name}: epoch {epoch}/{last}, rsum {self.values[-1]:.1f}"
        epochs = Epochs(epoch, last, epoch if self.before is None else self.before)
        if not self.halving:
            say(text, epochs, self.waited)
        elif epoch < last:  # after the last epoch there is nothing for a scheduler to decide
            report_epoch(epochs, self.values[-1], self._so_far(epoch), text, self.waited)

    def _so_far(self, epoch: int) -> dict[str, Any]:
        return {
            "run": self.run,
            "objective": self.values[-1],
            "metrics": {"val/rsum": self.values[-1]},
            "curve": list(self.values),
            "epochs": epoch,
            "seconds": self.seconds,
            "trained": True,
        }


def past_epochs(run: Folder) -> list[dict[str, float]]:
    """The numbers of the epochs that a run has trained, from its last checkpoint."""
    try:
        newest = Checkpoints(run.child("checkpoints")).newest()
        return [] if newest is None else read_progress(newest).history
    except (InputError, FileNotFoundError, NotADirectoryError):
        return []


def measure_test(run: Folder, workspace: Workspace, device: str = "cpu") -> tuple[dict[str, float], str]:
    """Plain retrieval on the test split, measured once for the weights of a run.

    Args:
        run: Its folder.
        workspace: Where it is.
        device: The key `measure.device`.

    Returns:
        The metrics, and the name of the file with the outcome of every query.
    """
    options = MeasureOptions(splits=("test",), device=device)
    measures = measure([run], run.child("evaluation"), workspace, [_TEST_TASK], options).tasks[_TEST_TASK]
    values = {
        f"test/{name}": value
        for name, value in measures.values["test"].items()
        if measures.task.metric(name).higher_is_better is not None
    }
    return values, measures.table


def hits_of(workspace: Workspace, run: str, name: str) -> PerImage:
    """Hits per image of a run on the test split. If the file is missing or damaged, the split is measured again.

    Args:
        workspace: Where the run is.
        run: Name of the run.
        name: The file, as `measure_test` returns it.
    """
    folder = workspace.run(run)
    try:
        return _read_hits(folder, name)
    except (FileNotFoundError, InputError) as error:
        log.warning("%s; measured again", error)
        measure_test(folder, workspace)
        return _read_hits(folder, name)


def _read_hits(run: Folder, name: str) -> PerImage:
    folder = run.child("evaluation")
    digits = name.rpartition(".")[0].rpartition("-")[2]
    written, packed = folder.read_json(measures_file(_TEST_TASK, digits)), folder.read_bytes(name)
    if written["files"].get(name) != entry_of(packed):
        raise DamagedError(f"{folder.address(name)}: damaged")
    return unpack(packed)[0]["test"].table
