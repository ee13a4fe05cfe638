"""Published numbers against the papers' own text: every row of every table, number by number, and no row left out."""

import re
from functools import cache
from itertools import groupby

import pytest

from tests.shared import SHARED
from vse.report.published import PublishedRow, read_published

TEXTS = {
    "vse_c": "vse_c_coling2018.txt",
    "univse": "univse_cvpr2019.txt",
    "univse_supplement": "univse_supplement.txt",
    "relational": "relational_vse_thesis2019.txt",
    "jwae": "jwae_iccv2019.txt",
}
COLUMNS_ARE_SYSTEMS = ("univse_supplement", "3")
LINES = [line for line in read_published() if (line.paper, line.table) != COLUMNS_ARE_SYSTEMS]

pytestmark = pytest.mark.skipif(
    SHARED is None or not (SHARED / "papers").is_dir(), reason="no shared folder with the papers' texts"
)


@cache
def rows(paper: str) -> list[list[str]]:
    """The text's lines as cells without markup; a line of running text is one cell."""
    assert SHARED is not None
    text = (SHARED / "papers" / TEXTS[paper]).read_text(encoding="utf-8")
    return [[re.sub(r"</?b>", "", cell).strip() for cell in line.split("\t")] for line in text.splitlines()]


def numbers(cells: list[str]) -> list[str]:
    return [cell for cell in cells if re.fullmatch(r"\d+(\.\d+)?", cell)]


def name(text: str) -> str:
    """Letters and digits of a system's name, without references and without what says that it is the paper's own."""
    text = re.sub(r"\[[\d, ]+\]|\\mathbf|\(baseline\)", "", text).replace("ℓ", "l").replace("α", "alpha")
    return re.sub(r"[^a-z0-9]|relational vse|univse|ours", "", text.lower())


def in_print(line: PublishedRow) -> tuple[str, ...]:
    """Lines with one key are one row in print: jWAE's Table 3 has both data sets side by side."""
    return line.paper, line.table, line.system, "" if (line.paper, line.table) == ("jwae", "3") else line.protocol


def printed_rows() -> list[tuple[tuple[str, ...], list[str]]]:
    return [
        (key, [number.printed for line in found for number in line.numbers.values()])
        for key, found in groupby(LINES, in_print)
    ]


def places(key: tuple[str, ...], values: list[str]) -> list[int]:
    paper, table, system, _ = key
    found = [k for k, cells in enumerate(rows(paper)) if len(cells) > 1 and numbers(cells) == values]
    if (paper, table) == ("univse_supplement", "1"):  # systems are told by two columns of ticks
        ticks = [(k, rows(paper)[k][:2]) for k in found]
        return [
            k
            for k, cells in ticks
            if all(cell in ("", r"\checkmark", r"$\checkmark$") for cell in cells)
            and sum(map(bool, cells)) == system.count("Drop")
        ]
    return [k for k in found if any(name(cell) == name(system) for cell in rows(paper)[k] if cell not in values)]


@pytest.mark.parametrize(("key", "values"), printed_rows(), ids=lambda part: " ".join(part[:3]))
def test_a_row_is_as_printed(key: tuple[str, ...], values: list[str]) -> None:
    assert len(places(key, values)) == 1


def test_no_row_is_left_out() -> None:
    for paper in TEXTS:
        found = {k for key, values in printed_rows() if key[0] == paper for k in places(key, values)}
        assert found
        for k in found:
            for step in (-1, 1):  # to the ends of the table
                other = k + step
                while len(rows(paper)[other]) > 1:
                    assert other in found or len(numbers(rows(paper)[other])) < 1, rows(paper)[other]
                    other += step


def test_a_table_whose_columns_are_systems() -> None:
    lines = [line for line in read_published() if (line.paper, line.table) == COLUMNS_ARE_SYSTEMS]
    (head,) = (cells for cells in rows("univse_supplement") if cells[0] == "Semantic Aggregation Methods")
    assert [name(cell) for cell in head[1:]] == [name(line.system) for line in lines]
    for title, metric in (("Standard (rsum)", "rsum"), ("Adversarial (rsum)", "attack_total/rsum3")):
        (cells,) = (cells for cells in rows("univse_supplement") if cells[0] == title)
        assert cells[1:] == [line.numbers[metric].printed for line in lines]
