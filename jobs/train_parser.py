"""Train the caption parser: `python jobs/train_parser.py treebank=FOLDER output=platform/vse/text/en_vse`."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from vse.assets.parser_training import TrainingConfig, train, treebank_files
from vse.cli.command import Request, main
from vse.cluster.runtime import set_threads, set_up_logging
from vse.config import knob
from vse.errors import InputError
from vse.storage.files import local_path
from vse.workspace.layout import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class ParserOptions:
    """Keys of this job."""

    treebank: str = knob("", "folder of UD English EWT (*-train, *-dev, *-test .conllu or .gz)", reads="folder")
    output: str = knob("", "folder of the pipeline; empty: parser/en_vse in the workspace", writes="folder")
    training: TrainingConfig = field(default_factory=TrainingConfig)


def run(request: Request) -> str:
    """Train, print accuracies epoch by epoch, write the pipeline."""
    options = request.options
    set_up_logging()
    set_threads(1)
    workspace = Workspace.open(request.workspace).check_writable()
    output = local_path(options.output) if options.output else workspace.root.child("parser").local("en_vse")
    report = train(_treebank(options), output, options.training, say=lambda line: print(line, file=sys.stderr))
    headline = {f"{split}_{key}": report[split][key] for split in ("dev", "test") for key in report[split]}
    path = request.write_summary(
        workspace.report("train_parser"),
        seeds=[options.training.seed],
        headline={**headline, "bytes": report["bytes"]},
        outputs={"pipeline": output},
    )
    for name, value in headline.items():
        print(f"{name:12} {100 * value:6.2f}")
    return path


def plan(request: Request) -> Iterable[str]:
    """Say which files it would read."""
    for split, path in treebank_files(_treebank(request.options)).items():
        yield f"{split}: {path}"


def _treebank(options: ParserOptions) -> Path:
    if not options.treebank:
        raise InputError("treebank: name the folder of UD English EWT (*-train, *-dev, *-test .conllu or .conllu.gz)")
    return local_path(options.treebank)


if __name__ == "__main__":
    sys.exit(
        main(
            "train_parser",
            run,
            description="Train the shipped caption parser (some ten minutes on one core).",
            options=ParserOptions(),
            plan=plan,
        )
    )
