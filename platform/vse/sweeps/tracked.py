"""The tracked runs of a sweep: the parent run with the report, and a child run for every trial or measured point."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from vse.cli.command import Request
from vse.config import flatten
from vse.display.markdown import commands, escaped
from vse.inference.served_model import offer_best
from vse.report.build import command_of
from vse.report.description import files_text, page_link, trial_text
from vse.report.model_card import CardOptions, model_card
from vse.storage.folder import Folder
from vse.sweeps.ledger import Entry, Ledger
from vse.sweeps.plan import ChildRun, Report, SweepPlan
from vse.training.checkpoint import Checkpoints
from vse.workspace.journal import Journal, Status, read
from vse.workspace.layout import Workspace
from vse.workspace.provenance import run_tags
from vse.workspace.redaction import redact_text


class TrackedRuns:
    """Journals of a sweep and of its child runs, which are sent to MLflow."""

    def __init__(self, request: Request, plan: SweepPlan, workspace: Workspace, folder: Folder) -> None:
        self.request, self.plan, self.workspace, self.folder = request, plan, workspace, folder
        self.name = folder.name

    def journal(self, *below: str) -> Journal:
        """The journal of the sweep's parent run, or of a child run."""
        return self.workspace.journal(self.folder.child(*below))

    def open_parent(self) -> None:
        """Start the parent run, which MLflow needs before its children, unless it has finished (see `reopen`)."""
        if read(self.journal().path).status != "finished":
            self._open()

    def reopen(self) -> None:
        """Start the parent run again if it had finished: trials are about to run."""
        if read(self.journal().path).status != "running":
            self._open()

    def _open(self) -> None:
        journal, plan = self.journal(), self.plan
        options = {key: _text(value) for key, value in flatten(self.request.options).items()}
        # tags, because another call may have other options, and MLflow keeps the first value of a parameter
        preset = {} if self.request.preset is None else {"preset": redact_text(self.request.preset)}
        page = shlex.join(["python", "jobs/report.py", f"sweep={self.name}", *self.request.elsewhere])
        with journal.together():
            journal.start(self.name, name=self.name, tags={"kind": plan.kind, **preset, **options, **run_tags()})
            journal.params({**flatten(plan.config), "rule": plan.rule})
            journal.describe("asked", f"{escaped(plan.question)}\n\n{escaped(plan.rule)}")
            journal.describe("commands", commands([command_of(self.request), page]))
            journal.files(["definition.json"])

    def record_data(self, fingerprints: Mapping[str, str]) -> None:
        """Tag the parent run once with the fingerprints of what its trainings read, by stage."""
        journal, tags = self.journal(), {f"fingerprint.{stage}": digits for stage, digits in fingerprints.items()}
        if not tags.items() <= read(journal.path).tags.items():
            journal.tags(tags)

    def close(self, status: Status) -> None:
        """End the parent run, unless it has ended or never started."""
        journal = self.journal()
        state = read(journal.path)
        if state.run and state.status == "running":
            journal.end(status)

    def record_trial(self, entry: Entry) -> None:
        """Write the tracked runs of a trial that has ended, each once."""
        for child in self.plan.children(entry):
            journal = self.journal("trials", child.id)
            state = read(journal.path)
            if state.status == entry.state and state.tags.get("attempts") == str(entry.attempts):
                continue
            with journal.together():  # one upload for all lines: Tune's loop waits meanwhile
                self._record_child(journal, child, entry)

    def _record_child(self, journal: Journal, child: ChildRun, entry: Entry) -> None:
        run = entry.result.get("run", "")
        tags = {"kind": child.kind, "attempts": entry.attempts, "run": run}
        journal.start(f"{self.name}-{child.id}", name=child.name, parent=self.name, tags=tags, ago=child.seconds)
        journal.params(child.params)
        journal.describe("headline", trial_text(child.name, self.name, run, child.headline))
        if entry.state == "failed":
            journal.note(entry.why)
        for step, values in child.metrics:
            journal.metrics(values, step=step)
        journal.end(entry.state)

    def record_report(self, report: Report, digest: str, ledger: Ledger) -> None:
        """Write a report and the cost of all trials into the parent run, and end it.

        Args:
            report: The result.
            digest: Of the results.
            ledger: All trials.
        """
        costs = ledger.costs()
        cost = {"cost/seconds": sum(seconds for seconds, _ in costs)}
        cost["cost/gpu_hours"] = sum(seconds * need.gpus for seconds, need in costs) / 3600
        journal = self.journal()
        numbers = {key: value for key, value in report.headline.items() if isinstance(value, int | float)}
        links = {"headline": page_link(self.folder), "result": files_text(report.files)} if report.files else {}
        with journal.together():
            journal.start(self.name, name=self.name, tags={"kind": self.plan.kind, "results": digest})
            journal.metrics({**numbers, **cost}, step=0)  # first: MLflow lists metrics in this order
            for step, values in report.charts:
                journal.metrics(values, step=step)
            journal.files(report.files)
            for section, text in report.texts.items():
                journal.describe(section, "\n\n".join([text, *([links[section]] if section in links else [])]))
            for under, run in report.checkpoints.items():
                _attach_checkpoint(journal, self.workspace.run(run), under)
            if report.best:
                offer_best(
                    self.workspace,
                    report.best,
                    changes=report.best_changes,
                    card=lambda run: model_card(run, CardOptions(), report.best_changes.get("model.alpha")),
                )
            journal.end("finished")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _attach_checkpoint(journal: Journal, run: Folder, under: str) -> None:
    """Add the files of the best checkpoint as artifacts, without the optimiser."""
    best = Checkpoints(run.child("checkpoints")).best()
    if best is not None and best.is_local:  # otherwise the tracked run of the training names its address
        for name in best.names():
            if not name.startswith("optimizer"):
                journal.artifact(best.local(name), under)
