"""The trials of an α sweep, made from a request before anything runs, so that wrong input costs nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vse import presets, registry
from vse.cli.command import Request
from vse.cluster.runtime import Config as RayConfig
from vse.config import canonical, flatten, knob, override, to_dict
from vse.errors import InputError
from vse.evaluation.alpha import AlphaRule
from vse.sweeps.alpha_results import rule_text
from vse.sweeps.caps import Budget, Caps
from vse.sweeps.frame import need_of
from vse.sweeps.ledger import Ledger, stem
from vse.sweeps.need import Need
from vse.sweeps.objective_plan import RUNS
from vse.sweeps.space import Space, check_space, expand, label, load_space
from vse.training.compatibility import check_objective
from vse.training.config import RunConfig, identity

ALPHA = "model.alpha"


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepOptions(Caps):
    """What to sweep, beside the run configuration."""

    name: str = knob("", "name of the sweep, for one space and configuration; empty: alpha-<preset>")
    seeds: tuple[int, ...] = knob((0, 1, 2), "seeds; every arm is trained once with each", low=0)
    space: str = knob("alpha", "module of search_spaces, or a .py file")
    reference: str = knob("auto", "preset to compare with; auto: VSE++ on the same data; none: nothing")
    learn_alpha: bool = knob(False, "also train with a learnable alpha (A.2), for each seed")
    within: float = knob(1.0, "rule: how far below the best rsum an alpha may be", low=0)
    standard_error: bool | None = knob(None, "rule: one standard error instead; none: for all but rendered scenes")
    concurrency: int = knob(0, "trials side by side; 0: one per core", low=0)
    run: str = knob(
        "all", "all: unfinished trials; new: all but failed ones; failed: only those and what reads them", choices=RUNS
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Keys of the job."""

    sweep: SweepOptions = field(default_factory=SweepOptions)
    ray: RayConfig = field(default_factory=RayConfig)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Everything that is decided before the first trial. `arms` maps an arm's name to its configuration (seed 0)."""

    name: str
    named: bool
    family: str
    data: str
    arms: dict[str, RunConfig]
    reference: str | None
    learned: str | None
    space: Space
    alphas: tuple[float, ...]
    seeds: tuple[int, ...]
    rule: AlphaRule
    caps: Caps
    run: str = "all"

    @property
    def config(self) -> RunConfig:
        """The configuration whose α is swept."""
        return self.arms[self.family]

    @property
    def configured(self) -> float:
        """The α under which checkpoints are selected."""
        return float(flatten(self.config)[ALPHA])

    @property
    def question(self) -> str:
        """What is asked, as a sentence."""
        seeds = f"{len(self.seeds)} seed{'s' if len(self.seeds) > 1 else ''} ({', '.join(map(str, self.seeds))})"
        others = [arm for arm in self.arms if arm != self.family]
        beside = f", with {' and '.join(others)} for comparison" if others else ""
        return (
            f"How much sentence, how much components? {self.family} on {self.data} at {len(self.alphas)} values of α "
            f"from {self.alphas[0]:g} to {self.alphas[-1]:g}, trained with {seeds}{beside}."
        )

    def definition(self) -> dict[str, Any]:
        """What the sweep's name stands for. More seeds or a learned α extend a sweep, they do not make it another."""
        kept = [arm for arm in self.arms if arm != self.learned]
        return canonical(
            {
                "kind": "alpha",
                "space": self.space.describe(),
                "rule": rule_text(self.rule),
                "arms": {arm: to_dict(identity(self.arms[arm])) for arm in kept},
            }
        )

    def trainings(self, material: str) -> list[dict[str, Any]]:
        """One trial an arm and seed, the slow ones first; `material` stands for the data they read."""
        order = [arm for arm in (self.family, self.learned, self.reference) if arm is not None]
        return [
            {"kind": "train", "arm": arm, "seed": seed, "material": material} for arm in order for seed in self.seeds
        ]

    def need(self) -> Need:
        """Resources of one training."""
        return need_of(self.config.train)

    def need_of(self, kind: str) -> Need:
        """Resources of one trial of a kind; those that do not train take a core."""
        return self.need() if kind == "train" else Need()

    def at_once(self, trials: Sequence[Mapping[str, Any]], wished: int) -> int:
        """How many of these trials run side by side, of as many as are `wished` (0: no limit).

        A process scores all α of a run once it is asked for one. Trials go to whichever process is free, so a second
        one would be given the same runs, read their codes and score them all again, and nothing were ready sooner.
        """
        return 1 if any(changes["kind"] == "alpha" for changes in trials) else wished

    def budget(self) -> Budget:
        """What may be spent on trials."""
        return Budget(self.caps, self.need())

    def spent(self, ledger: Ledger) -> list[tuple[float, Need]]:
        """Seconds of every trial so far and what it took, which need not be what trials of its kind take now."""
        return ledger.costs(lambda changes: self.need_of(changes["kind"]))


def trial_label(changes: Mapping[str, Any]) -> str:
    """A trial as readers know it."""
    if changes["kind"] == "encode":
        return str(changes["run"])
    if changes["kind"] == "alpha":
        return label({ALPHA: changes[ALPHA], "seed": changes["seed"]})
    return f"{changes['arm']} seed={changes['seed']}"


def make_plan(request: Request) -> Plan:
    """The plan of a request. Raises InputError for whatever cannot be meant."""
    config, options = request.config, request.options.sweep
    family = registry.name_of("family", config.model)
    if "alpha" not in registry.component("family", family).inference_parameters:
        raise InputError(f"model={family}: has no alpha to sweep; use model=univse")
    if "seed" in request.changed:
        raise InputError("seed: a sweep takes its seeds from sweep.seeds")
    if config.model.learn_alpha:
        raise InputError(
            "model.learn_alpha: alpha is swept here; sweep.learn_alpha=true trains the learned one beside it"
        )
    if len(set(options.seeds)) != len(options.seeds) or not options.seeds:
        raise InputError(f"sweep.seeds={','.join(map(str, options.seeds))}: expected one or more different numbers")
    space = load_space(options.space)
    if set(space.domains) != {ALPHA}:
        extra = ", ".join(key for key in space.domains if key != ALPHA) or "nothing"
        raise InputError(f"search space {options.space}: expected {ALPHA} alone, found {extra}; others need training")
    # Checkpoints are selected at model.alpha whatever is swept, so setting it is not setting what is searched.
    check_space(space, config, request.changed - {ALPHA})
    alphas = tuple(sorted({float(trial[ALPHA]) for trial in expand(space, samples=21)}))
    source = registry.name_of("source", config.data)
    by_error = options.standard_error if options.standard_error is not None else source != "scenes"
    config = override(config, {"seed": 0})
    Budget(options, need_of(config.train)).check()
    arms, learned, against = {family: config}, None, None
    if options.learn_alpha:
        learned = f"{family}_learned"
        arms[learned] = override(config, {"model.learn_alpha": True})
    reference = _reference(request, family)
    if reference is not None:
        theirs = registry.name_of("family", reference.model)
        against = theirs if theirs not in arms else "reference"
        arms[against] = reference
    for arm in arms.values():
        check_objective(arm)
    return Plan(
        name=options.name or f"alpha-{stem(request.preset)}",
        named=bool(options.name),
        family=family,
        data=source,
        arms=arms,
        reference=against,
        learned=learned,
        space=space,
        alphas=alphas,
        seeds=tuple(options.seeds),
        rule=AlphaRule(within=options.within, standard_error=by_error),
        caps=options,
        run=options.run,
    )


def _reference(request: Request, family: str) -> RunConfig | None:
    """The reference arm: its preset, on the data and features of the swept arm, with what the user set for both.

    Keys of data, features, text, optim and train that the user set hold for both arms; keys of the model and of the
    objective hold for the reference too where it has them (model.dim, objective.margin).
    """
    config: RunConfig = request.config
    wanted = request.options.sweep.reference
    if wanted == "none":
        return None
    if wanted == "auto":
        parts = (request.preset or "").split("_")  # univse_obj_small: obj_small, then small
        ends = ["_".join(parts[k:]) for k in range(1, len(parts))] + [registry.name_of("source", config.data)]
        wanted = next((name for end in ends if (name := f"vsepp_{end}") in presets.names()), "")
        if not wanted:
            raise InputError(
                f"sweep.reference=auto: there is no VSE++ preset for --preset {request.preset}; name one "
                f"({', '.join(name for name in presets.names() if name.startswith('vsepp'))}) or none"
            )
    reference = presets.preset(wanted)
    features = replace(reference.features, backbone=config.features.backbone)
    reference = replace(reference, data=config.data, features=features, text=config.text, seed=0)
    return override(reference, _shared_changes(request, reference))


def _shared_changes(request: Request, reference: RunConfig) -> Mapping[str, Any]:
    values, theirs = flatten(request.config), flatten(reference)
    swapped = {"model", "objective", ALPHA, "model.learn_alpha"}
    return {
        key: values[key]
        for key in request.changed
        if key in values and key in theirs and key not in swapped and not key.startswith(("data", "features.backbone"))
    }
