"""Jobs of one stage work under the lock that other jobs look at and wait for, and say what is wrong as others do."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from vse.cli.command import Request
from vse.config import override
from vse.errors import InputError
from vse.presets import preset
from vse.stages import extract as extraction
from vse.stages import parse as parsing
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

OPTIONS = {"extract_features": "ExtractOptions", "parse_captions": "ParseOptions"}


class BegunError(Exception):
    """The stage has begun."""


def job(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[2] / "jobs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, workspace: Path, **changes: Any) -> None:
    started = job(name)
    started.run(
        Request(
            job=name,
            workspace=str(workspace),
            preset="vsepp_tiny",
            config=override(preset("vsepp_tiny"), changes),
            options=getattr(started, OPTIONS[name])(),
            changed=frozenset(),
            tracking=None,
        )
    )


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
    with pytest.raises(BegunError):
        run(name, tmp_path / "space")
    assert len(locked) == 1
    assert not locked[0].is_locked()


def test_where_pictures_are_looked_for_is_told_by_the_keys_of_the_source(tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_text("image,caption\n" + "".join(f"{k}.jpg,a dog\n" for k in range(20)))
    told = r"^20 of 20 images are missing .*; data\.root, data\.file say where images are; each is listed in"
    with pytest.raises(InputError, match=told):
        run("extract_features", tmp_path / "space", data="table", **{"data.file": str(table)})
