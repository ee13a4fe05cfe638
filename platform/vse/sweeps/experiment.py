"""Trials as a Ray Tune experiment. Results go into the ledger as they come; nothing that Tune writes is read again.

A trial computes in Tune's own function actor: one process, its own CPUs, no Ray Train around it (a nested trainer costs
some 17 s on two cores before it learns anything). Actors are reused, so a short trial pays for no process start.
"""

import contextlib
import functools
import json
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import TrialScheduler

from vse.cluster.placement import capacity
from vse.errors import InputError, PlacementError, StorageError
from vse.progress import Progress
from vse.redaction import redact_text
from vse.sweeps.budget import Meter
from vse.sweeps.ledger import FILE_NAME, Entry, Ledger, trial_id
from vse.sweeps.proposals import AVOIDED, DIVERGED, LOST, NO_PLACE, SICK, HandOut, InTurn, Proposer
from vse.sweeps.sick_nodes import SickNodes
from vse.sweeps.standing import Standing
from vse.sweeps.trial_process import PAYLOAD, SAID, SHARE, SO_FAR, Function, run_function
from vse.sweeps.waiting import Waiting

Listener = Callable[[Entry], None]

KEEP = 30.0  # seconds between notes of what has been spent on trials that run
DRIVER_CPUS = 0.1  # of a trial that only waits for workers of its own
_ENVIRONMENT = {  # beside what vse.cluster.runtime sets
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # of Tune's own state, which the ledger replaces
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the new one writes to stdout even when it is asked not to
}
_NODE_LABEL = "ray.io/node-id"
_REFUSALS = (InputError, StorageError, PlacementError)
_Refusal = InputError | StorageError | PlacementError


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What one trial needs of the cluster. `nested`: its CPUs and GPUs are taken by workers that it starts itself."""

    cpus: float = 1.0
    gpus: float = 0.0
    nested: bool = False

    def of_trial(self) -> dict[str, float]:
        """The resources that Tune reserves for the trial's own process."""
        if self.nested:
            return {"CPU": DRIVER_CPUS}
        return {"CPU": self.cpus, **({"GPU": self.gpus} if self.gpus else {})}

    def at_once(self, available: Mapping[str, float], wished: int = 0) -> int:
        """How many such trials fit side by side, at most `wished` if that is given (0: no limit).

        Trials that start their own workers share the CPUs with them, so only as many start as can finish: more would
        hold CPUs that the workers of others wait for. Raises InputError where not even one fits.
        """
        cpus = self.cpus + (DRIVER_CPUS if self.nested else 0.0)
        fits = int(available.get("CPU", 0.0) / cpus + 1e-9) if cpus else 10**6
        if self.gpus:
            fits = min(fits, int(available.get("GPU", 0.0) / self.gpus + 1e-9))
        if fits < 1:
            raise InputError(
                f"a trial needs {cpus:g} CPUs and {self.gpus:g} GPUs, the cluster has {available.get('CPU', 0):g} and "
                f"{available.get('GPU', 0):g}; lower train.workers, train.threads or train.gpus_per_worker"
            )
        return min(fits, wished) if wished else fits


def run_sweep(
    ledger: Ledger,
    trials: Iterable[Mapping[str, Any]],
    function: Function,
    *,
    need: Need | None = None,
    concurrency: int = 0,
    available: Mapping[str, float] | None = None,
    attempts: int = 2,
    meter: Meter | None = None,
    label: str = "trials",
    on_end: Listener | None = None,
) -> list[Entry]:
    """Run those trials that have not finished; returns the ledger's entries of all of them, in the order given, less
    those that the meter held back.

    function: changes -> result (plain data), importable from a module, run in another process. An exception is a failed
    trial, tried again once more until it had `attempts` in this call, unless it is Diverged; an InputError is raised
    here once the others have ended. available: what the cluster can grow to, if that is more than it has. on_end: hears
    every end, in this process. The process must be connected to Ray if anything is pending.
    """
    asked = [dict(changes) for changes in trials]
    pending = ledger.pending(asked)
    if pending:
        at_once = (need or Need()).at_once(available or ray.cluster_resources(), concurrency)
        proposer = InTurn(pending, attempts)
        run_proposed(
            ledger,
            proposer,
            function,
            need=need,
            at_once=at_once,
            total=len(pending),
            meter=meter,
            label=label,
            on_end=on_end,
        )
    return [entry for changes in asked if (entry := ledger.get(changes)) is not None]


def run_proposed(
    ledger: Ledger,
    proposer: Proposer,
    function: Function,
    *,
    at_once: int,
    total: int | None = None,
    need: Need | None = None,
    meter: Meter | None = None,
    scheduler: TrialScheduler | None = None,
    label: str = "trials",
    on_end: Listener | None = None,
) -> bool:
    """Run what a proposer proposes, `at_once` side by side, until it proposes no more; False if the meter stopped it.

    Ends of trials go into the ledger, to the proposer and to `on_end`. scheduler: may end trials by what they `tell`.
    What wrong input or a broken disk ended is raised once all others have ended, as InputError or StorageError; a
    PlacementError where no node comes for any trial. Where there are several nodes, a disk or GPU that fails on one
    of them ends no sweep: the trial comes again, and later ones keep from that node.
    """
    meter, need = meter or Meter(), need or Need()
    sick = SickNodes(functools.partial(_one_node_alone, need))
    waiting = Waiting(need.of_trial(), nodes=lambda: [n for n in ray.nodes() if n["NodeID"] not in sick.left_out()])
    with Progress(label, total=total, unit="trials", every=20.0) as bar:
        recorder = Recorder(ledger, bar, proposer, meter, waiting, sick, need.nested, on_end)
        hand_out = HandOut(proposer, meter, lambda: recorder.broken, sick)
        settings = tune.TuneConfig(
            search_alg=hand_out,
            scheduler=scheduler,
            num_samples=-1,
            max_concurrent_trials=at_once,
            reuse_actors=True,
        )
        try:
            _tuned(function, need, recorder, settings)
        finally:
            recorder.keep_running()
        recorder.conclude()
    return hand_out.held_back is None


def require_finished(entries: Sequence[Entry], what: str, ledger: Ledger) -> None:
    """Raise RuntimeError that names the first failure and the ledger where any entry has failed."""
    failed = [entry for entry in entries if entry.state == "failed"]
    if failed:
        first = failed[0]
        raise RuntimeError(
            f"{len(failed)} of {len(entries)} {what} failed; trial {first.id} {first.changes}: {first.why} "
            f"(the whole story: {ledger.folder}/{FILE_NAME})"
        )


def _tuned(function: Function, need: Need, recorder: "Recorder", config: tune.TuneConfig) -> None:
    """One `Tuner.fit` whose results go to `recorder`; Tune's own files live in a temporary folder."""
    assert ray.is_initialized(), "connect to Ray first (vse.cluster.runtime)"
    module = getattr(getattr(function, "func", function), "__module__", "")
    assert module != "__main__", "what Ray pickles must live in a module that workers can import"
    config.trial_name_creator = _name
    config.trial_dirname_creator = _name
    scratch = tempfile.mkdtemp(prefix="vse-tune-")
    try:
        with _environment(_ENVIRONMENT), _quiet("ray.tune"):
            tune.Tuner(
                tune.with_resources(
                    functools.partial(run_function, function=function), functools.partial(_place, asked=need.of_trial())
                ),
                tune_config=config,
                run_config=tune.RunConfig(name="trials", storage_path=scratch, callbacks=[recorder], verbose=0),
            ).fit()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _name(trial: Any) -> str:
    return f"trial-{trial.trial_id}"


def _place(config: dict[str, Any], asked: dict[str, float]) -> tune.PlacementGroupFactory:
    """Where a trial may run: anywhere but on the nodes that it is to keep from."""
    if not config.get(AVOIDED):
        return tune.PlacementGroupFactory([asked])
    elsewhere = {_NODE_LABEL: f"!in({','.join(config[AVOIDED])})"}
    return tune.PlacementGroupFactory([asked], bundle_label_selector=[elsewhere])


def _one_node_alone(need: Need) -> bool:
    """Whether trials have one node to run on, counting those that are yet to come."""
    asked, could = need.of_trial(), capacity()
    cpus, gpus = asked.get("CPU", 0.0), asked.get("GPU", 0.0)
    return sum(kind.count for kind in could.kinds if kind.holds(cpus, gpus)) < 2


class Recorder(tune.Callback):
    """Writes the end of every trial into the ledger, in the driver."""

    def __init__(
        self,
        ledger: Ledger,
        bar: Progress,
        proposer: Proposer,
        meter: Meter,
        waiting: Waiting,
        sick: SickNodes,
        nested: bool,
        on_end: Listener | None = None,
    ) -> None:
        self.ledger, self.bar, self.proposer, self.meter, self.on_end = ledger, bar, proposer, meter, on_end
        self.waiting, self.sick, self.nested = waiting, sick, nested
        self.running: dict[str, dict[str, Any]] = {}  # by trial: its changes, once it has its place
        self._kept = time.monotonic()
        self.refused: _Refusal | None = None
        self.broken = False  # results or trials have no place: whatever starts now would be in vain
        self.standing = Standing(ledger, bar.label, bar.total)

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune saves its callbacks for a resumption that is the ledger's here

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        if result.get(SAID):
            self.waiting.moved()
            self.bar.advance(0, text=str(result[SAID]))
        if result.get(SHARE):
            self.meter.told(trial_id(trial.config["changes"]), result[SHARE])

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        changes = trial.config["changes"]
        self.running[trial_id(changes)] = changes
        self.meter.started(trial_id(changes))
        self.standing.show(self.bar.done, self.meter.running)

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if time.monotonic() - self._kept >= KEEP:
            self.keep_running()
        self.waiting.look(trial.status for trial in trials)

    def keep_running(self) -> None:
        """Write down what has been spent on the trials that run now."""
        self.ledger.keep_running((changes, self._seconds(changes)) for changes in self.running.values())
        self._kept = time.monotonic()  # a store that is away has been waited for

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        changes, last = trial.config["changes"], trial.last_result or {}
        payload = json.loads(last.get(PAYLOAD) or "{}")
        if "result" in payload:
            self.waiting.moved()
            self.sick.well(payload["node"])
            self._ended(changes, lambda: self.ledger.finish(changes, payload["result"], payload["seconds"]))
        elif "diverged" in payload:
            self.waiting.moved()
            why = f"{DIVERGED}: {payload['diverged']}"
            self._ended(changes, lambda: self.ledger.fail(changes, why, self._seconds(changes)))
        elif SO_FAR in last:  # the scheduler ended it
            found = {**json.loads(last[SO_FAR]), "stopped": True}
            self._ended(changes, lambda: self.ledger.finish(changes, found, self._seconds(changes)))
        else:
            self._not_served(changes, payload)

    def _not_served(self, changes: dict[str, Any], payload: Mapping[str, Any]) -> None:
        """A trial's end by what others would end by as well, unless it was its node's fault or is over by then."""
        why, kind = payload.get("refused") or "a trial ended without a result", payload.get("kind", "")
        if kind == PlacementError.__name__ and not self.waiting.stands():  # others have what it waited for
            self._ended(changes, lambda: self.ledger.fail(changes, f"{NO_PLACE}: {why}", self._seconds(changes)))
            return
        verdict = None
        if payload.get("sick"):
            verdict = self.sick.ill("" if self.nested else payload["node"], payload["host"], kind, why)
        if verdict == "here":
            text = f"{SICK}: {payload['host']}: {why}"
            self._ended(changes, lambda: self.ledger.fail(changes, text, self._seconds(changes)))
            return
        self._refuse(next((each for each in _REFUSALS if each.__name__ == kind), InputError)(why))
        self.broken = self.broken or verdict == "everywhere"
        self._ended(changes, lambda: self.ledger.fail(changes, why, self._seconds(changes)), refused=True)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        changes = trial.config["changes"]
        self._ended(changes, lambda: self.ledger.fail(changes, _why(trial), self._seconds(changes)))

    def conclude(self) -> None:
        """Raise what ended trials and would end them again."""
        if self.refused is not None:
            raise self.refused

    def _refuse(self, error: _Refusal) -> None:
        self.refused = self.refused if self.broken else error  # the first is the cause
        self.broken = self.broken or not isinstance(error, InputError)

    def _seconds(self, changes: Mapping[str, Any]) -> float:
        return self.meter.elapsed(trial_id(changes))

    def _ended(self, changes: Mapping[str, Any], record: Callable[[], Entry], refused: bool = False) -> None:
        before = self.ledger.spent(changes)
        self.running.pop(trial_id(changes), None)
        try:
            entry = record()
        except (StorageError, InputError) as error:  # Tune would make a page of it; its caller makes a line
            self._refuse(error)
            self.broken = True
            return
        self.meter.ended(entry, before)
        if not self.proposer.ended(entry, final=refused):
            self.bar.advance(text=f"last {entry.id}")
        self.standing.show(self.bar.done, self.meter.running)
        if self.on_end is not None:
            self.on_end(entry)


def _why(trial: Any) -> str:
    """The end of the traceback of a failed trial, as Tune left it in this process's scratch folder."""
    try:
        text = Path(trial.error_file or "").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = "the process of the trial died"
    text = redact_text(re.sub(r"\x1b\[[0-9;]*m", "", text)).strip()[-4000:]
    return f"{LOST}: {text}" if _lost_its_node(text) else text


def _lost_its_node(text: str) -> bool:
    """Whether Ray says so. Tune keeps the exception itself as a pickle only, which is not read; what a trial raises has
    a traceback, and a trial whose process alone died is told as that."""
    return "Traceback" not in text and any(words in text for words in ("is unavailable:", "its node has died"))


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update({name: value for name, value in values.items() if before[name] is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Tune reports failed trials once a trial as an error log and once more as a table; the ledger has them."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
