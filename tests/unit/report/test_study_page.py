"""A study's page, table and runs, from planted findings."""

import csv
import io
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests import s3
from tests.unit.report.pages import SVG
from vse.report.page import Provenance
from vse.report.study_page import attack_columns, plain_columns, report_study, study_page, table, to_csv
from vse.storage.folder import Folder
from vse.studies.study import StudyArm
from vse.workspace import journal
from vse.workspace.layout import Workspace


def row(arm: str, split: str, alpha: float | None, level: float, attacked: bool) -> dict[str, Any]:
    metrics = [column.metric for column in plain_columns()]
    if attacked:
        metrics += ["attack_object/r1", "attack_contrast_noun/r1", "attack_contrast_noun/pair_accuracy"]
        metrics += ["own_pool_noun/r1"]
    numbers = {metric: [level + k, level + k - 1, level + k + 3] for k, metric in enumerate(metrics)}
    return {"arm": arm, "split": split, "alpha": alpha, "seeds": 5, **numbers}


@pytest.fixture
def findings() -> dict[str, Any]:
    rows = [
        row("vsepp", "test", None, 40.0, True),
        row("univse", "test", 0.75, 50.0, True),
        row("vsepp", "drawing", None, 10.0, False),
    ]
    verdict = {"statement": "A < B & C.", "effects": [["rsum: B - A", 1.25, -0.5, 3.0]], "detectable": 2.5}
    claims = {"one": {**verdict, "answer": "undecided"}, "two": {**verdict, "answer": "holds"}}
    return {
        "study": "planted",
        "command": "python jobs/evidence.py study.name=planted",
        "claims_hash": "0123abcd",
        "design_hash": "4567cdef",
        "learned_alpha": {"univse_learned_alpha": [0.931, 0.902, 0.96]},
        "seeds": 5,
        "code": ["commit 0123456789", "not recorded"],
        "claims": {"shared": claims, "disjoint": claims},
        "table": {"shared": rows, "disjoint": [{**r, "rsum": [7.0, 6.0, 8.0]} for r in rows]},
    }


def test_tables_have_a_line_an_arm_and_what_was_measured(findings):
    rows = findings["table"]["shared"]
    plain = table(rows, "test", plain_columns(), "t")
    assert [(r.label, r.note) for r in plain.rows] == [("VSE++", ""), ("UniVSE", "α = 0.75")]
    first = plain.rows[0].values[0]
    assert first is not None
    assert (first.mean, first.half, first.count) == (40.0, 2.0, 5)
    attacks = attack_columns(rows)
    assert [c.metric for c in attacks] == [
        "own_pool_noun/r1",
        "attack_object/r1",
        "attack_contrast_noun/r1",
        "attack_contrast_noun/pair_accuracy",
    ]
    assert attack_columns([r for r in rows if r["split"] == "drawing"]) == ()


def test_csv_has_every_number_once(findings):
    lines = list(csv.DictReader(io.StringIO(to_csv(findings))))
    assert len(lines) == 2 * (12 + 12 + 8)
    chosen = [
        r for r in lines if (r["words"], r["arm"], r["split"], r["metric"]) == ("shared", "univse", "test", "rsum")
    ]
    assert [(r["alpha"], r["mean"], r["low"], r["high"]) for r in chosen] == [("0.75", "50.0", "49.0", "53.0")]


class Cells(HTMLParser):
    """Text of a page, and whether it asks for anything from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.links = "", []

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if name in ("src", "href") and not str(value).startswith("data:")]


def test_page_says_claims_numbers_and_command(findings):
    cells = Cells()
    made = Provenance(commands=[findings["command"]], configuration={}, versions={})
    cells.feed(study_page(findings, SVG, made))
    assert cells.links == []
    for text in ("A < B & C.", "2.5 would be detectable", "rsum: B - A: +1.2 [-0.5, 3.0]", findings["command"]):
        assert text in cells.text
    for text in ("0123abcd, design 4567cdef", "UniVSE, learned α: α ended at 0.93 [0.90, 0.96]."):
        assert text in cells.text
    assert cells.text.count("2.5 would be detectable") == 2  # of the undecided claim alone
    assert "the second drawing, never trained on" in cells.text


@pytest.mark.process
@pytest.mark.slow
def test_a_study_on_s3_names_its_files_as_one_on_a_disk(findings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    with s3.server() as place:
        workspace = Workspace.open(s3.address(place, "space"))
        report_study(findings, {}, workspace, Folder.open(tmp_path / "out"))
        report = workspace.report("study-planted")
        parent = journal.parse(report.read_bytes(journal.FILE_NAME))
        assert {path for path, _ in parent.artifacts} == {
            "results.json",
            "table.csv",
            "systems.png",
            "systems.svg",
            "report.html",
        }
        assert all(report.exists(path) for path, _ in parent.artifacts)


@pytest.mark.seconds
def test_files_and_runs(findings, tmp_path: Path):
    workspace = Workspace.open(str(tmp_path / "space"))
    written = report_study(findings, {}, workspace, Folder.open(tmp_path / "out"))
    assert report_study(findings, {}, workspace, Folder.open(tmp_path / "out")) == written  # again changes nothing
    assert {Path(path).name for path in written.values()} == {"results.json", "table.csv", "systems.png", "report.html"}
    assert Folder.open(tmp_path / "out").read_json("results.json") == findings
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["results.json", "systems.png", "table.csv"]
    report = tmp_path / "space" / "reports" / "study-planted"
    parent = journal.read(report / journal.FILE_NAME)
    assert parent.tags["answer one"] == "undecided"
    assert parent.tags["answer two (disjoint)"] == "holds"
    artifacts = {Path(path).name for path, _ in parent.artifacts}
    assert artifacts == {"results.json", "table.csv", "systems.png", "systems.svg", "report.html"}
    arms = {path.name: journal.read(path / journal.FILE_NAME) for path in (report / "arms").iterdir()}
    assert arms.keys() == {"vsepp", "univse-alpha0.75"}
    assert {(story.parent, story.status) for story in arms.values()} == {("study-planted", "finished")}
    numbers = {key: value for (key, _), (value, _) in arms["vsepp"].metrics.items()}
    assert numbers["test/rsum"] == 40.0
    assert numbers["drawing/rsum"] == 10.0
    assert numbers["test/disjoint/attack_object/r1"] == numbers["test/attack_object/r1"]
    assert "test/disjoint/rsum" not in numbers


@pytest.mark.seconds
def test_a_study_that_leaves_pairs_out_shows_its_curve_too(findings, tmp_path: Path):
    changes = ({"train.pairs": 0.1}, {"train.pairs": 0.5})
    names = list(dict.fromkeys(row["arm"] for row in findings["table"]["shared"] if row["split"] == "test"))
    arms = {name: StudyArm(preset="a", family="", changes=each) for name, each in zip(names, changes, strict=False)}
    workspace = Workspace.open(str(tmp_path / "space"))
    written = report_study(findings, arms, workspace, Folder.open(tmp_path / "out"))
    assert Path(written["pairs"]).read_bytes().startswith(b"\x89PNG")
    assert "With fewer pairs" in Path(written["page"]).read_text()
    parent = journal.read(tmp_path / "space" / "reports" / "study-planted" / journal.FILE_NAME)
    assert {"pairs.png", "pairs.svg"} < {path for path, _ in parent.artifacts}
