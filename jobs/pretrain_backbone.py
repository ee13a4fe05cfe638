"""Make the shipped small backbone: `python jobs/pretrain_backbone.py output=small_backbone.safetensors`."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from safetensors.torch import save

from vse.assets.backbone_training import PretrainingConfig, pretrain, report, shipped_state
from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.config import knob
from vse.display.progress import Progress
from vse.storage.files import local_path, sha256_of
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class BackboneOptions:
    """Keys of this job."""

    output: str = knob("", "weights file; empty: small_backbone.safetensors in the workspace's report", writes="file")
    pretraining: PretrainingConfig = field(default_factory=PretrainingConfig)


def run(request: Request) -> str:
    """Train, print accuracies on scenes never trained on, write the weights."""
    options = request.options
    set_up_logging()
    place = Workspace.open(request.workspace).check_writable().report("pretrain_backbone")
    path = local_path(options.output).absolute() if options.output else place.local("small_backbone.safetensors")
    target = Folder.open(path.parent).check_writable()
    config = options.pretraining
    steps = config.images // config.batch * config.rounds
    with Progress("pretraining", total=steps * config.batch, unit="scenes") as bar:
        model = pretrain(config, bar.advance)
    data = save(shipped_state(model))
    target.write_bytes(path.name, data)
    accuracies = report(model)
    kinds = list(next(iter(accuracies.values())))
    summary = request.write_summary(
        place,
        seeds=[config.seed],
        headline={f"{split}_{kind}": value for split, values in accuracies.items() for kind, value in values.items()},
        outputs={"weights": path},
        details={"bytes": len(data), "sha256": sha256_of(data)},
    )
    print(f"{'cells read right, %':20}" + "".join(f"{kind:>9}" for kind in kinds))
    for split, values in accuracies.items():
        print(f"{split:20}" + "".join(f"{100 * values[kind]:9.1f}" for kind in kinds))
    return summary


def plan(request: Request) -> Iterable[str]:
    """Say how much it would train."""
    config = request.options.pretraining
    yield f"{config.rounds * config.images} scenes in batches of {config.batch}, seed {config.seed}"


if __name__ == "__main__":
    sys.exit(
        main(
            "pretrain_backbone",
            run,
            description="Train the small backbone on object labels of rendered scenes.",
            options=BackboneOptions(),
            plan=plan,
        )
    )
