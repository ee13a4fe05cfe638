"""How long a training will take: from runs like it in the workspace, otherwise from timed steps."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from vse.cli.command import Request
from vse.config import to_dict
from vse.errors import InputError, NotMadeError
from vse.stages import pipeline
from vse.storage.parallel_reads import read_each
from vse.storage.read_only import SealedFolder
from vse.training.compatibility import family_inputs
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace
from vse.workspace.provenance import gpus

ENOUGH = 20  # runs to take the median of; a workspace may have thousands, each of which is two requests to a store
_BATCH = 64  # runs that are asked before these are counted


@dataclass(frozen=True)
class Estimate:
    """Expected seconds of one trial and their source; None, and the reason, if nothing says it."""

    seconds: float | None
    source: str

    def without(self, what: str) -> "Estimate":
        """The same estimate with a note on `what` it leaves out, if it has one."""
        return replace(self, source=f"{self.source}; {what} comes on top") if what and self.seconds else self


def estimate(config: RunConfig, searched: Iterable[str], workspace: Workspace, request: Request) -> Estimate:
    """How long one training of a configuration takes. Writes nothing into the workspace.

    Runs that differ from it only in the `searched` keys, seed and epochs say it by their seconds per epoch. Of a run
    that ended before its last epoch the epochs it made count. Without such a run, some steps are made in this process.
    """
    found = _of_runs(config, set(searched), workspace)
    return found if found is not None else _of_steps(config, workspace, request)


def expectation(found: Estimate) -> str:
    """The log line of a capped sweep on an estimate."""
    if found.seconds is None:
        return "a cap is set and how long a trial takes is unknown: one starts alone to find out"
    return f"a trial is expected to take {found.seconds:.3g} s ({found.source}); none starts that would pass the cap"


def estimate_before_trials(
    config: RunConfig, searched: Iterable[str], workspace: Workspace, request: Request
) -> Estimate:
    """As `estimate`, for a job whose trials are next. It makes no steps on a GPU: a process that has used one keeps
    some of its memory."""
    if not config.train.gpus_per_worker:
        return estimate(config, searched, workspace, request)
    return _of_runs(config, set(searched), workspace) or Estimate(None, "no run like these is in the workspace")


def _of_runs(config: RunConfig, searched: set[str], workspace: Workspace) -> Estimate | None:
    wanted, each = _essence(to_dict(config), searched), list[float]()
    runs = workspace.root.child("runs")

    def whole(name: str) -> float | None:
        """Seconds of such a training by this run; None if the run is unlike it or has not finished."""
        try:
            told = runs.child(name).read_json("config.json")
            if _essence(told, searched) != wanted:
                return None
            result = runs.child(name).read_json("result.json")
        except (InputError, FileNotFoundError, NotADirectoryError):
            return None
        if not (made := result.get("epochs")):
            return None
        ended_early = made < told["train"]["epochs"]
        epochs = min(made, config.train.epochs) if ended_early else config.train.epochs
        return result["seconds"] / made * epochs

    names = runs.names()
    for start in range(0, len(names), _BATCH):
        each += filter(None, read_each(runs, whole, names[start : start + _BATCH]))
        if len(each) >= ENOUGH:
            break
    if not each:
        return None
    each.sort()
    return Estimate(each[len(each) // 2], f"median epoch of {len(each)} runs like these")


def _of_steps(config: RunConfig, workspace: Workspace, request: Request) -> Estimate:
    if config.train.gpus_per_worker and not gpus():
        return Estimate(None, "no run like these is in the workspace, and there is no GPU here to time a step on")
    try:
        material = pipeline.prepare(config, Workspace(SealedFolder(workspace.root.uri)))
    except NotMadeError as error:
        return Estimate(None, _lacking(str(error), config, workspace, request))
    from vse.sweeps.timing import time_training  # torch is slow to import, and mostly not needed

    timing = time_training(config, material)
    if timing is None:
        return Estimate(None, "no run like these is in the workspace, and a fit in closed form has no step to time")
    source = f"timed here: {1000 * timing.step:.0f} ms per step, {timing.steps} steps per epoch"
    if config.train.workers > 1:
        source += f", shared by {config.train.workers} workers; their start comes on top"
    return Estimate(timing.seconds(config.train), source)


def _lacking(folder: str, config: RunConfig, workspace: Workspace, request: Request) -> str:
    from vse.report.build import command_of

    kind = folder.removeprefix(workspace.root.uri.partition("?")[0]).lstrip("/").split("/")[0]
    if kind == "language":  # parses, word and sentence vectors, adversaries: a short run makes all it reads
        what, command = "what it reads of the captions is", command_of(request, "train", "train.epochs=1")
    else:
        outputs = f"outputs={family_inputs(config).image}"
        what, command = "features are", command_of(request, "extract_features", outputs)
    return f"no run like these is in the workspace, and {what} not there to time a step on; {command} makes that"


def _essence(config: dict[str, Any], searched: set[str]) -> dict[str, Any]:
    left = {"seed", "train.epochs", *searched}

    def leaves(data: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
        for key, value in data.items():
            if isinstance(value, dict):
                yield from leaves(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}", value

    return {key: value for key, value in leaves(config) if key not in left}
