"""What is said of a training to readers: one line before it starts, and the description of its run."""

import shlex
from collections.abc import Mapping
from typing import Any

from vse import registry
from vse.display.markdown import artifact, commands, escaped, run
from vse.storage.folder import Folder
from vse.training.config import RunConfig
from vse.training.origin import read_origin
from vse.workspace.journal import Journal
from vse.workspace.redaction import redact_text

_SHOWN = {"val/rsum": "rsum", "val/i2t/r1": "R@1 i2t", "val/t2i/r1": "R@1 t2i"}


def what_is_trained(config: RunConfig) -> str:
    """The line that says what is trained on what, and how."""
    family, source = registry.name_of("family", config.model), registry.name_of("source", config.data)
    return (
        f"train {family} on {source} with seed {config.seed}: {config.train.epochs} epochs of "
        f"{config.train.batch_size} captions per step, {config.train.workers} worker(s), "
        f"{config.train.gpus_per_worker:g} GPU(s) each"
    )


def describe_beginning(journal: Journal, config: RunConfig, folder: Folder, sizes: str, parent: str) -> None:
    """What is asked for and how to run it again."""
    workspace = ["--workspace", redact_text(folder.uri.removesuffix(f"/runs/{folder.name}"))]
    told, origin = [escaped(what_is_trained(config)), escaped(sizes)], read_origin(folder)
    if origin is None:
        again = shlex.join(
            ["python", "jobs/train.py", "--preset", redact_text(folder.address("config.json")), *workspace]
        )
    else:
        again = origin.command(config, workspace[1])
        told.append(f"Preset {escaped(str(origin))}")
    told += [f"Part of {run(parent)}"] * bool(parent)
    journal.describe("asked", "\n\n".join(told))
    evaluate = shlex.join(["python", "jobs/evaluate.py", f"run={folder.name}", *workspace])
    journal.describe("commands", commands([again, evaluate]))


def describe_result(journal: Journal, folder: Folder, result: Mapping[str, Any]) -> None:
    """The kept epoch, its numbers on validation and where the files are."""
    numbers = {title: f"{result['metrics'][key]:.1f}" for key, title in _SHOWN.items() if key in result["metrics"]}
    rsum = f"validation rsum {numbers['rsum']} at " if "rsum" in numbers else ""
    journal.describe("headline", f"**{rsum}epoch {result['best']} of {result['epochs']}**")
    told = [
        f"Epoch {result['best']} of {result['epochs']} is kept, after {result['seconds']:.0f} s of training. "
        f"Validation, percent, one run: {', '.join(f'{title} {value}' for title, value in numbers.items())}",
        f"Configuration: {artifact('config.json')}; checkpoints: {escaped(redact_text(folder.uri))}",
    ]
    journal.describe("result", "\n\n".join(told))
