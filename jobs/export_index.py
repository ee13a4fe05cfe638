"""Write vectors of a split or a folder for other programs: `python jobs/export_index.py run=RUN split=test`."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.display.escaping import one_line
from vse.errors import InputError
from vse.inference.index_export import IndexOptions, check_export, export_index
from vse.report.model_card import CardOptions, write_card
from vse.workspace.layout import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportIndexOptions(IndexOptions):
    """Keys of this job."""

    card: CardOptions = field(default_factory=CardOptions)


def run(request: Request) -> str:
    """Embed, write tables and indexes, print what an approximate search finds."""
    set_up_logging()
    workspace = Workspace.open(request.workspace).check_writable()
    options: ExportIndexOptions = request.options
    exported = export_index(workspace, options)
    write_card(exported.folder, workspace.run(options.run), options.card, options.alpha)
    path = request.write_summary(
        exported.folder,
        fingerprints=exported.fingerprints,
        headline=dict(exported.numbers),
        outputs={"folder": exported.folder.uri},
        details={"among": exported.among, "rejects": dict(exported.rejects)},
    )
    print("\n".join(one_line(line) for line in exported.lines))
    return path


def check(request: Request) -> None:
    """Raises InputError for keys that exclude each other."""
    options: ExportIndexOptions = request.options
    options.card.check()
    if options.images and "split" in request.changed:
        raise InputError("split, images: export a split or a folder; leave one of the two out")
    if useless := sorted(request.changed & {"lists", "probes"}) if "ivf" not in options.index else []:
        raise InputError(f"{', '.join(useless)}: only with an IVF index; add ivf to index")
    if options.lists and options.probes > options.lists:
        raise InputError(f"probes={options.probes}: must be at most lists={options.lists}")


def plan(request: Request) -> Iterator[str]:
    """The lines of a dry run."""
    return check_export(Workspace.open(request.workspace), request.options)


if __name__ == "__main__":
    sys.exit(
        main(
            "export_index",
            run,
            description="Write vectors and ids of images and captions as Parquet tables and FAISS indexes.",
            options=ExportIndexOptions(),
            check=check,
            plan=plan,
        )
    )
