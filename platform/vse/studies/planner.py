"""What a study does next: its search, then its arms, seed by seed, as far as earlier results allow."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from vse import presets
from vse.config import override
from vse.errors import InputError, did_you_mean
from vse.studies.study import Changes, Study, StudyArm
from vse.studies.tasks import Task, read_summary
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace


@dataclass(frozen=True)
class Planner:
    """Turns a study into tasks, as far as earlier results allow. Raises InputError for an arm that it has not."""

    study: Study
    workspace: Workspace
    given: Changes  # what the user sets for every run, such as data.root
    seeds: int
    results: str = ""  # URI of a folder, "": `evidence` in the workspace
    only: tuple[str, ...] = ()  # arms to be done now; empty: all

    def __post_init__(self) -> None:
        if unknown := [name for name in self.only if name not in self.study.arms]:
            near = did_you_mean(unknown[0], self.study.arms) or f"it has {', '.join(self.study.arms)}"
            raise InputError(f"study.arms: {self.study.name} has no arm {unknown[0]!r}; {near}")

    @property
    def kept(self) -> str:
        """URI of the folder that keeps results of tasks."""
        return self.results or self.workspace.root.child("evidence").uri

    def search_tasks(self) -> dict[str, list[list[Task]]]:
        """Family -> for each candidate its trainings (one, or one a fold), of its first arm."""
        tasks: dict[str, list[list[Task]]] = {}
        for family, candidates in self.study.search.items():
            own = [(name, a) for name, a in self.study.arms.items() if a.family == family]
            if self.only and not any(name in self.only for name, _ in own):
                continue
            arm = own[0][1]
            folds: list[Changes] = [{"data.folds": self.study.folds, "data.fold": k} for k in range(self.study.folds)]
            tasks[family] = [
                [
                    self._task(
                        f"search-{family}-{k}", arm, {**arm.changes, **changes, **fold}, self.study.search_seed, False
                    )
                    for fold in folds or [{}]
                ]
                for k, changes in enumerate(candidates)
            ]
        return tasks

    def searched(self) -> list[Task]:
        """All trainings of the search."""
        return [task for each in self.search_tasks().values() for trainings in each for task in trainings]

    def chosen(self) -> dict[str, dict[str, Any]] | None:
        """Family -> {changes, scores of all candidates}; None while the search is not finished."""
        chosen: dict[str, dict[str, Any]] = {}
        for family, candidates in self.search_tasks().items():
            scores = []
            for trainings in candidates:
                done = [read_summary(task) for task in trainings]
                if any(one is None for one in done):
                    return None
                scores.append(float(np.mean([one["metrics"]["val/rsum"] for one in done if one is not None])))
            best = int(np.argmax(scores))
            chosen[family] = {"changes": dict(self.study.search[family][best]), "val_rsum": scores}
        return chosen

    def arm_tasks(self, chosen: dict[str, dict[str, Any]]) -> dict[str, list[Task]]:
        """Arm -> one task a seed; an arm that trains as long as another waits for that one's seconds."""
        tasks: dict[str, list[Task]] = {}
        for name, arm in self.study.arms.items():
            if arm.family in self.study.search and arm.family not in chosen:
                continue  # its search is not of the arms to be done now
            changes = {**chosen.get(arm.family, {"changes": {}})["changes"], **arm.changes}
            if arm.longer:
                factor = self._factor(arm, tasks)
                if factor is None:
                    continue
                epochs = self._config(arm, changes, 0).train.epochs
                changes["train.epochs"] = max(1, round(factor * epochs))
            tasks[name] = [self._task(name, arm, changes, seed, True) for seed in range(self.seeds)]
        return tasks

    def in_order(self, tasks: dict[str, list[Task]]) -> list[Task]:
        """The arms that answer the claims first, then those of equal wall clock, then the others; each seed by seed."""
        arms, first = self.study.arms, self.study.answering
        tasks = {name: each for name, each in tasks.items() if not self.only or name in self.only}
        parts: tuple[list[list[Task]], ...] = ([], [], [])
        for name, each in tasks.items():
            parts[0 if name in first else 1 if arms[name].longer else 2].append(each)
        return [task for part in parts for one_of_each in zip(*part, strict=True) for task in one_of_each]

    def answerable(self, tasks: dict[str, list[Task]]) -> bool:
        """Whether the arms of the claims are done."""
        first = [task for name in self.study.answering for task in tasks.get(name, ())]
        return bool(first) and all(read_summary(task) is not None for task in first)

    def _factor(self, arm: StudyArm, tasks: dict[str, list[Task]]) -> float | None:
        """How many times longer the other arm trains, seconds an epoch against seconds an epoch times epochs."""
        same = next(n for n, a in self.study.arms.items() if a.preset == arm.preset and not a.longer and not a.changes)
        if arm.longer not in tasks or same not in tasks:
            return None
        both = [[read_summary(task) for task in tasks[n]] for n in (arm.longer, same)]
        pairs = [(a["seconds"], b["seconds"]) for a, b in zip(*both, strict=True) if a and b]
        return None if len(pairs) < self.seeds else float(np.median([a / b for a, b in pairs]))

    def _config(self, arm: StudyArm, changes: Changes, seed: int) -> RunConfig:
        return override(presets.preset(arm.preset), {**self.study.data, **self.given, **changes, "seed": seed})

    def _task(self, label: str, arm: StudyArm, changes: Changes, seed: int, measured: bool) -> Task:
        config = self._config(arm, changes, seed)
        uri, results = self.workspace.root.uri, self.kept
        if not measured:
            return Task(label, config, (), (), uri, results)
        transfers = tuple((name, tuple(other.items())) for name, other in self.study.transfers.items())
        return Task(label, config, arm.alphas, self.study.splits, uri, results, self.study.contrast, transfers)
