"""Checkpoints: everything a run needs to continue, or to embed raw images and raw strings, as plain data.

A checkpoint is a folder `epoch-<epochs done>[-<step>]` of safetensors and JSON that exists once its manifest does. The
newest and the best are kept. Nothing in it is a pickle, so a workspace from elsewhere can be opened without trust.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from vse.errors import InputError, StorageError
from vse.models.family import Family
from vse.storage.damage import damaged_files
from vse.storage.files import as_json, entry_of
from vse.storage.folder import Folder
from vse.storage.lease import LeaseHandle
from vse.training.tuning import Tuner

VERSION = 1  # raise it when a checkpoint written before can no longer be read


@dataclass(slots=True)
class Progress:
    """Where a run stands: `epoch` epochs and `step` further steps are done.

    history: one dict of numbers an epoch; totals: sums of losses and gradient norms of the unfinished epoch, and
    entered: captions that entered each; best: epochs done when the best validation was seen (0: none yet); seconds: of
    all processes so far, and of the CPUs and GPUs that they had while they ran; trained_by: the code of every process
    that trained it (see `training.code`), in order, each once.
    """

    epoch: int = 0
    step: int = 0
    best: int = 0
    best_score: float | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    totals: dict[str, float] = field(default_factory=dict)
    entered: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0
    trained_by: list[dict[str, Any]] = field(default_factory=list)


Chosen = tuple[str, str]
"""A checkpoint's name and the SHA-256 of its weights."""


class Checkpoints:
    """The checkpoints of one run in a folder; `extra` files (text pipeline, configuration) go into each.

    `lease` is the lock on the run; a job that has lost it writes nothing.
    """

    def __init__(
        self, folder: Folder, extra: Mapping[str, Any] | None = None, lease: LeaseHandle | None = None
    ) -> None:
        self.folder, self.extra, self.lease = folder, dict(extra or {}), lease or LeaseHandle()

    def save(
        self,
        progress: Progress,
        model: Family,
        optimizers: list[torch.optim.Optimizer],
        scaler: Mapping[str, Any],
        tuner: Tuner | None = None,
    ) -> Folder:
        """Write a checkpoint, then delete all others except the best.

        The lock is checked before every change, because a change may take minutes on an unstable network. An outage is
        harmless unless it begins between the last check and the request for the manifest.

        Args:
            progress: of the training.
            model: its weights.
            optimizers: their states.
            scaler: state of the gradient scaler.
            tuner: of a backbone that is trained too.

        Raises:
            TakenOver: if another job trains the run now.
            StorageError: if writing fails.
        """
        name = f"epoch-{progress.epoch:04d}" + (f"-{progress.step:06d}" if progress.step else "")
        target, entries = self.folder.child(name), dict[str, dict[str, Any]]()

        def write(file: str, data: bytes) -> None:
            entries[file] = entry_of(data)  # of the written data, so that it is not read back from S3
            self._write(target, file, data)

        write("model.safetensors", save(_contiguous(model.state_dict())))
        for file, weights in (tuner.files() if tuner is not None else {}).items():
            write(file, save(_contiguous(weights)))
        write("optimizer.safetensors", save(_optimizer_tensors(_parameters(model, tuner), optimizers)))
        write("progress.json", as_json({"version": VERSION, "scaler": dict(scaler), **asdict(progress)}))
        for file, content in self.extra.items():
            write(file, as_json(content))
        self.lease.check()
        target.commit_manifest(entries, {"files": entries})
        for old in self.folder.names():
            if old not in (name, f"epoch-{progress.best:04d}"):
                self.lease.check()  # after listing, so that no file of another job is deleted
                self.folder.delete(old)
        return target

    def _write(self, target: Folder, file: str, data: bytes) -> None:
        """Write a file of a checkpoint if the run is still locked; on S3 only over the version of that moment.

        Otherwise a write that is retried until the network is back could replace a file of a job that has taken the run
        over meanwhile. Raises as `save`.
        """
        if target.is_local:  # the system's lock is never lost
            target.write_bytes(file, data)
            return
        before = target.info(file)
        self.lease.check()
        try:
            target.write_over(file, data, before.tag if before else "")
        except StorageError:
            self.lease.check()  # a lost lock is the better message
            raise

    def newest(self) -> Folder | None:
        """The latest checkpoint whose files are all intact.

        A checkpoint whose best epoch is lost does not count, because a training from it could end without a model.
        """
        for name in sorted(self.folder.names(), reverse=True):
            checkpoint = self.folder.child(name)
            if checkpoint.read_manifest() is not None and self._best_of(checkpoint) is not None:
                return checkpoint
        return None

    def _best_of(self, checkpoint: Folder) -> Folder | None:
        """The checkpoint of the best validation so far, itself if there was none; None if it is damaged."""
        best = checkpoint.read_json("progress.json").get("best")
        if not best:
            return checkpoint
        kept = self.folder.child(f"epoch-{best:04d}")
        return kept if kept == checkpoint or kept.read_manifest() is not None else None

    def best(self) -> Folder | None:
        """The checkpoint of the best validation."""
        newest = self.newest()
        if newest is None:
            return None
        return self._best_of(newest) if read_progress(newest).best else None

    def damaged(self) -> list[str]:
        """Files of complete checkpoints that are damaged or missing, as paths below the folder of checkpoints."""
        return [f"{name}/{file}" for name in self.folder.names() for file in damaged_files(self.folder.child(name))]

    def chosen(self) -> Chosen | None:
        """The newest checkpoint, for `restore`; None if there is none."""
        newest = self.newest()
        return None if newest is None else (newest.name, weights_of(newest))

    def restore(
        self,
        chosen: Chosen | None,
        model: Family,
        optimizers: list[torch.optim.Optimizer],
        scaler: Any,
        tuner: Tuner | None = None,
    ) -> Progress:
        """Load a chosen checkpoint into model and optimisers; returns a new Progress if there is none.

        Args:
            chosen: the result of `chosen` on worker 0; None to begin.
            model: gets the weights.
            optimizers: of the phases, in their order.
            scaler: gradient scaler of half precision.
            tuner: of a backbone that is trained too; None: the backbone is frozen.

        Raises:
            StorageError: this node does not see the same checkpoint, for example in a stale copy of a shared folder.
            InputError: the weights do not fit.
        """
        if chosen is None:
            return Progress()
        name, weights = chosen
        folder = self.folder.child(name)
        if folder.read_manifest() is None or weights_of(folder) != weights:
            raise StorageError(f"{folder}: worker 0 sees another checkpoint here; use the same folder on every node")
        progress = read_progress(folder)
        load_weights(folder, model)
        if tuner is not None:
            tuner.restore(lambda file: _tensors(folder, file), str(folder))
        _load_optimizers(_parameters(model, tuner), optimizers, folder)
        state = folder.read_json("progress.json")
        if state["scaler"]:
            scaler.load_state_dict(state["scaler"])
        return progress


def weights_of(checkpoint: Folder) -> str:
    """SHA-256 of a checkpoint's weights, by its manifest."""
    return checkpoint.read_json("manifest.json")["files"]["model.safetensors"]["sha256"]


def read_progress(checkpoint: Folder) -> Progress:
    """The progress a checkpoint holds. Raises InputError if another version wrote it."""
    state = checkpoint.read_json("progress.json")
    if state.get("version") != VERSION:
        raise InputError(f"{checkpoint}: checkpoint of version {state.get('version')}, this code reads {VERSION}")
    return Progress(**{k: v for k, v in state.items() if k not in ("version", "scaler")})


def load_weights(checkpoint: Folder, model: nn.Module, optional: Collection[str] = ()) -> None:
    """Put a checkpoint's weights into a model.

    Args:
        checkpoint: folder of the checkpoint.
        model: changed in place.
        optional: keys of the checkpoint that the model need not have.

    Raises:
        InputError: a key is missing, unknown or of another shape; the first one is named.
    """
    own = model.state_dict()
    stored = _tensors(checkpoint, "model.safetensors")
    state = {key: value for key, value in stored.items() if key in own or key not in optional}
    for key in sorted(own.keys() ^ state.keys()):
        raise InputError(f"{checkpoint}: {key} is {'missing' if key in own else 'unknown'}; another model wrote it")
    for key, value in own.items():
        if state[key].shape != value.shape:
            raise InputError(f"{checkpoint}: {key} has shape {tuple(state[key].shape)}, expected {tuple(value.shape)}")
    model.load_state_dict(state)


def _tensors(checkpoint: Folder, file: str) -> dict[str, Tensor]:
    try:
        return load(checkpoint.read_bytes(file))
    except SafetensorError as error:
        raise InputError(f"{checkpoint}/{file}: not a safetensors file ({error})") from None


def _contiguous(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in state.items()}


def _parameters(model: nn.Module, tuner: Tuner | None) -> dict[str, nn.Parameter]:
    """Parameters by name in a file; those of a backbone have a prefix."""
    others = {} if tuner is None else {f"backbone.{name}": value for name, value in tuner.network.named_parameters()}
    return dict(model.named_parameters()) | others


def _optimizer_tensors(
    parameters: Mapping[str, nn.Parameter], optimizers: list[torch.optim.Optimizer]
) -> dict[str, Tensor]:
    """Optimiser state by phase, parameter and quantity, so that it does not depend on the order of parameters."""
    names, tensors = {id(parameter): name for name, parameter in parameters.items()}, {}
    for phase, optimizer in enumerate(optimizers):
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                tensors[f"{phase}/{names[id(parameter)]}/{key}"] = torch.as_tensor(value)
    return _contiguous(tensors)


def _load_optimizers(
    parameters: Mapping[str, nn.Parameter], optimizers: list[torch.optim.Optimizer], checkpoint: Folder
) -> None:
    for key, value in _tensors(checkpoint, "optimizer.safetensors").items():
        phase, name, quantity = key.split("/")
        if name not in parameters or int(phase) >= len(optimizers):
            raise InputError(f"{checkpoint}/optimizer.safetensors: {key} is unknown; another model wrote it")
        parameter, fused = parameters[name], optimizers[int(phase)].defaults.get("fused")
        moved = value.to(parameter.device) if value.ndim or fused else value  # else the number of steps is the host's
        # In the parameter's own order of memory, channels last in a backbone
        kept = (
            torch.empty_like(parameter).copy_(moved) if value.shape == parameter.shape and value.ndim else moved.clone()
        )
        optimizers[int(phase)].state[parameter][quantity] = kept
