"""A search on a Ray of two CPUs that learns while trials run side by side."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sweeps import trials
from vse.config import knob
from vse.storage.folder import Folder
from vse.sweeps.ledger import Ledger

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(240)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    alpha: float = knob(0.75, "weight", low=0, high=1)
    schedule: str = knob("step", "rate", choices=("step", "cosine"))


@pytest.fixture
def two_cpus() -> Iterator[None]:
    from vse.cluster import runtime

    with runtime.running_ray(runtime.Config(address="local", cpus=2, store_mib=80)):
        yield


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(Folder.open(tmp_path / "sweep"))


@pytest.mark.usefixtures("two_cpus")
def test_a_search_learns_while_trials_run_side_by_side(ledger: Ledger) -> None:
    from ray import tune

    from vse.sweeps.experiment import run_proposed
    from vse.sweeps.hyperopt_search import ParzenSearch
    from vse.sweeps.space import Space

    def value_of(point: Mapping[str, Any]) -> tuple[float] | None:
        entry = ledger.get(point)
        return None if entry is None or entry.state == "failed" else (-entry.result["loss"],)

    space = Space("here", {"alpha": tune.uniform(0.0, 1.0), "schedule": tune.choice(["step", "cosine"])})
    search = ParzenSearch(
        space,
        Config(),
        ledger,
        trials_of=lambda point: [dict(point)],
        points=[],
        value_of=value_of,
        is_pending=lambda entry: entry is None,
        samples=10,
        num_initial=4,
    )
    assert run_proposed(ledger, search, trials.bowl, at_once=2, total=10)
    assert len(ledger) == 10
    assert len({entry.changes["alpha"] for entry in ledger}) == 10
    assert len(search._trials.losses()) == 10
    assert None not in search._trials.losses()
