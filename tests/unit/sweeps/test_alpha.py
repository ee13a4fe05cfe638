"""An α sweep that is capped: what runs ends, nothing new starts, and it goes on to what it would have been.

Trials are made up and run in this process, one after another, each of a known length by a clock of its own.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.sweeps.test_frame import Silent
from vse import presets
from vse.command import Request
from vse.config import override
from vse.journal import read
from vse.storage import Folder
from vse.sweeps import alpha, frame
from vse.sweeps.alpha import describe_plan, run_alpha_sweep
from vse.sweeps.alpha_plan import Options
from vse.sweeps.budget import Meter
from vse.sweeps.ledger import Entry, Ledger

ATTACKS = ("object", "attribute", "relation")
SECONDS = {"train": 10.0, "encode": 1.0, "measure": 2.0, "alpha": 0.5}
SPACE = "from ray import tune\nSPACE = {'model.alpha': tune.grid_search([0.0, 0.5, 1.0])}\n"


def trial(changes: dict[str, Any], setting: Any) -> dict[str, Any]:
    """What a trial of each kind finds."""
    if changes["kind"] == "train":
        return {"run": f"{changes['arm']}-{changes['seed']}", "seconds": SECONDS["train"], "trained": True}
    if changes["kind"] == "encode":
        return {"folders": {"val": f"val-{changes['run']}", "test": f"test-{changes['run']}"}}
    at, seed = changes.get("model.alpha", 0.3), changes["seed"]
    named = [f"{way}/{name}" for way in ("i2t", "t2i") for name in ("r1", "r5", "r10", "medr", "meanr")]
    named += [f"attack_{attack}/{name}" for attack in ATTACKS for name in ("r1", "r5", "r10", "rsum3", "pair_accuracy")]
    close = 50 - 50 * (at - 0.6) ** 2 + seed
    found = {name: close - at * place for place, name in enumerate(["rsum", *named])}
    return {"metrics": {f"{split}/{name}": value for split in ("val", "test") for name, value in found.items()}}


def in_turn(
    ledger: Ledger,
    asked: Iterable[dict[str, Any]],
    function: Callable[[dict[str, Any]], Any],
    *,
    meter: Meter,
    on_end: Callable[[Entry], None],
    **_: Any,
) -> None:
    """Stands in for `run_sweep`: one trial at a time."""
    for changes in ledger.pending(asked):
        if not meter.allows():
            return
        entry = ledger.finish(changes, function(changes), SECONDS[changes["kind"]])
        meter.ended(entry)
        on_end(entry)


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vse.sweeps.experiment.run_sweep", in_turn)
    monkeypatch.setattr(alpha, "run_trial", trial)
    monkeypatch.setattr(alpha, "offer_best", lambda *_, **__: None)
    monkeypatch.setattr(alpha._Sweep, "prepare", lambda self: "data")
    monkeypatch.setattr(alpha._Sweep, "make_adversaries", lambda self: None)
    monkeypatch.setattr(frame, "Shipper", Silent)
    monkeypatch.setattr(frame, "preflight", lambda *_, **__: None)
    monkeypatch.setattr(frame, "set_up_logging", lambda: None)
    monkeypatch.setattr(frame, "_connect", lambda *_: None)


def request(folder: Path, **changes: Any) -> Request:
    space = folder / "coarse.py"
    folder.mkdir(parents=True, exist_ok=True)
    space.write_text(SPACE)
    options = {key.replace("__", "."): value for key, value in changes.items()}
    options |= {"sweep.space": str(space), "sweep.seeds": "0,1", "sweep.name": "curve"}
    return Request(
        job="sweep_alpha",
        workspace=str(folder / "workspace"),
        preset="univse_tiny",
        config=presets.preset("univse_tiny"),
        options=override(Options(), options),
        changed=frozenset(),
        tracking=None,
    )


def swept(folder: Path, **changes: Any) -> SimpleNamespace:
    """A sweep's ledger and what it says at its end."""
    summary = Path(run_alpha_sweep(request(folder, **changes)))
    entries = list(Ledger(Folder.open(summary.parent)))
    return SimpleNamespace(
        folder=summary.parent,
        headline=json.loads(summary.read_text())["headline"],
        entries=entries,
        kinds=Counter(entry.changes["kind"] for entry in entries),
    )


def results(found: SimpleNamespace) -> Any:
    return json.loads((found.folder / "results.json").read_text())


WHOLE = {"train": 4, "encode": 2, "measure": 2, "alpha": 6}


@pytest.mark.parametrize(
    ("cap", "kinds", "said"),
    [
        ({"sweep__max_seconds": 25}, {"train": 2}, "2 train trials have not run (vsepp seed=0, vsepp seed=1)"),
        ({"sweep__max_seconds": 42.5}, {"train": 4, "encode": 2}, "2 measure trials have not run (vsepp seed=0"),
        (
            {"sweep__max_cost": 47.2, "sweep__price": 3600},
            {"train": 4, "encode": 2, "measure": 2, "alpha": 2},
            "4 alpha trials have not run (alpha=1 seed=0, alpha=0 seed=1,",
        ),
    ],
)
def test_capped_and_gone_on_is_the_undisturbed_sweep(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cap: dict[str, float], kinds: dict[str, int], said: str
) -> None:
    caplog.set_level("INFO")
    calm = swept(tmp_path / "calm")
    assert calm.kinds == WHOLE
    first = swept(tmp_path / "capped", **cap)
    assert first.kinds == kinds
    assert first.headline["left"] > 0
    (line,) = [record.getMessage() for record in caplog.records if "cap" in record.getMessage()]
    assert line.startswith("the cap is reached: ")
    assert said in line
    assert "the same command with a higher cap, or with fewer sweep.seeds, goes on from here" in line
    assert read(first.folder / "journal.jsonl").status == "finished"
    assert not (first.folder / "results.json").exists()
    again = swept(tmp_path / "capped", **cap)
    assert again.entries == first.entries
    assert "nothing is left to do" not in caplog.text
    end = swept(tmp_path / "capped")
    assert end.entries[: len(first.entries)] == first.entries
    assert end.kinds == WHOLE
    assert results(end) == results(calm)
    assert end.headline == calm.headline


def test_fewer_seeds_are_whole_within_a_cap(tmp_path: Path) -> None:
    swept(tmp_path, sweep__max_seconds=42.5)
    one = request(tmp_path, sweep__max_seconds=100)
    options = override(one.options, {"sweep.seeds": "0"})
    summary = Path(run_alpha_sweep(Request(**{**{f: getattr(one, f) for f in one.__slots__}, "options": options})))
    assert json.loads(summary.with_name("results.json").read_text())["seeds"] == [0]


def test_a_dry_run_says_what_is_left_of_the_cap(tmp_path: Path) -> None:
    swept(tmp_path, sweep__max_seconds=25)
    lines = describe_plan(request(tmp_path, sweep__max_seconds=25, sweep__price=3600))
    assert "cap: 25 s of trials, 20 spent; what runs then ends, nothing new starts" in lines
    assert any(line.startswith("cost of vsepp: unknown") for line in lines)
    swept(tmp_path, sweep__max_seconds=30)
    lines = describe_plan(request(tmp_path, sweep__price=3600))
    assert any(line.startswith("cost of vsepp: 1 trainings of about 10 s (median of this sweep's") for line in lines)
    assert "cost: 0.00 h of trainings, 10.00 of money; measuring comes on top" in lines
