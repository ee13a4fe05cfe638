"""The trainings of a study: its search, then its arms seed by seed, which depend on earlier results."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vse import presets
from vse.config import override
from vse.errors import InputError, did_you_mean
from vse.studies.study import Changes, Study, StudyArm
from vse.studies.trainings import Training, TrainingArchive
from vse.training.config import RunConfig


@dataclass(frozen=True)
class Planner:
    """Turns a study into trainings. Raises InputError for an arm that the study does not have."""

    study: Study
    archive: TrainingArchive  # results so far
    given: Changes  # what the user sets for every run, such as data.root
    seeds: int
    only: tuple[str, ...] = ()  # arms to train now; empty: all

    def __post_init__(self) -> None:
        if unknown := [name for name in self.only if name not in self.study.arms]:
            near = did_you_mean(unknown[0], self.study.arms) or f"it has {', '.join(self.study.arms)}"
            raise InputError(f"study.arms: {self.study.name} has no arm {unknown[0]!r}; {near}")

    def candidates(self) -> dict[str, list[list[Training]]]:
        """Family -> for each candidate of the search its trainings: one, or one per fold, of the family's first arm."""
        searches: dict[str, list[list[Training]]] = {}
        for family, candidates in self.study.search.items():
            own = [(name, a) for name, a in self.study.arms.items() if a.family == family]
            if self.only and not any(name in self.only for name, _ in own):
                continue
            arm = own[0][1]
            folds: list[Changes] = [{"data.folds": self.study.folds, "data.fold": k} for k in range(self.study.folds)]
            searches[family] = [
                [
                    Training(
                        f"search-{family}-{k}",
                        self._config(arm, {**arm.changes, **changes, **fold}, self.study.search_seed),
                    )
                    for fold in folds or [{}]
                ]
                for k, changes in enumerate(candidates)
            ]
        return searches

    def search(self) -> list[Training]:
        """All trainings of the search."""
        return [each for searches in self.candidates().values() for trainings in searches for each in trainings]

    def chosen(self) -> dict[str, dict[str, Any]] | None:
        """Family -> {changes, val_rsum of all candidates}; None while the search is not finished."""
        chosen: dict[str, dict[str, Any]] = {}
        for family, candidates in self.candidates().items():
            scores = []
            for trainings in candidates:
                done = self.summaries(trainings)
                if len(done) < len(trainings):
                    return None
                scores.append(float(np.mean([summary["metrics"]["val/rsum"] for summary in done])))
            best = int(np.argmax(scores))
            chosen[family] = {"changes": dict(self.study.search[family][best]), "val_rsum": scores}
        return chosen

    def arms(self, chosen: dict[str, dict[str, Any]]) -> dict[str, list[Training]]:
        """Arm -> one training per seed. An arm that trains as long as another needs the other's seconds first."""
        trainings: dict[str, list[Training]] = {}
        for name, arm in self.study.arms.items():
            if arm.family in self.study.search and arm.family not in chosen:
                continue  # only other arms are to be trained now
            changes = {**chosen.get(arm.family, {"changes": {}})["changes"], **arm.changes}
            if arm.longer:
                factor = self._factor(arm, trainings)
                if factor is None:
                    continue
                changes["train.epochs"] = max(1, round(factor * self._config(arm, changes, 0).train.epochs))
            transfers = tuple((split, tuple(other.items())) for split, other in self.study.transfers.items())
            trainings[name] = [
                Training(
                    name,
                    self._config(arm, changes, seed),
                    arm.alphas,
                    self.study.splits,
                    self.study.contrast,
                    transfers,
                )
                for seed in range(self.seeds)
            ]
        return trainings

    def in_order(self, arms: dict[str, list[Training]]) -> list[Training]:
        """The arms that answer the claims first, then the arms of equal time, then the others; each seed by seed."""
        parts: tuple[list[list[Training]], ...] = ([], [], [])
        for name, trainings in arms.items():
            if not self.only or name in self.only:
                first = name in self.study.answering
                parts[0 if first else 1 if self.study.arms[name].longer else 2].append(trainings)
        return [training for part in parts for one_of_each in zip(*part, strict=True) for training in one_of_each]

    def answerable(self, arms: dict[str, list[Training]]) -> bool:
        """Whether the arms that answer the claims are done."""
        first = [training for name in self.study.answering for training in arms.get(name, ())]
        return bool(first) and len(self.summaries(first)) == len(first)

    def summaries(self, trainings: Iterable[Training]) -> list[dict[str, Any]]:
        """The summaries of the trainings that are done."""
        return [summary for each in trainings if (summary := self.archive.summary(each)) is not None]

    def _factor(self, arm: StudyArm, arms: dict[str, list[Training]]) -> float | None:
        """How many times as long as `arm`'s plain twin the arm `arm.longer` trains: the median ratio over seeds."""
        same = next(n for n, a in self.study.arms.items() if a.preset == arm.preset and not a.longer and not a.changes)
        seconds = [[each["seconds"] for each in self.summaries(arms.get(name, ()))] for name in (arm.longer, same)]
        if any(len(each) < self.seeds for each in seconds):
            return None
        return float(np.median([longer / shorter for longer, shorter in zip(*seconds, strict=True)]))

    def _config(self, arm: StudyArm, changes: Changes, seed: int) -> RunConfig:
        return override(presets.preset(arm.preset), {**self.study.data, **self.given, **changes, "seed": seed})
