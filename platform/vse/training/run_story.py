"""What the journal of a training tells, from the numbers that its checkpoints and its result keep; told again where a
journal lost them."""

from collections.abc import Mapping, Sequence
from typing import Any

from vse.config import dotted, from_dict
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.training.config import TrainConfig
from vse.training.description import describe_result
from vse.training.origin import TAG, read_origin
from vse.workspace.journal import Journal, Story, read
from vse.workspace.layout import Workspace
from vse.workspace.provenance import run_tags

RESULT = "result.json"
_SPENT = ("seconds", "cpu_seconds", "gpu_seconds", "captions")  # of an epoch, told in other units


def run_journal(workspace: Workspace, name: str) -> Journal:
    """The journal of a run; where the workspace is remote it is written on this machine and copied there."""
    return workspace.journal(workspace.run(name))


def finished(folder: Folder) -> dict[str, Any] | None:
    """What the run found, if that and the checkpoint it kept are whole; else what is there is to be gone on from."""
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
    """Say which run this is: what it reads, by stage, and its settings by dotted key."""
    tags = {f"fingerprint.{stage}": digits for stage, digits in fingerprints.items()}
    if (origin := read_origin(folder)) is not None:  # which `run_training` kept there, wherever this worker is
        tags[TAG] = str(origin)
    journal.start(name, name=name, parent=parent, tags={"kind": "training", **tags, **run_tags()})
    journal.params(params)


def cost(train: TrainConfig, row: Mapping[str, float]) -> dict[str, float]:
    """What a training has taken up to an epoch: cost/seconds, and cost/cpu_hours and cost/gpu_hours of all workers, as
    many as there were; of an epoch from before these were kept, as many as `train` says."""
    each = row["seconds"] * train.workers
    return {
        "cost/seconds": row["seconds"],
        "cost/cpu_hours": row.get("cpu_seconds", each * train.threads) / 3600,
        "cost/gpu_hours": row.get("gpu_seconds", each * train.gpus_per_worker) / 3600,
    }


def numbers(row: Mapping[str, float]) -> dict[str, float]:
    """The numbers of an epoch that are told under the names they have."""
    return {name: value for name, value in row.items() if name not in _SPENT}


def tell_epoch(train: TrainConfig, journal: Journal, epoch: int, row: Mapping[str, float]) -> None:
    """The numbers of one epoch."""
    speed = {"speed/captions_per_second": row["captions"] / max(row["train/seconds"], 1e-9)}
    journal.metrics(numbers(row) | speed | cost(train, row), step=epoch)


def tell_epochs(train: TrainConfig, journal: Journal, history: Sequence[Mapping[str, float]]) -> None:
    """The epochs of which the journal lacks a number or has another one."""
    story = read(journal.path)
    for epoch, row in enumerate(history, start=1):
        if not _tells(story, epoch, row):
            tell_epoch(train, journal, epoch, row)


def tells_epochs(story: Story, result: Mapping[str, Any]) -> bool:
    """Whether a story has every epoch of a result."""
    return all(_tells(story, epoch, row) for epoch, row in enumerate(result["history"], start=1))


def _tells(story: Story, epoch: int, row: Mapping[str, float]) -> bool:
    told = ((value, story.metrics.get((name, epoch), (None, 0))[0]) for name, value in numbers(row).items())
    return all(value == there or value - value != 0 for value, there in told)  # what is not finite is noted, not told


def close_journal(train: TrainConfig, journal: Journal, folder: Folder, result: Mapping[str, Any]) -> None:
    """Tell what a finished run found and that it is over. What the journal lost of the epochs is told again."""
    tell_epochs(train, journal, result["history"])
    best = {f"best/{name}": value for name, value in result["metrics"].items() if name.startswith("val/")}
    journal.metrics(best, step=result["best"])
    journal.metrics(cost(train, result["history"][-1]), step=result["epochs"])
    journal.files(["config.json"])
    describe_result(journal, folder, result)
    journal.end("finished")


def tell_lost_end(workspace: Workspace, folder: Folder) -> bool:
    """Tell the journal of a finished run, in the folder of any run of a workspace, the end that it lost, as by a power
    cut: what the run's result says. Returns whether that was the case.

    Nothing happens while a living process works on the run, or if the journal says how it ended.
    """
    if folder.info(RESULT) is None or folder.is_locked() or (result := finished(folder)) is None:
        return False
    kept = _kept(folder, result)
    try:
        config, prints = kept.read_json("config.json"), kept.read_json("context.json")["fingerprints"]
        train = from_dict(TrainConfig(), config["train"], f"{kept}/config.json")
        journal = run_journal(workspace, folder.name)
        with journal.together():
            story = read(journal.path)
            if not (story.run and story.tags and story.params):
                # written data have the name of a component at `model.name`, settings at `model`
                params = {key.removesuffix(".name"): value for key, value in dotted(config).items()}
                open_journal(journal, folder, folder.name, story.parent, prints, params)
            close_journal(train, journal, folder, result)
    except (FileNotFoundError, InputError, KeyError, TypeError):
        return False
    return True
