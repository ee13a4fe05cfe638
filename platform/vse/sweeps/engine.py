"""The engine of all sweeps: checks, lock, ledger, tracked runs, trials on Ray, report and summary.

Trials run side by side, and their ends go into the ledger. A sweep is resumed, extended, retried and reported from its
ledger. A call that finds every result and its report in place does nothing.
"""

import contextlib
import dataclasses
import functools
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from vse.cli.command import Request
from vse.cluster.placement import capacity, check_shared, preflight
from vse.cluster.runtime import cluster_address, running_ray, set_up_logging, steady_nodes
from vse.config import fingerprint
from vse.errors import InputError, PlacementError, TakenOver, TrialsFailedError
from vse.stages import pipeline
from vse.stages.attack import attack_split, some_adversaries
from vse.stages.local_inputs import check_reach
from vse.storage.folder import Folder
from vse.storage.lease import LeaseHandle
from vse.sweeps.budget import Meter, Resources
from vse.sweeps.estimates import estimate
from vse.sweeps.experiment import run_proposed
from vse.sweeps.ledger import Entry, FailureKind, Ledger, open_sweep, sole_owner, trial_id, typical_seconds
from vse.sweeps.plan import ARM, SweepCall, SweepPlan, label_of
from vse.sweeps.proposals import Proposer
from vse.sweeps.tracked import TrackedRuns
from vse.sweeps.trial import WORDS
from vse.tracking.shipping import Shipper
from vse.training.code import warning
from vse.training.config import TrainConfig
from vse.training.inputs import REVISION
from vse.training.run_journal import close_killed, end_killed_below
from vse.workspace.layout import Workspace
from vse.workspace.provenance import FILE_NAME as SUMMARY
from vse.workspace.provenance import usable_cores

log = logging.getLogger(__name__)

_LOGGED = 5  # numbers of a headline in the last log line
_NAMED = 6  # trials that a log line names


def run_sweep_job(request: Request, make_plan: Callable[[Request], SweepPlan]) -> str:
    """Run the missing trials of a sweep, write its report, and return the path of its `summary.json`.

    Args:
        request: The user's request.
        make_plan: The kind of sweep.

    Raises:
        InputError: The request cannot be served, before anything starts; or a trial was refused, after all other
            trials have ended and the report is written.
        PlacementError: No node came for any trial, after the same.
        TrialsFailedError: Some trials failed, after the same.
    """
    started, plan = time.time(), make_plan(request)
    train = plan.config.train
    preflight(
        request.workspace,
        request.options.ray,
        workers=train.workers,
        cpus_per_worker=train.threads,
        gpus_per_worker=train.gpus_per_worker,
        labels=steady_nodes(request.options.ray, train.gpus_per_worker) if train.workers > 1 else None,
        key="train.workers",
    )
    set_up_logging()
    list(check_reach(plan.config, request.workspace, request.options.ray))
    workspace = Workspace.open(request.workspace)
    folder = open_sweep(workspace, plan.name, plan.definition(), exclusive=plan.named)
    with sole_owner(folder) as lease, Shipper(request.workspace, request.tracking).every(30) as shipper:
        sweep = Sweep(request, plan, workspace, folder)
        path = sweep.run(lease, started, shipper.uri)
    failed = {label_of(entry.changes): entry for entry in sweep.failed()}
    if sweep.refused is not None:
        raise type(sweep.refused)(f"{sweep.refused} (all other trials are reported: {path})")
    if failed:
        raise TrialsFailedError(failures_line(failed, path))
    return path


def failures_line(failed: dict[str, Entry], path: str) -> str:
    """One line on failed trials: why the first one failed, and what to do.

    Args:
        failed: Entries by label.
        path: Address of the summary of the other trials.
    """
    name, first = next(iter(failed.items()))
    diverged = all(entry.failure == FailureKind.DIVERGED for entry in failed.values())
    advice = (
        "they would diverge again: sweep values where they do not" if diverged else "sweep.run=failed tries them again"
    )
    trials = f"{len(failed)} trial{'s' if len(failed) > 1 else ''}"
    return f"{trials} failed, {name}: {first.why} (all others are reported: {path}); {advice}"


class Sweep:
    """One call of a sweep in its folder, which this process holds."""

    def __init__(self, request: Request, plan: SweepPlan, workspace: Workspace, folder: Folder) -> None:
        self.request, self.plan, self.workspace, self.folder = request, plan, workspace, folder
        self.ledger, self.tracked = Ledger(folder), TrackedRuns(request, plan, workspace, folder)
        self.worked = False  # whether a trial had to run
        self.refused: InputError | PlacementError | None = None
        self.connect: Callable[[], None] = lambda: None  # to Ray
        self.material = ""  # fingerprint of the data that trials read
        self._by_other_code: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Name of the sweep, and the id of its tracked run."""
        return self.folder.name

    def run(self, lease: LeaseHandle, started: float, mlflow: str) -> str:
        """Run the missing trials, write the report, and return its summary's path. A finished sweep is not changed.

        Args:
            lease: On the folder.
            started: When the job began, in seconds since 1970.
            mlflow: Address of the tracking server, for the summary.
        """
        self._warn_of_other_code()
        try:
            with contextlib.ExitStack() as stack:
                self.connect = functools.partial(_connect, stack, self.request)
                call = self.run_trials()
            outcome = self.plan.outcome(call)
            self._warn_of_other_code()
        except BaseException as error:
            if not _is_taken_over(lease):  # otherwise the tracked runs belong to another job
                end_killed_below(self.workspace, self.name, started)  # Ray has ended, and the trainings with it
                self.tracked.close("killed" if isinstance(error, KeyboardInterrupt | SystemExit) else "failed")
            raise
        if not self.worked and reported(self.folder, outcome.digest):
            log.info("%s has been run before; nothing is left to do", self.name)
            self.tracked.close("finished")  # it is open after a call that ended before any trial
            return self.folder.address(SUMMARY)
        lease.check()  # the report overwrites files
        report = outcome.report()
        self.tracked.record_report(report, outcome.digest, self.ledger)
        first = [f"{key} {value:.4g}" for key, value in report.headline.items() if isinstance(value, int | float)]
        log.info("%s: %s", self.name, ", ".join(first[:_LOGGED]))
        return self.request.write_summary(
            self.folder,
            started=started,
            configuration=self.plan.config,
            fingerprints={"sweep": self.name[-8:], "results": outcome.digest},
            seeds=self.plan.seeds,
            headline=report.headline,
            outputs={**{n.replace(".", "_"): self.folder.address(n) for n in report.files}, "mlflow": mlflow},
            details={**report.details, "files": {name: self.folder.entry(name) for name in report.files}},
        )

    def run_trials(self) -> SweepCall:
        """Run the trials that are included and have not finished, as far as the caps allow."""
        self.plan.search_lines(self.ledger, self.workspace)  # raises for a wrong warm start before any stage runs
        self.tracked.open_parent()
        self.material = self.prepare()
        call = SweepCall(
            request=self.request,
            workspace=self.workspace,
            folder=self.folder,
            ledger=self.ledger,
            material=self.material,
        )
        proposer, total = self.plan.proposer(call)
        if total:
            self.worked, before = True, {entry.id: entry.attempts for entry in self.ledger}
            if not self.propose(proposer, total, call):
                call = dataclasses.replace(call, left=self.held_back(call.material, before))
        if proposer.refused:
            note = f"{len(proposer.refused)} drawn points would not train: {proposer.refused}"
            self.tracked.journal().note(note[:300])
        for entry in self.ledger:
            self.tracked.record_trial(entry)
        return call

    def held_back(self, material: str, before: dict[str, int]) -> int:
        """How many trials a cap held back; -1 if nobody knows.

        Args:
            material: Fingerprint of the data.
            before: Attempts by trial when the call began.
        """
        if self.plan.draws:
            log.info("the cap is reached: the search ends")
            return -1
        pending = self.plan.pending(self.ledger, material)
        left = [each for each in pending if self.ledger.attempts(each) == before.get(trial_id(each), 0)]
        named = ", ".join(map(label_of, left[:_NAMED])) + (", ..." if len(left) > _NAMED else "")
        line = "the cap is reached: %d trials have not run (%s); the same command with a higher cap continues from here"
        log.info(line, len(left), named)
        return len(left)

    def propose(self, proposer: Proposer, total: int, call: SweepCall) -> bool:
        """Run the proposed trials. An error that refused a trial is kept in `refused`.

        Args:
            proposer: Proposes the next trial.
            total: Number of trials, for the progress line.
            call: What trials need, and the fingerprint of the data they read.

        Returns:
            Whether all proposed trials ran; False if a cap held some back.
        """
        plan, need = self.plan, self.plan.need()
        meter = Meter(plan.budget(), self.ledger.costs(), typical_seconds(self.ledger, need))
        if meter.expected is None and math.isfinite(meter.budget.left(())):
            meter.expected = self.expected_seconds(call.material)
        if not meter.allows():
            return False
        self.tracked.reopen()
        self.connect()
        complete = True
        try:
            complete = run_proposed(
                self.ledger,
                proposer,
                plan.trial_function(call),
                at_once=need.at_once(most(self.request, need), side_by_side(self.request, plan.config.train)),
                total=total,
                need=need,
                meter=meter,
                scheduler=plan.scheduler(call),
                on_end=self.tracked.record_trial,
            )
        except (InputError, PlacementError) as error:
            self.refused = error
        # Trials that a scheduler ended may have been killed before they could close their tracked runs. On S3, a dead
        # process's lease lasts its term: wait for all of them at once.
        stopped = {entry.result["run"] for entry in self.ledger if entry.stopped and "run" in entry.result}
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(functools.partial(close_killed, self.workspace), sorted(stopped)))
        return complete

    def expected_seconds(self, material: str) -> float | None:
        """Seconds of the longest trial that is to run; None without an estimate."""
        pending = {changes.get(ARM, "") for changes in self.plan.pending(self.ledger, material)}
        each = [
            estimate(config, self.plan.space.keys, self.workspace, self.request, next_on_gpu=True)
            for arm, config in self.plan.arms.items()
            if arm in pending or self.plan.draws
        ]
        if not each:
            return None
        longest = max(each, key=lambda one: one.seconds or 0.0).without(self.plan.besides)
        if longest.seconds is None:
            log.info("a cap is set, but the duration of a trial is unknown: starting a single trial to measure it")
        else:
            line = "a trial is expected to take %.3g s (%s); none starts that would pass the cap"
            log.info(line, longest.seconds, longest.source)
        return longest.seconds

    def prepare(self) -> str:
        """Make the data, features, parses and adversaries that trials share.

        Returns:
            The fingerprint of the data and of training's revision.
        """
        plan, prepared = self.plan, []
        for each in plan.inputs():
            prepared.append(
                pipeline.prepare(
                    each.config,
                    self.workspace,
                    parsed=each.parsed,
                    outputs=each.outputs,
                    ray=self.request.options.ray,
                    splits=plan.measured,
                )
            )
        first = prepared[0]
        for split in plan.attacked:
            adversaries = attack_split(plan.config, self.workspace, first, split, WORDS)
            if split == plan.attacked[0]:
                some_adversaries(adversaries)
        self.tracked.record_data(first.fingerprints)
        return fingerprint([REVISION, dict(first.fingerprints)])

    def failed(self) -> list[Entry]:
        """Trials of this plan whose last attempt failed."""
        entries = [self.ledger.get(changes) for changes in self.plan.trials(self.ledger, self.material)]
        return [entry for entry in entries if entry is not None and entry.state == "failed"]

    def _warn_of_other_code(self) -> None:
        """Log one line on trainings in the ledger that other code made, each training once."""
        trained = {entry.id: entry.result["trained_by"] for entry in self.ledger if "trained_by" in entry.result}
        new = {key: code for key, code in trained.items() if key not in self._by_other_code}
        if line := warning(new, f"trainings of {self.name}", f"remove {self.folder} and the runs its ledger names"):
            log.warning("%s", line)
        self._by_other_code = frozenset(trained)


def side_by_side(request: Request, train: TrainConfig) -> int:
    """How many trials run at once by the user's choice; 0: as many as there are resources for.

    If Ray is started here, one trial a core: Ray is given one core more than there is. Trials on GPUs wait for GPUs.
    """
    here = cluster_address(request.options.ray) is None and not train.gpus_per_worker
    return request.options.sweep.concurrency or (max(1, usable_cores() // train.threads) if here else 0)


def most(request: Request, need: Resources) -> dict[str, float]:
    """CPUs and GPUs that trials can use of the machine, or of what the cluster can grow to.

    Trials without GPUs use nodes without GPUs, and several workers with GPUs use on-demand nodes. If other nodes
    counted, more trials would start than can get all their resources.

    Raises:
        InputError: Not even one trial fits.
    """
    could = capacity(request.options.ray)
    if need.gpus:
        return need.most(could, steady_nodes(request.options.ray, need.gpus) if need.nested else None)
    with contextlib.suppress(InputError):
        return need.most(could.without_gpus())
    return need.most(could)


def reported(folder: Folder, digest: str) -> bool:
    """Whether the report of the results with this digest is in place, each file unchanged."""
    if not folder.exists(SUMMARY):
        return False
    try:
        summary = folder.read_json(SUMMARY)
        files = summary["details"]["files"].items()
    except (InputError, KeyError, TypeError):  # damaged
        return False
    whole = all(folder.exists(name) and folder.entry(name) == entry for name, entry in files)
    return whole and summary["fingerprints"].get("results") == digest


def _is_taken_over(lease: LeaseHandle) -> bool:
    """Whether another job holds the sweep now; False if the store does not answer."""
    try:
        lease.check()
    except TakenOver:
        return True
    except (OSError, InputError):  # the job is ending with an error already
        return False
    return False


def _connect(stack: contextlib.ExitStack, request: Request) -> None:
    """Start or join Ray when the first trial needs it; it ends with the sweep."""
    import ray

    if not ray.is_initialized():
        stack.enter_context(running_ray(request.options.ray))
        check_shared(request.workspace)
