"""The report of a sweep of trainings as files: figures, table, page, results."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from vse.report.html import Provenance
from vse.report.importance import importance
from vse.report.response import ResponseResults
from vse.report.response_figures import importance_figure, interaction_figure, response_figure
from vse.report.response_page import points_csv, response_page
from vse.storage.folder import Folder
from vse.workspace.provenance import environment

RESULTS = "results.json"
BEST = "best.json"


def write_response(
    folder: Folder,
    results: ResponseResults,
    commands: Sequence[str],
    configuration: Mapping[str, Mapping[str, Any]],
    extra: Mapping[str, str],
    elsewhere: Sequence[str] = (),
) -> list[str]:
    """Write everything into a folder; returns the names of the files. `extra`: further texts by file name, among them
    the preset of the best point; `elsewhere`: what its command needs to find the workspace (`Request.elsewhere`)."""
    found, around = importance(results), environment()
    drawn = {"response": response_figure(results, band=_band(results))} if results.points else {}
    if (pairs := interaction_figure(results, list(found.shares) if found else [])) is not None:
        drawn["interaction"] = pairs
    if found is not None:
        drawn["importance"] = importance_figure(found)
    hardware = around["hardware"]
    facts = {
        "trials": f"{sum(len(p.seeds) for p in results.points)} finished, {results.seconds:.0f} s of trials in all",
        "machine": f"{hardware['processor']}, {hardware['cores']} cores, {hardware['memory_gib']} GiB",
        "GPUs": ", ".join(hardware["gpus"]) or "none",
    }
    if around["git"].get("commit"):
        facts["commit"] = around["git"]["commit"]
    made = Provenance(commands=commands, configuration=configuration, versions=around["versions"], facts=facts)
    training = ["python", "jobs/train.py", "--preset", folder.address(BEST), *elsewhere]
    command = shlex.join(training) if BEST in extra else ""
    files = {f"{name}.{kind}": data for name, kinds in drawn.items() for kind, data in kinds.items()}
    texts = {
        **extra,
        "points.csv": points_csv(results),
        "report.html": response_page(results, {n: k["png"] for n, k in drawn.items()}, found, made, command),
        RESULTS: json.dumps(results.to_dict(), indent=1, ensure_ascii=False) + "\n",
    }
    files |= {name: text.encode() for name, text in texts.items()}
    for name, data in files.items():
        folder.write_bytes(name, data)
    return list(files)


def _band(results: ResponseResults) -> float:
    """Half width of the equivalence band of the claim that was judged; 0 without one."""
    return next((verdict["margin"] for verdict in results.claims.values()), 0.0)
