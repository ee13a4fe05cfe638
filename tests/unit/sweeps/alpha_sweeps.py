"""α sweeps of made up trials that run in this process, one after another, each of a known length."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.sweeps.test_engine import Silent
from vse import presets
from vse.cli.command import Request
from vse.config import override
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.sweeps import alpha, engine
from vse.sweeps.alpha import AlphaSweepOptions, make_plan
from vse.sweeps.budget import Meter
from vse.sweeps.engine import Sweep, run_sweep_job
from vse.sweeps.job import describe_sweep
from vse.sweeps.ledger import Entry, FailureKind, Ledger
from vse.sweeps.plan import JobOptions
from vse.sweeps.proposals import Proposer

ATTACKS = ("object", "attribute", "relation")
SECONDS = 10.0
SPACE = "from ray import tune\nSPACE = {'model.alpha': tune.grid_search([0.0, 0.5, 1.0])}\n"


def metrics_at(at: float, seed: int) -> dict[str, float]:
    """Made up: the higher the seed the better, best near an α of 0.6."""
    named = [f"{way}/{name}" for way in ("i2t", "t2i") for name in ("r1", "r5", "r10", "medr", "meanr")]
    named += [f"attack_{attack}/{name}" for attack in ATTACKS for name in ("r1", "r5", "r10", "rsum3", "pair_accuracy")]
    close = 50 - 50 * (at - 0.6) ** 2 + seed
    found = {name: close - at * place for place, name in enumerate(["rsum", *named])}
    return {f"{split}/{name}": value for split in ("val", "test") for name, value in found.items()}


def trial(changes: dict[str, Any], setting: Any, swept: str, alphas: tuple[float, ...]) -> dict[str, Any]:
    """What a trial of each arm finds."""
    arm, seed = changes["arm"], changes["seed"]
    result: dict[str, Any] = {"run": f"{arm}-{seed}", "seconds": SECONDS, "trained": True, "metrics": {}}
    if arm == swept:
        return {**result, "points": [[at, metrics_at(at, seed)] for at in alphas]}
    learned = {"alpha": 0.6 + seed / 100} if arm.endswith("_learned") else {}
    return {**result, "metrics": metrics_at(0.3, seed), **learned}


def in_turn(
    ledger: Ledger,
    proposer: Proposer,
    function: Callable[[dict[str, Any]], Any],
    *,
    meter: Meter,
    on_end: Callable[[Entry], None],
    **_: Any,
) -> bool:
    """Stands in for `run_proposed`: one trial at a time, each once."""
    refused: InputError | None = None
    complete = True
    while (changes := proposer.propose()) is not None:
        if not meter.allows():
            complete = False
            break
        before = ledger.spent(changes)
        try:
            entry = ledger.finish(changes, function(changes), SECONDS)
        except InputError as error:
            refused, entry = error, ledger.fail(changes, str(error), SECONDS, kind=FailureKind.REFUSED)
        except RuntimeError as error:
            entry = ledger.fail(changes, f"RuntimeError: {error}", SECONDS)
        meter.ended(entry.id, entry.spent - before, entry.need, entry.length if entry.complete else None)
        on_end(entry)
    if refused is not None:
        raise refused
    return complete


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "run_proposed", in_turn)
    monkeypatch.setattr(alpha, "alpha_trial", trial)
    monkeypatch.setattr("vse.sweeps.tracked.offer_best", lambda *_, **__: None)
    monkeypatch.setattr(Sweep, "prepare", lambda self: "data")
    monkeypatch.setattr(engine, "Shipper", Silent)
    monkeypatch.setattr(engine, "preflight", lambda *_, **__: None)
    monkeypatch.setattr(engine, "set_up_logging", lambda: None)
    monkeypatch.setattr(engine, "_connect", lambda *_: None)


def request(folder: Path, **changes: Any) -> Request:
    space = folder / "coarse.py"
    folder.mkdir(parents=True, exist_ok=True)
    space.write_text(SPACE)
    options = {"sweep.space": str(space), "sweep.seeds": "0,1", "sweep.name": "curve"}
    options |= {key.replace("__", "."): value for key, value in changes.items()}
    return Request(
        job="sweep_alpha",
        workspace=str(folder / "workspace"),
        preset="univse_tiny",
        config=presets.preset("univse_tiny"),
        options=override(JobOptions(sweep=AlphaSweepOptions()), options),
        changed=frozenset(),
        tracking=None,
    )


def swept(folder: Path, **changes: Any) -> SimpleNamespace:
    """A sweep's ledger and what it says at its end."""
    return ended(run_sweep_job(request(folder, **changes), make_plan))


def ended(path: str) -> SimpleNamespace:
    summary = Path(path)
    entries = list(Ledger(Folder.open(summary.parent)))
    return SimpleNamespace(
        folder=summary.parent,
        headline=json.loads(summary.read_text())["headline"],
        entries=entries,
        finished=[f"{e.changes['arm']}-{e.changes['seed']}" for e in entries if e.state == "finished"],
    )


def described(folder: Path, **changes: Any) -> list[str]:
    return describe_sweep(request(folder, **changes), make_plan)


def results(found: SimpleNamespace) -> Any:
    return json.loads((found.folder / "results.json").read_text())
