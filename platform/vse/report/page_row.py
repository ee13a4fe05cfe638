"""The row of a page in MLflow: reports, comparisons, galleries and figures of saliency."""

from collections.abc import Iterable, Mapping
from typing import Any

from vse.display.markdown import commands
from vse.report.description import files_text, page_link
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace


def record_page(
    workspace: Workspace,
    folder: Folder,
    kind: str,
    name: str,
    command: str,
    files: Iterable[str],
    *,
    page: str,
    runs: Iterable[str] = (),
    metrics: Mapping[str, Any] | None = None,
    result: str = "",
) -> None:
    """Write the journal of a page, whose files become artifacts of its run in MLflow.

    Args:
        workspace: Of the page.
        folder: With its files.
        kind: Such as `report`; the first word of the name of the run.
        name: The rest of that name.
        command: Which writes the page.
        files: Names in the folder.
        page: The one that the description names first.
        runs: Names of the runs that it shows.
        metrics: Numbers of the run.
        result: Markdown that stands above the list of files.
    """
    files, runs = list(files), list(runs)
    journal = workspace.journal(folder)
    with journal.together():
        journal.start(f"{kind}-{name}", name=f"{kind} {name}", tags={"kind": kind})
        if runs:
            journal.params({"runs": ",".join(runs)})
        if metrics:
            journal.metrics(metrics)
        journal.files(files)
        journal.describe("headline", page_link(folder, page))
        journal.describe("result", "\n\n".join(filter(None, [result, files_text(files)])))
        journal.describe("commands", commands([command]))
        journal.end("finished")
