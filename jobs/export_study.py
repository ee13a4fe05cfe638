"""Write a sweep as an Optuna study: `python jobs/export_study.py sweep=margin-vsepp_small-1a2b3c4d out=study.db`."""

import sys
from dataclasses import dataclass

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.config import knob
from vse.storage.files import local_path
from vse.sweeps.optuna_study import export_study
from vse.workspace.layout import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportOptions:
    """Keys of this job."""

    sweep: str = knob("", "name of a folder below sweeps/")
    out: str = knob("study.db", "SQLite file to write; it must not exist")


def run(request: Request) -> str:
    """Write the database, print how to open it."""
    options: ExportOptions = request.options
    set_up_logging()
    folder = Workspace.open(request.workspace).existing("sweeps", options.sweep, "sweep")
    file = local_path(options.out).absolute()
    number = export_study(folder, file)
    print(f"{number} trials of {folder.name}; open with: optuna-dashboard sqlite:///{file}")
    return str(file)


if __name__ == "__main__":
    sys.exit(
        main(
            "export_study",
            run,
            description="Write the points of a sweep as an Optuna study, which optuna-dashboard opens.",
            options=ExportOptions(),
        )
    )
