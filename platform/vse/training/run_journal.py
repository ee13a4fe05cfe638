"""The journal of a training run: its preset, its description, its epochs and its end."""

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from vse import registry
from vse.config import dotted, flatten, typed
from vse.display.markdown import artifact, commands, escaped, run
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.storage.lease import DEAD_AFTER
from vse.training.config import RunConfig, trained_by_steps
from vse.workspace.journal import FILE_NAME, Journal, JournalState, parse, read
from vse.workspace.layout import Workspace
from vse.workspace.provenance import run_tags
from vse.workspace.redaction import redact_text

FILE = "preset.json"
TAG = "preset"


@dataclass(frozen=True, slots=True)
class Origin:
    """The preset that a command named, and the keys that it changed, except the seed."""

    preset: str
    changed: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = len(self.changed)
        return f"{self.preset} +{count} key{'s' if count > 1 else ''}" if count else self.preset

    def command(self, config: Any, workspace: str) -> str:
        """The command that trains this configuration again."""
        values = flatten(config)
        settings = [f"{key}={typed(values[key])}" for key in (*self.changed, "seed") if key in values]
        parts = ["python", "jobs/train.py", "--preset", self.preset, *settings, "--workspace", redact_text(workspace)]
        return shlex.join(parts)

    @classmethod
    def of(cls, preset: str | None, overrides: Sequence[str]) -> "Origin | None":
        """The origin by a command line, None without a preset; credentials in a preset's address are hidden."""
        if preset is None:
            return None
        return cls(redact_text(preset), tuple(sorted(key for key in overrides if key != "seed")))


def keep_origin(run: Folder, origin: Origin) -> bool:
    """Write an origin into a run's folder unless there is one; returns whether it was written.

    Several presets may lead to the same run, and the first stays.
    """
    if read_origin(run) is not None:
        return False
    run.write_json(FILE, {"preset": origin.preset, "changed": list(origin.changed)})
    return True


def name_finished(workspace: Workspace, run: Folder, origin: Origin) -> None:
    """Record the preset of a finished run that has none, if the run's folder can be written to.

    Args:
        workspace: of the run, with its journal.
        run: its folder.
        origin: the preset, and the keys that a command changed.
    """
    with contextlib.suppress(OSError, InputError):
        if keep_origin(run, origin):
            journal = workspace.journal(run)
            with journal.together():
                journal.tags({TAG: str(origin)})


def read_origin(run: Folder) -> Origin | None:
    """The origin of a run; None if it was trained without a preset's name, as in sweeps and studies."""
    try:
        data = run.read_json(FILE)
        return Origin(str(data["preset"]), tuple(map(str, data["changed"])))
    except (FileNotFoundError, InputError, KeyError, TypeError):
        return None


RESULT = "result.json"
_SPENT = ("seconds", "cpu_seconds", "gpu_seconds", "captions")  # of an epoch, logged in other units


def run_journal(workspace: Workspace, name: str) -> Journal:
    """The journal of a run; for a remote workspace it is written on this machine and copied there."""
    return workspace.journal(workspace.run(name))


def finished(folder: Folder) -> dict[str, Any] | None:
    """The result of a run if it and the kept checkpoint are intact; None if the run has to be continued."""
    try:
        data = folder.read_json(RESULT)
        return data if data["history"] and _kept(folder, data).read_manifest() is not None else None
    except (FileNotFoundError, NotADirectoryError, InputError, KeyError, TypeError, ValueError):
        return None


def _kept(folder: Folder, result: Mapping[str, Any]) -> Folder:
    return folder.child("checkpoints", f"epoch-{result['best']:04d}")


def open_journal(
    journal: Journal,
    folder: Folder,
    name: str,
    parent: str,
    fingerprints: Mapping[str, str],
    params: Mapping[str, Any],
) -> None:
    """Record the identity of a run: its inputs, settings, preset and code.

    Args:
        journal: of the run.
        folder: of the run; the preset is read from it, since another node may have written it.
        name: of the run.
        parent: the run under which trackers nest this one; empty for none.
        fingerprints: of its inputs, by stage.
        params: its settings, by dotted key.
    """
    tags = {f"fingerprint.{stage}": digits for stage, digits in fingerprints.items()}
    if (origin := read_origin(folder)) is not None:  # written by `run_training`, perhaps on another node
        tags[TAG] = str(origin)
    with journal.together():
        journal.start(name, name=name, parent=parent, tags={"kind": "training", **tags, **run_tags()})
        journal.params(params)


def cost(row: Mapping[str, float]) -> dict[str, float]:
    """The cost of a training up to an epoch: cost/seconds, and cost/cpu_hours and cost/gpu_hours of all workers."""
    return {
        "cost/seconds": row["seconds"],
        "cost/cpu_hours": row["cpu_seconds"] / 3600,
        "cost/gpu_hours": row["gpu_seconds"] / 3600,
    }


def numbers(row: Mapping[str, float]) -> dict[str, float]:
    """The numbers of an epoch that are logged under their own names."""
    return {name: value for name, value in row.items() if name not in _SPENT}


def tell_epoch(journal: Journal, epoch: int, row: Mapping[str, float]) -> None:
    """Log the numbers of one epoch, its speed, and the cost of the training so far.

    Args:
        journal: of the run.
        epoch: number of the epoch, from 1.
        row: its numbers, as in the `history` of `Progress`: captions, seconds and metrics.
    """
    speed = {"speed/captions_per_second": row["captions"] / max(row["train/seconds"], 1e-9)}
    journal.metrics(numbers(row) | speed | cost(row), step=epoch)


def tell_epochs(journal: Journal, history: Sequence[Mapping[str, float]]) -> None:
    """Log the epochs of which the journal lacks a number or has another one."""
    state = read(journal.path)
    for epoch, row in enumerate(history, start=1):
        if not _tells(state, epoch, row):
            tell_epoch(journal, epoch, row)


def tells_epochs(state: JournalState, result: Mapping[str, Any]) -> bool:
    """Whether a state has every epoch of a result."""
    return all(_tells(state, epoch, row) for epoch, row in enumerate(result["history"], start=1))


def _tells(state: JournalState, epoch: int, row: Mapping[str, float]) -> bool:
    pairs = ((value, state.metrics.get((name, epoch), (None, 0))[0]) for name, value in numbers(row).items())
    # numbers that are not finite are not logged
    return all(value == logged or value - value != 0 for value, logged in pairs)


def close_journal(journal: Journal, folder: Folder, result: Mapping[str, Any]) -> None:
    """Log the result of a finished run and its end, and epochs that the journal has lost.

    Args:
        journal: of the run.
        folder: of the run.
        result: the content of `result.json`.
    """
    best = {f"best/{name}": value for name, value in result["metrics"].items() if name.startswith("val/")}
    with journal.together():
        tell_epochs(journal, result["history"])
        journal.metrics(best, step=result["best"])
        journal.metrics(cost(result["history"][-1]), step=result["epochs"])
        journal.files(["config.json"])
        describe_result(journal, folder, result)
        journal.end("finished")


def tell_lost_end(workspace: Workspace, folder: Folder) -> bool:
    """Restore the end of a finished run's journal from the run's result, for instance after a power cut.

    Returns whether it was lost. Nothing happens while a living process works on the run.
    """
    if folder.info(RESULT) is None or folder.is_locked() or (result := finished(folder)) is None:
        return False
    kept = _kept(folder, result)
    try:
        config, prints = kept.read_json("config.json"), kept.read_json("context.json")["fingerprints"]
        journal = run_journal(workspace, folder.name)
        with journal.together():
            state = read(journal.path)
            if not (state.run and state.tags and state.params):
                # written data have the name of a component at `model.name`, settings at `model`
                params = {key.removesuffix(".name"): value for key, value in dotted(config).items()}
                open_journal(journal, folder, folder.name, state.parent, prints, params)
            close_journal(journal, folder, result)
    except (FileNotFoundError, InputError, KeyError, TypeError):
        return False
    return True


_SHOWN = {"val/rsum": "rsum", "val/i2t/r1": "R@1 i2t", "val/t2i/r1": "R@1 t2i"}


def what_is_trained(config: RunConfig) -> str:
    """One line on a training: family, source and sizes."""
    family, source = registry.name_of("family", config.model), registry.name_of("source", config.data)
    steps = f"{config.train.epochs} epochs of {config.train.batch_size} captions per step"
    return (
        f"train {family} on {source} with seed {config.seed}: {steps if trained_by_steps(config) else 'no steps'}, "
        f"{config.train.workers} worker(s), {config.train.gpus_per_worker:g} GPU(s) each"
    )


def describe_beginning(journal: Journal, config: RunConfig, folder: Folder, sizes: str, parent: str) -> None:
    """Record what the run trains, and the commands that repeat and evaluate it.

    Args:
        journal: of the run.
        config: of the run.
        folder: of the run; the commands name its preset, or its `config.json` if there is none.
        sizes: name and sizes of the data set, in words.
        parent: the run that this one is part of; empty for none.
    """
    workspace = ["--workspace", redact_text(folder.uri.removesuffix(f"/runs/{folder.name}"))]
    lines, origin = [escaped(what_is_trained(config)), escaped(sizes)], read_origin(folder)
    if origin is None:
        again = shlex.join(
            ["python", "jobs/train.py", "--preset", redact_text(folder.address("config.json")), *workspace]
        )
    else:
        again = origin.command(config, workspace[1])
        lines.append(f"Preset {escaped(str(origin))}")
    lines += [f"Part of {run(parent)}"] * bool(parent)
    journal.describe("asked", "\n\n".join(lines))
    evaluate = shlex.join(["python", "jobs/evaluate.py", f"run={folder.name}", *workspace])
    journal.describe("commands", commands([again, evaluate]))


def describe_result(journal: Journal, folder: Folder, result: Mapping[str, Any]) -> None:
    """Record the kept epoch, its numbers on validation and the paths of its files.

    Args:
        journal: of the run.
        folder: of the run.
        result: the content of `result.json`.
    """
    numbers = {title: f"{result['metrics'][key]:.1f}" for key, title in _SHOWN.items() if key in result["metrics"]}
    rsum = f"validation rsum {numbers['rsum']} at " if "rsum" in numbers else ""
    journal.describe("headline", f"**{rsum}epoch {result['best']} of {result['epochs']}**")
    lines = [
        f"Epoch {result['best']} of {result['epochs']} is kept, after {result['seconds']:.0f} s of training. "
        f"Validation, percent, one run: {', '.join(f'{title} {value}' for title, value in numbers.items())}",
        f"Configuration: {artifact('config.json')}; checkpoints: {escaped(redact_text(folder.uri))}",
    ]
    journal.describe("result", "\n\n".join(lines))


SOON = 5.0  # seconds that a process may take to end with its Ray
CLOCKS = 600.0  # seconds by which the clocks of S3 and of this machine may differ


def close_killed(workspace: Workspace, name: str, wait: float = DEAD_AFTER) -> None:
    """End the journal of a run whose process was killed before it could do so itself, unless it has ended.

    Args:
        workspace: of the run.
        name: of the run.
        wait: seconds after which a process that still holds the run counts as living, so that nothing is done. On S3 a
            dead process holds it for the term of its lease.
    """
    if _runs(read(workspace.journal(workspace.run(name)).path)):
        with contextlib.suppress(TimeoutError), workspace.run(name).locked(wait):
            end_killed(workspace, name)


def end_killed(workspace: Workspace, name: str) -> None:
    """End the journal of a run without a training process, unless it has ended."""
    journal = workspace.journal(workspace.run(name))
    if _runs(read(journal.path)):
        journal.end("killed")


def end_killed_below(workspace: Workspace, parent: str, since: float) -> None:
    """End the journals of the runs that a sweep was training when it ended.

    The caller holds the sweep and its processes are gone, so the leases they left on S3 are ignored. Journals that
    cannot be read or written stay, because an ending sweep should not raise another error.

    Args:
        workspace: of the sweep.
        parent: name of the sweep.
        since: only runs written since then, in seconds since 1970.
    """

    def end(folder: Folder) -> None:
        with contextlib.suppress(OSError, InputError):
            state = parse(folder.read_bytes(FILE_NAME))
            if state.parent != parent or not _runs(state):
                return
            with folder.locked(SOON) if folder.is_local else contextlib.nullcontext():
                end_killed(workspace, folder.name)

    with contextlib.suppress(OSError, InputError), ThreadPoolExecutor(8) as pool:
        journals = workspace.root.child("runs").folders_with(FILE_NAME)
        list(pool.map(end, [folder for folder, info in journals if info.written >= since - CLOCKS]))


def _runs(state: JournalState) -> bool:
    return bool(state.run) and state.status == "running"
