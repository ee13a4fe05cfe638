"""Tables: rows, numbers, and three formats that agree."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.report.pages import table_element
from tests.unit.report.results import made_up
from vse.adversaries.attacks import ATTACKS
from vse.evaluation.intervals import Interval
from vse.report.tables import PLAIN, Column, alpha_table, attack_groups, curve_csv, metrics_csv


def test_rows_and_numbers() -> None:
    results = made_up()
    table = alpha_table(results)
    assert [(row.label, row.note) for row in table.rows] == [
        ("VSE++", ""),
        ("UniVSE α = 0.75", "as configured"),
        ("UniVSE α = 0.7", "chosen"),
        ("UniVSE α = 1", "u_sent alone"),
        ("UniVSE, learned α", "α = 0.61, 0.66, 0.58"),
    ]
    at = results.at(0.7)
    assert at is not None
    for column, value in zip(table.columns, table.rows[2].values, strict=True):
        assert value is not None
        assert value.mean == pytest.approx(np.mean(at[f"test/{column.metric}"]))
        assert value.half == pytest.approx(4.302653 * np.std(at[f"test/{column.metric}"], ddof=1) / np.sqrt(3))
    assert len(table.columns) == 7 + 3 * len(ATTACKS)


def test_settings_that_fall_together_share_a_row() -> None:
    rows = alpha_table(replace(made_up(), chosen=1.0)).rows
    assert [(row.label, row.note) for row in rows[1:3]] == [
        ("UniVSE α = 0.75", "as configured"),
        ("UniVSE α = 1", "chosen, u_sent alone"),
    ]


def test_what_is_missing_has_no_row_or_an_empty_cell() -> None:
    results = made_up(reference=False, learned=False)
    for point in results.points:
        del point["test/attack_object/pair_accuracy"]
    table = alpha_table(replace(results, alphas=results.alphas[:20], points=results.points[:20]))
    assert [row.note for row in table.rows] == ["as configured", "chosen"]
    missing = [c.metric for c in table.columns].index("attack_object/pair_accuracy")
    assert table.rows[0].values[missing] is None
    assert "–" in [cell.text for cell in table_element(table).iter("td")]
    assert ",," in table.to_csv()


def test_csv_json_and_html_agree() -> None:
    table = alpha_table(made_up())
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    data = json.loads(json.dumps(table.to_data(), allow_nan=False))
    body = table_element(table)
    cells = [["".join(cell.itertext()) for cell in row] for row in body.findall("./tbody/tr")]
    for row, entry, line in zip(rows, data, cells, strict=True):
        assert row["model"] == entry["model"]
        assert line[0].startswith(entry["model"])
        for column, cell in zip(table.columns, line[1:], strict=True):
            number = entry["metrics"][f"test/{column.metric}"]
            assert float(row[f"test/{column.metric}"]) == pytest.approx(number["mean"], abs=1e-4)
            assert cell == f"{number['mean']:.1f}±{number['interval']:.1f}"


def test_fewest_seconds_are_the_best() -> None:
    values = [Interval(12.5, 1.0, 5), None, Interval(9.0, 1.0, 5)]
    assert Column("seconds", "s", "training", least=True).best(values) == 9.0
    assert Column("rsum", "rsum", "plain").best(values) == 12.5
    assert Column("rsum", "rsum", "plain").best([None]) is None


def test_the_best_of_each_column_is_strong() -> None:
    table = alpha_table(made_up())
    body = table_element(table)
    for k in range(len(table.columns)):
        cells = [row[k + 1] for row in body.findall("./tbody/tr")]
        values = [row.values[k] for row in table.rows]
        best = int(np.argmax([value.mean for value in values if value is not None]))  # none is missing here
        assert [cell.find("strong") is not None for cell in cells][best]


def test_parts_of_a_table() -> None:
    table = alpha_table(made_up())
    plain, attacked = table.only(PLAIN, "Plain"), table.only(attack_groups(), "Attacked")
    assert plain.columns + attacked.columns == table.columns
    assert plain.rows[1].values + attacked.rows[1].values == table.rows[1].values
    assert plain.title.startswith("Plain: test split")


def test_one_seed_has_means_only() -> None:
    table = alpha_table(made_up(seeds=1))
    assert "±" not in "".join(table_element(table).itertext())
    assert all(entry["interval"] is None for entry in table.to_data()[0]["metrics"].values())


def test_curve_has_every_number() -> None:
    results = made_up()
    rows = list(csv.DictReader(io.StringIO(curve_csv(results))))
    assert len(rows) == 21 * 3
    assert float(rows[4]["test/rsum"]) == results.points[1]["test/rsum"][1]
    assert (rows[4]["alpha"], rows[4]["seed"]) == ("0.05", "1")


def test_any_metrics() -> None:
    rows = {"a<b": {"x": 1.0, "y": 2.0}, "c": {"y": 3.0}}
    assert metrics_csv(rows) == "run,x,y\na<b,1.0,2.0\nc,,3.0\n"
