"""Can text alone tell adversaries from captions? `python jobs/measure_artefacts.py --preset univse_scenes`."""

import sys
from collections.abc import Iterable

from vse import registry
from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.stages.describe import of_data
from vse.studies.artefact_measures import table
from vse.studies.artefact_test import ArtefactTestOptions, measure_artefacts, numbers
from vse.workspace.layout import Workspace


def run(request: Request) -> str:
    """Print the table and keep its numbers."""
    set_up_logging()
    workspace = Workspace.open(request.workspace).check_writable()
    records, rows = measure_artefacts(request.config, workspace, request.options)
    unfiltered = [row.reaches_goal for row in rows if row.filter == "none"]
    reached = {row.paradigm for row in rows if row.reaches_goal}
    path = request.write_summary(
        workspace.root.child("artefacts", f"{records.name}-{records.fingerprint}"),
        fingerprints={"records": records.fingerprint},
        headline={
            "paradigms": len(unfiltered),
            "goal_reached": sum(r is True for r in unfiltered),
            "goal_reached_with_a_filter": len(reached),
        },
        details=numbers(rows),
    )
    print("\n".join(table(rows)))
    return path


def plan(request: Request) -> Iterable[str]:
    """Check the data set."""
    yield from of_data(registry.build("source", request.config.data).describe())


if __name__ == "__main__":
    sys.exit(
        main(
            "measure_artefacts",
            run,
            description="Measure how well text alone distinguishes adversaries from real captions.",
            default_preset="univse_scenes",
            options=ArtefactTestOptions(),
            plan=plan,
        )
    )
