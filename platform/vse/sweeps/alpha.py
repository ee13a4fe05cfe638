"""The α sweep, whole: trainings, codes, every α as a trial, the choice, the report. One call serves the job.

Order: data, features, parses and adversaries in the driver, once; the trainings of all arms and seeds as Tune trials;
then codes of the swept runs, the measures of the others and every (α, seed) as Tune trials. A ledger remembers what has
finished, so a second call runs nothing, and one after a kill runs the rest.
"""

import functools
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vse import registry
from vse.cli.command import Request
from vse.config import fingerprint, flatten, to_dict
from vse.display import markdown
from vse.errors import InputError, PlacementError, TrialsFailedError
from vse.inference.served_model import offer_best
from vse.report.curve import AlphaResults
from vse.report.description import trial_text
from vse.stages import pipeline
from vse.stages.attack import attack_split, some_adversaries
from vse.storage.folder import Folder
from vse.sweeps.alpha_plan import ALPHA, Plan, make_plan, trial_label
from vse.sweeps.alpha_results import LABELS, charted, child_id, digest, facts_of, gather, headline
from vse.sweeps.alpha_trials import SPLITS, WORDS, Setting, run_trial
from vse.sweeps.estimates import estimate_before_trials, expectation
from vse.sweeps.experiment import require_finished, run_sweep
from vse.sweeps.frame import Frame, Report, SweepResult, failures, run_framed, tell_report
from vse.sweeps.ledger import Entry, trial_id
from vse.training.compatibility import family_inputs
from vse.training.inputs import REVISION
from vse.workspace.journal import Journal, read

log = logging.getLogger(__name__)


def run_alpha_sweep(request: Request) -> str:
    """Run what is missing of the sweep, report, and return the path of its `summary.json`.

    Raises InputError for a request that cannot be served, before anything starts; once all other trials have ended,
    and the curve of the seeds that are whole was reported if there is one, InputError where a trial was refused,
    PlacementError where no node came for any, and TrialsFailedError where one failed twice.
    """
    plan = make_plan(request)
    sweeps: list[_Sweep] = []

    def work(frame: Frame) -> SweepResult:
        sweeps.append(_Sweep(frame, plan))
        return _found(sweeps[0])

    path = run_framed(request, plan, work)
    (sweep,) = sweeps
    if sweep.refused is not None:
        raise type(sweep.refused)(f"{sweep.refused} (all other trials are reported: {path})")
    if sweep.failed:
        raise TrialsFailedError(failures(sweep.failed, path))
    return path


class _DrainedError(Exception):
    """A cap held trials back: those of one kind (`what`), and all that read their results."""

    def __init__(self, what: str, left: list[dict[str, Any]]) -> None:
        self.what, self.left = what, left
        super().__init__(
            f"the cap is reached: {len(left)} {what} trials have not run ({', '.join(map(trial_label, left[:6]))}"
            f"{', ...' if len(left) > 6 else ''}), nor what reads them; the same command with a higher cap, or with "
            "fewer sweep.seeds, continues from here"
        )


def _found(sweep: "_Sweep") -> SweepResult:
    try:
        results, entries = sweep.run()
    except _DrainedError as drained:
        return _unfinished(sweep.frame, drained)
    found = digest(entries)
    if sweep.missing:
        found = fingerprint([found, sweep.missing])
        log.warning("the curve is that of %d seeds: %s", len(results.seeds), "; ".join(sweep.missing.values()))
    return SweepResult(digest=found, report=lambda: _report(sweep, results, len(entries), found))


def _unfinished(frame: Frame, drained: _DrainedError) -> SweepResult:
    """The curve is drawn once the cap lets all trials run, so there is none yet; the summary says what is missing."""
    log.info("%s", drained)
    finished = [entry for entry in frame.ledger if entry.state == "finished"]
    found = fingerprint([digest(finished), drained.left])

    def report() -> Report:
        numbers = {"left": len(drained.left), "trials": len(finished)}
        texts = {"headline": markdown.escaped(drained)}
        tell_report(frame, "alpha sweep", found, (), numbers, texts=texts).end("finished")
        return Report(files=(), headline=numbers, details={"missing": str(drained)})

    return SweepResult(digest=found, report=report)


@dataclass
class _Sweep:
    """The trials of one call."""

    frame: Frame
    plan: Plan

    def __post_init__(self) -> None:
        self.workspace, self.ledger, self.name = self.frame.workspace, self.frame.ledger, self.frame.name
        self.failed: dict[str, str] = {}  # by label of a trial: why
        self.missing: dict[int, str] = {}  # by seed: why it is not in the curve
        self.refused: InputError | PlacementError | None = None
        self.runs: dict[tuple[str, int], str] = {}  # by arm and seed
        self._note_runs(e for e in self.ledger if e.state == "finished" and e.changes["kind"] == "train")
        before = [entry for entry in self.ledger if entry.state == "failed"]
        self.failed_before = {entry.id for entry in before}
        self.again = {self.arm_and_seed(entry.changes) for entry in before}
        self.setting = Setting(
            workspace=self.workspace.root.uri,
            parent=self.name,
            arms={arm: to_dict(config) for arm, config in self.plan.arms.items()},
            alphas=self.plan.alphas,
            found=self.workspace.found.answers,  # filled by the stages that `prepare` runs
        )

    def run(self) -> tuple[AlphaResults, list[Entry]]:
        """All trials to their end; the results of the seeds that are whole, and the ledger's entries of what finished.

        Raises what ended trials where no seed is whole.
        """
        self.frame.tell_parent("alpha sweep", self.plan.definition()["rule"])
        material = self.prepare()
        trainings = self.trials(self.plan.trainings(material), "train")
        self.runs.clear()
        runs = self._note_runs(trainings)
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
        seeds = self.whole_seeds(measured, points)
        shown = [[e for e in each if e.changes["seed"] in seeds] for each in (measured, points)]
        return self.results(seeds, *shown), [*trainings, *measured, *points]

    def _note_runs(self, trainings: Iterable[Entry]) -> dict[tuple[str, int], str]:
        self.runs |= {(e.changes["arm"], e.changes["seed"]): e.result["run"] for e in trainings}
        return self.runs

    def arm_and_seed(self, changes: Mapping[str, Any]) -> tuple[str, int] | None:
        """The arm and seed that a trial belongs to; None for codes of a run that is unknown."""
        if changes["kind"] == "encode":
            return next((whose for whose, run in self.runs.items() if run == changes["run"]), None)
        return changes.get("arm", self.plan.family), changes["seed"]

    def wanted(self, changes: Mapping[str, Any]) -> bool:
        """Whether `sweep.run` lets an unfinished trial run."""
        if self.plan.run == "failed":
            return self.arm_and_seed(changes) in self.again
        return self.plan.run == "all" or trial_id(changes) not in self.failed_before

    def whole_seeds(self, measured: list[Entry], points: list[Entry]) -> list[int]:
        """The seeds of which every trial has finished; why the others have not is in `missing`."""
        every = Counter(entry.changes["seed"] for entry in (*measured, *points))
        wanted = len(self.plan.arms) - 1 + len(self.plan.alphas)
        seeds = [seed for seed in self.plan.seeds if every[seed] == wanted]
        for seed in sorted(set(self.plan.seeds) - set(seeds)):
            why = next((f"{name}: {why}" for name, why in self.failed.items() if name.endswith(f"seed={seed}")), "")
            self.missing[seed] = why or f"seed={seed} has unfinished trials"
        if not seeds:
            if self.refused is not None:
                raise self.refused
            require_finished(list(self.ledger), "trials", self.ledger)
            raise InputError(f"sweep.run={self.plan.run}: no seed is complete; sweep.run=all runs what is missing")
        return seeds

    def alpha_trials(
        self, runs: dict[tuple[str, int], str], folders: dict[str, dict[str, str]]
    ) -> Iterator[dict[str, Any]]:
        """One trial an α and seed, seed by seed, so that a process meets as few runs as possible."""
        for seed in self.plan.seeds:
            run = runs.get((self.plan.family, seed), "")
            if run not in folders:  # its training or its codes failed
                continue
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
                ray = self.frame.request.options.ray
                material = pipeline.prepare(
                    config, self.workspace, parsed=parsed, outputs=outputs, ray=ray, splits=SPLITS
                )
                prints[arm] = dict(material.fingerprints)
        self.frame.tell_data(prints[self.plan.family])
        return fingerprint([REVISION, prints])

    def trials(self, asked: list[dict[str, Any]], what: str) -> list[Entry]:
        """Run the unfinished ones of `asked`, all of one need; the entries of those that have finished afterwards.

        What failed or was refused is kept. Raises _DrainedError where a cap held some back.
        """
        kinds = {changes["kind"] for changes in asked}
        need = self.plan.need_of(next(iter(kinds), ""))
        if pending := [changes for changes in self.ledger.pending(asked) if self.wanted(changes)]:
            before = {trial_id(changes): self.ledger.attempts(changes) for changes in pending}
            alike = [entry for entry in self.ledger if entry.changes["kind"] in kinds]
            expected = functools.partial(self.expected_seconds, pending)
            meter = self.plan.budget().meter(self.plan.spent(self.ledger), need, alike, expected)
            if meter.allows():
                if not self.frame.worked:
                    self.make_adversaries()
                self.frame.reopen()
                self.frame.connect()
                try:
                    run_sweep(
                        self.ledger,
                        pending,
                        functools.partial(run_trial, setting=self.setting),
                        need=need,
                        concurrency=self.plan.at_once(pending, self.frame.side_by_side()),
                        available=self.frame.most(need),
                        meter=meter,
                        label=what,
                        on_end=self.tell_child,
                    )
                except (InputError, PlacementError) as error:
                    self.refused = self.refused or error
            self.frame.worked = True
            left = [changes for changes in pending if self.ledger.attempts(changes) == before[trial_id(changes)]]
            if left and self.refused is None:
                raise _DrainedError(what, left)
        entries = [entry for changes in asked if (entry := self.ledger.get(changes)) is not None]
        self.failed |= {self.label(entry.changes): entry.why for entry in entries if entry.state == "failed"}
        return [entry for entry in entries if entry.state == "finished"]

    def label(self, changes: Mapping[str, Any]) -> str:
        """A trial as readers know it, its seed last."""
        whose = self.arm_and_seed(changes)
        if changes["kind"] == "encode" and whose is not None:
            return f"codes of {whose[0]} seed={whose[1]}"
        return trial_label(changes)

    def expected_seconds(self, pending: list[dict[str, Any]]) -> float | None:
        """Seconds of the longest training that is to run; None where nothing says it, or nothing is to be trained."""
        arms = dict.fromkeys(changes["arm"] for changes in pending if changes["kind"] == "train")
        request = self.frame.request
        found = [estimate_before_trials(self.plan.arms[arm], (), self.workspace, request) for arm in arms]
        if not found:
            return None
        longest = max(found, key=lambda each: each.seconds or 0.0)
        log.info("%s", expectation(longest))
        return longest.seconds

    def make_adversaries(self) -> None:
        """The adversaries of both splits before any trial needs them, with all the cores this process may use.

        Raises InputError where the split that alpha is chosen on has none.
        """
        config = self.plan.config
        material = pipeline.prepare(config, self.workspace, parsed=True)
        for split in SPLITS:
            made = attack_split(config, self.workspace, material, split, WORDS)
            if split == self.plan.rule.split:
                some_adversaries(made)

    def results(self, seeds: list[int], measured: list[Entry], points: list[Entry]) -> AlphaResults:
        """What the trials of these seeds say."""
        plan = self.plan
        ours = LABELS.get(plan.family, plan.family)
        labels = {plan.reference: self.reference_label(), plan.learned: f"{ours}, learned α"}
        arms = {
            kind: [{"label": labels[arm], **e.result} for e in measured if e.changes["arm"] == arm]
            for kind, arm in (("reference", plan.reference), ("learned", plan.learned))
            if arm is not None
        }
        named: dict[str, dict[str, str]] = {}
        for (arm, seed), run in self.runs.items():
            if seed not in seeds:
                continue
            named.setdefault(arm, {})[str(seed)] = run
        return gather(
            self.name,
            plan.family,
            plan.data,
            seeds,
            plan.alphas,
            plan.configured,
            plan.rule,
            {(e.changes[ALPHA], e.changes["seed"]): e.result["metrics"] for e in points},
            arms,
            named,
        )

    def reference_label(self) -> str:
        """The reference arm's family as readers know it."""
        if self.plan.reference is None:
            return ""
        family = registry.name_of("family", self.plan.arms[self.plan.reference].model)
        return LABELS.get(family, family)

    def tell_child(self, entry: Entry) -> None:
        """The run of one α or measure trial, told once and whole; trainings tell of themselves."""
        changes = entry.changes
        if changes["kind"] not in ("alpha", "measure"):
            return
        journal = self.frame.journal("trials", entry.id)
        if read(journal.path).status == "finished":
            return
        with journal.together():  # Tune's loop waits meanwhile, and a store takes the whole file each time
            self._tell(journal, entry)

    def _tell(self, journal: Journal, entry: Entry) -> None:
        changes = entry.changes
        tags = {"kind": changes["kind"], "attempts": entry.attempts}
        name = trial_label(changes)
        journal.start(child_id(self.name, changes), name=name, parent=self.name, tags=tags, ago=entry.seconds)
        journal.params({key: value for key, value in changes.items() if key != "kind"})
        found = entry.result.get("metrics", {})
        journal.describe("headline", trial_text(name, self.name, changes["run"], found))
        if entry.state == "finished":
            journal.metrics({**entry.result["metrics"], "cost/seconds": entry.seconds}, step=0)
            if "alpha" in entry.result:
                journal.metrics({"alpha": entry.result["alpha"]}, step=0)
            journal.end("finished")
        else:
            journal.note(entry.why)
            journal.end("failed")


def _report(sweep: _Sweep, results: AlphaResults, trials: int, results_digest: str) -> Report:
    """Figures, tables and the page in the sweep's folder, and all of it told to the parent run."""
    from vse.report.alpha_page import write_report
    from vse.report.build import command_of
    from vse.report.description import alpha_headline, alpha_text, files_text, page_link
    from vse.report.tables import alpha_table

    frame, plan = sweep.frame, sweep.plan
    configuration = {arm: flatten(config) for arm, config in plan.arms.items()}
    missing = {"missing": "; ".join(sweep.missing.values())} if sweep.missing else {}
    facts = {**{f"seed {seed} is missing": why for seed, why in sweep.missing.items()}, **facts_of(frame.ledger)}
    names = write_report(frame.folder, results, [command_of(frame.request)], configuration, facts)
    numbers = headline(results)
    told = {**numbers, "trials": trials, "left": 0}  # in the place of what was told when a cap held trials back
    texts = {
        "headline": f"{alpha_headline(results)}\n\n{page_link(frame.folder)}",
        "result": f"{alpha_text(results, sweep.missing.values())}\n\n{files_text(names)}",
    }
    journal = tell_report(frame, "alpha sweep", results_digest, names, told, charted(results), texts)
    for seed, run in results.runs.get(plan.family, {}).items():
        _tell_checkpoint(journal, frame.workspace.run(run), f"checkpoints/seed-{seed}")
    offer_best(frame.workspace, results.runs.get(plan.family, {}).values(), changes={ALPHA: results.chosen})
    journal.end("finished")
    return Report(
        files=names,
        headline={**numbers, "trials": trials, "rule": results.rule, **missing},
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
