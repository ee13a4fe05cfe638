"""One run on several workers through Ray Train: each runs `train_worker` inside a process group."""

import contextlib
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from ray.train import FailureConfig, ScalingConfig
from ray.train import RunConfig as TrainRunConfig
from ray.train.torch import TorchConfig, TorchTrainer

from vse import journal
from vse.config import to_dict
from vse.errors import StorageError, storage_failure
from vse.runtime import train_nodes
from vse.storage import Folder
from vse.training.config import RunConfig
from vse.training.loop import SAID_ONCE
from vse.workspace import Workspace

RETRIES = 3  # a worker lost with its spot instance is no reason to give up; each retry goes on from the checkpoint
LISTEN_SECONDS = 1.0

Report = Callable[[dict[str, float]], None]


def train_on_workers(
    config: RunConfig, workspace: Workspace, name: str, parent: str, report: Report | None = None
) -> None:
    """Run to the end on `config.train.workers` workers; the process must be connected to Ray.

    `report` hears each epoch from the run's journal, in a thread of its own. Raises InputError, StorageError and
    Diverged as a worker raised them, without trying again; lost workers are replaced.
    """
    gpus, folder = config.train.gpus_per_worker, workspace.run(name)
    # Ray's own notes about a run are read by nobody: checkpoints are the run's. Only Ray's controller writes them, and
    # it runs on this node; on S3 they would fail without a second try where the workspace itself waits.
    scratch = tempfile.TemporaryDirectory(prefix="vse-train-", ignore_cleanup_errors=True)
    trainer = TorchTrainer(
        _worker,
        train_loop_config={
            "config": to_dict(config),
            "workspace": workspace.root.uri,
            "run": name,
            "parent": parent,
        },
        scaling_config=ScalingConfig(
            num_workers=config.train.workers,
            use_gpu=gpus > 0,
            resources_per_worker={"CPU": config.train.threads, **({"GPU": gpus} if gpus else {})},
            label_selector=train_nodes(gpus),
        ),
        torch_config=TorchConfig(backend="nccl" if gpus else "gloo", timeout_s=600),
        run_config=TrainRunConfig(
            name=name,
            storage_path=scratch.name,
            failure_config=FailureConfig(max_failures=RETRIES),
        ),
    )
    listener = Listener(folder, report) if report is not None else None
    with scratch:
        try:
            refusal = trainer.fit().return_value
        finally:
            if listener is not None:
                listener.close()
    if refusal is not None:
        kind, text = refusal
        raise next(each for each in SAID_ONCE if each.__name__ == kind)(text)


def _worker(arguments: dict[str, Any]) -> tuple[str, str] | None:
    """Train; returns (kind, text) of an error that would come again, since Ray tries again after whatever is raised."""
    from vse import pipeline
    from vse.presets import from_data
    from vse.training.collectives import together
    from vse.training.run import train_worker

    try:
        config = from_data(arguments["config"])
        workspace = Workspace.open(arguments["workspace"])
        material = together(lambda: pipeline.prepare(config, workspace), *SAID_ONCE)
        train_worker(config, workspace, arguments["run"], material, arguments["parent"])
    except SAID_ONCE as error:
        return next(kind.__name__ for kind in SAID_ONCE if isinstance(error, kind)), str(error)
    except OSError as error:
        if text := storage_failure(error):
            return StorageError.__name__, text
        raise
    return None


class Listener:
    """Reports the epochs that appear in a run's journal after it was made; those that were there are known."""

    def __init__(self, folder: Folder, report: Report) -> None:
        self.folder, self.report = folder, report
        self.heard = max(self._epochs(), default=0)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Hear the rest and stop."""
        self.over.set()
        self.thread.join()

    def _listen(self) -> None:
        over = False
        while not over:
            over = self.over.wait(LISTEN_SECONDS)
            with contextlib.suppress(OSError):  # a store that is away: the epochs are told when it is back
                self._tell()

    def _tell(self) -> None:
        for epoch, numbers in sorted(self._epochs().items()):
            if epoch > self.heard:
                self.heard = epoch
                self.report({**numbers, "epoch": epoch})

    def _epochs(self) -> dict[int, dict[str, float]]:
        if not self.folder.exists(journal.FILE_NAME):
            return {}
        epochs: dict[int, dict[str, float]] = {}
        story = journal.parse(self.folder.read_bytes(journal.FILE_NAME))
        for (key, step), (value, _) in story.metrics.items():
            if key.startswith(("train/", "val/")):
                epochs.setdefault(step, {})[key] = value
        return epochs
