"""A study's findings as pages, files and tracked runs: claims with verdicts, numbers of every arm, and attacks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vse.adversaries.attacks import ATTACKS, contrast_classes
from vse.display.markdown import commands
from vse.display.markdown import table as markdown_table
from vse.evaluation.intervals import Interval
from vse.evaluation.metrics import RECALLS, WAYS
from vse.evaluation.tasks.attacks import AttacksTask
from vse.evaluation.tasks.contrast import ContrastTask
from vse.report.description import PAGE, files_text, page_link
from vse.report.files import RESULTS, csv_text, json_text, write_files
from vse.report.page import Provenance, provenance, render
from vse.report.study_figures import pairs_figure, study_figure
from vse.report.style import inline
from vse.report.tables import Column, Row, Table
from vse.storage.folder import Folder
from vse.studies.labels import label_of
from vse.studies.study import StudyArm
from vse.workspace.layout import Workspace

Findings = Mapping[str, Any]
KEYS = ("arm", "split", "alpha", "seeds")
SPLITS = {
    "test": "drawn as the training images were",
    "shifted": "the training set's co-occurrences are broken",
    "drawing": "the second drawing, never trained on",
    "wording": "the second wording, never trained on",
}
_FIGURE_TEXT = (
    "One line a system, the best rsum on top. Marks are means, lines 95 % intervals over seeds and images; attacks are "
    "UniVSE's, with words that training negatives may have had."
)
_PAIRS_TEXT = (
    "The sum of recalls over the share of training pairs that are known, the rest left out, or used as images and "
    "captions without partners; bands are 95 % intervals over seeds and images."
)
_TESTED = (
    "Verdicts are at 5 %, with Holm's correction over all registered claims of a paper; a detectable difference is "
    "after the correction, with a power of 80 %. Checkpoints and rates were chosen on validation at each family's "
    "configured α; other α score the same weights."
)
WORDS = {
    "shared": "words that training negatives may have had",
    "disjoint": "nouns, attributes and relations that training negatives never had",
}
TABLE = "table.csv"


def report_study(findings: Findings, arms: Mapping[str, StudyArm], workspace: Workspace, out: Folder) -> dict[str, str]:
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
    drawn = {"systems": study_figure(findings), "pairs": pairs_figure(findings, arms)}
    texts: dict[str, str | bytes] = {RESULTS: json_text(findings), TABLE: to_csv(findings)}
    figures = {f"{name}.{kind}": data for name, kinds in drawn.items() for kind, data in kinds.items()}
    page = study_page(
        findings, drawn["systems"]["svg"], provenance([findings["command"]], {}), drawn["pairs"].get("svg")
    )
    write_files(folder, texts | {PAGE: page} | figures)
    write_files(out, texts | {file: data for file, data in figures.items() if file.endswith(".png")})
    _journal(findings, name, folder, workspace, figures)
    return {
        "results": out.address(RESULTS),
        "table": out.address(TABLE),
        **{name: out.address(f"{name}.png") for name, kinds in drawn.items() if kinds},
        "page": folder.address(PAGE),
    }


def _journal(findings: Findings, name: str, folder: Folder, workspace: Workspace, figures: Iterable[str]) -> None:
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
    parent.describe("headline", page_link(folder))
    parent.describe("result", f"{markdown_table(['claim', 'answer'], rows)}\n\n{files_text((TABLE, *figures))}")
    parent.describe("commands", commands([findings["command"]]))
    for arm, values in _arms(findings).items():
        below = arm.replace(" ", "-").replace("=", "")
        child = workspace.journal(folder.child("arms", below))
        child.start(f"{name}-{below}", name=arm, parent=name, tags={"kind": "arm"})
        child.metrics(values)
        child.end("finished")
    parent.end("finished")


def _arms(findings: Findings) -> dict[str, dict[str, float]]:
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


def plain_columns() -> tuple[Column, ...]:
    """Retrieval among true captions."""
    recalls = [Column(f"{way}/r{k}", f"R@{k}", sign) for way, sign in WAYS.items() for k in RECALLS]
    return (Column("rsum", "rsum", "plain"), *recalls, Column("seconds", "s", "training", least=True))


def attack_columns(rows: Sequence[Findings]) -> tuple[Column, ...]:
    """R@1 under each attack and pair accuracy, of the attacks that were measured."""
    named = [(f"attack_{kind}", kind, "UniVSE's attacks") for kind in ATTACKS]
    named += [(f"attack_contrast_{kind}", kind, "VSE-C's attacks") for kind in contrast_classes()]
    own = [Column(f"own_pool_{kind}/r1", kind, "VSE-C's, own pool: R@1") for kind in contrast_classes()]
    return tuple(column for column in own if any(column.metric in row for row in rows)) + tuple(
        Column(f"{attack}/{metric}", kind, f"{group}: {title}")
        for metric, title in (("r1", "R@1"), ("pair_accuracy", "pairs right"))
        for attack, kind, group in named
        if any(f"{attack}/{metric}" in row for row in rows)
    )


def table(rows: Sequence[Findings], split: str, columns: tuple[Column, ...], title: str) -> Table:
    """The arms' numbers on one split. An arm with fewer seeds than others has a note that says so.

    Args:
        rows: For each arm, α and split, its seeds and [mean, low, high] by metric, as `findings["table"]` has them for
            one kind of words.
        split: The split; rows of other splits are left out.
        columns: The metrics to show. Intervals are from the study's bootstrap, shown by half of their width.
        title: Heading of the table.
    """
    here = [row for row in rows if row["split"] == split]
    most = max((row["seeds"] for row in here), default=0)
    lines = []
    for row in here:
        alpha = "" if row["alpha"] is None else f"α = {row['alpha']:g}"
        seeds = "" if row["seeds"] == most else f"{row['seeds']} of {most} seeds"
        values = tuple(_interval(row.get(column.metric), row["seeds"]) for column in columns)
        lines.append(Row(label_of(row["arm"]), ", ".join(filter(None, (alpha, seeds))), values))
    return Table(title, split, columns, tuple(lines))


def _interval(bounds: Sequence[float] | None, seeds: int) -> Interval | None:
    if bounds is None:
        return None
    mean, low, high = bounds
    return Interval(mean, (high - low) / 2, seeds)


def to_csv(findings: Findings) -> str:
    """One line for each arm, split, α, kind of words and metric, with mean and interval."""
    lines = [
        [words, *("" if row[key] is None else row[key] for key in KEYS), name, *bounds]
        for words, rows in findings["table"].items()
        for row in rows
        for name, bounds in row.items()
        if name not in KEYS
    ]
    return csv_text(["words", *KEYS, "metric", "mean", "low", "high"], lines)


def study_page(findings: Findings, systems: bytes, made_with: Provenance, pairs: bytes | None = None) -> str:
    """The page of a study.

    Args:
        findings: Everything that `results.json` of the study holds.
        systems: The figure of all systems (SVG).
        made_with: How the findings can be reproduced.
        pairs: The figure over shares of training pairs (SVG), if the study has one.
    """
    rows = findings["table"]["shared"]
    splits = list(dict.fromkeys(row["split"] for row in rows))
    figures = [{"title": "All systems", "drawing": inline(systems, "systems"), "caption": _FIGURE_TEXT}]
    if pairs:
        figures.append({"title": "With fewer pairs", "drawing": inline(pairs, "pairs"), "caption": _PAIRS_TEXT})
    return render(
        "study.html",
        title=f"study {findings['study']}",
        heading=f"Study {findings['study']}",
        lead="Percent, ± half of a 95 % interval over seeds and images. Every table is of one split.",
        protocol={
            "arms": str(len({row["arm"] for row in rows})),
            "splits": ", ".join(splits),
            "candidates": "all images and captions of the split; under attack also the adversaries of every caption",
            "seeds": f"up to {findings['seeds']}",
            "claims": f"{findings['claims_hash']}, design {findings['design_hash']}",
        },
        figures=figures,
        claims=[(WORDS[words], verdicts) for words, verdicts in findings["claims"].items() if verdicts],
        tested=_TESTED,
        learned=[
            f"{label_of(arm)}: α ended at {mean:.2f} [{low:.2f}, {high:.2f}]."
            for arm, (mean, low, high) in findings["learned_alpha"].items()
        ],
        retrieval=[table(rows, split, plain_columns(), _about(split)) for split in splits],
        attacks=list(_attacked(findings, splits)),
        code=findings["code"],
        provenance=made_with,
    )


def _attacked(findings: Findings, splits: Sequence[str]) -> Iterator[Table]:
    for split in splits:
        for words, rows in findings["table"].items():
            columns = attack_columns([row for row in rows if row["split"] == split])
            if columns:
                yield table(rows, split, columns, f"{_about(split)}; {WORDS[words]}")


def _about(split: str) -> str:
    return f"split {split}: {SPLITS[split]}" if split in SPLITS else f"split {split}"
