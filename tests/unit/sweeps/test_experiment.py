"""Sweeps on a Ray of two CPUs: every trial once, failures counted and retried, nothing left behind."""

import functools
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sweeps import trials
from vse.cluster.capacity import Capacity, NodeKind
from vse.errors import InputError, PlacementError, StorageError
from vse.storage.folder import Folder
from vse.sweeps.budget import Budget, Caps, Meter, Resources
from vse.sweeps.ledger import RUNNING, Entry, FailureKind, Ledger

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

PLAIN, ON_DEMAND, ON_SPOT = (
    NodeKind(4.0, labels=labels) for labels in ({}, {"vse.lifecycle": "on-demand"}, {"vse.lifecycle": "spot"})
)


@pytest.fixture(scope="module")
def two_cpus() -> Iterator[None]:
    from vse.cluster.runtime import Config, running_ray

    with running_ray(Config(address="local", cpus=2, gpus=1, store_mib=80)):  # nothing here computes on that GPU
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
    from tests.unit.sweeps.running import run_sweep

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
    assert list(Ledger(ledger.folder)) == list(ledger)
    assert capfd.readouterr().out == ""  # stdout belongs to results
    assert list(scratch.iterdir()) == []  # Tune's own files are gone


ENDS = {  # of trials, and after how many attempts
    "diverges": ("failed", 1),  # it would each time
    "fine": ("finished", 1),
    "once": ("finished", 2),
    "dies": ("finished", 2),
    "always": ("failed", 2),
}


@pytest.mark.slow  # half a minute; test_proposals.py and test_recorder.py hold retries and counts without Ray
@pytest.mark.usefixtures("two_cpus")
@pytest.mark.parametrize("asked", [["diverges", "once"], [*ENDS]], ids=["two", "all"])
def test_failures_are_retried_once_and_counted(asked: list[str], ledger: Ledger, tmp_path: Path) -> None:
    from tests.unit.sweeps.running import run_sweep

    calls = tmp_path / "calls"
    calls.mkdir()
    work = functools.partial(trials.count, folder=str(calls))
    entries = dict(zip(asked, run_sweep(ledger, [{"x": x} for x in asked], work), strict=True))
    assert {x: (entry.state, entry.attempts) for x, entry in entries.items()} == {x: ENDS[x] for x in asked}
    assert entries["diverges"].why == "the training diverged: epoch 1, step 2: sent is nan; try a lower optim.lr"
    assert times(calls) == {x: ENDS[x][1] for x in asked}
    if "always" not in asked:
        return
    assert "ValueError: no luck" in entries["always"].error
    # going on: what finished is not run again, what failed is
    again = run_sweep(Ledger(ledger.folder), [{"x": "fine"}, {"x": "always"}], work, attempts=1)
    assert [e.attempts for e in again] == [1, 3]
    assert times(calls) == {"diverges": 1, "fine": 1, "once": 2, "dies": 2, "always": 3}


@pytest.mark.slow
@pytest.mark.usefixtures("two_cpus")
def test_wrong_input_inside_a_trial_is_the_users_error(ledger: Ledger, tmp_path: Path) -> None:
    from tests.unit.sweeps.running import run_sweep

    calls = tmp_path / "calls"
    calls.mkdir()
    with pytest.raises(InputError, match=r"data.root=/nowhere: no such folder"):
        run_sweep(ledger, [{"x": "fine"}, {"x": "refused"}], functools.partial(trials.count, folder=str(calls)))
    assert times(calls) == {"fine": 1, "refused": 1}
    assert [entry.result for entry in ledger if entry.state == "finished"] == [{"calls": 1}]


@pytest.mark.slow
@pytest.mark.usefixtures("two_cpus")
@pytest.mark.parametrize("where", ["trial", "ledger"])
def test_a_full_disk_starts_no_other_trial(
    where: str, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.unit.sweeps.running import run_sweep

    def full(*_: Any, **__: Any) -> Entry:
        raise StorageError("/data: no space left on device")

    calls = tmp_path / "calls"
    calls.mkdir()
    if where == "ledger":
        monkeypatch.setattr(Ledger, "finish", full)
    work = functools.partial(trials.count, folder=str(calls))
    asked = [{"x": "full" if where == "trial" else "fine"}, *({"x": f"fine {number}"} for number in range(5))]
    with pytest.raises(StorageError, match="no space left"):
        run_sweep(ledger, asked, work, concurrency=1)
    assert sum(times(calls).values()) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("two_cpus")
@pytest.mark.parametrize(
    ("trouble", "said"),
    [("sick", "/scratch: no space left on device"), ("no credentials", "s3://bucket/work: no AWS credentials")],
)
def test_where_there_are_other_nodes_the_fault_of_one_ends_no_sweep(
    trouble: str, said: str, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.unit.sweeps.running import run_sweep
    from vse.sweeps import experiment, nodes

    monkeypatch.setattr(experiment, "_one_node_alone", lambda need: False)
    monkeypatch.setattr(nodes, "PAUSE", 0.5)
    calls = tmp_path / "calls"
    calls.mkdir()
    work = functools.partial(trials.count, folder=str(calls))
    entries = run_sweep(ledger, [{"x": f"{trouble} at first"}, {"x": "fine"}], work, concurrency=1)
    assert [(entry.state, entry.attempts) for entry in entries] == [("finished", 2), ("finished", 1)]
    first = ledger.folder.read_text("ledger.jsonl").splitlines()[0]
    assert '"failure": "node_fault"' in first
    assert said in first


@pytest.mark.slow
@pytest.mark.usefixtures("two_cpus")
def test_a_trial_leaves_a_failing_gpu_and_its_process(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.unit.sweeps.running import run_sweep
    from vse.sweeps import experiment, nodes

    monkeypatch.setattr(experiment, "_one_node_alone", lambda need: False)
    monkeypatch.setattr(nodes, "PAUSE", 0.5)
    (tmp_path / "calls").mkdir()
    work = functools.partial(trials.failing_gpu, folder=str(tmp_path / "calls"))
    (entry,) = run_sweep(ledger, [{"x": 1}], work, need=Resources(gpus=1), attempts=1)
    assert (entry.state, entry.attempts) == ("finished", 2)
    assert '"failure": "node_fault"' in ledger.folder.read_text("ledger.jsonl").splitlines()[0]
    assert len({path.read_text() for path in (tmp_path / "calls").iterdir()}) == 2


def test_where_a_trial_may_run() -> None:
    from vse.sweeps.experiment import _place

    assert _place({"changes": {}}, {"CPU": 1.0}, {}).required_resources == {"CPU": 1.0}
    apart = _place({"changes": {}, "avoided": ["n1", "n2"]}, {"CPU": 1.0}, {})
    assert apart == _place({"avoided": ["n1", "n2"]}, {"CPU": 1.0}, {})  # an actor may be used again
    assert apart != _place({}, {"CPU": 1.0}, {})  # and one on a node that is left out may not
    both = _place({"avoided": ["n1"]}, {"CPU": 0.1}, {"vse.lifecycle": "!spot"})
    assert both._kwargs["bundle_label_selector"] == [{"vse.lifecycle": "!spot", "ray.io/node-id": "!in(n1)"}]


@pytest.mark.parametrize(
    ("kinds", "workers", "kept_to"),
    [
        ((PLAIN, ON_DEMAND, ON_SPOT), 2, {"vse.lifecycle": "!spot"}),
        ((PLAIN, ON_SPOT), 2, {"vse.lifecycle": "!spot"}),
        ((PLAIN, ON_DEMAND, ON_SPOT), 1, {}),  # a trial without workers of its own goes on from its checkpoint
        ((PLAIN, ON_DEMAND), 2, {}),
        ((PLAIN,), 2, {}),
        ((NodeKind(0.0, head=True), ON_SPOT), 2, {}),  # better there than nowhere
    ],
)
def test_what_starts_workers_keeps_off_nodes_that_may_vanish(
    kinds: tuple[NodeKind, ...], workers: int, kept_to: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from vse.sweeps import experiment

    monkeypatch.setattr(experiment, "capacity", lambda: Capacity(kinds))
    assert experiment._kept_to(Resources(cpus=2.0, workers=workers)) == kept_to


@pytest.mark.slow
@pytest.mark.usefixtures("two_cpus")
def test_a_node_without_labels_is_none_that_may_vanish(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.unit.sweeps.running import run_sweep
    from vse.sweeps import experiment

    monkeypatch.setattr(experiment, "capacity", lambda: Capacity((PLAIN, ON_SPOT)))
    (entry,) = run_sweep(ledger, [{"x": 3.0}], trials.square, need=Resources(cpus=1.0, workers=2))
    assert entry.result["value"] == 9.0


@pytest.mark.usefixtures("two_cpus")
def test_what_runs_is_written_down_while_it_runs(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that dies while a trial runs leaves what was spent on it; one that lives to its end leaves nothing."""
    from tests.unit.sweeps.running import run_sweep
    from vse.sweeps import recorder

    monkeypatch.setattr(recorder, "KEEP", 0.1)
    seen: list[dict[str, Any]] = []
    told = recorder.Recorder.on_step_end

    def look(self: Any, *args: Any, **info: Any) -> None:
        told(self, *args, **info)
        seen.extend(ledger.folder.read_json(RUNNING).values() if ledger.folder.exists(RUNNING) else [])

    monkeypatch.setattr(recorder.Recorder, "on_step_end", look)
    work = functools.partial(trials.sleep, seconds=2.0)
    (entry,) = run_sweep(ledger, [{"x": 1}], work)
    most = max(each["seconds"] for each in seen)
    assert 0.5 < most <= entry.spent + 0.5
    assert all(each["changes"] == {"x": 1} for each in seen)
    assert ledger.folder.read_json(RUNNING) == {}


@pytest.mark.usefixtures("two_cpus")
@pytest.mark.slow
def test_a_first_epoch_tells_a_capped_sweep_what_trials_take(ledger: Ledger) -> None:
    from vse.sweeps.experiment import run_proposed
    from vse.sweeps.proposals import TrialList

    meter, guesses = Meter(Budget(Caps(max_seconds=100.0), Resources())), list[float]()

    def progressed(trial: str, share: float) -> None:
        Meter.progressed(meter, trial, share)
        assert meter.expected is not None
        guesses.append(meter.expected)

    meter.progressed = progressed
    work = functools.partial(trials.two_epochs, seconds=2.0)
    assert run_proposed(ledger, TrialList([{"x": x} for x in range(3)]), work, at_once=2, meter=meter)
    assert len(ledger) == 3
    assert 2.0 <= guesses[0] < 12.0


@pytest.mark.slow
@pytest.mark.usefixtures("two_cpus")
def test_trials_that_no_node_comes_for_end_the_sweep(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An autoscaler's limits allow three GPUs, one is there, and two are asked for: Tune alone would wait for ever."""
    from tests.unit.sweeps.running import run_sweep

    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "6")
    run_sweep(ledger, [{"x": 1.0}], trials.square, need=Resources(gpus=1))
    started = time.monotonic()
    with pytest.raises(PlacementError, match="no node that can hold a trial started within 6 s") as raised:
        run_sweep(
            ledger,
            [{"x": float(x)} for x in (1, 2, 3)],
            trials.square,
            need=Resources(gpus=2),
            available={"CPU": 3.0, "GPU": 3.0},
        )
    assert 6 <= time.monotonic() - started < 60
    assert "each trial needs 1 CPUs and 2 GPUs of one node, 1 are waiting" in str(raised.value)
    assert "the cluster has 2 CPUs and 1 GPUs on 1 nodes" in str(raised.value)
    assert [entry.state for entry in ledger] == ["finished"]
    assert any("trials have been waiting" in record.getMessage() for record in caplog.records)
    again = run_sweep(ledger, [{"x": float(x)} for x in (1, 2, 3)], trials.square, need=Resources(gpus=1))
    assert [entry.attempts for entry in again] == [1, 1, 1]


@pytest.mark.slow
@pytest.mark.usefixtures("two_cpus")
def test_trials_whose_workers_have_no_place_come_again_while_others_get_on(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.unit.sweeps.running import run_sweep

    calls = tmp_path / "calls"
    calls.mkdir()
    work = functools.partial(trials.count, folder=str(calls))
    (entry,) = run_sweep(ledger, [{"x": "no place at first"}], work)
    assert (entry.state, entry.attempts) == ("finished", 2)
    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "0.001")  # nothing has moved for so long
    with pytest.raises(PlacementError, match=r"^train\.workers=2: no nodes started in time$"):
        run_sweep(ledger, [{"x": "no place"}, {"x": "fine"}], work, concurrency=1)
    assert times(calls) == {"no place at first": 2, "no place": 1}
    failed = ledger.get({"x": "no place"})
    assert failed is not None
    assert failed.failure == FailureKind.REFUSED


@pytest.mark.usefixtures("two_cpus")
@pytest.mark.slow
def test_workers_that_wait_for_places_are_told_of(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from tests.unit.sweeps.running import run_sweep

    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "4")
    need, work = Resources(cpus=128.0, workers=2), functools.partial(trials.workers_without_place, seconds=8.0)
    (entry,) = run_sweep(ledger, [{"x": 1}], work, need=need, available={"CPU": 129.0})
    assert entry.result == {"came": False}
    said = [record.getMessage() for record in caplog.records if "for worker resources" in record.getMessage()]
    assert said
    assert said[0].startswith("1 of 1 running trials have been waiting ")


def test_a_finished_sweep_needs_no_ray(ledger: Ledger) -> None:
    code_needs_no_ray = functools.partial(trials.count, folder="/nowhere")
    from tests.unit.sweeps.running import run_sweep

    ledger.finish({"x": "a"}, {"calls": 1}, 1.0)
    assert [e.result for e in run_sweep(ledger, [{"x": "a"}], code_needs_no_ray)] == [{"calls": 1}]


@pytest.mark.usefixtures("two_cpus")
def test_a_scheduler_ends_trials_that_are_behind(ledger: Ledger) -> None:
    """Each trial tells three epochs; with one at a time the later ones are worse and end at the first rung."""
    from vse.sweeps.experiment import run_proposed
    from vse.sweeps.halving import halving
    from vse.sweeps.proposals import TrialList

    proposer = TrialList([{"x": x} for x in (4.0, 3.0, 5.0, 1.0)])
    complete = run_proposed(ledger, proposer, trials.climb, at_once=1, scheduler=halving(4, 1, 2.0, []))
    assert complete
    ended = {entry.changes["x"]: entry.result for entry in ledger}
    assert {x for x, result in ended.items() if result.get("stopped")} == {3.0, 1.0}
    assert ended[3.0] == {"curve": [3.0], "objective": 3.0, "stopped": True}
    assert ended[5.0] == {"curve": [5.0, 6.0, 7.0, 8.0], "objective": 8.0}
    assert all(entry.state == "finished" and entry.seconds >= 0 for entry in ledger)


@pytest.mark.slow
@pytest.mark.usefixtures("two_cpus")
@pytest.mark.parametrize("given", ["", "1"])
def test_a_trial_that_lets_go_slowly_holds_up_no_other(ledger: Ledger, given: str) -> None:
    """Longer than Tune's own two seconds. Where even the time that is given is over, Tune drops the next trial without
    a word, and that one comes again."""
    from vse.sweeps.experiment import run_proposed
    from vse.sweeps.halving import halving
    from vse.sweeps.proposals import TrialList

    work = functools.partial(trials.lets_go_slowly, seconds=3.0, given=given)
    asked = [{"x": x} for x in (4.0, 3.0, 5.0)]
    assert run_proposed(ledger, TrialList(asked), work, at_once=1, scheduler=halving(4, 1, 2.0, []))
    ended = {entry.changes["x"]: entry for entry in ledger}
    assert [ended[x].state for x in (4.0, 3.0, 5.0)] == ["finished"] * 3
    assert [ended[x].attempts for x in (4.0, 3.0, 5.0)] == [1, 1, 2 if given else 1]
    assert ended[5.0].spent < 3.0  # it cost nothing before it began
    assert (FailureKind.NOT_STARTED in ledger.folder.read_text("ledger.jsonl")) == bool(given)


@pytest.mark.usefixtures("two_cpus")
@pytest.mark.slow
def test_the_cap_lets_running_trials_end(ledger: Ledger) -> None:
    from vse.sweeps.experiment import run_proposed
    from vse.sweeps.proposals import TrialList

    asked = [{"x": x} for x in range(20)]
    meter = Meter(Budget(Caps(max_seconds=2.0), Resources()))
    work = functools.partial(trials.sleep, seconds=0.5)
    assert not run_proposed(ledger, TrialList(asked), work, at_once=2, meter=meter)
    assert 2 <= len(ledger) <= 4
    assert all(entry.state == "finished" for entry in ledger)
    assert sum(seconds for seconds, _ in meter.costs) == pytest.approx(sum(entry.seconds for entry in ledger))
    missing = [changes for changes in asked[:6] if ledger.get(changes) is None]
    assert run_proposed(ledger, TrialList(missing), work, at_once=2)
    assert len(ledger) == 6


@pytest.mark.slow
@pytest.mark.usefixtures("two_cpus")
def test_trials_share_a_gpu_by_fraction(ledger: Ledger) -> None:
    from tests.unit.sweeps.running import run_sweep

    need = Resources(cpus=0.5, gpus=0.25)
    assert need.at_once({"CPU": 2.0, "GPU": 1.0}) == 4
    entries = run_sweep(ledger, [{"x": x} for x in range(4)], trials.assigned, need=need)
    assert [entry.result for entry in entries] == [{"CPU": 0.5, "GPU": 0.25}] * 4
