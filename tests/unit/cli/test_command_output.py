"""What a job says of its results: to people first, and last a line for programs."""

import ast
from pathlib import Path

import pytest

from tests.unit.cli.test_command import call
from vse.storage.folder import Folder
from vse.workspace.provenance import write_summary


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


WRITERS = sorted(
    path
    for folder in ("jobs", "platform/vse/report")
    for path in (Path(__file__).parents[3] / folder).glob("*.py")
    if "write_summary(" in path.read_text()
)


@pytest.mark.parametrize("path", WRITERS, ids=lambda path: path.stem)
def test_tables_are_printed_once_all_is_written(path: Path) -> None:
    """A reader that has seen enough, as `| head`, ends the job at its next line."""
    assert printed_before_the_summary(path.read_text()) == []


def test_a_table_before_the_summary_is_found() -> None:
    job = "def run():\n    print('a', file=sys.stderr)\n    print('b')\n    path = write_summary()\n    print('c')\n"
    assert printed_before_the_summary(job) == [3]


def printed_before_the_summary(source: str) -> list[int]:
    """The lines that print to standard output in a function that writes its summary below them."""
    found = []
    for function in (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)):
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
        written = max((c.lineno for c in calls if ast.unparse(c.func).endswith("write_summary")), default=0)
        told = [call for call in calls if ast.unparse(call.func) == "print" and not call.keywords]
        found += [call.lineno for call in told if call.lineno < written]
    return sorted(found)
