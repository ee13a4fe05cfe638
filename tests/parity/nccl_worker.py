"""One of two workers that compute on a GPU (its double) and meet by the rules of NCCL.

`python -m tests.parity.nccl_worker RANK STORE FOLDER CASE …` makes steps of these cases, trains those of `TRAINED`,
resumes, and saves what it found as FOLDER/RANK.pt; both workers train in FOLDER/runs.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from tests import nccl
from tests.gpu import a_gpu
from tests.parity.distributed_worker import DATA, cases, end, made
from tests.synthetic import synthetic
from tests.unit.training.test_loop import Run
from vse import registry
from vse.stages.train import validate
from vse.training.batches import worker_share
from vse.training.config import OptimConfig
from vse.training.step import Stepper

CPU = torch.device("cpu")
TRAINED = ("vsepp", "jwae")  # of one phase and of two


def stepped(case: str, changes: dict[str, Any], rank: int, workers: int, device: torch.device) -> dict[str, Tensor]:
    """Losses of three steps and the weights after them. In the first one worker has no relation at all; then it has no
    caption; then no worker has a relation."""
    data = synthetic(**DATA)
    family, objective, collate = made(case, changes, data)
    if not family.phases():
        return {}
    family.to(device)
    several = len(family.phases()) > 1
    model = (
        DistributedDataParallel(family, forward_sync_buffers=False, find_unused_parameters=several)
        if workers > 1
        else family
    )
    stepper, found = Stepper(family, model, objective, OptimConfig(lr=0.01, clip=0.5), "float64"), {}
    relations = data.examples.texts.relations.lengths
    bare, rich = np.flatnonzero(relations == 0), np.flatnonzero(relations > 0)
    for k, rows in enumerate((np.concatenate([rich[:2], bare[:2]]), rich[:1], bare[:2])):
        batch = family.prepared(collate(worker_share(rows, rank, workers), 2))
        losses = stepper.step({name: value.to(device) for name, value in batch.items()}, 2, k)
        found |= {f"step {k} {name}": loss for name, loss in losses.items()}
    found |= {f"weight {name}": value.detach() for name, value in family.named_parameters()}
    return {name: value.cpu() for name, value in found.items()}


def trained(name: str, folder: Path, device: torch.device) -> list[dict[str, float]]:
    """What two epochs tell, validation by retrieval among it; after the first the run is stopped, and it goes on."""
    history = list[dict[str, float]]()
    for epochs in (1, 2):
        run = Run(folder, name, train__epochs=epochs, train__batch_size=8, train__checkpoint_seconds=1e-9)
        run.family.to(device)
        loop = run.loop()
        loop.hooks = replace(loop.hooks, validate=lambda family, run=run: validate(family, run.data.examples))
        history = loop.run().history
    return [{key: value for key, value in row.items() if not key.endswith("seconds")} for row in history]


def main(rank: int, store: str, folder: Path, chosen: list[str]) -> None:
    """Join the other worker through a file, compute, save."""
    torch.set_num_threads(1)
    nccl.join(store, rank, 2)
    found: dict[str, Any] = {}
    with (
        a_gpu() as gpu,
        patch.object(torch.cuda.Event, "record", lambda event: None),  # the double has computed when it is asked
        patch.object(torch.cuda.Event, "synchronize", lambda event: None),
        patch.object(torch.cuda, "get_device_capability", lambda device=None: (9, 0)),
        patch("vse.training.loop.ASK_EVERY", 1),
    ):
        for case, changes in cases(registry.names("family"), 2).items():
            if case in chosen:
                found[case] = stepped(case, changes, rank, 2, gpu)
        for name in TRAINED:
            if name in chosen:
                found[f"training of {name}"] = trained(name, folder / "runs" / name, gpu)
    torch.save(found, folder / f"{rank}.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
    end(0)
