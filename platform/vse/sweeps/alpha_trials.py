"""What each trial of the α sweep computes. These functions run in Tune's actors; a module of their own, so that Ray
finds them by name. Their arguments and results are plain data."""

import functools
from dataclasses import dataclass, field
from typing import Any

from vse.config import override
from vse.errors import DamagedError
from vse.presets import from_data
from vse.stages import pipeline
from vse.stages.attack import attack_split
from vse.stages.measuring.options import MeasureOptions
from vse.stages.measuring.stage import measure_run
from vse.storage.damage import remove_damaged
from vse.storage.folder import Folder
from vse.sweeps.epochs import Epochs
from vse.sweeps.trial_process import say
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

SPLITS = ("val", "test")
WORDS = "shared"  # adversaries take words that training negatives use too


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What all trials of a sweep share. `arms` are run configurations as plain data, by the arm's name; `found`: what
    the driver found outside the workspace."""

    workspace: str
    parent: str
    arms: dict[str, dict[str, Any]]
    alphas: tuple[float, ...]
    found: dict[str, str] = field(default_factory=dict)

    def config(self, arm: str, seed: int) -> RunConfig:
        """The run configuration of an arm at a seed."""
        return override(from_data(self.arms[arm], f"arm {arm}"), {"seed": seed})

    def at(self) -> Workspace:
        """The workspace, opened."""
        return Workspace.open(self.workspace, self.found)


def run_trial(changes: dict[str, Any], setting: Setting) -> dict[str, Any]:
    """Serve one trial by its kind."""
    return _KINDS[changes["kind"]](changes, setting)


def _train(changes: dict[str, Any], setting: Setting) -> dict[str, Any]:
    """One run of one arm and seed, from wherever it stands to its checkpoint."""
    from vse.stages.train import run_training

    arm, seed = changes["arm"], changes["seed"]
    config = setting.config(arm, seed)
    done = 0  # epochs of this process

    def epoch_done(numbers: dict[str, float]) -> None:
        nonlocal done
        done += 1
        found = f", rsum {numbers['val/rsum']:.1f}" if "val/rsum" in numbers else ""
        epoch, last = int(numbers["epoch"]), config.train.epochs
        text = f"{arm} seed {seed}: epoch {epoch}/{last}{found}"
        say(text, Epochs(epoch, last, epoch - done), numbers.get("waited", 0.0))

    result = run_training(config, setting.at(), parent=setting.parent, report=epoch_done)
    return {
        "run": result.run,
        "metrics": result.metrics,
        "epochs": result.epochs,
        "best": result.best,
        "seconds": result.seconds,
        "trained": result.trained,
        "trained_by": result.trained_by,
        "checkpoint": result.checkpoint.name,
    }


def _measure(changes: dict[str, Any], setting: Setting) -> dict[str, Any]:
    """Retrieval and attacks of a run at its own α, if it has one."""
    workspace = setting.at()
    run = workspace.run(changes["run"])
    options = MeasureOptions(splits=SPLITS, attacks=(WORDS,))
    result: dict[str, Any] = {"metrics": measure_run(run, workspace, options)}
    learned = _learned_alpha(run)
    return result if learned is None else {**result, "alpha": learned}


def _learned_alpha(run: Folder) -> float | None:
    from vse.stages.trained import load_run

    trained = load_run(run)
    if not getattr(trained.config.model, "learn_alpha", False):
        return None
    return float(trained.family.alpha)  # type: ignore[arg-type]  # a 0-dimensional tensor


def _encode(changes: dict[str, Any], setting: Setting) -> dict[str, Any]:
    """Codes of a run for all its splits, once; the α trials of its seed only score them."""
    from vse.stages.trained import load_run
    from vse.sweeps.code_files import store_codes

    workspace = setting.at()
    run = workspace.run(changes["run"])
    say(f"encoding {changes['run']}")
    trained = load_run(run)
    material = pipeline.prepare(trained.config, workspace, parsed=True)
    folders = {}
    for split in SPLITS:
        adversaries = attack_split(trained.config, workspace, material, split, WORDS)
        folders[split] = store_codes(trained, run, material, adversaries).name
    return {"folders": folders}


def _alpha(changes: dict[str, Any], setting: Setting) -> dict[str, Any]:
    """Every metric at one α, exactly what encoding with that α would give."""
    folders = tuple((split, changes[f"codes.{split}"]) for split in SPLITS)
    evaluation = setting.at().run(changes["run"]).child("evaluation")
    alphas = tuple(sorted({*setting.alphas, changes["model.alpha"]}))
    try:
        curves = _curves(setting.workspace, changes["run"], folders, alphas)
    except DamagedError:  # they were whole when the ledger said so
        for _, name in folders:
            remove_damaged(evaluation.child(name))
        _encode(changes, setting)
        curves = _curves(setting.workspace, changes["run"], folders, alphas)
    return {"metrics": curves[changes["model.alpha"]]}


@functools.lru_cache(maxsize=4)
def _curves(
    workspace: str, run: str, folders: tuple[tuple[str, str], ...], alphas: tuple[float, ...]
) -> dict[float, dict[str, float]]:
    """All α of a run from score parts that are computed once. The trials of one process share them: the matrix products
    cost more than everything that α adds."""
    from vse.stages.trained import load_run

    folder = Workspace.open(workspace).run(run)
    family = load_run(folder).family
    found: dict[float, dict[str, float]] = {alpha: {} for alpha in alphas}
    for split, name in folders:
        for alpha, metrics in _points(family, folder.child("evaluation", name), split, alphas).items():
            found[alpha] |= metrics
    return found


def _points(family: Any, folder: Folder, split: str, alphas: tuple[float, ...]) -> dict[float, dict[str, float]]:
    """All α of one split. Its codes and scores are gone when this returns, before the next ones come."""
    from vse.evaluation.alpha import evaluate_alphas
    from vse.sweeps.code_files import open_codes

    stored = open_codes(folder)
    codes = stored.codes
    points = evaluate_alphas(family, codes.images, codes.captions, codes.owner, stored.attacks, alphas)
    return {point.alpha: point.metrics(split) for point in points}


_KINDS = {"train": _train, "measure": _measure, "encode": _encode, "alpha": _alpha}
