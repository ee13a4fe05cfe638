"""Counting verdicts as a user does it; wrong input is one line and status 2."""

import importlib.util
import io
import json

import PIL.Image
import pytest

from tests import s3
from tests.jobs.processes import ROOT, run_many
from vse.cli.command import Request
from vse.presets import preset
from vse.storage.folder import Folder
from vse.studies.adversary_samples import SampleOptions
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


def test_a_sample_is_written_to_s3(s3_server, request, monkeypatch):
    spec = importlib.util.spec_from_file_location("judge_adversaries", ROOT / "jobs" / "judge_adversaries.py")
    assert spec is not None
    assert spec.loader is not None
    job = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(job)
    sheet = PIL.Image.linear_gradient("L")
    monkeypatch.setattr(job, "judged_by_source", lambda *_: None)
    monkeypatch.setattr(job, "drawn", lambda *_: ([], []))
    monkeypatch.setattr(job, "sheets", lambda *_: [sheet])
    address = s3.address_of(request, s3_server)
    summary = job.run(
        Request(
            job="judge_adversaries",
            workspace=address,
            preset="univse_tiny",
            config=preset("univse_tiny"),
            options=SampleOptions(sample="s"),
            changed=frozenset(),
            tracking=None,
        )
    )
    folder = Folder.open(address).child("judging", "s")
    assert folder.names() == ("listing.txt", "sheet-0.png", "summary.json", "verdicts.jsonl")
    assert PIL.Image.open(io.BytesIO(folder.read_bytes("sheet-0.png"))).tobytes() == sheet.tobytes()
    where, name = Folder.of_file(summary)
    outputs = where.read_json(name)["outputs"]
    assert outputs["verdicts"].partition("?")[0] == folder.address("verdicts.jsonl").partition("?")[0]
