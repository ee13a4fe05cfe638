"""What a job says of its results: to people first, and last a line for programs."""

from pathlib import Path

import pytest

from tests.unit.test_command import call
from vse.storage import Folder
from vse.summary import write_summary


def test_what_people_open_is_named_before_the_line_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = {"report_html": "there/report.html", "table_csv": "there/table.csv"}
    path = write_summary(Folder.open(tmp_path), job="demo", started=0.0, outputs=outputs)
    assert call(run=lambda request: path)[0] == 0
    told = capsys.readouterr()
    assert told.err == "demo: there/report.html\n"
    assert told.out == f"{path}\n"
    for other in (str(tmp_path / "absent.json"), "a word", None):
        assert call(run=lambda request, other=other: other)[0] == 0
    assert capsys.readouterr().err == ""
