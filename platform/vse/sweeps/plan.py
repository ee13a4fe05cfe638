"""A sweep as its request describes it, decided before anything runs: wrong input costs nothing.

`SweepPlan` holds what all sweeps share. A kind of sweep (`objective`, `alpha`) adds its question, its points, what a
trial computes and how trials become a result.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vse import registry
from vse.cli.command import Request
from vse.cluster.runtime import Config as RayConfig
from vse.config import knob, override
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.sweeps.budget import Budget, Caps, Resources
from vse.sweeps.ledger import Entry, Ledger, stem
from vse.sweeps.proposals import Proposer, TrialList
from vse.sweeps.space import Space, label
from vse.sweeps.trial_process import Function
from vse.training.config import RunConfig, TrainConfig
from vse.workspace.layout import Workspace

SEED, MATERIAL = "seed", "material"  # keys of a trial besides its point
ARM = "arm"  # the key of a point that is one of several configurations
RUNS = ("all", "new", "failed")
LABELS = {"vsepp": "VSE++", "univse": "UniVSE", "relational": "Relational embeddings", "jwae": "jWAE"}


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepOptions(Caps):
    """Keys of every sweep, besides the run configuration."""

    name: str = knob("", "name of the sweep, for one space and configuration; empty: <space>-<preset>")
    space: str = knob("", "module of search_spaces, or a .py file")
    seeds: tuple[int, ...] = knob((0,), "seeds; every point is trained once with each", low=0)
    concurrency: int = knob(0, "concurrent trials; 0: one per core, or as many as the cluster has room for", low=0)
    run: str = knob("all", "all: unfinished trials; new: all but failed ones; failed: only those", choices=RUNS)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobOptions:
    """Keys of a job that sweeps. `sweep` has the keys of its kind of sweep."""

    sweep: SweepOptions = field(default_factory=SweepOptions)
    ray: RayConfig = field(default_factory=RayConfig)


@dataclass(frozen=True, kw_only=True)
class SweepCall:
    """One call of a sweep: what a plan needs to turn trials into a result."""

    request: Request
    workspace: Workspace
    folder: Folder
    ledger: Ledger
    material: str = ""  # fingerprint of the data that trials read
    left: int = 0  # trials that a cap held back; -1: an unknown number


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of a call, for the summary and the tracked run of the sweep.

    Args:
        files: Names of the files in the sweep's folder; `report.html` is the page.
        headline: First numbers of the summary; the numeric ones are metrics of the tracked run too.
        details: The rest of the summary.
        texts: Sections of the tracked run's description.
        charts: (step, values) of the tracked run.
        best: Runs that the model registry is offered.
        best_changes: Settings of inference with which it is offered them.
        checkpoints: Runs whose checkpoints become artifacts of the tracked run, by the artifacts' folder.
    """

    files: Sequence[str] = ()
    headline: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    charts: Sequence[tuple[int, Mapping[str, float]]] = ()
    best: Sequence[str] = ()
    best_changes: Mapping[str, Any] = field(default_factory=dict)
    checkpoints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of all trials so far: a digest of it, and its report, written only if the digest is new."""

    digest: str
    report: Callable[[], Report]


@dataclass(frozen=True, kw_only=True)
class ChildRun:
    """A tracked run below the sweep's own: one trial, or one of the points that a trial measured.

    `id` is the part of its permanent id below the sweep. `metrics` are (step, values). `seconds` is how long it took.
    """

    id: str
    name: str
    kind: str
    params: Mapping[str, Any]
    metrics: Sequence[tuple[int, Mapping[str, float]]] = ()
    headline: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class StageInputs:
    """A configuration whose data, features and parses trials read; the arguments are those of `pipeline.prepare`."""

    config: RunConfig
    parsed: bool = False
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepPlan(ABC):
    """A sweep before its first trial.

    Args:
        name: Of the sweep, without the fingerprint.
        named: Whether the user chose the name.
        config: The run configuration that is swept.
        space: What is searched.
        options: The keys below `sweep`.
        listed: Points that are known before the first trial.
        arms: Configurations whose trials take different times, by the arm of a trial ("" if it has none).
        attacked: Splits whose adversaries trials measure. The first one must have some.
        measured: Splits that the data set must have besides those of training.
        besides: What takes time in a trial besides training; estimates leave it out.
        whole: Whether trials that a scheduler ended early count as unfinished.
    """

    kind: ClassVar[str]
    name: str
    named: bool
    config: RunConfig
    space: Space
    options: Any
    listed: tuple[dict[str, Any], ...]
    arms: dict[str, RunConfig] = field(default_factory=dict)
    attacked: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    besides: str = ""
    whole: bool = True

    @property
    @abstractmethod
    def question(self) -> str:
        """The question that the sweep answers, as a sentence."""

    @property
    @abstractmethod
    def rule(self) -> str:
        """How the best is chosen, as a sentence. It is stored with the sweep before any result."""

    @abstractmethod
    def definition(self) -> dict[str, Any]:
        """What the sweep's name stands for: equal definitions are one sweep."""

    @abstractmethod
    def trial_function(self, call: SweepCall) -> Function:
        """What a trial computes: changes -> plain data. Ray pickles it."""

    @abstractmethod
    def children(self, entry: Entry) -> Iterator[ChildRun]:
        """Tracked runs of a trial that has ended."""

    @abstractmethod
    def outcome(self, call: SweepCall) -> Outcome:
        """The result of the trials in the ledger."""

    def inputs(self) -> Iterable[StageInputs]:
        """What trials read, the configuration of the sweep first."""
        return (StageInputs(config=self.config, parsed=bool(self.attacked)),)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Every point is trained once with each."""
        return self.options.seeds

    @property
    def seeds_text(self) -> str:
        """The seeds in words."""
        return f"{len(self.seeds)} seed{'s' if len(self.seeds) > 1 else ''} ({', '.join(map(str, self.seeds))})"

    @property
    def family(self) -> str:
        """The family that is swept, by its name in the registry."""
        return registry.name_of("family", self.config.model)

    @property
    def data(self) -> str:
        """The data set's source, by its name in the registry."""
        return registry.name_of("source", self.config.data)

    def need(self) -> Resources:
        """Resources of one trial."""
        return need_of(self.config.train)

    def budget(self) -> Budget:
        """What may be spent on trials."""
        return Budget(self.options, self.need())

    def trials_of(self, point: Mapping[str, Any], material: str) -> list[dict[str, Any]]:
        """The trials of a point, one for each seed. `material` is the fingerprint of the data they read."""
        return [{**point, SEED: seed, MATERIAL: material} for seed in self.seeds]

    def points(self, ledger: Ledger) -> list[dict[str, Any]]:
        """All points that are known by now, each once."""
        return list(self.listed)

    def trials(self, ledger: Ledger, material: str) -> list[dict[str, Any]]:
        """All trials that are known by now, seed by seed: the first seed's results are complete first."""
        each = [self.trials_of(point, material) for point in self.points(ledger)]
        return [trials[k] for k in range(len(self.seeds)) for trials in each]

    def is_pending(self, entry: Entry | None) -> bool:
        """Whether a trial with this entry is to run: it has not finished, and `sweep.run` includes it."""
        failed = entry is not None and entry.state == "failed"
        finished = entry is not None and not failed and not (self.whole and entry.stopped)
        return not finished and (self.options.run == "all" or failed == (self.options.run == "failed"))

    def pending(self, ledger: Ledger, material: str) -> list[dict[str, Any]]:
        """The trials that are to run."""
        return [changes for changes in self.trials(ledger, material) if self.is_pending(ledger.get(changes))]

    def proposer(self, call: SweepCall) -> tuple[Proposer, int]:
        """Proposes the trials, and how many there are (at most, if a search draws them)."""
        pending = self.pending(call.ledger, call.material)
        return TrialList(pending), len(pending)

    def search_lines(self, ledger: Ledger, workspace: Workspace) -> list[str]:
        """Lines of a dry run on points that are not listed yet.

        Raises:
            InputError: The sweep to learn from is missing, or unlike this one.
        """
        return []

    def drawn(self, ledger: Ledger) -> int:
        """How many points are still to be drawn."""
        return 0

    @property
    def draws(self) -> bool:
        """Whether points are drawn while trials run, so that the number of points that a cap prevents is unknown."""
        return False

    def scheduler(self, call: SweepCall) -> Any:
        """Tune's scheduler, which may end trials early; None for none."""
        return None


def need_of(train: TrainConfig) -> Resources:
    """Resources of one training."""
    return Resources(
        cpus=float(train.workers * train.threads),
        gpus=train.workers * train.gpus_per_worker,
        workers=train.workers,
    )


def point_of(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The point of a trial: its changes without seed and data."""
    return {key: value for key, value in changes.items() if key not in (SEED, MATERIAL)}


def of_material(ledger: Iterable[Entry], material: str) -> list[Entry]:
    """The trials that read data with this fingerprint. Results on other data cannot be compared with theirs."""
    return [entry for entry in ledger if entry.changes.get(MATERIAL, "") == material]


def newest(ledger: Iterable[Entry]) -> list[Entry]:
    """The trials that read the same data as the last one, for readers that do not know the data's fingerprint."""
    entries = [*ledger]
    return of_material(entries, entries[-1].changes.get(MATERIAL, "")) if entries else []


def label_of(changes: Mapping[str, Any]) -> str:
    """The label of a trial in its tracked run, in dry runs and in errors: its arm, its point, its seed."""
    point = {key: value for key, value in point_of(changes).items() if key != ARM}
    own = label({**point, **({SEED: changes[SEED]} if SEED in changes else {})})
    return f"{changes[ARM]} {own}" if ARM in changes else own


def shared_fields(request: Request, space: Space) -> dict[str, Any]:
    """The fields of a plan that do not depend on the kind of sweep.

    Args:
        request: The user's request.
        space: What is searched.

    Raises:
        InputError: Seeds are set elsewhere, missing or repeated, a cap could not be reached, or trials would decode
            images in Ray tasks, for which they leave no CPUs.
    """
    options, preset = request.options.sweep, stem(request.preset)
    if SEED in request.changed:
        raise InputError("seed: a sweep takes its seeds from sweep.seeds")
    if len(set(options.seeds)) != len(options.seeds) or not options.seeds:
        raise InputError(f"sweep.seeds={','.join(map(str, options.seeds))}: expected one or more different numbers")
    if request.config.train.decoders:
        raise InputError(
            f"train.decoders={request.config.train.decoders}: trials take all CPUs; use train.decoders=0 and "
            "train.threads, which also decode"
        )
    Budget(options, need_of(request.config.train)).check()
    return {
        "name": options.name or f"{stem(options.space.removesuffix('.py'))}-{preset}",
        "named": bool(options.name),
        "config": override(request.config, {SEED: 0}),
        "space": space,
        "options": options,
    }
