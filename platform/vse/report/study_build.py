"""Findings of a study as files and as runs: the study with its tables, and below it one run for each arm."""

from collections.abc import Iterable, Mapping
from typing import Any

from vse.display.markdown import commands, table
from vse.evaluation.tasks.attacks import AttacksTask
from vse.evaluation.tasks.contrast import ContrastTask
from vse.report.description import files_text, page_link
from vse.report.files import RESULTS, json_text, write_files
from vse.report.page import provenance
from vse.report.pairs_figure import pairs_figure
from vse.report.study_figure import study_figure
from vse.report.study_page import KEYS, study_page, to_csv
from vse.storage.folder import Folder
from vse.studies.study import StudyArm
from vse.workspace.layout import Workspace

TABLE, PAGE = "table.csv", "report.html"
SYSTEMS, PAIRS = "systems", "pairs"


def report_study(
    findings: Mapping[str, Any], arms: Mapping[str, StudyArm], workspace: Workspace, out: Folder
) -> dict[str, str]:
    """Write a study's report and its journals.

    Args:
        findings: Everything that `results.json` of the study holds.
        arms: The study's arms by name.
        workspace: Gets the whole report, in `reports/study-NAME`, and a journal for the study and for each arm.
        out: Gets results, table and PNG figures.

    Returns:
        The addresses of the files.
    """
    name = f"study-{findings['study']}"
    folder = workspace.report(name)
    drawn = {SYSTEMS: study_figure(findings), PAIRS: pairs_figure(findings, arms)}
    texts: dict[str, str | bytes] = {RESULTS: json_text(findings), TABLE: to_csv(findings)}
    figures = {f"{name}.{kind}": data for name, kinds in drawn.items() for kind, data in kinds.items()}
    page = study_page(findings, drawn[SYSTEMS]["svg"], provenance([findings["command"]], {}), drawn[PAIRS].get("svg"))
    write_files(folder, texts | {PAGE: page} | figures)
    write_files(out, texts | {file: data for file, data in figures.items() if file.endswith(".png")})
    _journal(findings, name, folder, workspace, figures)
    return {
        "results": out.address(RESULTS),
        "table": out.address(TABLE),
        **{name: out.address(f"{name}.png") for name, kinds in drawn.items() if kinds},
        "page": folder.address(PAGE),
    }


def _journal(
    findings: Mapping[str, Any], name: str, folder: Folder, workspace: Workspace, figures: Iterable[str]
) -> None:
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
    means: dict[str, dict[str, float]] = {}
    attacked = {metric.name for task in (AttacksTask(), ContrastTask()) for metric in task.metrics}
    for words, rows in findings["table"].items():
        for row in rows:
            arm = row["arm"] if row["alpha"] is None else f"{row['arm']} alpha={row['alpha']:g}"
            values = means.setdefault(arm, {"seeds": row["seeds"], "seconds": row["seconds"][0]})
            for metric, each in row.items():
                if metric not in (*KEYS, "seconds") and (words == "shared" or metric in attacked):
                    values[f"{row['split']}/{metric if words == 'shared' else f'{words}/{metric}'}"] = each[0]
    return means
