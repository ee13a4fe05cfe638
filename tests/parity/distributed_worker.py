"""What each worker of the distributed tests runs: a few steps of an epoch, then its numbers in a file."""

import datetime
import functools
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.synthetic import Synthetic, gradients, make_family, make_objective, synthetic
from vse.data.ragged import Ragged
from vse.evaluation import retrieval
from vse.evaluation.metrics import RetrievalCounter
from vse.models.family import Family
from vse.objectives.objective import Objective
from vse.stages import train as worker
from vse.training.batches import Collator, Truth, Unpaired, blocks, epoch_batches, known_images, worker_share
from vse.training.collectives import gather
from vse.training.config import OptimConfig
from vse.training.own_negatives import OwnNegatives
from vse.training.step import Stepper, step_losses

FAMILIES: dict[str, dict[str, Any]] = {
    "vsepp": {},
    "vsepp map": {"image": "map"},
    "vsepp gpo": {"image": "map", "pooling": "gpo"},
    "vsepp infonce": {"objective": "infonce"},
    "vsepp sigmoid": {"objective": "sigmoid"},
    "order root": {"form": "root", "absolute": False, "objective": "sigmoid"},
    "scan i2t": {"direction": "i2t", "hinge": "sum"},
    "scan both": {"direction": "both", "aggregate": "mean", "slope": 0.1},
    "relational pool": {"structure": "pool", "padded_length": 9},
    "relational attention": {"structure": "attention"},
    "relational max": {"pooling": "max"},
    "univse": {},
    "univse gru": {"aggregation": "gru"},
    "univse attention": {"aggregation": "attention"},
    "univse learned alpha": {"learn_alpha": True},
    "univse truth": {"mask": "truth"},
    "univse infonce": {"match": "infonce"},
    "univse sigmoid": {"match": "sigmoid"},
    "univse given words": {"vectors": True},
    "vsepp fixed words": {"vectors": True, "fixed_words": True},
    "cse infonce": {"match": "infonce"},
    "jwae sigmoid known pairs": {"match": "sigmoid", "pairs": 0.4},
    "jwae fixed vectors": {"text": "sentence", "discriminator_every": 2},
    "vsec batch": {"pool": "batch", "dropout": 0.2},
    "vsec states": {"text": "states", "dropout": 0.2},
    "vsepp states": {"text": "states", "dropout": 0.2},
    "vsepp sentence": {"text": "sentence", "dropout": 0.2},
    "scan states": {"text": "states"},
    "scan projected": {"text": "projected"},
    "vse_infinity states": {"text": "states"},
    "relational states": {"text": "states", "padded_length": 9},
    "similarity_network logistic": {"objective": "logistic"},
    "cite own negatives": {"own_negatives": 3},
    "jwae_cite own negatives": {"own_negatives": 3, "batch_negatives": False},
    "embedding_network own negatives": {"own_negatives": 3},
    "jwae known pairs": {"pairs": 0.4},
    "jwae vae": {"regularizer": "vae"},
    "jwae means": {"reduction": "mean", "match": "mse", "pairs": 0.4, "mmd": 2.0},
    "jwae_scan released": {"draw": "batch", "discriminator_codes": "unit", "discriminator_layers": 2},
    "jwae mmd": {"regularizer": "none", "match": "mse", "mmd": 2.0},
}
VALIDATED = ("vsepp", "univse", "scan both")
DATA = {"seed": 3, "images": 7, "most_captions": 3}


def cases(names: tuple[str, ...], workers: int) -> dict[str, dict[str, Any]]:
    """Every registered family as it is; and, but for more than two workers, the variants above."""
    variants = FAMILIES if workers <= 2 else {}
    return variants | {name: {} for name in names}


def made(case: str, changes: dict[str, Any], data: Synthetic) -> tuple[Family, Objective, Collator]:
    """A case's family, ready for its first step, its objective and what makes its batches."""
    name = case.split()[0]
    family, objective = make_family(name, data.context, **changes), make_objective(name, **changes)
    collate = data.collator(family, objective, seed=1)
    if "pairs" in changes:
        known = known_images(data.examples.num_images, changes["pairs"], 1)[data.examples.image]
        collate.extras = (Unpaired(data.examples, known, 1), *collate.extras)
    if "own_negatives" in changes:
        number = data.examples.num_images
        apart = [[row for row in range(number) if (row + caption) % 4 == 1] for caption in range(len(data))]
        collate.extras = (OwnNegatives(Ragged.of(apart), changes["own_negatives"], 1), *collate.extras)
    if changes.get("mask") == "truth":
        collate.extras = (
            Truth(np.random.default_rng(0).random((data.examples.num_images, len(data))) < 0.3),
            *collate.extras,
        )
    family.fit(lambda: (collate(rows, 0) for rows in blocks(len(data), 4)))  # alike on all: each reads every caption
    return family, objective, collate


def learn(case: str, changes: dict[str, Any], rank: int, workers: int) -> dict[str, torch.Tensor]:
    """Losses and gradients of the first batches, then the weights after two epochs of updates."""
    data = synthetic(**DATA)
    family, objective, collate = made(case, changes, data)
    found: dict[str, torch.Tensor] = {}
    several, fitted = len(family.phases()) > 1, not family.phases()
    joined = workers > 1 and not fitted
    model = DistributedDataParallel(family, find_unused_parameters=several) if joined else family
    bare = np.flatnonzero(data.examples.texts.relations.lengths == 0)
    rich = np.flatnonzero(data.examples.texts.relations.lengths > 0)
    # The first worker has no relation at all; then no worker has; then fewer captions than workers.
    special = [np.concatenate([bare[:3], rich[:3]]), bare[:4], rich[:1], np.arange(5)]
    for k, batch in enumerate(special):
        share = collate(worker_share(batch, rank, workers), 2)
        for phase in family.phases():
            family.zero_grad()
            total, losses = step_losses(model, objective, share, 2, phase.losses, phase.name)
            total.backward()
            own = {id(p) for p in phase.parameters}
            names = [n for n, p in family.named_parameters() if id(p) in own]
            found |= {f"{k} loss {n}": value for n, value in losses.items()}
            found |= {f"{k} gradient {n}": gradients(family)[n] for n in names}
    stepper = Stepper(family, model, objective, OptimConfig(lr=0.01, clip=0.5), "float64")
    for epoch in (1, 2):  # the relation losses join at epoch 2
        for k, batch in enumerate(epoch_batches(len(data), 4, seed=0, epoch=epoch)):
            losses = stepper.step(collate(worker_share(batch, rank, workers), epoch), epoch, k)
            found |= {f"epoch {epoch} step {k} {n}": value for n, value in losses.items()}
    return found | {f"weight {n}": value.detach().clone() for n, value in family.named_parameters()}


def gather_ragged(rank: int, workers: int) -> dict[str, torch.Tensor]:
    """Rows of every type gathered from workers that hold 0, 1, 2, … rows, and a gradient that says who asked."""
    rows = torch.arange(rank * 2, dtype=torch.float64).reshape(rank, 2) + 10 * rank
    rows.requires_grad_()
    encoded = {"image_group": torch.arange(rank) + 100 * rank, "flag": torch.arange(rank) % 2 == 0, "codes": rows}
    gathered = gather(encoded, frozenset({"image_group", "flag", "codes", "absent"}))
    (gathered["codes"] * (rank + 1)).sum().backward()
    assert rows.grad is not None
    return {**{k: v.detach() for k, v in gathered.items()}, "own": rows.grad}


def validated(case: str) -> dict[str, torch.Tensor]:
    """Metrics of validation, exact, and how many blocks this worker scored for them."""
    data, scored, add = synthetic(seed=5, images=17, most_captions=5), [0], RetrievalCounter.add

    def counted(self: RetrievalCounter, *block: Any) -> None:
        scored[0] += 1
        add(self, *block)

    family = make_family(case.split()[0], data.context, **FAMILIES.get(case, {})).eval()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RetrievalCounter, "add", counted)
        patch.setattr(retrieval, "Blocks", functools.partial(retrieval.Blocks, images=4, captions=9))
        found = worker.validate(family, data.examples)
    return {name: torch.tensor(v, dtype=torch.float64) for name, v in found.items()} | {"b": torch.tensor(scored[0])}


def main(rank: int, workers: int, store: str, folder: str, chosen: list[str]) -> None:
    """Join the others through a file, run the chosen cases, save."""
    from vse import registry

    torch.set_num_threads(1)
    if workers > 1:
        timeout = datetime.timedelta(seconds=60)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=workers, timeout=timeout)
    known = cases(registry.names("family"), workers)
    found = {case: learn(case, changes, rank, workers) for case, changes in known.items() if case in chosen}
    found |= {f"validation {case}": validated(case) for case in VALIDATED}
    if workers > 1:
        found["gather"] = gather_ragged(rank, workers)
    torch.save(found, Path(folder) / f"{workers}-{rank}.pt")
    if workers > 1:
        dist.destroy_process_group()


def end(status: int) -> NoReturn:
    """Exit without Python's clean-up: a thread of gloo may still hold the tensors of the last collective, and when
    it lets go of them in an interpreter that is being taken down, C++ aborts the process (seen in 1 of 42 runs)."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:])
    end(0)
