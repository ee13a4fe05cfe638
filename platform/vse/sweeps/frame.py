"""What every sweep does around its trials: checks, lock, ledger, journal, Ray once a trial needs it, summary."""

import contextlib
import functools
import json
import logging
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from vse.cli.command import Request
from vse.cluster.placement import capacity, check_shared, preflight
from vse.cluster.runtime import cluster_address, running_ray, set_up_logging, steady_nodes
from vse.config import flatten
from vse.display.markdown import commands, escaped
from vse.errors import InputError, TakenOver
from vse.report.build import command_of
from vse.stages.local_inputs import check_reach
from vse.storage.folder import Folder
from vse.storage.lease import LeaseHandle
from vse.sweeps.ledger import Ledger, open_sweep, sole_owner
from vse.sweeps.need import Need
from vse.sweeps.proposals import DIVERGED
from vse.tracking.shipping import Shipper
from vse.training.code import warning
from vse.training.config import RunConfig, TrainConfig
from vse.training.killed import end_killed_below
from vse.workspace.journal import Journal, Status, read
from vse.workspace.layout import Workspace
from vse.workspace.provenance import run_tags, usable_cores
from vse.workspace.redaction import redact_text
from vse.workspace.summary import FILE_NAME as SUMMARY
from vse.workspace.summary import write_summary

log = logging.getLogger(__name__)

_FIRST = 5  # numbers of a headline that the log tells


@runtime_checkable
class Plan(Protocol):
    """What the frame reads of a plan. `named`: the user chose the name, so it may stand for one definition only."""

    @property
    def name(self) -> str: ...
    @property
    def named(self) -> bool: ...
    @property
    def seeds(self) -> tuple[int, ...]: ...
    @property
    def config(self) -> RunConfig: ...
    @property
    def question(self) -> str: ...
    def definition(self) -> dict[str, Any]: ...
    def spent(self, ledger: Ledger) -> list[tuple[float, Need]]: ...


@dataclass(frozen=True, kw_only=True)
class Report:
    """What is written down at the end: names of files in the sweep's folder, headline numbers, details."""

    files: Sequence[str]
    headline: Mapping[str, Any]
    details: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """What the trials found: `digest` over their results, and the report of them, drawn when it is asked for."""

    digest: str
    report: Callable[[], Report]


def failures(failed: Mapping[str, str], path: str) -> str:
    """The line to end with where trials failed: what the first died of, and what can be done. `failed`: label -> error;
    `path`: where the others are reported."""
    name, why = next(iter(failed.items()))
    diverged = all(each.startswith(DIVERGED) for each in failed.values())
    advice = (
        "again they would diverge: sweep values where they do not" if diverged else "sweep.run=failed tries them again"
    )
    trials = f"{len(failed)} trial{'s' if len(failed) > 1 else ''}"
    return f"{trials} failed, {name}: {why} (all others are reported: {path}); {advice}"


@dataclass
class Frame:
    """One call of a sweep: where it works, and whether anything had to be done."""

    request: Request
    plan: Plan
    workspace: Workspace
    folder: Folder
    ledger: Ledger = field(init=False)
    connect: Callable[[], None] = lambda: None
    worked: bool = False
    _opening: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.folder)

    @property
    def name(self) -> str:
        """Name of the sweep, which is the id of its parent run as well."""
        return self.folder.name

    def side_by_side(self) -> int:
        """How many trials at once, as far as wishes go; 0: as many as there is room for."""
        return side_by_side(self.request, self.plan.config.train)

    def most(self, need: Need) -> dict[str, float]:
        """CPUs and GPUs that trials of this need can have, nodes that are yet to come included."""
        return most(self.request, need)

    def journal(self, *below: str) -> Journal:
        """The journal of the sweep's run, or of a run below it; kept on this machine first where the folder is not."""
        return self.workspace.journal(self.folder.child(*below))

    def tell_parent(self, kind: str, rule: str) -> None:
        """The parent run, so that trackers know it before its children. One that has finished stays so until a trial
        is to run: see `reopen`."""
        self._opening = functools.partial(self._open, kind, rule)
        if read(self.journal().path).status != "finished":
            self._opening()

    def reopen(self) -> None:
        """Trials are about to run: a sweep that had finished, and is extended or goes on after a cap, runs again."""
        if read(self.journal().path).status != "running":
            self._opening()

    def _open(self, kind: str, rule: str) -> None:
        journal = self.journal()
        asked = {key: _text(value) for key, value in flatten(self.request.options).items()}
        # what may be asked otherwise the next time are tags: MLflow keeps a parameter as it was told first
        preset = {} if self.request.preset is None else {"preset": redact_text(self.request.preset)}
        journal.start(self.name, name=self.name, tags={"kind": kind, **preset, **asked, **run_tags()})
        journal.params({**flatten(self.plan.config), "rule": rule})
        journal.describe("asked", f"{escaped(self.plan.question)}\n\n{escaped(rule)}")
        page = shlex.join(["python", "jobs/report.py", f"sweep={self.name}", *self.request.elsewhere])
        journal.describe("commands", commands([command_of(self.request), page]))
        journal.files(["definition.json"])

    def tell_data(self, fingerprints: Mapping[str, str]) -> None:
        """What its trainings read, by stage, told once."""
        journal, tags = self.journal(), {f"fingerprint.{stage}": digits for stage, digits in fingerprints.items()}
        if not tags.items() <= read(journal.path).tags.items():
            journal.tags(tags)

    def close(self, status: Status) -> None:
        """End the parent run, unless it has ended or was never told."""
        journal = self.journal()
        story = read(journal.path)
        if story.run and story.status == "running":
            journal.end(status)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def side_by_side(request: Request, train: TrainConfig) -> int:
    """As the user said; else one trial a core where Ray is started here (it offers one more than there are).

    Trials on GPUs wait for these and not for cores.
    """
    wished = request.options.sweep.concurrency
    here = cluster_address(request.options.ray) is None and not train.gpus_per_worker
    return wished or (max(1, usable_cores() // train.threads) if here else 0)


def most(request: Request, need: Need) -> dict[str, float]:
    """CPUs and GPUs that trials can have of the machine, or of what the cluster can become.

    Those without GPUs spread over nodes that have none, and ranks with GPUs over the nodes they belong on, or trials
    would wait side by side for what none of them gets whole. Raises InputError where not even one fits.
    """
    could = capacity(request.options.ray)
    if need.gpus:
        return need.most(could, steady_nodes(request.options.ray, need.gpus) if need.nested else None)
    with contextlib.suppress(InputError):
        return need.most(could.without_gpus())
    return need.most(could)


def need_of(train: TrainConfig) -> Need:
    """Resources of one training."""
    return Need(
        cpus=float(train.workers * train.threads),
        gpus=train.workers * train.gpus_per_worker,
        workers=train.workers,
    )


def run_framed(request: Request, plan: Plan, work: Callable[[Frame], SweepResult]) -> str:
    """Do the work of a sweep and return the path of its `summary.json`; a sweep that was reported before is left alone.

    Raises InputError for a request that cannot be served, before anything starts.
    """
    started = time.time()
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
    with sole_owner(folder) as held, Shipper(request.workspace, request.tracking).every(30) as shipper:
        frame = Frame(request, plan, workspace, folder)
        known = _warn_of_other_code(frame)
        try:
            with contextlib.ExitStack() as ray:
                frame.connect = functools.partial(_connect, ray, request)
                found = work(frame)
            _warn_of_other_code(frame, known)
        except BaseException as error:
            if not _taken_over(held):  # else the story is another's, of the runs below as well
                end_killed_below(workspace, frame.name, started)  # Ray has ended, and with it what trained
                frame.close("killed" if isinstance(error, KeyboardInterrupt | SystemExit) else "failed")
            raise
        if not frame.worked and reported(folder, found.digest):
            log.info("%s has been run before; nothing is left to do", folder.name)
            frame.close("finished")  # after a call that ended before any trial
            return folder.address(SUMMARY)
        held.check()  # what follows is written without asking what is there
        report = found.report()
        first = [f"{key} {value:.4g}" for key, value in report.headline.items() if isinstance(value, int | float)]
        log.info("%s: %s", folder.name, ", ".join(first[:_FIRST]))
        return write_summary(
            folder,
            job=request.job,
            started=started,
            configuration=plan.config,
            options=request.options,
            fingerprints={"sweep": folder.name[-8:], "results": found.digest},
            seeds=plan.seeds,
            headline=report.headline,
            outputs={
                **{name.replace(".", "_"): folder.address(name) for name in report.files},
                "mlflow": shipper.uri,
            },
            details={**report.details, "files": entries(folder, report.files)},
        )


def _taken_over(held: LeaseHandle) -> bool:
    """Whether another job holds the sweep by now; not where the store does not answer."""
    try:
        held.check()
    except TakenOver:
        return True
    except (OSError, InputError):  # the way out is no place for another error
        return False
    return False


def _warn_of_other_code(frame: Frame, known: frozenset[str] = frozenset()) -> frozenset[str]:
    """Say in one line which trainings in the ledger, but for those `known`, are not by this code; the ids of all."""
    trained = {entry.id: entry.result["trained_by"] for entry in frame.ledger if "trained_by" in entry.result}
    again = f"remove {frame.folder} and the runs its ledger names"
    new = {key: code for key, code in trained.items() if key not in known}
    if line := warning(new, f"trainings of {frame.name}", again):
        log.warning("%s", line)
    return frozenset(trained)


def tell_report(
    frame: Frame,
    kind: str,
    results: str,
    files: Iterable[str],
    numbers: Mapping[str, float],
    charts: Iterable[tuple[int, Mapping[str, float]]] = (),
    texts: Mapping[str, str] | None = None,
) -> Journal:
    """The outcome as the parent run's numbers (`charts`: step, values), what all trials cost among them, its `texts`
    for the description by section, and artifacts; its journal, not ended yet."""
    spent = frame.plan.spent(frame.ledger)
    cost = {"cost/seconds": sum(seconds for seconds, _ in spent)}
    cost["cost/gpu_hours"] = sum(seconds * need.gpus for seconds, need in spent) / 3600
    journal = frame.journal()
    journal.start(frame.name, name=frame.name, tags={"kind": kind, "results": results})
    journal.metrics({**numbers, **cost}, step=0)  # first: MLflow lists metrics in this order
    for step, values in charts:
        journal.metrics(values, step=step)
    journal.files(files)
    for section, text in (texts or {}).items():
        journal.describe(section, text)
    return journal


def _connect(stack: contextlib.ExitStack, request: Request) -> None:
    """Bring up Ray once, when the first thing needs it; it ends with the sweep."""
    import ray

    if not ray.is_initialized():
        stack.enter_context(running_ray(request.options.ray))
        check_shared(request.workspace)


def reported(folder: Folder, results: str) -> bool:
    """Whether the report of exactly these results is there, file by file as it was written."""
    if not folder.exists(SUMMARY):
        return False
    try:
        summary = folder.read_json(SUMMARY)
        files = summary["details"]["files"].items()
    except (InputError, KeyError, TypeError):  # damaged on its disk
        return False
    whole = all(folder.exists(name) and folder.entry(name) == entry for name, entry in files)
    return whole and summary["fingerprints"].get("results") == results


def entries(folder: Folder, names: Iterable[str]) -> dict[str, Any]:
    """Size and checksum of what was reported, so that a later call knows whether it is still whole."""
    return {name: folder.entry(name) for name in names}
