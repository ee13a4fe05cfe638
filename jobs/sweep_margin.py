"""Sweep margins and kinds of hinge: `python jobs/sweep_margin.py --preset relational_attention_scenes`."""

import sys

from vse.sweeps.job import objective_job

if __name__ == "__main__":
    sys.exit(
        objective_job(
            "sweep_margin",
            space="margin",
            description="By default relational embeddings at several margins of the global hinge (hardest and "
            "sum), of the alignment of pools and of cross attention; sweep.space=margin_joint has ranges to search "
            "them in.",
            default_preset="relational_attention_scenes",
        )
    )
