"""The page and the files of reproduced tables, of numbers made for the test."""

import csv
import io
from typing import Any

from vse.report.reproduction_page import headline, reproduction_page, summary_text, to_csv

COLUMN = {"metric": "i2t/r1", "title": "R@1", "group": "image → sentence", "least": False, "decimals": 1}


def row(label: str, printed: str | None, ours: list[float | None] | None, reason: str = "") -> dict[str, Any]:
    cell = {"printed": printed, "note": "", "ours": ours}
    command = "" if ours is None else "python jobs/evaluate.py run=RUN tasks=retrieval"
    return {
        "label": label,
        "about": "a <preset>",
        "reason": reason,
        "runs": [],
        "command": command,
        "cells": {"i2t/r1": cell},
    }


def data() -> dict[str, Any]:
    rows = [
        row("First", "50.0", [40.04, 35.0, 45.0]),
        row("Second", "40.0", [40.0, None, None]),
        row("Cited", "30.0", None, "cited, not built here"),
        row("Ours alone", None, [20.0, 15.0, 25.0]),
    ]
    orders = {"i2t/r1": {"as_printed": 1, "contrary": 2, "undecided": 3}}
    block = {"about": "1,000 images", "columns": [COLUMN], "rows": rows, "orders": orders}
    table = {"name": "UniVSE, Table 1", "title": "Retrieval", "notes": ["A note."], "blocks": [block]}
    effect = {"difference": "rsum: First − Second", "printed": -2.5, "ours": [-1.25, -3.0, 0.5]}
    claims = [
        {"name": "first", "table": "1", "statement": "A statement.", "answer": "undecided", "detectable": 4.0}
        | {"effects": [effect]},
        {"name": "lost", "table": "1", "statement": "Another.", "answer": "not measured", "reason": "no such row"},
    ]
    about = {"paper": "univse", "scale": "scenes", "about": "scenes", "seeds": [0], "set": []}
    registered = {"claims": claims, "claims_hash": "12345678", "registered": 9, "seeds_needed": 5}
    return {**about, **registered, "tables": [table]}


def test_a_cell_has_ours_the_interval_the_printed_number_and_the_difference() -> None:
    page = reproduction_page(data(), ["python jobs/reproduce.py table=1"])
    for text in (
        "40.0",
        "[35.0, 45.0]",
        "50.0 (−10.0)",
        "40.0 (0.0)",
        "cited, not built here",
        "A note.",
        "2!</span> of 6",
    ):
        assert text in page, text
    assert "a &lt;preset&gt;" in page
    assert page.count("python jobs/evaluate.py") == 3
    assert "One seed" in page


def test_headline_counts_printed_cells_and_orders() -> None:
    assert headline(data()) == {"cells": 2, "printed": 3, "as_printed": 1, "contrary": 2, "undecided": 3}
    *claims, line = summary_text(data())
    assert claims == ["Table 1, first: undecided", "Table 1, lost: not measured"]
    assert line.startswith("UniVSE, Table 1: 2 of 3 printed cells measured")


def test_claims_stand_before_the_tables() -> None:
    page = reproduction_page(data(), [])
    for text in ("rsum: First − Second: −1.2 [−3.0, 0.5]", "−2.5", "4.0 would be detectable"):
        assert text in page, text
    assert "no such row" in page
    assert page.index("A statement.") < page.index("A note.")


def test_the_csv_file_has_a_line_for_each_cell() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(data()))))
    assert [each["system"] for each in rows] == ["First", "Second", "Cited", "Ours alone"]
    assert rows[0]["difference"] == "-9.9600"
    assert (rows[2]["ours"], rows[2]["why"]) == ("", "cited, not built here")
    assert (rows[3]["printed"], rows[3]["difference"], rows[1]["low"]) == ("", "", "")
