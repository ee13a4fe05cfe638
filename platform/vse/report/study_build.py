"""Findings of a study as files, and as runs: the study with its tables, below it one run an arm."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from vse.display.markdown import commands, table
from vse.report.description import files_text, page_link
from vse.report.html import Provenance
from vse.report.pairs_figure import pairs_figure
from vse.report.study_figure import study_figure
from vse.report.study_page import KEYS, study_page, to_csv
from vse.storage.folder import Folder
from vse.studies.study import StudyArm
from vse.workspace.layout import Workspace
from vse.workspace.provenance import environment

RESULTS, TABLE, PAGE = "results.json", "table.csv", "report.html"
SYSTEMS, PAIRS = "systems", "pairs"


def report_study(
    findings: Mapping[str, Any], arms: Mapping[str, StudyArm], workspace: Workspace, out: Folder
) -> dict[str, str]:
    """Write results, table and figures into `out`, these and the page into reports/study-<name>, told as runs.

    Returns the addresses of what was written.
    """
    name = f"study-{findings['study']}"
    folder, around = workspace.report(name), environment()
    drawn = {SYSTEMS: study_figure(findings), PAIRS: pairs_figure(findings, arms)}
    figures = {f"{name}.{kind}": data for name, kinds in drawn.items() for kind, data in kinds.items()}
    made = Provenance(commands=[findings["command"]], configuration={}, versions=around["versions"])
    page = study_page(findings, drawn[SYSTEMS]["png"], made, drawn[PAIRS].get("png"))
    files = {
        RESULTS: json.dumps(findings, indent=1, ensure_ascii=False) + "\n",
        TABLE: to_csv(findings),
        PAGE: page,
    }
    for file, text in files.items():
        folder.write_text(file, text)
        if file != PAGE:
            out.write_text(file, text)
    for file, data in figures.items():
        folder.write_bytes(file, data)
        if file.endswith(".png"):
            out.write_bytes(file, data)
    _tell(findings, name, folder, workspace, figures)
    return {
        "results": out.address(RESULTS),
        "table": out.address(TABLE),
        **{name: out.address(f"{name}.png") for name, kinds in drawn.items() if kinds},
        "page": folder.address(PAGE),
    }


def _tell(findings: Mapping[str, Any], name: str, folder: Folder, workspace: Workspace, figures: Iterable[str]) -> None:
    parent = workspace.journal(folder)
    tags = {"kind": "study", "claims": findings["claims_hash"]}
    verdicts = {
        f"answer {claim}{'' if words == 'shared' else f' ({words})'}": verdict["answer"]
        for words, each in findings["claims"].items()
        for claim, verdict in each.items()
    }
    parent.start(name, name=name.replace("-", " "), tags={**tags, **verdicts})
    parent.files((RESULTS, TABLE, PAGE, *figures))
    rows = [[claim.removeprefix("answer "), answer] for claim, answer in verdicts.items()]
    parent.describe("headline", page_link(folder, PAGE))
    parent.describe("result", f"{table(['claim', 'answer'], rows)}\n\n{files_text((TABLE, *figures))}")
    parent.describe("commands", commands([findings["command"]]))
    for arm, values in _arms(findings).items():
        below = arm.replace(" ", "-").replace("=", "")
        child = workspace.journal(folder.child("arms", below))
        child.start(f"{name}-{below}", name=arm, parent=name, tags={"kind": "arm"})
        child.metrics(values)
        child.end("finished")
    parent.end("finished")


def _arms(findings: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Means of every arm (and α) over its seeds: `split/metric`, and `split/disjoint/metric` under attack."""
    found: dict[str, dict[str, float]] = {}
    for words, rows in findings["table"].items():
        for row in rows:
            arm = row["arm"] if row["alpha"] is None else f"{row['arm']} alpha={row['alpha']:g}"
            values = found.setdefault(arm, {"seeds": row["seeds"], "seconds": row["seconds"][0]})
            for metric, each in row.items():
                if metric not in (*KEYS, "seconds") and (words == "shared" or metric.startswith("attack")):
                    values[f"{row['split']}/{metric if words == 'shared' else f'{words}/{metric}'}"] = each[0]
    return found
