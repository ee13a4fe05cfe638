"""The long measurements, in slices: `python jobs/evidence.py study.name=robustness_scenes study.budget=3600`."""

import sys
import time
from dataclasses import dataclass, field

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.config import knob
from vse.errors import InputError
from vse.report.study_build import report_study
from vse.storage.folder import Folder
from vse.studies.findings import findings
from vse.studies.planner import Planner
from vse.studies.registered import STUDIES
from vse.studies.runner import run_tasks
from vse.studies.tasks import Task, code_of
from vse.tracking.shipping import ship_all
from vse.training.code import warning
from vse.workspace.layout import Workspace
from vse.workspace.provenance import command_line, usable_cores
from vse.workspace.summary import write_summary


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyOptions:
    """Which study, and how much of it now."""

    name: str = knob("robustness_scenes", "which study", choices=tuple(STUDIES))
    budget: float = knob(0.0, "seconds after which nothing new is started; 0: to the end", low=0)
    arms: tuple[str, ...] = knob((), "train only these arms now; empty: all")
    seeds: int = knob(0, "seeds per arm; 0: as registered", low=0)
    processes: int = knob(0, "trainings side by side; 0: one per core", low=0)
    root: str = knob("", "data.root of the photographs", reads="folder")
    weights: str = knob("", "features.backbone.weights of the photographs' backbone", reads="file")
    mean: tuple[float, ...] = knob((), "features.backbone.mean of these weights, empty: ImageNet's")
    std: tuple[float, ...] = knob((), "features.backbone.std of these weights, empty: ImageNet's")
    vectors: str = knob("", "text.word_vectors of the photographs' families; the floor model has none")
    out: str = knob("", "folder for the result; empty: `evidence` in the workspace", writes="folder")
    results: str = knob(
        "", "folder of the results of single trainings; empty: `evidence` in the workspace", reads="folder"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Keys of this job."""

    study: StudyOptions = field(default_factory=StudyOptions)


def run(request: Request) -> str:
    """Search, train, measure, answer; whatever is there already is not done again."""
    started, options = time.time(), request.options.study
    set_up_logging()
    workspace = Workspace.open(request.workspace).check_writable()
    study = STUDIES[options.name]
    given: dict[str, object] = {}
    if study.photographs:
        if not options.root or not options.weights:
            raise InputError("study.root and study.weights: name the photographs' folder and the backbone's weights")
        given = {
            "data.root": options.root,
            "data.file": "",
            "features.backbone.weights": options.weights,
        }
        if options.mean and options.std:
            given |= {"features.backbone.mean": options.mean, "features.backbone.std": options.std}
        if options.vectors:
            given["text.word_vectors"] = options.vectors
    out = Folder.open(options.out) if options.out else workspace.root.child("evidence")
    kept = Folder.open(options.results).uri if options.results else ""
    if options.seeds == 1:
        raise InputError("study.seeds=1: an interval needs two seeds; 0 takes as many as are registered")
    planner = Planner(study, workspace, given, options.seeds or study.seeds, kept, options.arms)
    processes = options.processes or usable_cores()
    deadline = time.monotonic() + options.budget if options.budget else float("inf")

    def say(line: str) -> None:
        print(f"{time.time() - started:7.0f} s  {line}", file=sys.stderr, flush=True)

    search, chosen = planner.searched(), planner.chosen()
    planned = [*search, *(task for each in planner.arm_tasks(chosen or {}).values() for task in each)]
    if line := warning(
        {task.name: code_of(task) for task in planned}, f"results of {study.name}", f"remove theirs from {planner.kept}"
    ):
        print(line, file=sys.stderr, flush=True)
    complete = run_tasks(search, processes, deadline, say)
    chosen = planner.chosen() if complete else None
    tasks: dict[str, list[Task]] = {}
    while chosen is not None:
        known, tasks = len(tasks), planner.arm_tasks(chosen)
        complete = run_tasks(planner.in_order(tasks), processes, deadline, say)
        if len(tasks) in (known, len(study.arms)):  # an arm that waits for another's seconds comes in a second round
            break
    outputs = {"workspace": workspace.root.uri}
    if planner.answerable(tasks):
        found = findings(planner, tasks, command_line())
        outputs |= report_study(found, study.arms, workspace, out.child(study.name))
        ship_all(request.workspace, request.tracking)
    return write_summary(
        workspace.root.child("evidence"),
        job="evidence",
        started=started,
        options=request.options,
        headline={"complete": complete, "study": study.name},
        outputs=outputs,
    )


if __name__ == "__main__":
    sys.exit(
        main(
            "evidence",
            run,
            description="Run a registered study in slices and answer its claims.",
            options=Options(),
        )
    )
