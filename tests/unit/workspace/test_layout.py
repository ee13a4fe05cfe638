"""Where things are in a workspace, and what is said of names that are not there."""

from pathlib import Path

import pytest

from vse.errors import InputError
from vse.workspace.layout import LISTED, Workspace


def test_of_many_names_the_most_alike_are_told(tmp_path: Path) -> None:
    """A workspace has thousands of runs, and one line is read."""
    for k in range(5 * LISTED):
        (tmp_path / "runs" / f"vsepp-s0-{k:08}").mkdir(parents=True)
    workspace = Workspace.open(str(tmp_path))
    with pytest.raises(InputError, match="no such run; there are ") as caught:
        workspace.existing("runs", "vsepp-s0-0000007", "run")
    assert "vsepp-s0-00000007 (unfinished), " in str(caught.value)
    assert str(caught.value).endswith(f" and {4 * LISTED} more")
    assert str(caught.value).count("vsepp-s0-") == LISTED + 1
    with pytest.raises(InputError, match="run: name one of vsepp-s0-"):
        workspace.existing("runs", "", "run")
    assert workspace.existing("runs", "vsepp-s0-00000001", "run").name == "vsepp-s0-00000001"


def test_without_runs_the_message_names_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name, rest in (("empty", "has none"), ("absent", "does not exist")):
        with pytest.raises(InputError) as caught:
            Workspace.open(name).existing("runs", "a", "run")
        assert str(caught.value) == f"run=a: no such run; the workspace {tmp_path / name} {rest}"
