"""Are codes Gaussian? `python jobs/compare_codes.py --preset jwae_mse_scenes codes.name=jWAE-MSE codes.seeds=5`."""

import sys
from dataclasses import dataclass, field

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.config import override
from vse.report.files import RESULTS
from vse.report.gaussian import SPLIT, CodesOptions, add_system, check
from vse.stages.measuring.stage import measure
from vse.stages.train import run_training
from vse.storage.folder import Folder
from vse.training.run_journal import Origin
from vse.workspace.layout import Workspace
from vse.workspace.provenance import command_line

TASK = "gaussian_codes"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompareCodesOptions:
    """Keys of this job."""

    codes: CodesOptions = field(default_factory=CodesOptions)


def run(request: Request) -> str:
    """Train what is missing, measure, and add the system's rows to the table."""
    options = request.options.codes
    check(request.config, options)
    set_up_logging()
    workspace = Workspace.open(request.workspace).check_writable()
    out = Folder.open(options.out) if options.out else workspace.report("gaussian")
    measured, origin = {}, Origin.of(request.preset, request.overrides)
    for seed in range(options.seeds):
        done = run_training(override(request.config, {"seed": seed}), workspace, origin=origin)
        measures = measure([done.folder], done.folder.child("evaluation"), workspace, [TASK])
        measured[seed] = measures.tasks[TASK].values[SPLIT]
        print(f"{done.run}: {'trained' if done.trained else 'was there'}, measured", file=sys.stderr, flush=True)
    lines = add_system(out, options.name, command_line(), request.config, measured)
    path = request.write_summary(
        workspace.report("gaussian"),
        seeds=measured,
        headline={"system": options.name, "seeds": len(measured)},
        outputs={"results": out.address(RESULTS)},
    )
    print("\n".join(lines))
    return path


if __name__ == "__main__":
    sys.exit(
        main(
            "compare_codes",
            run,
            description="Measure how far codes of a setting are from N(0, I) before and after training, over seeds.",
            default_preset="jwae_mse_scenes",
            options=CompareCodesOptions(),
        )
    )
