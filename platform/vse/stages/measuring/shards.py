"""Shards of an evaluation: what other processes need to count them, and the counters that they add up to.

Each process opens the runs by itself from the workspace, and encodes what it scores. Finished shards are kept next to
the numbers of the run until these are written, so a killed evaluation continues.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from vse.config import fingerprint
from vse.data.records import Split
from vse.evaluation import shards
from vse.evaluation.attacks import AnySet, Attacked, OwnScores, restrict
from vse.evaluation.metrics import RetrievalCounter
from vse.evaluation.retrieval import Blocks, Encoded, ScoresParts, spans
from vse.evaluation.task import Context
from vse.evaluation.work import Arrays, Work, name_of
from vse.stages.measuring.context import context_of
from vse.stages.measuring.plan import REVISION, MeasurePlan, shared_options
from vse.stages.measuring.request import MeasureRequest, request_of
from vse.stages.measuring.work import computed
from vse.storage.folder import Folder

KEPT_CODES = 2**30  # bytes of codes that a process keeps between shards, instead of encoding them again
Attack = tuple[str, str, str]
"""Kind, words and name."""


class FoldCoder(shards.Coder):
    """A fold of a split as the runs of a measurement encode it."""

    def __init__(self, plan: MeasurePlan, split: str, fold: int, device: torch.device) -> None:
        members = replace(plan.members, scored=None)
        for member in members.each:
            member.trained.to(device)
        (part,) = (part for part in plan.parts if part.name == split)
        self._members, self._device = members, device
        self._context = context_of(plan, part, plan.tasks, members)
        self._fold = self._context.folds[fold]
        self._ids = [part.images[row].id for row in self._fold.images]
        self._texts = [part.captions[row].text for row in self._fold.captions]
        self._codes: dict[tuple[str, int], Encoded] = {}
        self._room = KEPT_CODES

    @property
    def model(self) -> ScoresParts:
        return self._members.model

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def caption_to_image(self) -> np.ndarray:
        return self._fold.caption_to_image

    @property
    def num_images(self) -> int:
        return len(self._ids)

    def images(self, rows: np.ndarray) -> Encoded:
        return self._members.encode_images(tuple(self._ids[row] for row in rows))

    def captions(self, rows: slice) -> Encoded:
        return self._kept(("captions", rows.start), lambda: self._members.encode_captions(self._texts[rows]))

    def adversaries(self, attack: str) -> AnySet:
        kind, words, name = attack.split("/")
        return restrict(self._context.known[kind, words].sets[name], self._fold)

    def image_blocks(self) -> Iterator[tuple[slice, Encoded]]:
        for rows in spans(self.num_images, Blocks().images):
            positions = np.arange(rows.start, rows.stop)
            yield rows, self._kept(("images", rows.start), lambda positions=positions: self.images(positions))

    def _kept(self, key: tuple[str, int], encode: Callable[[], Encoded]) -> Encoded:
        """Codes that this process has kept, or new ones, which are kept while there is room."""
        if key in self._codes:
            return self._codes[key]
        codes = encode()
        size = sum(value.nbytes for value in codes.values())
        if size <= self._room:
            self._room -= size
            self._codes[key] = codes
        return codes


_plans: dict[str, MeasurePlan] = {}  # of the measurement that this process makes, by digits of its request
_coders: dict[tuple[str, str, int, str], FoldCoder] = {}  # the last one of this process


def coder_of(request: MeasureRequest, split: str, fold: int, device: torch.device) -> FoldCoder:
    """The coder of a fold in this process, created at the first call. Only the last one is kept.

    Args:
        request: What is measured; another process than the driver makes a plan of it.
        split: Name of the split.
        fold: Its number, from 0.
        device: Where codes are computed and scored.
    """
    key = (request.digits, split, fold, str(device))
    if key not in _coders:
        _coders.clear()
        _coders[key] = FoldCoder(_plans.get(request.digits) or request.plan(), split, fold, device)
    return _coders[key]


@dataclass(frozen=True, eq=False)
class ShardWork(Work):
    """Shards of a fold: true pairs, or their counts given all of them, or those of an attack.

    Args:
        request: What is measured.
        split: Of the data.
        fold: Its number.
        key: Fingerprint of all that decides the results.
        size: Captions or adversaries of a shard.
        pairs: Scores of all true pairs; None to compute those of a shard.
        attack: Kind, words and name of an attack, joined by slashes; empty for true captions.
    """

    request: MeasureRequest
    split: str
    fold: int
    key: str
    size: int
    pairs: np.ndarray | None = None
    attack: str = ""

    @cached_property
    def digits(self) -> str:
        return fingerprint([self.key, self.split, self.fold, self.size, self.pairs is None, self.attack])

    def compute(self, number: int, device: torch.device) -> Arrays:
        coder = coder_of(self.request, self.split, self.fold, device)
        if self.pairs is None:
            return shards.true_pairs(coder, number, self.size)
        if self.attack:
            return shards.attack_counts(coder, self.pairs, self.attack, number, self.size)
        return shards.counts(coder, self.pairs, number, self.size)


class ShardedScores:
    """Counters of the folds of a split that shards add up to; the `Shards` of a context.

    Args:
        plan: The measurement.
        context: Of the split.
        folder: Where finished shards are kept.
    """

    def __init__(self, plan: MeasurePlan, context: Context, folder: Folder) -> None:
        self.plan, self.context, self.folder = plan, context, folder
        self._request = request_of(plan)
        self._names, self._size = list[str](), shards.CAPTIONS_AT_ONCE
        _plans[self._request.digits] = plan

    def counter(self, fold: int) -> RetrievalCounter:
        """Counted retrieval between the images and the true captions of a fold."""
        own = torch.as_tensor(self.context.folds[fold].caption_to_image, dtype=torch.int64, device=self.plan.device)
        number = len(shards.shards_of(len(own), self._size))
        results = self._computed(self._work(fold), number, "score true pairs of shards")
        pairs = torch.from_numpy(np.concatenate([result["pairs"] for result in results])).to(self.plan.device)
        counter = RetrievalCounter(pairs, own, len(self.context.folds[fold].images))
        work = self._work(fold, pairs.cpu().numpy())
        return shards.added(counter, self._computed(work, number, "count shards"), self._size)

    def attacked(
        self, fold: int, counter: RetrievalCounter, attack: Attack, adversaries: AnySet
    ) -> tuple[Attacked, OwnScores]:
        """What an attack adds to the counter of a fold.

        Args:
            fold: Its number, from 0.
            counter: Retrieval of the fold among true captions, from `counter`.
            attack: Its kind, words and name.
            adversaries: Of the captions of the fold.

        Returns:
            Ranks under the attack, and the score of each adversary with the image of its caption.
        """
        work = self._work(fold, counter.pairs.cpu().numpy(), "/".join(attack))
        number = len(shards.adversary_shards(adversaries, self._size))
        return shards.attacked(counter, adversaries, self._computed(work, number, "count attacked shards"), self._size)

    def forget(self) -> None:
        """Delete the finished shards: the numbers that they led to are kept."""
        _plans.clear()
        _coders.clear()
        for name in self._names:
            self.folder.delete(f"{name}.npz")

    def _work(self, fold: int, pairs: np.ndarray | None = None, attack: str = "") -> ShardWork:
        split = self.context.split.name
        return ShardWork(self._request, split, fold, self._key(split, attack), self._size, pairs, attack)

    def _key(self, split: str, attack: str) -> str:
        plan = self.plan
        prints, options = plan.fingerprints, shared_options(plan.options)
        members = [[each.trained.weights, dict(each.material.fingerprints)] for each in plan.members.each]
        kind = f"{split}/{attack.rpartition('/')[0]}"
        return fingerprint(
            [
                REVISION,
                {name: value for name, value in options.items() if name not in ("device", "splits")},
                members,
                [prints[split], plan.protocols[split], prints[kind] if attack else ""],
            ]
        )

    def _computed(self, work: ShardWork, number: int, title: str) -> list[Arrays]:
        jobs = [(work, shard) for shard in range(number)]
        self._names += map(name_of, jobs)
        free = self.plan.options.device == "auto"
        workspace = self._request.workspace
        return computed(jobs, self.plan.device, self.folder, title, any_device=free, workspace=workspace)


def shards_for(plan: MeasurePlan, context: Context, folder: Folder) -> ShardedScores | None:
    """The shards of a split whose scores take long; None if they are counted faster at once.

    Args:
        plan: The measurement.
        context: Of the split.
        folder: Where finished shards are kept.
    """
    return ShardedScores(plan, context, folder) if is_sharded(plan, context.split) else None


def is_sharded(plan: MeasurePlan, part: Split) -> bool:
    """Whether the scores of a split take so long that they are counted in shards."""
    if not part.name:
        return False
    pairwise = any(member.trained.family.pairwise for member in plan.members.each)
    folds = plan.protocols[part.name].select(part.caption_to_image, len(part.images))
    return any(shards.worth_shards(pairwise, len(fold.images), len(fold.captions)) for fold in folds)
