"""A reproduction on the engine of all sweeps: an arm for each training of the tables, a trial for each arm and seed.

Rows that differ in measuring only share a training. A trial trains its arm and measures every row of it; the numbers,
intervals and orders of rows come from the outcomes of single queries that measuring keeps.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vse import registry
from vse.cli.command import Request
from vse.config import canonical, fingerprint, override, to_dict
from vse.display.markdown import escaped
from vse.errors import InputError
from vse.report.build import command_of
from vse.report.published import PAPERS
from vse.report.reproduction_page import KIND, headline, summary_text, write_reproduction
from vse.reproduction.arrangement import Block, Measurement, about_scale, blocks_of, check_set
from vse.reproduction.catalogue import PaperTable, tables_of
from vse.reproduction.options import SCENES, ReproduceOptions
from vse.reproduction.results import results_of
from vse.stages.measuring.stage import measure
from vse.sweeps.budget import Budget
from vse.sweeps.ledger import Entry
from vse.sweeps.plan import (
    ARM,
    SEED,
    ChildRun,
    Outcome,
    Report,
    StageInputs,
    SweepCall,
    SweepPlan,
    label_of,
)
from vse.sweeps.space import Space
from vse.sweeps.trial import TrialSetting, train_arm, trial_function
from vse.sweeps.trial_process import Function, say
from vse.training.config import RunConfig, check_objective, family_inputs, identity

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReproductionPlan(SweepPlan):
    """Tables of a paper before the first trial.

    Args:
        request: All keys of the job.
        tables: The tables.
        blocks: Their blocks of rows.
        measurements: By arm, what is measured of it, by its digits.
    """

    kind: ClassVar[str] = "reproduction"
    request: ReproduceOptions
    tables: tuple[PaperTable, ...]
    blocks: tuple[Block, ...]
    measurements: Mapping[str, Mapping[str, Measurement]] = field(default_factory=dict)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(range(self.request.seeds))

    @property
    def question(self) -> str:
        numbers = ", ".join(table.number for table in self.tables)
        paper = PAPERS[self.request.paper].name
        return (
            f"What of {paper}, Table{'s' * (len(self.tables) > 1)} {numbers} reproduces at scale={self.request.scale}? "
            f"{len(self.arms)} trainings of each seed, {self.seeds_text}."
        )

    @property
    def rule(self) -> str:
        return (
            "All rows of a block are measured by one protocol on the same images, captions and adversaries. The order "
            "of two rows is as printed, or contrary, if the 95 % interval of their difference excludes zero."
        )

    def definition(self) -> dict[str, Any]:
        """More seeds extend a reproduction."""
        return canonical(
            {
                "kind": KIND,
                "tables": [table.name for table in self.tables],
                "arms": {arm: to_dict(identity(config)) for arm, config in self.arms.items()},
                "measurements": {arm: sorted(each) for arm, each in self.measurements.items()},
            }
        )

    def trial_function(self, call: SweepCall) -> Function:
        plain = {
            arm: {digits: (one.tasks, dict(one.keys)) for digits, one in each.items()}
            for arm, each in self.measurements.items()
        }
        return trial_function(reproduction_trial, call, self.arms, measurements=plain)

    def inputs(self) -> Iterator[StageInputs]:
        """One pass over the images of a data set and backbone makes the features that its arms read."""
        groups: dict[str, list[RunConfig]] = {}
        for config in self.arms.values():
            groups.setdefault(fingerprint([config.data, config.features.backbone]), []).append(config)
        for members in groups.values():
            outputs, seen = tuple(dict.fromkeys(family_inputs(each).image for each in members)), set[str]()
            for config in members:
                key = fingerprint([config.text, config.features, repr(family_inputs(config))])
                if key not in seen:
                    yield StageInputs(config=config, outputs=() if seen else outputs)
                seen.add(key)

    def children(self, entry: Entry) -> Iterator[ChildRun]:
        """One run for each training, with the numbers of all its rows."""
        metrics = {
            f"{name}/{metric}" if len(entry.result.get("measured", {})) > 1 else metric: value
            for name, each in entry.result.get("measured", {}).items()
            for values in each["values"].values()
            for label, numbers in values.items()
            for metric, value in {f"{label}/{key}": number for key, number in numbers.items()}.items()
        }
        yield ChildRun(
            id=entry.id,
            name=label_of(entry.changes),
            kind="measure",
            params={ARM: entry.changes[ARM], SEED: entry.changes[SEED], "run": entry.result.get("run", "")},
            metrics=[(0, metrics)] if metrics else [],
            seconds=entry.seconds,
        )

    def outcome(self, call: SweepCall) -> Outcome:
        entries: dict[str, list[Entry]] = {arm: [] for arm in self.arms}
        missing: dict[str, str] = {}
        for changes in self.trials(call.ledger, call.material):
            entry = call.ledger.get(changes)
            if entry is not None and entry.state == "finished":
                entries[changes[ARM]].append(entry)
            else:
                missing[changes[ARM]] = f"seed {changes[SEED]} " + (entry.why if entry is not None else "has not run")
        whole = {arm: [entry.result for entry in each] for arm, each in entries.items() if arm not in missing}
        digits = fingerprint(
            [[result["run"], sorted(result["measured"])] for each in whole.values() for result in each]
        )

        def report() -> Report:
            data = results_of(self.request, self.blocks, whole, missing, call.workspace, call.request.elsewhere)
            files = write_reproduction(call.folder, data, [command_of(call.request)])
            text = "\n\n".join(escaped(line) for line in summary_text(data))
            return Report(
                files=files,
                headline={**headline(data), "trainings": len(whole), "left": call.left},
                details={"missing": missing},
                texts={"headline": escaped(self.question), "result": text},
            )

        return Outcome(digest=fingerprint([digits, missing, call.left, self.definition()]), report=report)


def make_plan(request: Request) -> ReproductionPlan:
    """The plan of a request. Raises InputError for an unknown table, or settings that do not go together."""
    options: ReproduceOptions = request.options
    tables = tables_of(options.paper, list(filter(None, options.table.split(","))))
    blocks = tuple(block for table in tables for block in blocks_of(table, options))
    arms: dict[str, RunConfig] = {}
    measurements: dict[str, dict[str, Measurement]] = {}
    for row in (row for block in blocks for row in block.rows):
        if row.config is not None and row.measurement is not None:
            check_objective(row.config)
            arms.setdefault(row.arm, row.config)
            assert arms[row.arm] == row.config, row.arm
            measurements.setdefault(row.arm, {})[row.measurement.digits] = row.measurement
    check_set(options, arms.values())
    if not arms:
        reasons = dict.fromkeys(row.reason for block in blocks for row in block.rows if row.reason)
        wanted = [reason for reason in reasons if "names it" in reason] or list(reasons)
        raise InputError(f"paper={options.paper}: no row can be trained at scale={options.scale}: {wanted[0]}")
    first = next(iter(arms.values()))
    plan = ReproductionPlan(
        name=f"{options.paper}-{'-'.join(table.number for table in tables)}-{options.scale}",
        named=False,
        config=first,
        space=Space(where="tables", domains={}),
        options=options.sweep,
        listed=tuple({ARM: arm} for arm in arms),
        arms=arms,
        besides="measuring",
        request=options,
        tables=tables,
        blocks=blocks,
        measurements=measurements,
    )
    Budget(options.sweep, plan.need()).check()
    return plan


def reproduction_trial(
    changes: dict[str, Any], setting: TrialSetting, measurements: Mapping[str, Mapping[str, tuple[Any, Any]]]
) -> dict[str, Any]:
    """Train an arm at a seed and measure the rows that it stands for.

    Args:
        changes: The trial: its arm and its seed.
        setting: What all trials share, with the configuration of each arm.
        measurements: By arm and digits of a `Measurement`, its tasks and its keys as plain data.

    Returns:
        Numbers of the training, and `measured`: by digits of a measurement, its values, what they are of, and the files
        of outcomes.
    """
    trained = train_arm(changes, setting)
    measured = {}
    for digits, (of_tasks, keys) in measurements[changes[ARM]].items():
        say(f"{label_of(changes)}: measuring {', '.join(of_tasks)}")
        options = Measurement(tasks=tuple(of_tasks), keys=keys).options
        result = measure(
            [trained.run],
            trained.run.child("evaluation"),
            trained.workspace,
            of_tasks,
            override(options, {"device": trained.device}),
        )
        measured[digits] = {
            "values": {name: each.values for name, each in result.tasks.items()},
            "missing": {name: each.missing for name, each in result.tasks.items() if each.missing},
            "tables": {name: each.table for name, each in result.tasks.items() if each.table},
            "met": {name: each.met for name, each in result.tasks.items()},
        }
    return {**trained.numbers, "measured": measured}


def about(plan: ReproductionPlan) -> Iterator[str]:
    """What the tables cannot have at this scale, and rows without a training, a line each."""
    yield f"scale={plan.request.scale}: {about_scale(plan.request)}"
    for table in plan.tables:
        yield from (
            f"{table.name}: not available: {text}" for text in [table.lacks.get(plan.request.scale, "")] if text
        )
        if plan.request.scale != SCENES:
            yield from (f"{table.name}: {text}" for text in table.needs.values())
        yield from (f"{table.name}: {note}" for note in table.notes(plan.request.scale))
    for block in plan.blocks:
        reasons: dict[str, list[str]] = {}
        for row in block.rows:
            if row.reason:
                reasons.setdefault(row.reason, []).append(row.label)
        yield from (f"{block.table.name}: {', '.join(labels)}: {reason}" for reason, labels in reasons.items())


def family_of(config: RunConfig) -> str:
    """The family of a training, by its name in the registry."""
    return registry.name_of("family", config.model)
