"""Jobs of one stage work under the lock that other jobs look at and wait for."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from vse.command import Request
from vse.features import extraction
from vse.language import parsing
from vse.presets import preset
from vse.storage import Folder
from vse.workspace import Workspace


class BegunError(Exception):
    """The stage has begun."""


def job(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[2] / "jobs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "module", "work", "kind"),
    [("extract_features", extraction, "_run", "features"), ("parse_captions", parsing, "_parsed", "language")],
)
def test_a_stage_is_locked_while_its_job_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: ModuleType, work: str, kind: str
) -> None:
    locked = list[Folder]()
    workspace = Workspace.open(str(tmp_path / "space"))

    def begun(*given: Any, **options: Any) -> None:
        folder = workspace.root.child(kind)
        for _ in ("data set", "stage"):
            (inside,) = folder.names()
            folder = folder.child(inside)
        locked.extend([folder] * folder.is_locked())
        raise BegunError

    monkeypatch.setattr(module, work, begun)
    started = job(name)
    asked = Request(
        job=name,
        workspace=str(tmp_path / "space"),
        preset="vsepp_tiny",
        config=preset("vsepp_tiny"),
        options=started.Options(),
        changed=frozenset(),
        tracking=None,
    )
    with pytest.raises(BegunError):
        started.run(asked)
    assert len(locked) == 1
    assert not locked[0].is_locked()
