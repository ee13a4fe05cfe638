"""Train one run: `python jobs/train.py --preset univse_scenes seed=1 optim.lr=1e-3`."""

import sys
from dataclasses import dataclass, field
from typing import Any

from vse.cli.command import Request, main
from vse.cluster.placement import check_room, preflight
from vse.cluster.runtime import Config as RayConfig
from vse.cluster.runtime import set_up_logging, steady_nodes
from vse.stages.local_inputs import check_reach, check_training, records_to_train
from vse.stages.parse import check_parser
from vse.stages.train import run_training, trains_here
from vse.tracking.shipping import Shipper
from vse.training.config import check_objective
from vse.training.effects import check_effects
from vse.training.epoch_report import epoch_line, kept_in_warmup
from vse.training.inputs import without_vectors
from vse.training.loop import collapse
from vse.training.run_journal import Origin, what_is_trained
from vse.workspace.layout import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainOptions:
    """Keys of this job."""

    ray: RayConfig = field(default_factory=RayConfig)


def run(request: Request) -> str:
    """Train to the end (or find the run finished), send it to MLflow and write its summary."""
    config = request.config
    preflight(request.workspace, request.options.ray, **_resources(request))
    set_up_logging()
    list(check_reach(config, request.workspace, request.options.ray))
    if note := without_vectors(config):
        print(f"note: {note}", file=sys.stderr, flush=True)
    workspace = Workspace.open(request.workspace)
    origin = Origin.of(request.preset, request.overrides)

    warned = False

    def epoch_done(numbers: dict[str, float]) -> None:
        nonlocal warned
        epoch = int(numbers["epoch"])
        print(epoch_line(config, numbers, epoch), file=sys.stderr, flush=True)
        if not warned and (line := collapse(config, numbers, epoch)):
            print(f"warning: {line}", file=sys.stderr, flush=True)
            warned = True

    with Shipper(request.workspace, request.tracking).every(30) as shipper:
        result = run_training(config, workspace, origin=origin, report=epoch_done, ray=request.options.ray)
    if not result.trained:
        print(f"{result.run} was trained already, {result.epochs} epochs; nothing is left to do", file=sys.stderr)
    if note := kept_in_warmup(config, result.best):
        print(f"note: {note}", file=sys.stderr)
    return request.write_summary(
        result.folder,
        fingerprints={"run": result.run.rsplit("-", 1)[-1]},
        seeds=[config.seed],
        headline={**result.metrics, "epochs": result.epochs, "best_epoch": result.best, "trained": result.trained},
        outputs={"run": result.folder.uri, "checkpoint": result.checkpoint.uri, "mlflow": shipper.uri},
        worked=None if result.trained else result.seconds,
    )


def _resources(request: Request) -> dict[str, Any]:
    """The resources of the workers, as arguments of `preflight`."""
    train, ray = request.config.train, request.options.ray
    return {
        "workers": train.workers,
        "cpus_per_worker": 1 if trains_here(train) else train.threads,
        "gpus_per_worker": train.gpus_per_worker,
        "labels": None if trains_here(train) else steady_nodes(ray, train.gpus_per_worker),
        "decoders": 0 if trains_here(train) else train.decoders,
        "key": "train.workers",
    }


def plan(request: Request) -> list[str]:
    """The lines of a dry run."""
    config = request.config
    check_room(request.options.ray, **_resources(request))
    return [
        what_is_trained(config),
        *check_training(config, records_to_train(config), request.workspace, request.options.ray),
    ]


def _check(request: Request) -> None:
    check_objective(request.config)
    check_effects(request.config, request.overrides)
    check_parser(request.config)  # attacks parse captions, also of families that read none


if __name__ == "__main__":
    sys.exit(
        main(
            "train",
            run,
            description="Train one model family, from whatever the workspace already holds to a checkpoint.",
            default_preset="univse_scenes",
            options=TrainOptions(),
            check=_check,
            plan=plan,
        )
    )
