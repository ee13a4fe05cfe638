"""What tests of starting Ray have in common."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of Ray or Tune, no home with a cluster's files, and nothing set by a test stays."""
    for name in [n for n in os.environ if n.startswith(("RAY_", "TUNE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(os, "environ", os.environ.copy())
