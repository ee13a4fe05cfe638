"""Sweeps on a Ray of two CPUs: every trial once, failures counted and retried, nothing left behind."""

import functools
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.unit.sweeps import trials
from vse.config import knob
from vse.errors import InputError
from vse.storage import Folder
from vse.sweeps.ledger import Entry, Ledger
from vse.sweeps.space import Space

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def two_cpus() -> Iterator[None]:
    from vse.runtime import Config, running_ray

    with running_ray(Config(address="local", cpus=2, store_mib=80)):
        yield


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(Folder.open(tmp_path / "sweep"))


def times(folder: Path) -> Counter[str]:
    return Counter(path.name.rsplit("-", 1)[0] for path in folder.iterdir())


@pytest.mark.usefixtures("two_cpus")
def test_trials_run_elsewhere_and_land_in_the_ledger(
    ledger: Ledger, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from vse.sweeps.experiment import require_finished, run_sweep

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    heard: list[Entry] = []
    asked = [{"x": float(x)} for x in (3, 1, 2, 1)]
    entries = run_sweep(ledger, asked, trials.square, on_end=heard.append)
    assert [e.result["value"] for e in entries] == [9.0, 1.0, 4.0, 1.0]
    assert len(ledger) == len(heard) == 3
    assert all(e.result["pid"] != os.getpid() and e.result["threads"] == "1" for e in entries)
    assert all(e.seconds >= 0 and e.attempts == 1 for e in entries)
    require_finished(entries, "trials", ledger)
    assert list(Ledger(ledger.folder)) == list(ledger)
    assert capfd.readouterr().out == ""  # stdout belongs to results
    assert list(scratch.iterdir()) == []  # Tune's own files are gone


@pytest.mark.usefixtures("two_cpus")
def test_failures_are_retried_once_and_counted(ledger: Ledger, tmp_path: Path) -> None:
    from vse.sweeps.experiment import require_finished, run_sweep

    calls = tmp_path / "calls"
    calls.mkdir()
    work = functools.partial(trials.count, folder=str(calls))
    entries = run_sweep(ledger, [{"x": x} for x in ("fine", "once", "dies", "always")], work)
    assert [e.state for e in entries] == ["finished", "finished", "finished", "failed"]
    assert [e.attempts for e in entries] == [1, 2, 2, 2]
    assert "ValueError: no luck" in entries[3].error
    assert times(calls) == {"fine": 1, "once": 2, "dies": 2, "always": 2}
    with pytest.raises(RuntimeError, match=r"1 of 4 trials failed; trial .*always.*: ValueError: no luck"):
        require_finished(entries, "trials", ledger)
    # going on: what finished is not run again, what failed is
    again = run_sweep(Ledger(ledger.folder), [{"x": "fine"}, {"x": "always"}], work, attempts=1)
    assert [e.attempts for e in again] == [1, 3]
    assert times(calls) == {"fine": 1, "once": 2, "dies": 2, "always": 3}


@pytest.mark.usefixtures("two_cpus")
def test_wrong_input_inside_a_trial_is_the_users_error(ledger: Ledger, tmp_path: Path) -> None:
    from vse.sweeps.experiment import run_sweep

    calls = tmp_path / "calls"
    calls.mkdir()
    with pytest.raises(InputError, match=r"data.root=/nowhere: no such folder"):
        run_sweep(ledger, [{"x": "fine"}, {"x": "refused"}], functools.partial(trials.count, folder=str(calls)))
    assert times(calls) == {"fine": 1, "refused": 1}
    assert ledger.result({"x": "fine"}) == {"calls": 1}


def test_a_finished_sweep_needs_no_ray(ledger: Ledger) -> None:
    code_needs_no_ray = functools.partial(trials.count, folder="/nowhere")
    from vse.sweeps.experiment import run_sweep

    ledger.finish({"x": "a"}, {"calls": 1}, 1.0)
    assert [e.result for e in run_sweep(ledger, [{"x": "a"}], code_needs_no_ray)] == [{"calls": 1}]


def test_how_many_trials_fit() -> None:
    from vse.sweeps.experiment import Need

    assert Need().at_once({"CPU": 3.0}) == 3
    assert Need().at_once({"CPU": 3.0}, wished=2) == 2
    assert Need(cpus=2).at_once({"CPU": 3.0}) == 1
    assert Need(cpus=1, gpus=0.5).at_once({"CPU": 16.0, "GPU": 2.0}) == 4
    # two workers of one CPU each and a driver: never so many drivers that no worker can start
    assert Need(cpus=2, nested=True).at_once({"CPU": 4.3}) == 2
    assert Need(cpus=2, nested=True).at_once({"CPU": 4.0}) == 1
    assert Need(cpus=2, nested=True).of_trial() == {"CPU": 0.1}
    with pytest.raises(InputError, match="a trial needs 4 CPUs and 0 GPUs, the cluster has 2 and 0"):
        Need(cpus=4).at_once({"CPU": 2.0})
    with pytest.raises(InputError, match="1 GPUs, the cluster has 8 and 0"):
        Need(gpus=1).at_once({"CPU": 8.0})


@dataclass(frozen=True, kw_only=True, slots=True)
class Optim:
    schedule: str = knob("step", "rate", choices=("step", "cosine"))
    every: int = knob(3, "epochs", low=1, high=10)
    sizes: tuple[int, ...] = knob((1,), "sizes")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    alpha: float = knob(0.75, "weight", low=0, high=1)
    optim: Optim = field(default_factory=Optim)


@pytest.mark.slow
@pytest.mark.usefixtures("two_cpus")
def test_hyperopt_searches_and_goes_on_from_the_ledger(ledger: Ledger) -> None:
    from ray import tune

    from vse.sweeps.search import run_search

    space = Space(
        "here",
        {
            "alpha": tune.uniform(0.0, 1.0),
            "optim.schedule": tune.choice(["step", "cosine"]),
            "optim.sizes": tune.choice([[1], [1, 2]]),
            "optim.every": tune.randint(1, 4),
        },
    )
    options = {"metric": "loss", "maximize": False, "num_initial": 5, "concurrency": 1}
    first = run_search(ledger, space, Config(), trials.bowl, samples=8, **options)
    assert len(first) == 8
    assert all(isinstance(e.changes["optim.sizes"], list) and type(e.changes["optim.every"]) is int for e in first)
    # a worse function for what is new shows that what is there is not computed again
    worse = functools.partial(trials.bowl, shift=10.0)
    second = run_search(Ledger(ledger.folder), space, Config(), worse, samples=11, **options)
    assert second[:8] == first
    assert len(second) == 11
    assert all(e.result["loss"] > 9 for e in second[8:])
    assert len({e.changes["alpha"] for e in second}) == 11
    assert run_search(Ledger(ledger.folder), space, Config(), worse, samples=5, **options) == second


def test_hyperopt_refuses_what_it_cannot_search() -> None:
    from ray import tune

    from vse.sweeps.search import check_searchable

    with pytest.raises(InputError, match="alpha: a grid cannot be searched"):
        check_searchable(Space("here", {"alpha": tune.grid_search([0.1])}))
    with pytest.raises(InputError, match="nothing in it varies"):
        check_searchable(Space("here", {"alpha": 0.1}))
