"""What Tune tells of the ends of trials, and what becomes of it."""

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from tests.unit.cluster.test_memory_shortage import BY_RAY
from vse.cluster.memory_shortage import LOWER, memory_shortage
from vse.display.progress import Progress
from vse.errors import InputError, PlacementError, StorageError
from vse.storage.folder import Folder
from vse.sweeps.budget import Resources
from vse.sweeps.ledger import FailureKind, Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(Folder.open(tmp_path / "sweep"))


class Ends:
    """Of trials, as Tune tells a Recorder of them."""

    def __init__(self, ledger: Ledger, need: Resources | None = None, *, alone: bool = False) -> None:
        from vse.sweeps.budget import Budget, Caps, Meter
        from vse.sweeps.nodes import ResourceWatch, SickNodes
        from vse.sweeps.proposals import TrialList
        from vse.sweeps.recorder import Recorder

        bar = Progress("trials", unit="trials").__enter__()
        self.sick = SickNodes(lambda: alone)
        self.now = 0.0
        waiting = ResourceWatch({"CPU": 1.0}, deadline=900.0, clock=lambda: self.now, nodes=list)
        self.need = need or Resources()
        self.meter = Meter(Budget(Caps(), self.need), clock=lambda: self.now)
        self.proposer = TrialList([])
        self.untold: list[str] = []
        self.recorder = Recorder(
            ledger,
            bar,
            self.proposer,
            self.meter,
            waiting,
            self.sick,
            self.need,
            on_silent_failure=self.untold.append,
        )

    def cpu_hours(self) -> float:
        """What the trials cost so far."""
        return sum(seconds * had.cpus for seconds, had in self.meter.costs) / 3600

    def start(self, x: str) -> None:
        self.recorder.on_trial_start(0, [], SimpleNamespace(config={"changes": {"x": x}}))

    def say(self, x: str, share: float, waited: float = 0.0, earlier: int = 0) -> None:
        from vse.sweeps.trial_process import EPOCHS, SAID, WAITED

        told = {SAID: "an epoch", EPOCHS: [earlier + round(100 * share), 100, earlier], WAITED: waited}
        self.recorder.on_trial_result(0, [], SimpleNamespace(config={"changes": {"x": x}}), told)

    def end(self, x: str, node: str, **payload: Any) -> None:
        from vse.sweeps.trial_process import PAYLOAD

        told = {PAYLOAD: json.dumps({"node": node, "host": f"host-{node}", "seconds": 1.0, **payload})}
        self.recorder.on_trial_complete(0, [], SimpleNamespace(config={"changes": {"x": x}}, last_result=told))

    def fail_gpu(self, x: str, node: str) -> None:
        """A trial reports that its GPU fails, and its process ends with an error."""
        from vse.sweeps.trial_process import PAYLOAD

        fault = {"kind": "GpuFaultError", "refused": f"the GPU of host-{node} fails: CUDA error: unknown error"}
        report = {PAYLOAD: json.dumps({"node": node, "host": f"host-{node}", "sick": True, **fault})}
        trial = SimpleNamespace(trial_id=x, config={"changes": {"x": x}}, last_result=report, error_file=None)
        self.recorder.on_trial_error(0, [trial], trial)


def test_a_node_at_fault_is_left_out_and_two_of_them_end_the_sweep(ledger: Ledger) -> None:
    ends = Ends(ledger)
    no_gpu: dict[str, Any] = {"kind": "InputError", "refused": "torch finds no GPU on host-a", "sick": True}
    ends.end("1", "a", **no_gpu)
    ends.end("2", "a", **no_gpu)
    assert (ends.sick.left_out(), ends.recorder.broken, ends.recorder.refused) == (["a"], False, None)
    assert [(entry.failure, entry.error) for entry in ledger] == [
        (FailureKind.NODE_FAULT, "host-a: torch finds no GPU on host-a")
    ] * 2
    ends.end("3", "b", result={})
    ends.end("4", "b", **no_gpu)
    assert not ends.recorder.broken
    ends.end("5", "c", **no_gpu)
    assert ends.recorder.broken
    with pytest.raises(InputError, match="torch finds no GPU"):
        ends.recorder.conclude()


def test_a_gpu_that_fails_takes_its_node_out_and_costs_no_attempt(ledger: Ledger) -> None:
    ends = Ends(ledger)
    for _ in range(2):
        ends.fail_gpu("1", "a")
        assert ends.proposer.propose() == {"x": "1"}
    assert (ends.sick.left_out(), ends.recorder.broken, ends.recorder.refused) == (["a"], False, None)
    (entry,) = ledger
    line = "the GPU of host-a fails: CUDA error: unknown error"
    assert (entry.failure, entry.error) == (FailureKind.NODE_FAULT, f"host-a: {line}")
    ends.fail_gpu("2", "b")
    with pytest.raises(PlacementError, match="the GPU of host-b fails"):
        ends.recorder.conclude()


def test_the_failing_gpu_of_the_only_node_ends_the_sweep(ledger: Ledger) -> None:
    ends = Ends(ledger, alone=True)
    ends.fail_gpu("1", "a")
    assert ends.recorder.broken
    with pytest.raises(PlacementError, match="the GPU of host-a fails: CUDA error"):
        ends.recorder.conclude()


def test_the_fault_of_the_only_node_ends_the_sweep_before_the_next_trial(ledger: Ledger) -> None:
    ends = Ends(ledger, alone=True)
    ends.end("1", "a", kind="CredentialsError", refused="s3://bucket/work: no AWS credentials", sick=True)
    assert ends.recorder.broken
    with pytest.raises(InputError, match="no AWS credentials"):
        ends.recorder.conclude()


def test_wrong_input_is_no_nodes_fault(ledger: Ledger) -> None:
    ends = Ends(ledger)
    ends.end("1", "a", kind="InputError", refused="data.root=/nowhere: no such folder", sick=False)
    assert not ends.recorder.broken
    with pytest.raises(InputError, match=r"data\.root=/nowhere"):
        ends.recorder.conclude()


def test_of_workers_elsewhere_no_node_is_left_out(ledger: Ledger) -> None:
    ends = Ends(ledger, Resources(workers=2))
    full: dict[str, Any] = {"kind": "StorageError", "refused": "/data: no space left on device", "sick": True}
    for x in ("1", "2"):
        ends.end(x, "a", **full)
    assert (ends.sick.left_out(), ends.recorder.broken) == ([], False)
    ends.end("3", "a", **full)
    assert ends.recorder.broken
    with pytest.raises(StorageError, match="no space left"):
        ends.recorder.conclude()


@pytest.mark.parametrize("alone", [True, False])
def test_a_trial_whose_run_another_job_took_over_comes_again(alone: bool, ledger: Ledger) -> None:
    ends = Ends(ledger, alone=alone)
    for x in ("1", "2"):
        ends.end(x, "a", taken_over="s3://bucket/runs/1: another job took this over")
    assert (ends.sick.left_out(), ends.sick.rests(), ends.recorder.broken) == ([], False, False)
    assert [(entry.failure, entry.error) for entry in ledger] == [
        (FailureKind.TAKEN_OVER, "s3://bucket/runs/1: another job took this over")
    ] * 2
    assert [ends.proposer.propose(), ends.proposer.propose()] == [{"x": "1"}, {"x": "2"}]
    ends.recorder.conclude()


def test_results_that_were_not_written_are_tried_again_at_the_end(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unanswered(*args: object) -> NoReturn:
        raise StorageError("s3://bucket/ledger.jsonl: no answer")

    tried: list[str] = []
    monkeypatch.setattr(ledger, "finish", unanswered)
    monkeypatch.setattr(ledger, "retry", lambda: tried.append("again"))
    ends = Ends(ledger)
    ends.end("1", "a", result={"v": 1})
    assert ends.recorder.broken
    with pytest.raises(StorageError, match="no answer"):
        ends.recorder.conclude()
    assert tried == ["again"]


def test_only_a_sweep_without_an_error_publishes_its_end(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []
    for input_is_wrong in (True, False):
        ends = Ends(ledger)
        monkeypatch.setattr(ends.recorder._file, "show_end", shown.append)
        if input_is_wrong:
            ends.end("1", "a", kind="InputError", refused="data.root=/nowhere: no such folder", sick=False)
            with pytest.raises(InputError):
                ends.recorder.conclude()
            assert shown == []
        else:
            ends.end("1", "a", diverged="loss is nan")
            ends.recorder.conclude()
    assert shown == [1]


def test_a_trial_that_tune_gave_up_without_a_word_has_ended(ledger: Ledger) -> None:
    ends = Ends(ledger)
    trials = [
        SimpleNamespace(trial_id=name, status="ERROR", config={"changes": {"x": name}}, error_file=None, last_result={})
        for name in ("told", "untold")
    ]
    ends.recorder.on_trial_error(0, trials, trials[0])
    for step in range(2):
        ends.recorder.on_step_end(step, trials)
    assert ends.untold == ["untold"]
    assert [(entry.changes["x"], entry.attempts) for entry in ledger] == [("told", 1), ("untold", 1)]
    assert [entry.failure for entry in ledger] == [FailureKind.ERROR, FailureKind.NOT_STARTED]


def test_a_trial_that_ran_out_of_memory_is_a_line(ledger: Ledger, tmp_path: Path) -> None:
    from vse.sweeps.trial_process import PEAK

    ends = Ends(ledger)
    error = tmp_path / "error.txt"
    error.write_text(BY_RAY)
    config = {"changes": {"x": "1"}}
    trial = SimpleNamespace(trial_id="a", status="ERROR", config=config, error_file=str(error), last_result={})
    ends.recorder.on_trial_result(0, [trial], trial, {PEAK: 2.5})
    ends.recorder.on_trial_error(0, [trial], trial)
    (entry,) = ledger
    assert entry.error == f"{memory_shortage(BY_RAY)}; {LOWER}"
    assert "\n" not in entry.error


def test_where_those_that_wait_all_keep_from_a_node_it_is_no_place(ledger: Ledger) -> None:
    ends, looks = Ends(ledger), list[tuple[list[str], set[str]]]()

    def look(states: Iterable[str], avoided: Collection[str] = ()) -> None:
        looks.append((list(states), set(avoided)))

    ends.recorder.waiting.look = look
    trials = [
        SimpleNamespace(trial_id=str(number), status=status, config={"changes": {"x": number}, **avoided})
        for number, (status, avoided) in enumerate(
            [
                ("PENDING", {"avoided": ["a", "b"]}),
                ("PENDING", {"avoided": ["b", "c"]}),
                ("RUNNING", {"avoided": ["c"]}),
                ("PENDING", {}),
            ]
        )
    ]
    for some in (trials[:1], trials[:3], trials, trials[2:3]):
        ends.recorder.on_step_end(0, some)
    assert [avoided for _, avoided in looks] == [{"a", "b"}, {"b"}, set(), set()]
    assert looks[1][0] == ["PENDING", "PENDING", "RUNNING"]


def test_ended_trials_at_the_beginning_are_looked_at_once(ledger: Ledger) -> None:
    ends, looks = Ends(ledger), list[int]()

    def look(states: Iterable[str], avoided: Collection[str] = ()) -> None:
        looks.append(len(list(states)))

    ends.recorder.waiting.look = look
    states = ["TERMINATED", "ERROR", "RUNNING", "TERMINATED", "PENDING"]
    trials = [
        SimpleNamespace(trial_id=str(k), status=state, config={"changes": {"x": k}}, error_file=None)
        for k, state in enumerate(states)
    ]
    for _ in range(2):
        ends.recorder.on_step_end(0, trials)
    assert looks == [5, 3]
    assert ends.untold == ["1"]


NO_PLACE: dict[str, Any] = {"kind": "PlacementError", "refused": "train.workers=2: no nodes started in time"}


def test_a_trial_without_a_place_comes_again_while_another_is_in_a_long_epoch(ledger: Ledger) -> None:
    """It had its driver's share meanwhile, and takes no more but time."""
    ends = Ends(ledger, Resources(cpus=4.0, workers=2))
    ends.start("long")
    ends.start("surplus")
    for _ in range(12):
        ends.now += 901.0
        ends.end("surplus", "a", **NO_PLACE)
        assert ends.proposer.propose() == {"x": "surplus"}
        ends.start("surplus")
    assert (ends.recorder.refused, ends.recorder.broken) == (None, False)
    entry = ledger.get({"x": "surplus"})
    assert entry is not None
    assert (entry.spent, entry.need.cpus, entry.need.gpus) == (12 * 901.0, 0.1, 0.0)
    assert ends.cpu_hours() == pytest.approx(12 * 901.0 * 0.1 / 3600)


def test_epochs_that_are_told_again_are_no_sign_of_a_place(ledger: Ledger) -> None:
    ends = Ends(ledger, Resources(cpus=4.0, workers=2))
    ends.start("a")
    ends.now = 5.0
    ends.say("a", 0.0)
    ends.now = 904.0
    ends.end("a", "n", **NO_PLACE)
    assert ends.recorder.broken
    with pytest.raises(PlacementError, match="no nodes started in time"):
        ends.recorder.conclude()
    assert next(iter(ledger)).need.cpus == 0.1


def test_a_trial_that_lost_its_workers_had_what_it_needs(ledger: Ledger) -> None:
    ends = Ends(ledger, Resources(cpus=4.0, workers=2))
    ends.start("a")
    ends.now = 3600.0
    ends.say("a", 0.5)
    ends.now = 4400.0
    ends.end("a", "n", **NO_PLACE)
    assert not ends.recorder.broken  # it has moved since
    assert (next(iter(ledger)).need.cpus, ends.cpu_hours()) == (4.0, pytest.approx(4400.0 * 4 / 3600))


def test_a_trial_costs_its_drivers_share_while_its_workers_wait_for_places(ledger: Ledger) -> None:
    """However it ends: of an hour its GPUs were there for the last three quarters."""
    ends = Ends(ledger, Resources(cpus=4.0, gpus=2.0, workers=2))
    for x in ("finished", "diverged", "cut off"):
        ends.start(x)
        ends.now += 1800.0
        ends.say(x, 0.3, waited=900.0)
        ends.now += 1800.0
        if x == "finished":
            ends.end(x, "n", result={}, seconds=3600.0)
        elif x == "diverged":
            ends.end(x, "n", diverged="loss is nan")
    ends.recorder.keep_running()
    assert [(entry.spent, entry.need) for entry in ledger] == [(3600.0, Resources(cpus=3.025, gpus=1.5, workers=2))] * 2
    assert ends.recorder.need.of_kind(next(iter(Ledger(ledger.folder))).need)
    assert ends.cpu_hours() == pytest.approx(2 * (2700.0 * 4 + 900.0 * 0.1) / 3600)
    costs = Ledger(ledger.folder).costs()
    assert [seconds * need.gpus for seconds, need in costs] == [5400.0] * 3


def test_a_trial_of_one_worker_never_waits_without_what_it_needs(ledger: Ledger) -> None:
    ends = Ends(ledger, Resources(cpus=2.0, gpus=1.0))
    ends.start("a")
    ends.now = 60.0
    ends.end("a", "n", result={}, seconds=60.0)
    assert (next(iter(ledger)).need.cpus, next(iter(ledger)).need.gpus) == (2.0, 1.0)
    assert ends.cpu_hours() == pytest.approx(60.0 * 2 / 3600)
