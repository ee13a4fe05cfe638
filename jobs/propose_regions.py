"""Propose regions of photographs: `python jobs/propose_regions.py data=flickr30k_entities data.root=...`."""

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from vse.cli.command import Request, main
from vse.cluster.runtime import Config as RayConfig
from vse.cluster.runtime import cluster_of, set_up_logging
from vse.config import knob
from vse.features.proposing import ProposalConfig
from vse.stages.describe import of_data
from vse.stages.propose import FILE, photographs, proposals_folder, propose_regions, upper_bounds
from vse.workspace.layout import Workspace
from vse.workspace.provenance import write_summary


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposeOptions:
    """Keys of this job."""

    proposals: ProposalConfig = field(default_factory=ProposalConfig)
    num_workers: int | None = knob(None, "processes or Ray actors; none: as many as cores, at most four", low=1)
    ray: RayConfig = field(default_factory=RayConfig)


def run(request: Request) -> str:
    """Propose what is not proposed yet; print the upper bound of each split that has boxes."""
    started, options = time.time(), request.options
    set_up_logging()
    options.proposals.check()
    workspace = Workspace.open(request.workspace).check_writable()
    source = photographs(request.config)
    records = source.describe()
    folder = propose_regions(
        records,
        source.image_root,
        options.proposals,
        workspace,
        num_workers=options.num_workers,
        cluster=cluster_of(options.ray),
    )
    headline: dict[str, float] = {"images": len(records.images)}
    table = list[str]()
    for split, count, hits, phrases in upper_bounds(records, folder.address(FILE)):
        share = headline[f"{split}/upper_bound_{count}"] = 100 * hits / phrases
        table.append(f"{split:8} first {count:4} proposals: {share:5.1f} % of {phrases} phrases at IoU >= 0.5")
    path = write_summary(
        folder,
        job="propose_regions",
        started=started,
        configuration=request.config,
        options=options,
        fingerprints={"records": records.fingerprint},
        headline=headline,
        outputs={"proposals": folder.address(FILE)},
    )
    print("\n".join([*table, f"data.proposals={folder.address(FILE)}"]))
    return path


def plan(request: Request) -> Iterable[str]:
    """Check OpenCV and the source, and say where the file would be."""
    options = request.options.proposals.check()
    records = photographs(request.config).describe()
    yield from of_data(records)
    folder = proposals_folder(records, options, Workspace.open(request.workspace))
    yield f"{options.method}, at most {options.number} regions of each of {len(records.images)} photographs"
    yield f"{folder.address(FILE)} {'is there' if folder.exists(FILE) else 'would be written'}"


if __name__ == "__main__":
    sys.exit(
        main(
            "propose_regions",
            run,
            description="Propose regions of every photograph, for phrase localisation.",
            default_preset="univse_scenes",
            options=ProposeOptions(),
            plan=plan,
        )
    )
