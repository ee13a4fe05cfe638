"""The summary of a job as JSON, which scripts read."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest

from vse.config import knob
from vse.storage.folder import Folder
from vse.workspace.summary import SCHEMA, SCHEMA_VERSION, write_summary


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimiser:
    lr: float = knob(2e-4, "learning rate", above=0)


def test_summary_keeps_its_schema(tmp_path: Path) -> None:
    path = write_summary(
        Folder.open(tmp_path / "out"),
        job="demo",
        started=time.time() - 2,
        configuration=Optimiser(),
        options=Optimiser(),
        fingerprints={"dataset": "0123abcd"},
        seeds=[0, 1],
        headline={"test/rsum": 312.5, "test/medr": float("nan"), "verdict": "holds"},
        outputs={"figure": tmp_path / "alpha.png"},
        details={"server": "https://me:hunter22@host"},
    )
    assert path == str(tmp_path / "out" / "summary.json")
    data = json.loads(Path(path).read_text())
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(data, SCHEMA)
    assert data["schema"] == SCHEMA_VERSION
    assert 2 <= data["seconds"] < 10
    assert data["headline"] == {"test/rsum": 312.5, "test/medr": None, "verdict": "holds"}
    assert data["configuration"] == {"lr": 2e-4}
    assert "hunter22" not in json.dumps(data)
    for broken in ({**data, "schema": 0}, {**data, "extra": 1}, {k: v for k, v in data.items() if k != "seeds"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, SCHEMA)
