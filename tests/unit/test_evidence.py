"""Numbers with an interval in tables of the pages stand in a committed results file, to the digits printed."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "evidence").glob("*/results.json"))]
NUMBER = r"([+−]?\d+(?:\.\d+)?)"
PRINTED = re.compile(rf"{NUMBER} \[{NUMBER}, {NUMBER}\]")

Triple = tuple[float, float, float]
"""Estimate, low, high."""


def measured(value: Any) -> Iterator[Triple]:
    """Every [estimate, low, high] of plain data, those of effects behind their names; also with the sign reversed."""
    if isinstance(value, dict):
        for each in value.values():
            yield from measured(each)
    elif isinstance(value, list):
        numbers = value[1:] if value and isinstance(value[0], str) else value
        if len(numbers) == 3 and all(isinstance(each, float) for each in numbers):
            estimate, low, high = numbers
            yield estimate, low, high
            yield -estimate, -high, -low
        else:
            for each in numbers:
                yield from measured(each)


KNOWN = {triple for found in RESULTS for triple in measured(found)}


def is_known(printed: Sequence[str]) -> bool:
    """Whether some measured triple is nowhere further off than half of the last digit printed."""
    numbers = [float(text.replace("−", "-")) for text in printed]
    halves = [0.5 * 10.0 ** -len(text.partition(".")[2]) + 1e-6 for text in printed]
    return any(all(abs(a - b) <= half for a, b, half in zip(numbers, triple, halves, strict=True)) for triple in KNOWN)


PAGES = {
    "findings": [ROOT / "docs" / "explanation" / "findings.md"],
    "evidence": [
        page for page in sorted((ROOT / "evidence").rglob("README.md")) if (page.parent / "results.json").exists()
    ],
}


@pytest.mark.seconds
@pytest.mark.parametrize(("pages", "least"), [("findings", 9), ("evidence", 150)])
def test_intervals_in_tables_are_the_committed_ones(pages: str, least: int) -> None:
    lines = [line for page in PAGES[pages] for line in page.read_text(encoding="utf-8").splitlines()]
    rows = [line for line in lines if line.startswith("|")]
    printed = [(found.groups(), row) for row in rows for found in PRINTED.finditer(row)]
    assert len(printed) >= least
    assert [(" ".join(numbers), row[:60]) for numbers, row in printed if not is_known(numbers)] == []


def test_another_number_would_be_noticed() -> None:
    assert is_known(("+45.0", "35.1", "54.9"))  # UniVSE above VSE++ under object attack
    assert is_known(("−45.0", "−54.9", "−35.1"))
    assert not is_known(("+45.0", "35.1", "55.0"))
    assert not is_known(("+45.1", "35.1", "54.9"))


def test_evidence_is_at_most_60_tracked_files() -> None:
    listed = subprocess.run(["git", "ls-files", "evidence"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert 0 < len(listed.stdout.splitlines()) <= 60
