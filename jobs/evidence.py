"""The long measurements, in slices: `python jobs/evidence.py study.name=robustness_scenes study.budget=3600`."""

import sys
import time
from dataclasses import dataclass, field

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.config import knob
from vse.errors import InputError
from vse.report.study_page import report_study
from vse.storage.folder import Folder
from vse.studies.findings import findings
from vse.studies.planner import Planner
from vse.studies.registered import STUDIES
from vse.studies.runner import run_trainings
from vse.studies.study import Study
from vse.studies.trainings import Training, TrainingArchive
from vse.tracking.shipping import ship_all
from vse.training.code import warning
from vse.workspace.layout import Workspace
from vse.workspace.provenance import command_line, usable_cores


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyOptions:
    """Which study to run, and how much of it now."""

    name: str = knob("robustness_scenes", "which study", choices=tuple(STUDIES))
    budget: float = knob(0.0, "seconds after which nothing new is started; 0: to the end", low=0)
    arms: tuple[str, ...] = knob((), "train only these arms now; empty: all")
    seeds: int = knob(0, "seeds per arm; 0: as registered", low=0)
    processes: int = knob(0, "trainings at a time; 0: one per core", low=0)
    root: str = knob("", "data.root of the photographs", reads="folder")
    weights: str = knob("", "features.backbone.weights of the photographs' backbone", reads="file")
    mean: tuple[float, ...] = knob((), "features.backbone.mean of these weights, empty: ImageNet's")
    std: tuple[float, ...] = knob((), "features.backbone.std of these weights, empty: ImageNet's")
    vectors: str = knob("", "text.word_vectors of the photographs' families; the floor model has none")
    out: str = knob(
        "", "folder whose NAME/ has trainings.zip and results; empty: `evidence` in the workspace", writes="folder"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceOptions:
    """Keys of this job."""

    study: StudyOptions = field(default_factory=StudyOptions)


def given_by_user(options: StudyOptions, study: Study) -> dict[str, object]:
    """Settings of every run of a study on photographs. Raises InputError if folder or weights are missing."""
    if not study.photographs:
        return {}
    if not options.root or not options.weights:
        raise InputError("study.root and study.weights: name the photographs' folder and the backbone's weights")
    given: dict[str, object] = {
        "data.root": options.root,
        "data.file": "",
        "features.backbone.weights": options.weights,
    }
    if options.mean:
        given["features.backbone.mean"] = options.mean
    if options.std:
        given["features.backbone.std"] = options.std
    return given | ({"text.word_vectors": options.vectors} if options.vectors else {})


def run(request: Request) -> str:
    """Search, train, measure and answer the claims. Results in `trainings.zip` are not computed again."""
    options = request.options.study
    set_up_logging()
    workspace = Workspace.open(request.workspace).check_writable()
    study = STUDIES[options.name]
    if options.seeds == 1:
        raise InputError("study.seeds=1: an interval needs two seeds; 0 takes as many as are registered")
    given = given_by_user(options, study)
    out = (Folder.open(options.out) if options.out else workspace.root.child("evidence")).child(study.name)
    archive = TrainingArchive(out)
    planner = Planner(study, archive, given, options.seeds or study.seeds, options.arms)
    deadline = time.monotonic() + options.budget if options.budget else float("inf")

    def run_missing(trainings: list[Training]) -> bool:
        return run_trainings(
            trainings,
            archive,
            workspace.root.uri,
            processes=options.processes or usable_cores(),
            deadline=deadline,
            say=lambda line: print(f"{time.time() - request.started:7.0f} s  {line}", file=sys.stderr, flush=True),
        )

    search, chosen = planner.search(), planner.chosen()
    planned = [*search, *(training for each in planner.arms(chosen or {}).values() for training in each)]
    code = {training.name: archive.code_of(training) for training in planned}
    if line := warning(code, f"results of {study.name}", f"delete their entries from {archive.address}"):
        print(line, file=sys.stderr, flush=True)
    complete = run_missing(search)
    chosen = planner.chosen() if complete else None
    arms: dict[str, list[Training]] = {}
    while chosen is not None:
        before, arms = len(arms), planner.arms(chosen)
        complete = run_missing(planner.in_order(arms))
        if len(arms) in (before, len(study.arms)):  # an arm that needs another's seconds is trained in a second round
            break
    outputs = {"workspace": workspace.root.uri, "trainings": archive.address}
    if planner.answerable(arms):
        outputs |= report_study(findings(planner, arms, command_line()), study.arms, workspace, out)
        ship_all(request.workspace, request.tracking)
    return request.write_summary(
        workspace.root.child("evidence"),
        headline={"complete": complete, "study": study.name},
        outputs=outputs,
    )


if __name__ == "__main__":
    sys.exit(
        main(
            "evidence",
            run,
            description="Run a registered study in slices and answer its claims.",
            options=EvidenceOptions(),
        )
    )
