"""What one trial of an objective sweep computes: a training, its measures, one number to be maximised. Runs in Tune's
actors; arguments and results are plain data."""

import contextlib
import io
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vse.adversaries.univse.attacks import ATTACKS
from vse.config import fingerprint, override
from vse.errors import DamagedError, InputError
from vse.evaluation.per_image import PerImage, per_image
from vse.evaluation.retrieval import retrieve
from vse.presets import from_data
from vse.stages import pipeline
from vse.stages.measuring.options import MeasureOptions
from vse.stages.measuring.stage import measure_run
from vse.stages.trained import device_of, encode_split, load_run
from vse.storage.checksums import entry_of
from vse.storage.folder import Folder
from vse.sweeps.epochs import Epochs
from vse.sweeps.space import label
from vse.sweeps.trial_process import say, tell
from vse.training.checkpoint import Checkpoints, read_progress
from vse.training.config import RunConfig
from vse.training.inputs import Material
from vse.workspace.layout import Workspace

SEED, MATERIAL = "seed", "material"  # keys of a trial beside what is searched
WORDS = "shared"  # adversaries take words that training negatives use too
OBJECTIVES = {
    "rsum": "validation rsum of the epoch that the run keeps",
    "pairs": "pair accuracy on validation, mean over the attacks",
    "both": "mean of (validation rsum / 6, which is the mean recall) and pair accuracy on validation (mean over the "
    "attacks), both in percent",
}
_HITS_REVISION = 1  # part of the file's name


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What all trials of a sweep share. `config` is the run configuration as plain data; `halving`: trials report every
    epoch to a scheduler that may end them; `found`: what the driver found outside the workspace."""

    workspace: str
    parent: str
    config: dict[str, Any]
    objective: str
    halving: bool = False
    found: dict[str, str] = field(default_factory=dict)

    def at(self) -> Workspace:
        """The workspace, opened."""
        return Workspace.open(self.workspace, self.found)

    def configured(self, changes: dict[str, Any]) -> RunConfig:
        """The run configuration of a trial."""
        base = from_data(self.config, "configuration of the sweep")
        return override(base, {key: value for key, value in changes.items() if key != MATERIAL})


def run_trial(changes: dict[str, Any], setting: Setting) -> dict[str, Any]:
    """Train from wherever the run stands, measure, and say what the trial found."""
    from vse.stages.train import run_name, run_training

    config, workspace = setting.configured(changes), setting.at()
    material = pipeline.prepare(config, workspace)
    run = workspace.run(run_name(config, material))
    progress = _Standing(config, setting.halving, label({k: v for k, v in changes.items() if k != MATERIAL}), run.name)
    for epoch, row in enumerate(past_epochs(run), start=1):
        progress.heard({**row, "epoch": epoch})
    progress.before = len(progress.curve)
    result = run_training(config, workspace, parent=setting.parent, report=progress.heard)
    for epoch, row in [*enumerate(past_epochs(run), start=1)][len(progress.curve) :]:
        progress.heard({**row, "epoch": epoch})  # another process trained these while this one waited
    metrics = {key: value for key, value in result.metrics.items() if key.startswith("val/")}
    # A training of several workers had its GPUs elsewhere and has given them back; a GPU in sight here is another's.
    device = "auto" if config.train.gpus_per_worker and config.train.workers == 1 else "cpu"
    if setting.objective != "rsum":
        attacked = measure_run(run, workspace, MeasureOptions(splits=("val",), attacks=(WORDS,), device=device))
        metrics |= {key: value for key, value in attacked.items() if "/attack_" in key}
    hits = ""
    if "test" in material.records.split_names:
        found, hits = measure_test(run, material, device)
        metrics |= found
    return {
        "run": result.run,
        "objective": objective_of(metrics, setting.objective),
        "metrics": {key: value for key, value in metrics.items() if math.isfinite(value)},
        "curve": progress.curve,
        "epochs": result.epochs,
        "best": result.best,
        "seconds": result.seconds,
        "trained": result.trained,
        "trained_by": result.trained_by,
        "hits": hits,
    }


def objective_of(metrics: dict[str, float], objective: str) -> float:
    """The number that a sweep maximises (see `OBJECTIVES`), over the attacks of which the split has adversaries.

    Raises InputError where it has none, or the number is not finite.
    """
    rsum = metrics["val/rsum"]
    value = rsum
    if objective != "rsum":
        named = [f"val/attack_{attack}/pair_accuracy" for attack in ATTACKS]
        found = [metrics[name] for name in named if name in metrics]
        pairs = sum(found) / len(found) if found else math.nan
        value = pairs if objective == "pairs" else (rsum / 6 + pairs) / 2
    if not math.isfinite(value):
        raise InputError(f"sweep.objective={objective}: {value} on this validation split, which may lack adversaries")
    return float(value)


class _Standing:
    """Follows a run's epochs: the objective so far is the validation rsum of the epoch it would keep."""

    def __init__(self, config: RunConfig, halving: bool, name: str, run: str) -> None:
        self.config, self.halving, self.name, self.run = config, halving, name, run
        self.curve: list[float] = []  # after each epoch; NaN is never in it
        self.seconds = self.waited = 0.0
        self.before: int | None = None  # epochs that other processes had made, once they are all told

    def heard(self, numbers: dict[str, float]) -> None:
        """The numbers of an epoch that has ended; one that was told before is passed over."""
        if int(numbers["epoch"]) <= len(self.curve):
            return  # killed between checkpoint and journal, a run tells an epoch again where it goes on
        before = self.curve[-1] if self.curve else 0.0
        now = numbers.get("val/rsum", before)
        best = self.config.train.select == "rsum"
        self.curve.append(max(now, before) if best else now)
        self.seconds += numbers.get("train/seconds", 0.0)
        self.waited = numbers.get("waited", self.waited)
        epoch, last = int(numbers["epoch"]), self.config.train.epochs
        text = f"{self.name}: epoch {epoch}/{last}, rsum {self.curve[-1]:.1f}"
        epochs = Epochs(epoch, last, epoch if self.before is None else self.before)
        if not self.halving:
            say(text, epochs, self.waited)
        elif epoch < last:  # a scheduler is not asked about a trial that is done
            tell(epochs, self.curve[-1], self._standing(epoch), text, self.waited)

    def _standing(self, epoch: int) -> dict[str, Any]:
        return {
            "run": self.run,
            "objective": self.curve[-1],
            "metrics": {"val/rsum": self.curve[-1]},
            "curve": list(self.curve),
            "epochs": epoch,
            "seconds": self.seconds,
            "trained": True,
        }


def past_epochs(run: Folder) -> list[dict[str, float]]:
    """The numbers of the epochs that a run has behind it, from its last checkpoint."""
    try:
        newest = Checkpoints(run.child("checkpoints")).newest()
        return [] if newest is None else read_progress(newest).history
    except (InputError, FileNotFoundError, NotADirectoryError):
        return []


def measure_test(run: Folder, material: Material, device: str = "cpu") -> tuple[dict[str, float], str]:
    """(plain retrieval on the test split, name of the file of its hits per image), measured once for weights.

    device: where, as `device_of` has it.
    """
    trained = load_run(run)
    folder, stem = run.child("evaluation"), f"hits-test-{fingerprint([trained.weights, _HITS_REVISION])}"
    with contextlib.suppress(InputError, FileNotFoundError, NotADirectoryError, KeyError, TypeError):
        read_hits(run, f"{stem}.npz")
        return folder.read_json(f"{stem}.json")["metrics"], f"{stem}.npz"
    codes = encode_split(trained.to(device_of(device)), material, "test")
    owner, found = codes.owner.cpu().numpy(), retrieve(trained.family, codes.images, codes.captions, codes.owner)
    table = per_image(found, {}, owner, len(next(iter(codes.images.values()))))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **table)  # type: ignore[arg-type]  # names are no keyword of savez
    metrics = {f"test/{name}": value for name, value in found.metrics().items()}
    folder.write_bytes(f"{stem}.npz", buffer.getvalue())
    folder.write_checked(f"{stem}.json", {"metrics": metrics, "hits": entry_of(buffer.getvalue())})
    return metrics, f"{stem}.npz"


def read_hits(run: Folder, name: str) -> PerImage:
    """Hits per image as `measure_test` wrote them. Raises DamagedError where they are not whole."""
    folder = run.child("evaluation")
    written, packed = folder.read_json(f"{name.removesuffix('.npz')}.json"), folder.read_bytes(name)
    if not isinstance(written, dict) or written.get("hits") != entry_of(packed):
        raise DamagedError(f"{folder.address(name)}: damaged")
    data = np.load(io.BytesIO(packed), allow_pickle=False)
    return {key: data[key] for key in data.files}
