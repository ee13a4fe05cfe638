"""Long searches of a split in shards of its images, scored by tasks of a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float32

from vse.config import fingerprint
from vse.evaluation.shards import shards_of, worth_shards
from vse.evaluation.work import Arrays, Work
from vse.inference.embedder import IMAGES_AT_ONCE, Embedder
from vse.inference.inputs import SplitData
from vse.stages.measuring.work import computed_on_cluster
from vse.stages.trained import device_of
from vse.training.examples import Texts
from vse.workspace.layout import Workspace

IMAGES_OF_A_SHARD = 4 * IMAGES_AT_ONCE  # whole blocks, so that the scores are those of one process


@dataclass(frozen=True, eq=False)
class SearchWork(Work):
    """Scores of a split's images for sentences, in shards of `IMAGES_OF_A_SHARD` images.

    Args:
        workspace: Its address.
        run: Name of the run.
        split: Name of the split.
        sentences: Queries.
        alpha: Weight of u_sent; None: as configured.
        inputs: Fingerprints of weights, records and features.
    """

    workspace: str
    run: str
    split: str
    sentences: tuple[str, ...]
    alpha: float | None
    inputs: Mapping[str, str]

    @cached_property
    def digits(self) -> str:
        return fingerprint([self.run, self.split, self.sentences, self.alpha, dict(self.inputs)])

    def compute(self, number: int, device: torch.device) -> Arrays:
        embedder, data, texts = _opened(self)
        first = number * IMAGES_OF_A_SHARD
        return {"scores": embedder.scores_of([data.array(first, first + IMAGES_OF_A_SHARD)], texts, self.alpha)}


_last: dict[str, tuple[Embedder, SplitData, Texts]] = {}  # what this process opened, by digits of the work


def _opened(work: SearchWork) -> tuple[Embedder, SplitData, Texts]:
    """Run, data and read sentences of a search; opened at the first shard that this process scores."""
    if work.digits not in _last:
        _last.clear()
        workspace = Workspace.open(work.workspace)
        embedder = Embedder.of_run(workspace, work.run)
        data = SplitData.of(embedder, workspace, work.split)
        _last[work.digits] = embedder, data, embedder.read(work.sentences)
    return _last[work.digits]


def split_scores(
    embedder: Embedder, data: SplitData, run: str, sentences: tuple[str, ...], alpha: float | None
) -> Float32[np.ndarray, "images sentences"]:
    """Scores of the images of a split for sentences: by tasks of the cluster if they take long and it has other nodes
    or GPUs that this process lacks, else in this process. The numbers are the same.

    Args:
        embedder: With the run.
        data: The split.
        run: Name of the run.
        sentences: Queries.
        alpha: Weight of u_sent; None: as configured.

    Raises:
        Diverged: A score is NaN or infinite.
        InputError: A node does not see the workspace.
    """
    images = len(data.part.images)
    if worth_shards(bool(embedder.trained.family.pairwise), images, len(sentences)):
        inputs = {"weights": embedder.trained.weights, **data.fingerprints}
        address = data.workspace.root.uri
        work = SearchWork(address, run, data.part.name, sentences, alpha, inputs)
        jobs = [(work, shard) for shard in range(len(shards_of(images, IMAGES_OF_A_SHARD)))]
        found = computed_on_cluster(jobs, device_of("auto"), "search shards", any_device=True, workspace=address)
        if found is not None:
            return np.concatenate([each["scores"] for each in found])
    return embedder.scores_of([data.array()], embedder.read(sentences), alpha)
