"""Runs a study task by task, each in a process of its own kind, and answers the registered claims from what is there.

A task is one training with its measurement. Its result is a file named by everything that makes it, so a study may be
stopped at any moment, continued, and given more seeds; a budget stops it cleanly between tasks. Results may be kept
outside the workspace: a study then goes on in another workspace, or on another machine, with what is missing.
"""

import io
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from vse import pipeline, presets
from vse.adversaries import attack_split, contrast_split, first_of_each
from vse.config import fingerprint, override, to_dict
from vse.errors import Diverged, InputError, did_you_mean
from vse.evaluation.alpha import evaluate_alphas
from vse.evaluation.attacks import Attacked, AttackSet, attack, own_pairs
from vse.evaluation.codes import Codes
from vse.evaluation.metrics import Retrieval, RetrievalCounter
from vse.evaluation.own_pool import evaluate_own_pool
from vse.evaluation.per_image import PerImage, own_pools, pair_accuracy, per_image
from vse.evaluation.retrieval import count_retrieval, retrieve
from vse.language.contrast.rules import CLASSES
from vse.models.family import Family
from vse.report.studies import Changes, Study, StudyArm
from vse.storage import Folder
from vse.trained import Trained, encode_adversaries, encode_split, load_run
from vse.training.code import Code, this_code
from vse.training.config import RunConfig
from vse.training.run import run_training
from vse.workspace import Workspace

WORDS = ("shared", "disjoint")
_KEY = ("split", "words", "alpha", "metric")
REVISION = 3  # of what is measured: adversaries included


@dataclass(frozen=True)
class Task:
    """One training: configuration, what to measure of it, and the name of its result file.

    `alphas` is empty for families without an alpha; `splits` is empty for trainings of the search, which have their
    validation numbers; `contrast`: so many of VSE-C's adversaries of each class and caption attack too; `transfers`:
    test splits of other data, a name and the changes that lead there. `results`: the folder of the result's files.
    """

    label: str
    config: RunConfig
    alphas: tuple[float, ...]
    splits: tuple[str, ...]
    workspace: str
    results: str
    contrast: int = 0
    transfers: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = ()

    @property
    def name(self) -> str:
        """Stable over restarts, workspaces and machines."""
        more = [each for each in (self.contrast, self.transfers) if each]
        return f"{self.label}-{fingerprint([REVISION, self.config, self.alphas, self.splits, *more])}"


def perform(task: Task) -> str:
    """Train, measure and write the result; runs in a worker process. Returns the task's name.

    A candidate of a search that diverges is one with an rsum of 0. An arm that does raises Diverged.
    """
    workspace, folder, measured_by = Workspace.open(task.workspace), Folder.open(task.results), this_code(task.config)
    try:
        result = run_training(task.config, workspace)
    except Diverged as error:
        if task.splits:
            raise
        found = {"label": task.label, "seed": task.config.seed, "diverged": str(error), "metrics": {"val/rsum": 0.0}}
        folder.write_json(f"{task.name}.json", {**found, "configuration": to_dict(task.config)})
        return task.name
    summary: dict[str, Any] = {
        "label": task.label,
        "seed": task.config.seed,
        "run": result.run,
        "seconds": result.seconds,
        "epochs": result.epochs,
        "metrics": result.metrics,
        "configuration": to_dict(task.config),
        "trained_by": result.trained_by,
        "measured_by": measured_by,
    }
    if task.splits:
        trained = load_run(result.folder)
        if isinstance(learned := getattr(trained.family, "alpha", None), Tensor):
            summary["learned_alpha"] = learned.item()
        tables, summary["alphas"] = _measure(task, workspace, trained)
        folder.write_bytes(f"{task.name}.parquet", _packed(tables))
    folder.write_json(f"{task.name}.json", summary)
    return task.name


def _measure(task: Task, workspace: Workspace, trained: Trained) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """(per-image tables by `split/words/alpha/metric`, validation metrics by alpha).

    Where each pair is scored by itself, adversaries among all images are most of the work: SCAN on scenes would take
    eleven minutes for them after three of training. There VSE-C's adversaries meet their own image alone, and only the
    first split is attacked.
    """
    material = pipeline.prepare(task.config, workspace, parsed=True)
    tables: dict[str, np.ndarray] = {}
    curves: dict[str, dict[str, float]] = {}
    pairwise = bool(trained.family.pairwise)
    for split in (*(("val",) if task.alphas else ()), *task.splits):
        codes = encode_split(trained, material, split)
        owner = codes.owner.cpu().numpy()
        counter = None if task.alphas else count_retrieval(trained.family, codes.images, codes.captions, owner)
        for words in WORDS if split != "val" else WORDS[:1]:
            attacked = not pairwise or split == task.splits[0]
            sets, contrast, alone = (dict[str, AttackSet]() for _ in range(3))
            if attacked:
                drawn = attack_split(task.config, workspace, material, split, words)
                sets = encode_adversaries(trained, drawn, material)
            if attacked and task.contrast and split != "val":
                others = contrast_split(task.config, workspace, material, split, words)
                contrast = encode_adversaries(trained, first_of_each(others, tuple(CLASSES), task.contrast), material)
                (alone if pairwise else sets).update({f"contrast_{name}": each for name, each in contrast.items()})
            found: dict[str, tuple[Any, Any]] = {}
            if counter is None:
                points = evaluate_alphas(trained.family, codes.images, codes.captions, owner, sets, task.alphas)
                found = {f"{p.alpha:g}": (p.retrieval, p.attacks) for p in points}
                if split == "val":
                    curves = {f"{p.alpha:g}": p.metrics(split) for p in points}
            else:
                attacks = {name: attack(trained.family, codes.images, counter, each) for name, each in sets.items()}
                found = {"none": (counter.result(), attacks)}
                tables |= _own_pairs(f"{split}|{words}", trained.family, codes, counter, alone)
            if split != "val":
                tables |= _tables(f"{split}|{words}", found, codes)
            if contrast:
                tables |= _own_pools(f"{split}|{words}", trained.family, codes, contrast, task.alphas)
    for name, changes in task.transfers:
        other = pipeline.prepare_transfer(task.config, dict(changes), workspace, material)
        codes = encode_split(trained, other, "test")
        if task.alphas:
            points = evaluate_alphas(trained.family, codes.images, codes.captions, codes.owner, {}, task.alphas)
            found = {f"{p.alpha:g}": (p.retrieval, p.attacks) for p in points}
        else:
            found = {"none": (retrieve(trained.family, codes.images, codes.captions, codes.owner), {})}
        for words in WORDS:  # nothing is attacked there: the same under either kind of words
            tables |= _tables(f"{name}|{words}", found, codes)
    return tables, curves


def _tables(
    head: str, found: Mapping[str, tuple[Retrieval, Mapping[str, Attacked]]], codes: Codes
) -> dict[str, np.ndarray]:
    owner, num_images = codes.owner.cpu().numpy(), len(next(iter(codes.images.values())))
    return {
        f"{head}|{alpha}|{metric}": value
        for alpha, (retrieval, attacked) in found.items()
        for metric, value in per_image(retrieval, attacked, owner, num_images).items()
    }


def _own_pairs(
    head: str, family: Family, codes: Codes, counter: RetrievalCounter, sets: Mapping[str, AttackSet]
) -> dict[str, np.ndarray]:
    num_images = len(next(iter(codes.images.values())))
    return {
        f"{head}|none|{metric}": value
        for name, each in sets.items()
        for metric, value in pair_accuracy(name, *own_pairs(family, codes.images, counter, each), num_images).items()
    }


def _own_pools(
    head: str, family: Family, codes: Codes, sets: Mapping[str, AttackSet], alphas: Sequence[float]
) -> dict[str, np.ndarray]:
    owner, num_images = codes.owner.cpu().numpy(), len(next(iter(codes.images.values())))
    tables: dict[str, np.ndarray] = {}
    for alpha in alphas or (None,):
        settings, name = (None, "none") if alpha is None else ({"alpha": alpha}, f"{alpha:g}")
        pools = evaluate_own_pool(family, codes.images, codes.captions, owner, sets, settings=settings).folds[0]
        tables |= {f"{head}|{name}|{m}": v for m, v in own_pools({k: pools[k] for k in sets}, num_images).items()}
    return tables


def _packed(tables: Mapping[str, np.ndarray]) -> bytes:
    """One row an image and metric, as Parquet: small, and open to any reader."""
    columns: dict[str, list[Any]] = {name: [] for name in (*_KEY, "image", "hits", "queries")}
    for name, table in tables.items():
        for key, value in zip(_KEY, name.split("|"), strict=True):
            columns[key].append(np.full(len(table), value, dtype=object))
        columns["image"].append(np.arange(len(table), dtype=np.int32))
        columns["hits"].append(table[:, 0])
        columns["queries"].append(table[:, 1].astype(np.int32))
    sink, rows = io.BytesIO(), pa.table({name: np.concatenate(parts) for name, parts in columns.items()})
    pq.write_table(rows, sink, compression="zstd", compression_level=19)
    return sink.getvalue()


def read_table(task: Task, split: str, words: str, alpha: str) -> PerImage:
    """The per-image table of a finished task."""
    data = Folder.open(task.results).read_bytes(f"{task.name}.parquet")
    asked = [("split", "=", split), ("words", "=", words), ("alpha", "=", alpha)]
    rows = pq.read_table(pa.BufferReader(data), columns=["metric", "hits", "queries"], filters=asked)  # keeps order
    metric = rows.column("metric").to_numpy()
    both = np.stack([rows.column(name).to_numpy().astype(np.float64) for name in ("hits", "queries")], axis=1)
    return {str(name): both[metric == name] for name in dict.fromkeys(metric.tolist())}


def read_summary(task: Task) -> dict[str, Any] | None:
    """The result of a task, None where it is not done."""
    folder = Folder.open(task.results)
    return folder.read_json(f"{task.name}.json") if folder.exists(f"{task.name}.json") else None


def code_of(task: Task) -> list[Code]:
    """By which code a task was trained and measured; empty where it is not done or does not say."""
    found = read_summary(task) or {}
    return [*found.get("trained_by", ()), *([found["measured_by"]] if "measured_by" in found else ())]


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
        arms = self.study.arms
        tasks = {name: each for name, each in tasks.items() if not self.only or name in self.only}
        parts: tuple[list[list[Task]], ...] = ([], [], [])
        for name, each in tasks.items():
            parts[0 if name in list(arms)[:2] else 1 if arms[name].longer else 2].append(each)
        return [task for part in parts for one_of_each in zip(*part, strict=True) for task in one_of_each]

    def answerable(self, tasks: dict[str, list[Task]]) -> bool:
        """Whether the arms of the claims are done."""
        first = [task for name in list(self.study.arms)[:2] for task in tasks.get(name, ())]
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


def run_tasks(tasks: Iterable[Task], processes: int, deadline: float, say: Callable[[str], None]) -> bool:
    """Do what is not done, `processes` at a time, starting nothing after `deadline` (monotonic); True if all is done.

    A task that fails is reported and leaves the others alone. Where a process is killed, as for want of memory, the
    tasks that ran then are done once more, after the others: nobody says whose process it was.
    """
    todo = [task for task in tasks if read_summary(task) is None]
    complete, waiting, again = True, list(reversed(todo)), list[Task]()
    while waiting:
        # A few tasks a process: memory that trainings leave behind goes back to the system when it ends.
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), max_tasks_per_child=4) as pool:
            for task, error, running in _performed(partial(pool.submit, perform), waiting, processes, deadline):
                state = "done" if error is None else f"failed: {error!r}"
                if isinstance(error, BrokenProcessPool) and task not in again:
                    again.append(task)
                    waiting.insert(0, task)
                    state = "a process was killed; once more at the end"
                else:
                    complete = complete and error is None
                say(f"{task.label} seed {task.config.seed}: {state}, {len(waiting) + running} to go")
        if time.monotonic() >= deadline:
            break
    return complete and not waiting


def _performed(
    start: Callable[[Task], Future[str]], waiting: list[Task], processes: int, deadline: float
) -> Iterator[tuple[Task, BaseException | None, int]]:
    """(task, its error, how many still run) as tasks end. They are taken from the end of `waiting`, none any more after
    a process was killed."""
    running, broken = dict[Future[str], Task](), False
    while True:
        while waiting and not broken and len(running) < processes and time.monotonic() < deadline:
            try:
                future = start(waiting[-1])
            except BrokenProcessPool:
                broken = True
            else:
                running[future] = waiting.pop()
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            task, error = running.pop(future), future.exception()
            broken = broken or isinstance(error, BrokenProcessPool)
            yield task, error, len(running)
