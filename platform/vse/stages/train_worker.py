"""What every worker of a training does, alone or within a process group."""

import platform
from collections.abc import Callable

import numpy as np
import torch

from vse import registry
from vse.config import flatten, to_dict
from vse.determinism import use_reproducible_arithmetic
from vse.errors import InputError, TakenOver, first_line
from vse.evaluation.codes import encode_examples
from vse.evaluation.metrics import RetrievalCounter
from vse.evaluation.retrieval import count_retrieval
from vse.models.family import Family, feature_scales
from vse.stages.describe import sizes
from vse.storage.folder import Folder
from vse.storage.lease import LeaseHandle
from vse.tracking import prometheus
from vse.training.allocator import keep_freed_memory
from vse.training.batches import Collator
from vse.training.checkpoint import Checkpoints, Progress, read_progress
from vse.training.collectives import add_up, together, world
from vse.training.compatibility import family_inputs
from vse.training.config import RunConfig, TrainConfig
from vse.training.description import describe_beginning
from vse.training.examples import Examples
from vse.training.inputs import (
    Material,
    TrainingInputs,
    feature_blocks,
    initial_family,
    known_captions,
    make_collator,
    training_batches,
    training_inputs,
    warn_unfamiliar,
)
from vse.training.loop import SAID_ONCE, Hooks, Loop
from vse.training.run_story import (
    RESULT,
    close_journal,
    numbers,
    open_journal,
    run_journal,
    tell_epoch,
    tell_epochs,
)
from vse.workspace.journal import Journal
from vse.workspace.layout import Workspace

Report = Callable[[dict[str, float]], None]


def build_family(config: RunConfig, data: TrainingInputs) -> Family:
    """The family with initial weights drawn from the seed and statistics of all training images and captions, in the
    precision of its parameters.

    Whose image a caption shows plays no part in them; what is fitted in closed form learns from known pairs alone.
    """
    torch.manual_seed(config.seed)
    family = initial_family(config, data.context)
    for scale in feature_scales(family):
        scale.fit(feature_blocks(data.train.features[family.inputs.image]))
    read = np.arange(len(data.train)) if family.phases() else known_captions(config, data.train)
    family.fit(lambda: training_batches(data.train, family.inputs, read))
    return family.double() if config.train.precision == "float64" else family


@torch.inference_mode()
def validate(family: Family, val: Examples) -> dict[str, float]:
    """Retrieval on validation: what epochs are told and chosen by.

    Workers call it together. Each encodes the split, scores its share of the blocks and counts; the counts add up to
    those of one worker.
    """

    def count() -> RetrievalCounter:
        codes = encode_examples(family, val)
        return count_retrieval(family, codes.images, codes.captions, codes.caption_to_image, share=world())

    counter = together(count, *SAID_ONCE)
    add_up(counter.counts())
    return {f"val/{key}": value for key, value in counter.result().metrics().items()}


def train_worker(
    config: RunConfig,
    workspace: Workspace,
    name: str,
    material: Material,
    parent: str = "",
    report: Report | None = None,
    held: LeaseHandle | None = None,
) -> None:
    """What each worker does, within its process group if there is one; rank 0 writes, as long as the run is `held`."""
    folder, rank = workspace.run(name), world()[0]
    torch.set_num_threads(config.train.threads)
    keep_freed_memory()
    inputs = family_inputs(config)
    objective = registry.build("objective", config.objective)

    def set_up() -> tuple[TrainingInputs, Family, Collator, Journal | None]:
        device = training_device(config.train)
        data = training_inputs(config, material, inputs)
        family = build_family(config, data).to(device)
        journal = run_journal(workspace, name) if rank == 0 else None
        if journal is not None:
            warn_unfamiliar(material.records, data.vocabulary)
            begin_journal(journal, config, folder, material, name, parent)
            journal.metrics(dict(data.coverage), step=0)
        return data, family, make_collator(config, data, inputs, objective.negatives), journal

    data, family, collate, journal = together(set_up, *SAID_ONCE)

    def epoch_done(epoch: int, row: dict[str, float]) -> None:
        assert journal is not None
        tell_epoch(config.train, journal, epoch, row)
        if report is not None:
            report({**numbers(row), "epoch": epoch})

    def note(line: str) -> None:
        assert journal is not None
        journal.note(line)

    checkpoints = Checkpoints(
        folder.child("checkpoints"),
        {"config.json": to_dict(config), **data.checkpoint_files(material.fingerprints)},
        held,
    )
    steps = prometheus.steps_of(parent or name)
    try:
        together(lambda: _tell_again(config, journal, checkpoints), *SAID_ONCE)
        hooks = Hooks(lambda family: validate(family, data.val), epoch_done, note, steps)
        progress = Loop(config, family, objective, collate, checkpoints, hooks).run()
    except BaseException as error:
        if journal is not None and not isinstance(error, TakenOver):  # then the story is another's
            killed = isinstance(error, KeyboardInterrupt | SystemExit)
            if not killed:
                journal.note(f"{type(error).__name__}: {first_line(error)}"[:300])
            journal.end("killed" if killed else "failed")
        raise
    finally:
        if steps is not None:
            steps.close()
    together(lambda: _finish(config, journal, folder, progress, checkpoints.held) if journal else None, *SAID_ONCE)


def training_device(train: TrainConfig) -> torch.device:
    """Where a worker trains, with arithmetic settled. Raises InputError where it asks for a GPU and there is none."""
    if train.gpus_per_worker and not torch.cuda.is_available():
        raise InputError(f"train.gpus_per_worker={train.gpus_per_worker:g}: torch finds no GPU on {platform.node()}")
    device = torch.device("cuda" if train.gpus_per_worker else "cpu")
    use_reproducible_arithmetic(device)
    return device


def _finish(config: RunConfig, journal: Journal, folder: Folder, progress: Progress, held: LeaseHandle) -> None:
    kept = progress.history[progress.best - 1]
    result = {
        "metrics": {name: value for name, value in numbers(kept).items() if name != "train/seconds"},
        "epochs": progress.epoch,
        "best": progress.best,
        "seconds": progress.seconds,
        "history": progress.history,
        "trained_by": progress.trained_by,
    }
    held.check()
    folder.write_checked(RESULT, result)
    close_journal(config.train, journal, folder, result)


def _tell_again(config: RunConfig, journal: Journal | None, checkpoints: Checkpoints) -> None:
    """Put finished epochs that the journal lacks into it: a kill may have come between checkpoint and record, and a
    power cut may have taken the last of what was not yet on the disk.

    Every worker reads the checkpoint, so that all of them refuse one that does not fit and none waits for the others.
    """
    newest = checkpoints.newest()
    if newest is not None:
        before = read_progress(newest)
        if journal is not None:
            tell_epochs(config.train, journal, before.history)


def begin_journal(
    journal: Journal, config: RunConfig, folder: Folder, material: Material, name: str, parent: str
) -> None:
    """Write what is trained into the journal of a run, and its configuration into its folder."""
    open_journal(journal, folder, name, parent, material.fingerprints, flatten(config))
    describe_beginning(journal, config, folder, sizes(material.records), parent)
    folder.write_json("config.json", to_dict(config))
