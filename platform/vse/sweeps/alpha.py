"""The α sweep: each trial trains an arm at a seed. The swept arm is then measured at every α, without more training.

Arms are the swept family, a reference family on the same data, and on request the family with a learned α. The table
shows the curve over α, the α that the rule chooses on validation, and the other arms.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from vse import presets, registry
from vse.adversaries.attacks import ATTACKS
from vse.cli.command import Request
from vse.config import canonical, fingerprint, flatten, knob, override, to_dict
from vse.display.markdown import escaped
from vse.errors import InputError
from vse.evaluation.alpha import AlphaRule, attacks_of, choose_alpha
from vse.evaluation.intervals import interval
from vse.report.alpha_page import write_report
from vse.report.build import command_of
from vse.report.curve import AlphaResults, Arm, by_seed
from vse.report.description import alpha_headline, alpha_text
from vse.report.tables import alpha_table
from vse.sweeps.ledger import Entry, Ledger, trial_id
from vse.sweeps.plan import (
    ARM,
    LABELS,
    SEED,
    ChildRun,
    Outcome,
    Report,
    StageInputs,
    SweepCall,
    SweepOptions,
    SweepPlan,
    label_of,
    shared_fields,
)
from vse.sweeps.space import check_space, expand, label, load_space
from vse.sweeps.trial import SPLITS, alpha_trial, trial_function
from vse.sweeps.trial_process import Function
from vse.training.config import FeatureConfig, RunConfig, check_objective, family_inputs, identity
from vse.training.effects import check_effects

log = logging.getLogger(__name__)

ALPHA = "model.alpha"
CHARTED = ("rsum", "i2t/r1", "t2i/r1", "attack_object/r1", "attack_attribute/r1", "attack_relation/r1")


@dataclass(frozen=True, kw_only=True, slots=True)
class AlphaSweepOptions(SweepOptions):
    """Keys of the α sweep, besides those of every sweep."""

    space: str = knob("alpha", "module of search_spaces, or a .py file")
    seeds: tuple[int, ...] = knob((0, 1, 2), "seeds; every arm is trained once with each", low=0)
    reference: str = knob("auto", "preset to compare with; auto: VSE++ on the same data; none: nothing")
    learn_alpha: bool = knob(False, "also train with a learnable alpha (A.2), for each seed")
    within: float = knob(1.0, "rule: how far below the best rsum an alpha may be", low=0)
    standard_error: bool | None = knob(None, "rule: one standard error instead; none: true except on rendered scenes")


@dataclass(frozen=True, kw_only=True, eq=False)
class AlphaPlan(SweepPlan):
    """An α sweep before its first trial.

    Args:
        reference: The arm to compare with, if any.
        learned: The arm that learns its α, if any.
        alphas: The grid.
        decides: How α is chosen.
    """

    kind: ClassVar[str] = "alpha sweep"
    reference: str | None
    learned: str | None
    alphas: tuple[float, ...]
    decides: AlphaRule

    @property
    def question(self) -> str:
        others = [arm for arm in self.arms if arm != self.family]
        compared = f", with {' and '.join(others)} for comparison" if others else ""
        return (
            f"How much sentence, how much components? {self.family} on {self.data} at {len(self.alphas)} values of α "
            f"from {self.alphas[0]:g} to {self.alphas[-1]:g}, trained with {self.seeds_text}{compared}."
        )

    @property
    def rule(self) -> str:
        return rule_text(self.decides)

    def definition(self) -> dict[str, Any]:
        """More seeds or a learned α extend a sweep, they do not make it another."""
        kept = {arm: to_dict(identity(config)) for arm, config in self.arms.items() if arm != self.learned}
        return canonical({"kind": "alpha", "space": self.space.describe(), "rule": self.rule, "arms": kept})

    def trials(self, ledger: Ledger, material: str) -> list[dict[str, Any]]:
        """The swept arm's trials first: they take longest, and one that starts last would run alone.

        A sweep with a cap goes seed by seed, since a curve needs complete seeds.
        """
        trials = super().trials(ledger, material)
        return trials if self.options.capped else sorted(trials, key=lambda changes: changes[ARM] != self.family)

    def trial_function(self, call: SweepCall) -> Function:
        return trial_function(alpha_trial, call, self.arms, swept=self.family, alphas=self.alphas)

    def inputs(self) -> Iterator[StageInputs]:
        """One pass over the images makes the features that all arms read."""
        outputs = tuple({family_inputs(config).image for config in self.arms.values()})
        for arm, config in self.arms.items():
            if arm != self.learned:
                alike = stored_alike(config.features, self.config.features)
                yield StageInputs(config=config, parsed=arm == self.family, outputs=outputs if alike else ())

    def children(self, entry: Entry) -> Iterator[ChildRun]:
        """One run for every α of the swept arm, one for the measures of another arm."""
        for alpha, metrics in entry.result.get("points", []):
            params = {ALPHA: alpha, SEED: entry.changes[SEED], "run": entry.result["run"]}
            yield ChildRun(
                id=trial_id(params),
                name=label({ALPHA: alpha, SEED: entry.changes[SEED]}),
                kind="alpha",
                params=params,
                metrics=[(0, metrics)],
                headline=metrics,
            )
        if entry.changes[ARM] != self.family:
            learned = {"alpha": entry.result["alpha"]} if "alpha" in entry.result else {}
            metrics = entry.result.get("metrics", {})
            yield ChildRun(
                id=entry.id,
                name=label_of(entry.changes),
                kind="measure",
                params=entry.changes,
                metrics=[(0, {**metrics, **learned, "cost/seconds": entry.spent})] if metrics else [],
                headline=metrics,
                seconds=entry.seconds,
            )

    def outcome(self, call: SweepCall) -> Outcome:
        """The curve over the seeds whose trials have all finished; if there is no such seed, the missing trials."""
        finished: dict[tuple[str, int], Entry] = {}
        missing: dict[int, str] = {}
        for changes in self.trials(call.ledger, call.material):
            arm, seed, entry = changes[ARM], changes[SEED], call.ledger.get(changes)
            if entry is not None and entry.state == "finished":
                finished[arm, seed] = entry
            else:
                failed = f"{label_of(changes)}: {entry.why}" if entry is not None else ""
                missing.setdefault(seed, failed or f"seed={seed} has unfinished trials")
        seeds = [seed for seed in self.seeds if seed not in missing]
        if not seeds:
            numbers = {"left": call.left, "trials": len(finished)}
            text = "no seed is complete, so there is no curve: " + "; ".join(missing.values())
            report = Report(headline=numbers, details={"missing": text}, texts={"headline": escaped(text)})
            return Outcome(digest=fingerprint([numbers, missing]), report=lambda: report)
        if missing:
            log.warning("the curve has %d of %d seeds: %s", len(seeds), len(self.seeds), "; ".join(missing.values()))
        whole = {key: entry for key, entry in finished.items() if key[1] in seeds}
        results = self.results(call.folder.name, seeds, {key: entry.result for key, entry in whole.items()})
        return Outcome(
            digest=fingerprint([results.to_dict(), missing, call.left]),
            report=lambda: self._report(call, results, whole, missing),
        )

    def results(
        self, name: str, seeds: Sequence[int], trials: Mapping[tuple[str, int], Mapping[str, Any]]
    ) -> AlphaResults:
        """The curve, the choice and the other arms.

        Args:
            name: Of the sweep.
            seeds: Seeds whose trials have all finished.
            trials: Results of trials by arm and seed.
        """
        curves = [dict(map(tuple, trials[self.family, seed]["points"])) for seed in seeds]
        labels = {self.learned: f"{LABELS.get(self.family, self.family)}, learned α"}
        if self.reference is not None:
            reference_family = registry.name_of("family", self.arms[self.reference].model)
            labels[self.reference] = LABELS.get(reference_family, reference_family)

        def measured(arm: str | None) -> Arm | None:
            if arm is None:
                return None
            each = [trials[arm, seed] for seed in seeds]
            learned = [float(one["alpha"]) for one in each if "alpha" in one]
            return Arm(label=labels[arm], metrics=by_seed([one["metrics"] for one in each]), alphas=learned)

        attacks = attacks_of(curves, self.decides.split)
        absent = " and ".join(attack for attack in ATTACKS if attack not in attacks)
        without = f" {self.decides.split} has no adversaries of {absent}: the sum is without them." if absent else ""
        return AlphaResults(
            name=name,
            label=LABELS.get(self.family, self.family),
            data=self.data,
            seeds=list(seeds),
            alphas=list(self.alphas),
            points=[by_seed([curve[alpha] for curve in curves]) for alpha in self.alphas],
            chosen=choose_alpha(curves, self.decides),
            configured=float(flatten(self.config)[ALPHA]),
            rule=self.rule + without,
            reference=measured(self.reference),
            learned=measured(self.learned),
            runs={arm: {str(seed): trials[arm, seed]["run"] for seed in seeds} for arm in self.arms},
        )

    def _report(
        self,
        call: SweepCall,
        results: AlphaResults,
        whole: Mapping[tuple[str, int], Entry],
        missing: Mapping[int, str],
    ) -> Report:
        facts = {f"seed {seed} is missing": why for seed, why in missing.items()}
        for arm in self.arms:
            spent = [entry.seconds for (own, _), entry in whole.items() if own == arm]
            facts[f"{arm} trials"] = f"{len(spent)}, {sum(spent) / len(spent):.1f} s each on average"
        configuration = {arm: flatten(config) for arm, config in self.arms.items()}
        files = write_report(call.folder, results, [command_of(call.request)], configuration, facts)
        runs = results.runs[self.family]
        more = {"trials": len(whole), "left": call.left, "rule": results.rule}
        return Report(
            files=files,
            headline={**headline(results), **more, **({"missing": "; ".join(missing.values())} if missing else {})},
            details={"table": alpha_table(results).to_data(), "runs": results.runs},
            texts={"headline": alpha_headline(results), "result": alpha_text(results, missing.values())},
            charts=charted(results),
            best=list(runs.values()),
            best_changes={ALPHA: results.chosen},
            checkpoints={f"checkpoints/seed-{seed}": run for seed, run in runs.items()},
        )


def make_plan(request: Request) -> AlphaPlan:
    """The plan of a request. Raises InputError for settings that do not go together."""
    config, options = request.config, request.options.sweep
    family = registry.name_of("family", config.model)
    if "alpha" not in registry.component("family", family).inference_parameters:
        raise InputError(
            f"model={family}: has no alpha to sweep; use a preset of UniVSE, such as --preset univse_small"
        )
    if config.model.learn_alpha:
        raise InputError(
            "model.learn_alpha: alpha is swept here; sweep.learn_alpha=true trains the learned one as well"
        )
    space = load_space(options.space)
    if set(space.domains) != {ALPHA}:
        extra = ", ".join(key for key in space.domains if key != ALPHA) or "nothing"
        raise InputError(f"search space {options.space}: expected {ALPHA} alone, found {extra}; others need training")
    # model.alpha may be set: checkpoints are selected at it, whatever is swept.
    check_space(space, config, request.changed - {ALPHA})
    by_error = options.standard_error
    if by_error is None:
        by_error = registry.name_of("source", config.data) != "scenes"
    fields = shared_fields(request, space)
    config = fields["config"]
    arms, learned, against = {family: config}, None, None
    if options.learn_alpha:
        learned = f"{family}_learned"
        arms[learned] = override(config, {"model.learn_alpha": True})
    reference = _reference(request)
    if reference is not None:
        reference_family = registry.name_of("family", reference.model)
        against = reference_family if reference_family not in arms else "reference"
        arms[against] = reference
    for arm in arms.values():
        check_objective(arm)
    check_effects(config, request.overrides)
    return AlphaPlan(
        **fields,
        listed=tuple({ARM: arm} for arm in arms),
        arms=arms,
        attacked=SPLITS,
        measured=SPLITS,
        besides="measuring",
        reference=against,
        learned=learned,
        alphas=tuple(sorted({float(trial[ALPHA]) for trial in expand(space, samples=21)})),
        decides=AlphaRule(within=options.within, standard_error=by_error),
    )


def _reference(request: Request) -> RunConfig | None:
    """The reference arm: its preset, on the data and features of the swept arm.

    Keys of data, features, text, optim and train that the user set hold for both arms. Keys of the model and of the
    objective hold for the reference too if it has them (model.dim, objective.margin) and accepts their values:
    VSE++ on pooled features refuses model.pooling.
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
                f"sweep.reference=auto: no VSE++ preset matches --preset {request.preset}; name one "
                f"({', '.join(name for name in presets.names() if name.startswith('vsepp'))}) or none"
            )
    reference = presets.preset(wanted)
    features = replace(reference.features, backbone=config.features.backbone, precision=config.features.precision)
    reference = replace(reference, data=config.data, features=features, text=config.text, seed=0)
    values, reference_values = flatten(config), flatten(reference)
    own = {"model", "objective", ALPHA, "model.learn_alpha"}
    shared = (key for key in request.changed if key in values and key in reference_values and key not in own)
    changes = {key: values[key] for key in shared if not key.startswith(("data", "features.backbone"))}
    return override(reference, {key: value for key, value in changes.items() if _accepts(reference, key, value)})


def _accepts(config: RunConfig, key: str, value: Any) -> bool:
    try:
        family_inputs(override(config, {key: value}))
    except InputError:
        return False
    return True


def stored_alike(one: FeatureConfig, other: FeatureConfig) -> bool:
    """Whether two configurations read the same stored features."""
    return (one.backbone, one.precision) == (other.backbone, other.precision)


def rule_text(rule: AlphaRule) -> str:
    """The rule as a sentence. It is stored with the sweep before any result."""
    close = (
        "one standard error over seeds"
        if rule.standard_error
        else f"{rule.within:g} point{'' if rule.within == 1 else 's'}"
    )
    return (
        f"Among all α whose {rule.split} rsum, mean over seeds, is within {close} of the best, take the largest sum of "
        "R@1 + R@5 + R@10 over the object, attribute and relation attacks (adversaries that share words with training "
        f"negatives) on {rule.split}, mean over seeds; ties go to the larger α."
    )


def headline(results: AlphaResults, split: str = "test") -> dict[str, float]:
    """The chosen α and the metrics there, next to the reference model's."""
    numbers: dict[str, float] = {"alpha": results.chosen}
    here = results.at(results.chosen)
    assert here is not None
    for metric in CHARTED:
        key = f"{split}/{metric}"
        if key in here:
            numbers[key] = interval(here[key]).mean
        if results.reference is not None and key in results.reference.metrics:
            numbers[f"reference/{key}"] = interval(results.reference.metrics[key]).mean
    return numbers


def charted(results: AlphaResults) -> list[tuple[int, dict[str, float]]]:
    """The curve as metrics of the parent run: a chart over steps is the curve.

    A step is 100 α, or 1000 α and so on for finer grids.
    """
    points, scale = [], 100
    while len({round(scale * alpha) for alpha in results.alphas}) < len(results.alphas):
        scale *= 10
    keys = [f"{split}/{metric}" for split in SPLITS for metric in CHARTED]
    for alpha, point in zip(results.alphas, results.points, strict=True):
        values = {f"curve/{key}": interval(point[key]).mean for key in keys if key in point}
        points.append((round(scale * alpha), values))
    return points
