"""The α sweep, whole: trainings, codes, every α as a trial, the choice, the report. One call serves the job.

Order: data, features, parses and adversaries in the driver, once; the trainings of all arms and seeds as Tune trials;
then codes of the swept runs, the measures of the others and every (α, seed) as Tune trials. A ledger remembers what has
finished, so a second call runs nothing, and one after a kill runs the rest.
"""

import functools
import logging
from dataclasses import dataclass
from typing import Any

from vse import pipeline
from vse.adversaries import attack_split
from vse.command import Request
from vse.config import fingerprint, flatten, to_dict
from vse.environment import usable_cores
from vse.journal import Journal, read
from vse.report.curve import AlphaResults
from vse.served_model import offer_best
from vse.storage import Folder
from vse.sweeps.alpha_plan import ALPHA, Plan, make_plan, trial_label
from vse.sweeps.alpha_results import LABELS, charted, child_id, digest, facts_of, gather, headline
from vse.sweeps.alpha_trials import SPLITS, WORDS, Setting, run_trial
from vse.sweeps.budget import typical
from vse.sweeps.estimates import Estimate, estimate
from vse.sweeps.frame import Found, Frame, Report, run_framed, tell_report
from vse.sweeps.ledger import Entry, Ledger, sweep_name
from vse.training.inputs import REVISION, family_inputs
from vse.workspace import Workspace

log = logging.getLogger(__name__)


def describe_plan(request: Request) -> list[str]:
    """What the sweep would do, line by line; the body of `--dry-run`."""
    plan = make_plan(request)
    need, total = plan.need(), len(plan.alphas) * len(plan.seeds)
    lines = [f"sweep {sweep_name(plan.name, plan.definition())} over {plan.data}"]
    lines += [f"  train {trial['arm']} seed {trial['seed']}" for trial in plan.trainings("")]
    lines.append(f"  encode {len(plan.seeds)} runs, measure {len(plan.seeds) * (len(plan.arms) - 1)} others")
    lines.append(
        f"  {total} trials: alpha in {', '.join(f'{a:g}' for a in plan.alphas)} for each of {len(plan.seeds)} seeds"
    )
    lines.append(f"rule: {plan.definition()['rule']}")
    lines.append(f"each training needs {need.cpus:g} CPU(s) and {need.gpus:g} GPU(s); {usable_cores()} cores here")
    workspace = Workspace.open(request.workspace)
    ledger = Ledger(workspace.sweep(sweep_name(plan.name, plan.definition())))
    return lines + _cost_lines(plan, request, workspace, ledger) + plan.budget().lines(plan.spent(ledger))


def _cost_lines(plan: Plan, request: Request, workspace: Workspace, ledger: Ledger) -> list[str]:
    """What the trainings will take, arm by arm; measuring and the α trials come on top."""
    lines, total = [], 0.0
    for arm, config in plan.arms.items():
        own = [entry for entry in ledger if entry.changes["kind"] == "train" and entry.changes["arm"] == arm]
        left = len(set(plan.seeds) - {entry.changes["seed"] for entry in own if entry.state == "finished"})
        if not left:
            continue
        known = typical(own)
        found = estimate(config, (), workspace, request) if known is None else Estimate(known, "median of this sweep's")
        if found.seconds is None:
            lines.append(f"cost of {arm}: unknown, {found.source}")
        else:
            total += found.seconds * left
            lines.append(f"cost of {arm}: {left} trainings of about {found.seconds:.3g} s ({found.source})")
    if total:
        beside = plan.budget().priced(total)
        lines.append(f"cost: {total / 3600:.2f} h of trainings{beside}; measuring comes on top")
    return lines


def run_alpha_sweep(request: Request) -> str:
    """Run what is missing of the sweep, report, and return the path of its `summary.json`.

    Raises InputError for a request that cannot be served, before anything starts; RuntimeError where a trial failed
    twice, after all others have ended.
    """
    plan = make_plan(request)
    return run_framed(request, plan, lambda frame: _found(frame, plan))


class _DrainedError(Exception):
    """A cap held trials back: those of one kind (`what`), and all that read their results."""

    def __init__(self, what: str, left: list[dict[str, Any]]) -> None:
        self.what, self.left = what, left
        super().__init__(
            f"the cap is reached: {len(left)} {what} trials have not run ({', '.join(map(trial_label, left[:6]))}"
            f"{', ...' if len(left) > 6 else ''}), nor what reads them; the same command with a higher cap, or with "
            "fewer sweep.seeds, goes on from here"
        )


def _found(frame: Frame, plan: Plan) -> Found:
    try:
        results, entries = _Sweep(frame, plan).run()
    except _DrainedError as drained:
        return _unfinished(frame, drained)
    found = digest(entries)
    return Found(digest=found, report=lambda: _report(frame, plan, results, len(entries), found))


def _unfinished(frame: Frame, drained: _DrainedError) -> Found:
    """The curve needs every trial, so there is none yet; the summary says what is missing."""
    log.info("%s", drained)
    finished = [entry for entry in frame.ledger if entry.state == "finished"]
    found = fingerprint([digest(finished), drained.left])

    def report() -> Report:
        numbers = {"left": len(drained.left), "trials": len(finished)}
        tell_report(frame, "alpha sweep", found, (), numbers).end("finished")
        return Report(files=(), headline=numbers, details={"missing": str(drained)})

    return Found(digest=found, report=report)


@dataclass
class _Sweep:
    """The trials of one call."""

    frame: Frame
    plan: Plan

    def __post_init__(self) -> None:
        self.workspace, self.ledger, self.name = self.frame.workspace, self.frame.ledger, self.frame.name
        self.setting = Setting(
            workspace=self.workspace.root.uri,
            parent=self.name,
            arms={arm: to_dict(config) for arm, config in self.plan.arms.items()},
            alphas=self.plan.alphas,
            found=self.workspace.found.answers,  # filled by the stages that `prepare` runs
        )

    def run(self) -> tuple[AlphaResults, list[Entry]]:
        """All trials to their end; the results and the ledger's entries they come from."""
        self.frame.tell_parent("alpha sweep", self.plan.definition()["rule"])
        material = self.prepare()
        trainings = self.trials(self.plan.trainings(material), "train")
        runs = {(e.changes["arm"], e.changes["seed"]): e.result["run"] for e in trainings}
        encodings = [
            {"kind": "encode", "run": run, "material": material}
            for (arm, _), run in runs.items()
            if arm == self.plan.family
        ]
        measures = [
            {"kind": "measure", "arm": arm, "seed": seed, "run": run, "material": material}
            for (arm, seed), run in runs.items()
            if arm != self.plan.family
        ]
        prepared = self.trials([*encodings, *measures], "measure")
        folders = {e.changes["run"]: e.result["folders"] for e in prepared if e.changes["kind"] == "encode"}
        measured = [e for e in prepared if e.changes["kind"] == "measure"]
        points = self.trials(list(self.alpha_trials(runs, folders)), "alpha")
        for entry in (*measured, *points):
            self.tell_child(entry)
        return self.results(runs, measured, points), [*trainings, *measured, *points]

    def alpha_trials(self, runs: dict[tuple[str, int], str], folders: dict[str, dict[str, str]]) -> Any:
        """One trial an α and seed, seed by seed, so that a process meets as few runs as possible."""
        for seed in self.plan.seeds:
            run = runs[self.plan.family, seed]
            codes = {f"codes.{split}": folders[run][split] for split in SPLITS}
            for alpha in self.plan.alphas:
                yield {"kind": "alpha", "seed": seed, ALPHA: alpha, "run": run, **codes}

    def prepare(self) -> str:
        """Data, features and parses of every arm, made where they are missing; fingerprint of them and
        training's revision."""
        prints = {}
        shown = tuple({family_inputs(config).image for config in self.plan.arms.values()})
        for arm, config in self.plan.arms.items():
            if arm != self.plan.learned:
                alike = config.features.backbone == self.plan.config.features.backbone
                parsed, outputs = arm == self.plan.family, shown if alike else ()
                material = pipeline.prepare(
                    config, self.workspace, parsed=parsed, outputs=outputs, ray=self.frame.request.options.ray
                )
                prints[arm] = dict(material.fingerprints)
        return fingerprint([REVISION, prints])

    def trials(self, asked: list[dict[str, Any]], what: str) -> list[Entry]:
        """Run the unfinished ones of `asked`, all of one need; all of them have finished afterwards.

        Raises _DrainedError where a cap held some back.
        """
        kinds = {changes["kind"] for changes in asked}
        need = self.plan.need_of(next(iter(kinds), ""))
        from vse.sweeps.experiment import require_finished, run_sweep

        if self.ledger.pending(asked):
            alike = [entry for entry in self.ledger if entry.changes["kind"] in kinds]
            meter = self.plan.budget().meter(self.plan.spent(self.ledger), need, alike)
            if meter.allows():
                if not self.frame.worked:
                    self.make_adversaries()
                self.frame.connect()
                run_sweep(
                    self.ledger,
                    asked,
                    functools.partial(run_trial, setting=self.setting),
                    need=need,
                    concurrency=self.frame.side_by_side(),
                    available=self.frame.most(need),
                    meter=meter,
                    label=what,
                    on_end=self.tell_child,
                )
            self.frame.worked = True
        entries = [entry for changes in asked if (entry := self.ledger.get(changes)) is not None]
        require_finished(entries, f"{what} trials", self.ledger)
        if left := self.ledger.pending(asked):
            raise _DrainedError(what, left)
        return entries

    def make_adversaries(self) -> None:
        """The adversaries of both splits before any trial needs them, with all the cores this process may use."""
        config = self.plan.config
        material = pipeline.prepare(config, self.workspace, parsed=True)
        for split in SPLITS:
            attack_split(config, self.workspace, material, split, WORDS)

    def results(self, runs: dict[tuple[str, int], str], measured: list[Entry], points: list[Entry]) -> AlphaResults:
        """What the finished trials say."""
        plan = self.plan
        ours = LABELS.get(plan.family, plan.family)
        labels = {plan.reference: self.reference_label(), plan.learned: f"{ours}, learned α"}
        arms = {
            kind: [{"label": labels[arm], **e.result} for e in measured if e.changes["arm"] == arm]
            for kind, arm in (("reference", plan.reference), ("learned", plan.learned))
            if arm is not None
        }
        named: dict[str, dict[str, str]] = {}
        for (arm, seed), run in runs.items():
            named.setdefault(arm, {})[str(seed)] = run
        return gather(
            self.name,
            plan.family,
            plan.data,
            plan.seeds,
            plan.alphas,
            plan.configured,
            plan.rule,
            {(e.changes[ALPHA], e.changes["seed"]): e.result["metrics"] for e in points},
            arms,
            named,
        )

    def reference_label(self) -> str:
        """The reference arm's family as readers know it."""
        from vse.registry import name_of

        if self.plan.reference is None:
            return ""
        family = name_of("family", self.plan.arms[self.plan.reference].model)
        return LABELS.get(family, family)

    def tell_child(self, entry: Entry) -> None:
        """The run of one α or measure trial, told once and whole; trainings tell of themselves."""
        changes = entry.changes
        if changes["kind"] not in ("alpha", "measure"):
            return
        journal = self.frame.journal("trials", entry.id)
        if read(journal.path).status == "finished":
            return
        tags = {"kind": changes["kind"], "attempts": entry.attempts}
        name = trial_label(changes)
        journal.start(child_id(self.name, changes), name=name, parent=self.name, tags=tags, ago=entry.seconds)
        journal.params({key: value for key, value in changes.items() if key != "kind"})
        if entry.state == "finished":
            journal.metrics({**entry.result["metrics"], "cost/seconds": entry.seconds}, step=0)
            if "alpha" in entry.result:
                journal.metrics({"alpha": entry.result["alpha"]}, step=0)
            journal.end("finished")
        else:
            journal.note(entry.why)
            journal.end("failed")


def _report(frame: Frame, plan: Plan, results: AlphaResults, trials: int, results_digest: str) -> Report:
    """Figures, tables and the page in the sweep's folder, and all of it told to the parent run."""
    from vse.report.build import command_of, write_report
    from vse.report.tables import alpha_table

    configuration = {arm: flatten(config) for arm, config in plan.arms.items()}
    names = write_report(frame.folder, results, [command_of(frame.request)], configuration, facts_of(frame.ledger))
    numbers = headline(results)
    journal = tell_report(frame, "alpha sweep", results_digest, names, numbers, charted(results))
    for seed, run in results.runs.get(plan.family, {}).items():
        _tell_checkpoint(journal, frame.workspace.run(run), f"checkpoints/seed-{seed}")
    offer_best(frame.workspace, results.runs.get(plan.family, {}).values(), changes={ALPHA: results.chosen})
    journal.end("finished")
    return Report(
        files=names,
        headline={**numbers, "trials": trials, "rule": results.rule},
        details={"table": alpha_table(results).to_data(), "runs": results.runs},
    )


def _tell_checkpoint(journal: Journal, run: Folder, under: str) -> None:
    """The kept checkpoint as artifacts: what it takes to embed, without the optimiser."""
    from vse.training.checkpoint import Checkpoints

    best = Checkpoints(run.child("checkpoints")).best()
    if best is not None and best.is_local:  # elsewhere the training's own run is where to look
        for name in best.names():
            if not name.startswith("optimizer"):
                journal.artifact(best.local(name), under)
