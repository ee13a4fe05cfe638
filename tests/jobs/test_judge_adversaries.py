"""Counting verdicts as a user does it; wrong input is one line and status 2."""

import json

import pytest

from tests.jobs.processes import run_many
from vse.studies.adversary_verdicts import Verdict, to_json_lines

pytestmark = pytest.mark.process


@pytest.mark.slow
def test_verdicts_are_counted(tmp_path):
    kept = [
        Verdict(sample="s", paradigm="noun", item=str(k), edits=((0, 1, "a"),), grammatical=True, false=k > 0)
        for k in range(4)
    ]
    full, torn = tmp_path / "full.jsonl", tmp_path / "torn.jsonl"
    full.write_text(to_json_lines(kept))
    torn.write_text("{}")
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes(b'{"sample": "caf\xe9"}')
    workspace = ("--workspace", str(tmp_path / "w"))
    counted, absent, wrong, coded = run_many(
        [["judge_adversaries", *workspace, f"verdicts={path}"] for path in (full, tmp_path / "absent", torn, latin)],
        tmp_path,
    )
    status, out, error = counted
    assert status == 0, error
    assert "75.0 [30.1, 95.4]" in out
    with open(out.splitlines()[-1], encoding="utf-8") as file:
        assert json.load(file)["headline"] == {"s/noun": 0.75}
    for (status, _, error), message in (
        (absent, "no such file"),
        (wrong, "not a valid verdict"),
        (coded, "is not UTF-8 text (byte 15)"),
    ):
        assert status == 2
        assert message in error.splitlines()[-1]
