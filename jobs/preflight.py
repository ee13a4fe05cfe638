"""Check what a cluster run needs: `python jobs/preflight.py cluster=cluster.yaml`; on a head, on every node."""

import sys

from vse.cli.command import main
from vse.preflight.run import PreflightOptions, run_preflight

if __name__ == "__main__":
    sys.exit(
        main(
            "preflight",
            run_preflight,
            description="Check cluster file, account, nodes, workspace and MLflow; one table, exit status 0 or 2.",
            options=PreflightOptions(),
        )
    )
