"""Sweeps whose trials are trainings: η, margins, λ, or any space a user writes. One call serves every such job.

The data are prepared in the driver, once; trials run side by side and their ends go into the ledger, from which a sweep
is resumed, extended by points, seeds or another method, retried and reported.
"""

import functools
import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from vse.cli.command import Request
from vse.config import fingerprint, flatten, override, to_dict
from vse.errors import InputError, PlacementError, TrialsFailedError
from vse.inference.served_model import offer_best
from vse.report.description import trial_text
from vse.report.response import OBJECTIVE, ResponseResults
from vse.stages import pipeline
from vse.stages.attack import attack_split, some_adversaries
from vse.sweeps.alpha_results import child_id
from vse.sweeps.budget import length
from vse.sweeps.estimates import estimate_before_trials, expectation
from vse.sweeps.experiment import run_proposed
from vse.sweeps.frame import Frame, Report, SweepResult, failures, run_framed, tell_report
from vse.sweeps.halving import halving
from vse.sweeps.ledger import Entry, trial_id
from vse.sweeps.objective_plan import Plan, check_point, make_plan, told_by
from vse.sweeps.objective_results import digest, gather, headline, judged, preset_file
from vse.sweeps.objective_trials import MATERIAL, WORDS, Setting, run_trial
from vse.sweeps.proposals import InTurn, Proposer
from vse.sweeps.search import ParzenSearch
from vse.training.compatibility import family_inputs
from vse.training.config import RunConfig
from vse.training.inputs import REVISION
from vse.training.killed import close_killed
from vse.workspace.journal import Journal, read

log = logging.getLogger(__name__)


def run_objective_sweep(request: Request) -> str:
    """Run what is missing of the sweep, report, and return the path of its `summary.json`.

    Raises InputError for a request that cannot be served, before anything starts; once all other trials have ended and
    were reported, InputError where one was refused, PlacementError where no node came for any, and TrialsFailedError
    where one failed twice.
    """
    plan = make_plan(request)
    sweeps: list[_Sweep] = []

    def work(frame: Frame) -> SweepResult:
        sweeps.append(_Sweep(frame, plan))
        return sweeps[0].run()

    path = run_framed(request, plan, work)
    if sweeps and (refused := sweeps[0].refused) is not None:
        raise type(refused)(f"{refused} (all other trials are reported: {path})")
    if sweeps and (failed := sweeps[0].failed):
        raise TrialsFailedError(failures(failed, path))
    return path


class _Sweep:
    """The trials of one call."""

    def __init__(self, frame: Frame, plan: Plan) -> None:
        self.frame, self.plan = frame, plan
        self.ledger, self.workspace = frame.ledger, frame.workspace
        self.failed: dict[str, str] = {}
        self.refused: InputError | PlacementError | None = None
        self.wanted = plan.wanted(self.ledger)
        self.ended_before = {entry.id: entry.attempts for entry in self.ledger}
        self.setting = Setting(
            workspace=self.workspace.root.uri,
            parent=frame.name,
            config=to_dict(plan.config),
            objective=plan.options.objective,
            halving=plan.options.method == "asha",
            found=self.workspace.found.answers,  # filled by the stages that `prepare` runs
        )

    def run(self) -> SweepResult:
        """All trials that are asked for and not done, as far as the cap lets them."""
        told = told_by(self.plan.options.warm_start, self.workspace, self.plan) if self.plan.options.warm_start else []
        self.frame.tell_parent("objective sweep", self.plan.rule)
        self.material = self.prepare()
        proposer, open_trials = self.proposer(told)
        left = 0
        if open_trials:
            self.frame.worked = True
            if not self.run_trials(proposer, open_trials):
                left = self.left()
                log.info("the cap is reached: %s", f"{left} trials have not run" if left > 0 else "the search ends")
        if isinstance(proposer, ParzenSearch) and proposer.refused:
            self.frame.journal().note(f"{len(proposer.refused)} drawn points would not train: {proposer.refused}"[:300])
        for entry in self.ledger:
            self.tell_child(entry)
        preset = self.frame.request.preset or ""
        results = gather(self.plan, self.frame.name, preset, self.ledger, self.material, left)
        self.failed = results.failed
        found = digest(results)
        return SweepResult(digest=found, report=lambda: self.report(results, found))

    def run_trials(self, proposer: Proposer, total: int) -> bool:
        """True if the proposer came to its end, False if the cap did. What refused a trial is kept in `refused`."""
        plan, need = self.plan, self.plan.need()
        meter = plan.budget().meter(plan.spent(self.ledger), need, self.ledger, self.expected_seconds)
        if not meter.allows():
            return False
        self.frame.reopen()
        self.frame.connect()
        at_once = need.at_once(self.frame.most(need), self.frame.side_by_side())
        scheduler = None
        if plan.options.method == "asha":
            grace = plan.options.grace or max(1, plan.config.train.epochs // 9)
            scheduler = halving(plan.config.train.epochs, grace, plan.options.reduction, self.ledger)
        complete = True
        try:
            complete = run_proposed(
                self.ledger,
                proposer,
                functools.partial(run_trial, setting=self.setting),
                at_once=at_once,
                total=total,
                need=need,
                meter=meter,
                scheduler=scheduler,
                label="trials",
                on_end=self.tell_child,
            )
        except (InputError, PlacementError) as error:
            self.refused = error
        # Tune gives the processes of the last ones seconds to end, and a store may take longer. By now they are gone,
        # and so are those of earlier calls that did not come this far. A dead one's lease takes its term: all at once.
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(functools.partial(close_killed, self.workspace), self._stopped()))
        return complete

    def _stopped(self) -> list[str]:
        """Runs that a scheduler ended."""
        return sorted({entry.result["run"] for entry in self.ledger if entry.stopped and "run" in entry.result})

    def expected_seconds(self) -> float | None:
        """Seconds that a trial is expected to take, where no trial of this sweep says it."""
        found = estimate_before_trials(self.plan.first(), self.plan.space.keys, self.workspace, self.frame.request)
        log.info("%s", expectation(found.without(self.plan.beside_training)))
        return found.seconds

    def proposer(self, told: Iterable[tuple[dict[str, Any], float]] = ()) -> tuple[Proposer, int]:
        """What proposes the trials, and how many there are to come (at most, where they are searched)."""
        plan, wanted = self.plan, self.wanted
        if plan.options.method == "hyperopt":
            points = plan.points_in(self.ledger)
            draw = plan.options.run != "failed"
            search = ParzenSearch(
                plan.space,
                plan.config,
                self.ledger,
                trials_of=lambda point: plan.trials_of(point, self.material),
                points=points,
                value_of=lambda point: plan.value_of(self.ledger, point, self.material),
                samples=plan.options.samples,
                seed=plan.options.search_seed,
                num_initial=plan.options.first,
                told=told,
                wanted=wanted,
                draw=draw,
                check=functools.partial(check_point, plan.config),
                whole=plan.whole,
            )
            new = max(0, plan.options.samples - len(points)) if draw else 0
            return search, search.waiting + new * len(plan.seeds)
        pending = [changes for changes in self.pending() if wanted(changes)]
        return InTurn(pending), len(pending)

    def pending(self) -> list[dict[str, Any]]:
        """Listed trials that have not finished; ended early by asha is finished where the method is asha."""
        return self.ledger.pending(self.trials(), whole=self.plan.whole)

    def trials(self) -> list[dict[str, Any]]:
        """Listed trials, seed by seed, so that the first seed's curves are complete first. Points tried before by
        another method belong to them."""
        points = {fingerprint(p): p for p in (*self.plan.listed, *self.plan.points_in(self.ledger))}
        each = [self.plan.trials_of(point, self.material) for point in points.values()]
        return [trials[k] for k in range(len(self.plan.seeds)) for trials in each]

    def left(self) -> int:
        """Trials that the cap held back; -1 where a search would go on to draw them."""
        options = self.plan.options
        if options.method == "hyperopt" and options.run != "failed":
            return -1
        asked = [changes for changes in self.pending() if self.wanted(changes)]
        return sum(self.ledger.attempts(c) == self.ended_before.get(trial_id(c), 0) for c in asked)

    def prepare(self) -> str:
        """Data, features and parses that trials share, made where they are missing; the fingerprint of the preset's and
        training's revision."""
        attacked = self.plan.options.objective != "rsum"
        ray = self.frame.request.options.ray
        base = pipeline.prepare(self.plan.config, self.workspace, parsed=attacked, ray=ray)
        for config in distinct_inputs(self.plan):
            pipeline.prepare(config, self.workspace, parsed=attacked, ray=ray)
        if attacked:
            some_adversaries(attack_split(self.plan.config, self.workspace, base, "val", WORDS))
        self.frame.tell_data(base.fingerprints)
        return fingerprint([REVISION, dict(base.fingerprints)])

    def tell_child(self, entry: Entry) -> None:
        """The run of one trial, told once and whole, beside the training's own."""
        journal = self.frame.journal("trials", entry.id)
        story = read(journal.path)
        if story.status == entry.state and story.tags.get("attempts") == str(entry.attempts):
            return
        with journal.together():  # Tune's loop waits meanwhile, and a store takes the whole file each time
            self._tell(journal, entry)

    def _tell(self, journal: Journal, entry: Entry) -> None:
        tags = {"kind": "trial", "attempts": entry.attempts, "run": entry.result.get("run", "")}
        journal.start(
            child_id(self.frame.name, entry.changes),
            name=self.plan.trial_label(entry),
            parent=self.frame.name,
            tags=tags,
            ago=length(entry),
        )
        journal.params({key: value for key, value in entry.changes.items() if key != MATERIAL})
        name, trained = self.plan.trial_label(entry), entry.result.get("run", "")
        metrics = entry.result.get("metrics", {})
        journal.describe("headline", trial_text(name, self.frame.name, trained, metrics))
        if entry.state == "finished":
            found = entry.result
            stopped = float(found.get("stopped", False))
            step = entry.attempts - 1  # trackers show the last one of a trial that was ended early and went on
            journal.metrics({**found["metrics"], OBJECTIVE: found["objective"], "stopped": stopped}, step=step)
            for epoch, value in enumerate(found.get("curve", []), start=1):
                journal.metrics({"rsum_so_far": value}, step=epoch)
            hours = entry.spent * entry.need(self.plan.need()).gpus / 3600
            journal.metrics({"cost/seconds": entry.spent, "cost/gpu_hours": hours}, step=step)
            journal.end("finished")
        else:
            journal.note(entry.why)
            journal.end("failed")

    def report(self, results: ResponseResults, results_digest: str) -> Report:
        """Figures, table, page and the best preset in the sweep's folder, and all of it told to the parent run."""
        from vse.report.build import command_of
        from vse.report.description import files_text, page_link, response_headline, response_text
        from vse.report.response_page import BEST, write_response

        folder, request = self.frame.folder, self.frame.request
        results = judged(results, self.plan, self.workspace)
        best = results.chosen()
        if best is None and results.points:
            early = any(point.stopped for point in results.points)
            more = "; those that asha ended early go on by another sweep.method" if early else ""
            log.warning("no point has finished with all seeds, so none is the best%s", more)
        extra = {} if best is None else {BEST: preset_file(request, self.plan, best.changes)}
        configuration = {"as swept": flatten(self.plan.config)}
        names = write_response(folder, results, [command_of(request)], configuration, extra, request.elsewhere)
        numbers = {k: v for k, v in headline(results).items() if isinstance(v, int | float)}
        texts = {
            "headline": f"{response_headline(results)}\n\n{page_link(folder)}",
            "result": f"{response_text(results)}\n\n{files_text(names)}",
        }
        journal = tell_report(self.frame, "objective sweep", results_digest, names, numbers, texts=texts)
        journal.end("finished")
        if best is not None:
            offer_best(self.workspace, best.runs.values())
        return Report(
            files=names,
            headline=headline(results),
            details={"rule": results.rule, "claims": results.claims, "best": best.changes if best else {}},
        )


def distinct_inputs(plan: Plan) -> Iterator[RunConfig]:
    """One configuration for each kind of input that listed points read."""
    seen = set()
    for point in plan.listed:
        config = override(plan.config, point)
        key = fingerprint([config.data, config.features, config.text, repr(family_inputs(config))])
        if key not in seen:
            seen.add(key)
            yield config
