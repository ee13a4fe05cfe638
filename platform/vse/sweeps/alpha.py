"""The α sweep, whole: trainings, codes, every α as a trial, the choice, the report. One call serves the job.

Order: data, features, parses and adversaries in the driver, once; the trainings of all arms and seeds as Tune trials;
then codes of the swept runs, the measures of the others and every (α, seed) as Tune trials. A ledger remembers what has
finished, so a second call runs nothing, and one after a kill runs the rest.
"""

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vse import pipeline
from vse.adversaries import attack_split
from vse.command import Request
from vse.config import fingerprint, flatten, to_dict
from vse.environment import environment, usable_cores
from vse.errors import InputError
from vse.journal import Journal, open_in, read
from vse.report.curve import AlphaResults
from vse.runtime import check_shared, cluster_address, largest_cluster, preflight, running_ray, set_up_logging
from vse.storage import Folder
from vse.summary import FILE_NAME as SUMMARY
from vse.summary import write_summary
from vse.sweeps.alpha_plan import ALPHA, Plan, make_plan
from vse.sweeps.alpha_results import LABELS, charted, child_id, digest, facts_of, gather, headline
from vse.sweeps.alpha_trials import SPLITS, WORDS, Setting, run_trial
from vse.sweeps.ledger import Entry, Ledger, open_sweep, sole_owner, sweep_name
from vse.sweeps.space import label
from vse.tracking import Shipper
from vse.training.inputs import family_inputs
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
    return lines


def run_alpha_sweep(request: Request) -> str:
    """Run what is missing of the sweep, report, and return the path of its `summary.json`.

    Raises InputError for a request that cannot be served, before anything starts; RuntimeError where a trial failed
    twice, after all others have ended.
    """
    started = time.time()
    plan = make_plan(request)
    train = plan.config.train
    preflight(
        request.workspace,
        request.options.ray,
        workers=train.workers,
        cpus_per_worker=train.threads,
        gpus_per_worker=train.gpus_per_worker,
        key="train.workers",
    )
    set_up_logging()
    workspace = Workspace.open(request.workspace)
    folder = open_sweep(workspace, plan.name, plan.definition(), exclusive=plan.named)
    with sole_owner(folder), Shipper(request.workspace, request.tracking).every(30) as shipper:
        sweep = _Sweep(request, plan, workspace, folder)
        try:
            with contextlib.ExitStack() as ray:
                sweep.connect = functools.partial(_connect, ray, request)
                results, entries = sweep.run()
        except BaseException as error:
            sweep.journal().end("killed" if isinstance(error, KeyboardInterrupt | SystemExit) else "failed")
            raise
        if not sweep.worked and _reported(folder, digest(entries)):
            log.info("%s has been run before; nothing is left to do", folder.local().name)
            return f"{folder.uri}/{SUMMARY}"
        outputs = _report(sweep, results, digest(entries))
        return write_summary(
            folder,
            job=request.job,
            started=started,
            configuration=plan.config,
            options=request.options,
            fingerprints={"sweep": folder.uri[-8:], "results": digest(entries)},
            seeds=plan.seeds,
            headline={**headline(results), "trials": len(entries), "rule": results.rule},
            outputs={**outputs, "mlflow": shipper.uri},
            details={"table": _table(results), "runs": results.runs, "files": _entries(folder, outputs)},
        )


def _connect(stack: contextlib.ExitStack, request: Request) -> None:
    """Bring up Ray once, when the first thing needs it; it ends with the sweep."""
    import ray

    if not ray.is_initialized():
        stack.enter_context(running_ray(request.options.ray))
        check_shared(request.workspace)


@dataclass
class _Sweep:
    """One call: what it works on, and whether anything had to be done."""

    request: Request
    plan: Plan
    workspace: Workspace
    folder: Folder
    connect: Callable[[], None] = lambda: None
    worked: bool = False

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.folder)
        self.setting = Setting(
            workspace=self.workspace.root.uri,
            parent=self.name,
            arms={arm: to_dict(config) for arm, config in self.plan.arms.items()},
            alphas=self.plan.alphas,
        )

    @property
    def name(self) -> str:
        """Name of the sweep, which is the id of its parent run as well."""
        return self.folder.name

    def run(self) -> tuple[AlphaResults, list[Entry]]:
        """All trials to their end; the results and the ledger's entries they come from."""
        self.tell_parent()
        material = self.prepare()
        trainings = self.trials(self.plan.trainings(material), "train", self.plan.need())
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
        """Data, features and parses of every arm, made where they are missing; their fingerprint."""
        prints = {}
        shown = tuple({family_inputs(config).image for config in self.plan.arms.values()})
        for arm, config in self.plan.arms.items():
            if arm != self.plan.learned:
                alike = config.features.backbone == self.plan.config.features.backbone
                parsed, outputs = arm == self.plan.family, shown if alike else ()
                material = pipeline.prepare(config, self.workspace, parsed=parsed, outputs=outputs)
                prints[arm] = dict(material.fingerprints)
        return fingerprint(prints)

    def trials(self, asked: list[dict[str, Any]], what: str, need: Any = None) -> list[Entry]:
        """Run the unfinished ones of `asked`; all of them have finished afterwards."""
        from vse.sweeps.experiment import Need, require_finished, run_sweep

        if self.ledger.pending(asked):
            if not self.worked:
                self.worked = True
                self.make_adversaries()
            self.connect()
        entries = run_sweep(
            self.ledger,
            asked,
            functools.partial(run_trial, setting=self.setting),
            need=need or Need(),
            concurrency=self.side_by_side(),
            available=self.most(),
            label=what,
            on_end=self.tell_child,
        )
        require_finished(entries, f"{what} trials", self.ledger)
        return entries

    def side_by_side(self) -> int:
        """As the user said; else one trial a core where Ray is started here (it offers one more than there are)."""
        wished = self.request.options.sweep.concurrency
        here = cluster_address(self.request.options.ray) is None
        return wished or (max(1, usable_cores() // self.plan.config.train.threads) if here else 0)

    def most(self) -> dict[str, float] | None:
        """What a launched cluster can grow to: its GPU nodes come when trials ask for them."""
        return None if cluster_address(self.request.options.ray) is None else largest_cluster()[0]

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

    def journal(self, *below: str) -> Journal:
        """The journal of the sweep's run, or of a run below it; kept on this machine first where the folder is not."""
        scratch = self.workspace.cache().local("journals") / self.name
        return open_in(self.folder.child(*below), scratch.joinpath(*below))

    def tell_parent(self) -> None:
        """The parent run, so that trackers know it before its children."""
        journal = self.journal()
        story = read(journal.path)
        if story.run and story.status == "finished":
            return
        versions = {f"version.{name}": version for name, version in environment()["versions"].items()}
        journal.start(self.name, name=self.name, tags={"kind": "alpha sweep", **versions})
        journal.params(
            {**flatten(self.plan.config), **flatten(self.request.options), "rule": self.plan.definition()["rule"]}
        )
        journal.artifact(journal.path.parent / "definition.json")

    def tell_child(self, entry: Entry) -> None:
        """The run of one α or measure trial, told once and whole; trainings tell of themselves."""
        changes = entry.changes
        if changes["kind"] not in ("alpha", "measure"):
            return
        journal = self.journal("trials", entry.id)
        if read(journal.path).status == "finished":
            return
        shown = {key: value for key, value in changes.items() if key in ("arm", "seed", ALPHA)}
        name = label(shown) if changes["kind"] == "alpha" else f"{changes['arm']} seed={changes['seed']}"
        tags = {"kind": changes["kind"], "attempts": entry.attempts}
        journal.start(child_id(self.name, changes), name=name, parent=self.name, tags=tags)
        journal.params({key: value for key, value in changes.items() if key != "kind"})
        if entry.state == "finished":
            journal.metrics({**entry.result["metrics"], "cost/seconds": entry.seconds}, step=0)
            if "alpha" in entry.result:
                journal.metrics({"alpha": entry.result["alpha"]}, step=0)
            journal.end("finished")
        else:
            journal.note(entry.error.rsplit("\n", 1)[-1])
            journal.end("failed")


def _reported(folder: Folder, results: str) -> bool:
    """Whether the report of exactly these results is there."""
    if not folder.exists(SUMMARY):
        return False
    try:
        summary = folder.read_json(SUMMARY)
        files = summary["details"]["files"].items()
    except (InputError, KeyError, TypeError):  # damaged on its disk
        return False
    whole = all(folder.exists(name) and folder.entry(name) == entry for name, entry in files)
    return whole and summary["fingerprints"].get("results") == results


def _entries(folder: Folder, outputs: Mapping[str, str]) -> dict[str, Any]:
    """Size and checksum of what was reported, so that a later call knows whether it is still whole."""
    names = [path.rsplit("/", 1)[-1] for path in outputs.values()]
    return {name: folder.entry(name) for name in names}


def _table(results: AlphaResults) -> list[dict[str, Any]]:
    from vse.report.tables import alpha_table

    return alpha_table(results).to_data()


def _report(sweep: _Sweep, results: AlphaResults, results_digest: str) -> dict[str, str]:
    """Figures, tables and the page in the sweep's folder, and all of it told to the parent run."""
    from vse.report.build import command_of, write_report

    plan, folder = sweep.plan, sweep.folder
    configuration = {arm: flatten(config) for arm, config in plan.arms.items()}
    names = write_report(folder, results, [command_of(sweep.request)], configuration, facts_of(sweep.ledger))
    journal = sweep.journal()
    journal.start(sweep.name, name=sweep.name, tags={"kind": "alpha sweep", "results": results_digest})
    for step, values in charted(results):
        journal.metrics(values, step=step)
    journal.metrics(headline(results), step=0)
    for name in names:
        journal.artifact(journal.path.parent / name)
    for seed, run in results.runs.get(plan.family, {}).items():
        _tell_checkpoint(journal, sweep.workspace.run(run), f"checkpoints/seed-{seed}")
    journal.end("finished")
    return {name.replace(".", "_"): f"{folder.uri}/{name}" for name in names}


def _tell_checkpoint(journal: Journal, run: Folder, under: str) -> None:
    """The kept checkpoint as artifacts: what it takes to embed, without the optimiser."""
    from vse.training.checkpoint import Checkpoints

    best = Checkpoints(run.child("checkpoints")).best()
    if best is not None and best.is_local:  # elsewhere the training's own run is where to look
        for name in best.names():
            if not name.startswith("optimizer"):
                journal.artifact(best.local(name), under)
