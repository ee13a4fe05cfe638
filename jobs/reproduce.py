"""A printed table from its rows' presets to a page: `python jobs/reproduce.py paper=univse table=2 scale=scenes`."""

import functools
import sys

from vse.cli.command import main
from vse.reproduction.foresight import foresee
from vse.reproduction.options import ReproduceOptions
from vse.reproduction.plan import make_plan
from vse.sweeps.engine import run_sweep_job

if __name__ == "__main__":
    sys.exit(
        main(
            "reproduce",
            functools.partial(run_sweep_job, make_plan=make_plan),
            description="Train and measure the rows of a published table, and write printed cells next to ours.",
            options=ReproduceOptions(),
            check=make_plan,
            plan=foresee,
        )
    )
