"""Reproduced tables as a page, a CSV file and JSON: each printed cell, ours with its interval, the difference."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from vse.display.counts import count
from vse.report.files import RESULTS, csv_text, json_text, write_files
from vse.report.page import provenance, render, signed
from vse.report.published import PAPERS
from vse.storage.folder import Folder

KIND = "reproduction"  # of a definition in a sweep's folder
PAGE, TABLE = "report.html", "table.csv"
Data = Mapping[str, Any]
"""Tables as `vse.reproduction.results` gives them."""


def write_reproduction(folder: Folder, data: Data, commands: Sequence[str]) -> list[str]:
    """Write page, table and numbers of reproduced tables.

    Args:
        folder: Where to write.
        data: What `results.json` of a reproduction holds (`reproduction.results.results_of`).
        commands: Commands that reproduce the results.

    Returns:
        The names of the files.
    """
    page = reproduction_page(data, commands)
    return write_files(folder, {PAGE: page, TABLE: to_csv(data), RESULTS: json_text(data)})


def reproduction_page(data: Data, commands: Sequence[str]) -> str:
    """The page of reproduced tables of one paper."""
    paper = PAPERS[data["paper"]]
    numbers = headline(data)
    cards = [
        (numbers["cells"], f"of {numbers['printed']} printed cells measured"),
        (numbers["as_printed"], "pairs of rows in the printed order"),
        (numbers["contrary"], "pairs in the contrary order"),
        (numbers["undecided"], "pairs undecided"),
    ]
    names = ", ".join(table["name"].rpartition(" ")[2] for table in data["tables"])
    seeds = count(len(data["seeds"]), "seed")
    return render(
        "reproduction.html",
        title=f"{paper.name}: Tables {names}",
        heading=f"{paper.name}, Table{'s' if len(data['tables']) > 1 else ''} {names}",
        lead=f"{paper.citation}, reproduced at scale={data['scale']}: {data['about']}.",
        protocol={"scale": data["scale"], "seeds": seeds, "changed": " ".join(data["set"])},
        cards=cards,
        tables=[{**table, "blocks": [_block(block) for block in table["blocks"]]} for table in data["tables"]],
        claims=[{**claim, "effects": [_effect(each) for each in claim.get("effects", ())]} for claim in data["claims"]],
        claims_hash=data["claims_hash"],
        registered=data["registered"],
        seeds_needed=data["seeds_needed"],
        one_seed=len(data["seeds"]) == 1,
        provenance=provenance(commands, {}),
    )


def _effect(effect: Data) -> dict[str, str]:
    """One difference of a claim, ours and printed, with typographic minus signs."""
    ours, low, high = effect["ours"]
    between = f"[{low:z.1f}, {high:z.1f}]".replace("-", "−")
    printed = "" if effect["printed"] is None else signed(effect["printed"])
    return {"text": f"{effect['difference']}: {signed(ours)} {between}", "was": printed}


def _block(block: Data) -> dict[str, Any]:
    groups = [column["group"] for column in block["columns"]]
    spans = [(group, len(list(columns))) for group, columns in groupby(groups)]
    rows = [
        {**row, "cells": [_cell(row["cells"][column["metric"]], column["decimals"]) for column in block["columns"]]}
        for row in block["rows"]
    ]
    orders = [block["orders"].get(column["metric"]) for column in block["columns"]]
    return {**block, "spans": spans, "rows": rows, "orders": orders, "ordered": any(orders)}


def _cell(cell: Data, decimals: int) -> dict[str, str]:
    shown = {"printed": cell["printed"] or "", "note": cell["note"]}
    if cell["ours"] is not None:
        value, low, high = cell["ours"]
        shown["ours"] = f"{value:z.{decimals}f}".replace("-", "−")
        if low is not None:
            shown["interval"] = f"[{low:z.{decimals}f}, {high:z.{decimals}f}]".replace("-", "−")
        if cell["printed"] is not None:
            shown["difference"] = signed(value - float(cell["printed"]), decimals)
    return shown


def cells_of(data: Data) -> Iterator[tuple[Data, Data, Data, str, Data]]:
    """(table, block, row, metric, cell) of every cell."""
    for table in data["tables"]:
        for block in table["blocks"]:
            for row in block["rows"]:
                for metric, cell in row["cells"].items():
                    yield table, block, row, metric, cell


def headline(data: Data) -> dict[str, int]:
    """How many printed cells were measured, and how many pairs of rows have the printed order."""
    cells = [cell for *_, cell in cells_of(data) if cell["printed"] is not None]
    numbers = {"cells": sum(cell["ours"] is not None for cell in cells), "printed": len(cells)}
    orders = [each for table in data["tables"] for block in table["blocks"] for each in block["orders"].values()]
    return numbers | {key: sum(each[key] for each in orders) for key in ("as_printed", "contrary", "undecided")}


def summary_text(data: Data) -> list[str]:
    """A line for each claim and each table."""
    lines = [f"Table {claim['table']}, {claim['name']}: {claim['answer']}" for claim in data["claims"]]
    for table in data["tables"]:
        own = headline({**data, "tables": [table]})
        lines.append(
            f"{table['name']}: {own['cells']} of {own['printed']} printed cells measured; of the pairs of rows, "
            f"{own['as_printed']} are in the printed order, {own['contrary']} contrary, {own['undecided']} undecided"
        )
    return lines


def to_csv(data: Data) -> str:
    """One line for each cell."""
    head = [
        "table",
        "data",
        "system",
        "about",
        "metric",
        "printed",
        "ours",
        "low",
        "high",
        "difference",
        "why",
        "command",
    ]
    rows = []
    for table, block, row, metric, cell in cells_of(data):
        numbers, difference = ["", "", ""], ""
        if cell["ours"] is not None:
            numbers = ["" if value is None else f"{value:.4f}" for value in cell["ours"]]
            difference = f"{cell['ours'][0] - float(cell['printed']):.4f}" if cell["printed"] is not None else ""
        own = [table["name"], block["about"], row["label"], row["about"], metric, cell["printed"] or ""]
        rows.append([*own, *numbers, difference, row["reason"], row["command"]])
    return csv_text(head, rows)
