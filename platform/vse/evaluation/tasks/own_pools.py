"""Retrieval with an image's own contrastive captions among the candidates (VSE-C, section 4.1).

Each image ranks all true captions of the split and the adversaries of its own captions only: with five captions per
image, 5,000 + 100 for one class of adversaries and 5,000 + 300 for all three. The rank is the rank of its best caption.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse.adversaries.attacks import contrast_classes
from vse.adversaries.vsec.evaluation_sets import PER_CLASS, set_paradigms
from vse.adversaries.vsec.words import KINDS
from vse.evaluation import protocol
from vse.evaluation.attacks import OwnScores
from vse.evaluation.metrics import Metric, Ranks, RetrievalCounter, mean_over_folds, rank_metrics, refuse_nan
from vse.evaluation.retrieval import count_retrieval, slice_items
from vse.evaluation.task import Context
from vse.evaluation.tasks.attacks import behind, in_words
from vse.evaluation.tasks.contrast import VSEC, VSECTask
from vse.registry import register

RANKS = ("r1", "r10", "medr", "meanr")
NONE, ALL = "none", "all"
Choose = Callable[[np.ndarray, Mapping[str, np.ndarray]], np.ndarray]
"""(caption -> image, attack -> the caption of each adversary) -> the images that are chosen."""


def add_own(
    counter: RetrievalCounter, scores: Float[Tensor, " adversaries"], image: Int[Tensor, " adversaries"]
) -> RetrievalCounter:
    """A new counter with further adversaries, each of them a candidate only for its own image.

    Args:
        counter: Has counted the true captions, and perhaps other adversaries; it is not changed.
        scores: Score of each adversary with its image.
        image: Position of each adversary's image.

    Raises:
        Diverged: A score is NaN.
    """
    refuse_nan(scores)
    twin = counter.fork()
    limits = counter.limits()[0][image]
    above = (scores > limits[:, 1]).long()
    level = (scores >= limits[:, 0]).long()
    counts = torch.zeros(len(counter.limits()[0]), 2, dtype=torch.int64, device=scores.device)
    counts.index_add_(0, image, torch.stack((above, level), 1))
    twin.add_counts(slice(0, len(counts)), counts)
    return twin


def own_pool_ranks(
    counter: RetrievalCounter, own: Mapping[str, OwnScores], together: Iterable[str]
) -> dict[str, Ranks]:
    """Ranks of the images without adversaries (`none`), with each class of them, and with several classes (`all`).

    Args:
        counter: Has counted the true captions.
        own: By class, scores of the adversaries with their own images.
        together: Classes that make up `all`.
    """
    ranks, every, wanted = {NONE: counter.result().i2t}, counter, tuple(together)
    for name, each in own.items():
        ranks[name] = add_own(counter, each.scores, each.image).result().i2t
        if name in wanted:
            every = add_own(every, each.scores, each.image)
    return {**ranks, ALL: every.result().i2t}


def _name(head: str, pool: str, words: str) -> str:
    """Begins the names of the metrics of a pool, such as `complete/own_pool_noun/disjoint`."""
    return f"{head}own_pool_{pool}{behind(words)}"


def own_pool_values(head: str, words: str, folds: Sequence[Mapping[str, Ranks]]) -> dict[str, float]:
    """`<head>own_pool_noun/r1` and so on: means of `own_pool_ranks` over folds.

    Args:
        head: Begins the names, with its slash; empty for all images.
        words: Kind of words of the adversaries.
        folds: Ranks by pool of each fold; no values without a fold.
    """
    return {
        f"{_name(head, name, words)}/{metric}": value
        for name in (folds[0] if folds else ())
        for metric, value in mean_over_folds(fold[name].metrics() for fold in folds).items()
        if metric in RANKS
    }


def _record(context: Context, head: str, words: str, fold: int, pools: Mapping[str, Ranks]) -> None:
    """Keep what each image of a fold met in each pool, under the names of `own_pool_values`."""
    for name, ranks in pools.items():
        context.record(_name(head, name, words), fold, ranks)


def own_pool_list(head: str, title: str, pools: Iterable[str]) -> Iterator[Metric]:
    """The metrics of `own_pool_values`, for every kind of words.

    Args:
        head: Begins the names, with its slash.
        title: Stands before the pool in the rows of tables.
        pools: Names of the pools, such as `none` or a class.
    """
    for words in KINDS:
        for pool in pools:
            group = f"{title}own adversaries: {pool}{in_words(words)}"
            yield from rank_metrics(_name(head, pool, words), group, RANKS)


def chosen_pools(context: Context, label: str, choose: Choose, classes: Iterable[str], words: str) -> dict[str, float]:
    """`<label>/own_pool_noun/r1` and so on, with only some images and their captions as candidates.

    Args:
        context: The split that is measured.
        label: Begins the names of the metrics.
        choose: Returns the images. It is called for each fold, with the captions that the fold takes.
        classes: Classes of adversaries that are measured; together they make up `all`.
        words: Kind of words of the adversaries.

    Returns:
        Means over the folds in which an image is chosen. `<label>/images` is the number of images in all folds
        together.
    """
    pools, chosen, wanted = list[dict[str, Ranks]](), 0, tuple(classes)
    for number, (fold, own) in enumerate(zip(context.folds, context.own_scores(VSEC, words), strict=True)):
        rows = choose(fold.caption_to_image, {name: each.caption.cpu().numpy() for name, each in own.items()})
        chosen += len(rows)
        if not len(rows):
            continue  # nothing is asked in this fold: it counts for nothing in the mean
        kept = np.flatnonzero(np.isin(fold.caption_to_image, rows))
        images, captions = context.encoded(fold)
        caption_to_image = np.searchsorted(rows, fold.caption_to_image[kept])
        counter = count_retrieval(
            context.model, slice_items(images, rows), slice_items(captions, kept), caption_to_image
        )
        ranks = own_pool_ranks(counter, {n: _among(own[n], rows, kept) for n in wanted if n in own}, wanted)
        of_fold = {
            name: replace(each, queries=torch.as_tensor(rows, device=each.queries.device)[each.queries])
            for name, each in ranks.items()
        }
        _record(context, f"{label}/", words, number, of_fold)
        pools.append(ranks)
    return own_pool_values(f"{label}/", words, pools) | {f"{label}{behind(words)}/images": float(chosen)}


def _among(own: OwnScores, images: np.ndarray, captions: np.ndarray) -> OwnScores:
    """Adversaries of some images and captions, by their positions among these; both ascend."""
    rows, texts = (torch.as_tensor(each, device=own.image.device) for each in (images, captions))
    inside = torch.isin(own.caption, texts)
    return OwnScores(
        scores=own.scores[inside],
        caption=torch.searchsorted(texts, own.caption[inside]),
        image=torch.searchsorted(rows, own.image[inside]),
    )


def chosen_images(label: str, title: str) -> list[Metric]:
    """How many images `chosen_pools` chooses."""
    return [
        Metric(
            name=f"{label}{behind(words)}/images",
            heading="images",
            group=f"{title}{in_words(words)}",
            unit="",
            higher_is_better=None,
            decimals=0,
            summed=True,
        )
        for words in KINDS
    ]


def complete_images(
    caption_to_image: Int[np.ndarray, " captions"], attacked: Mapping[str, np.ndarray]
) -> Int[np.ndarray, " complete"]:
    """The images all of whose captions have twenty adversaries of each of the three classes; none without any."""
    nobody = np.empty(0, dtype=np.int64)
    by_class = {name: attacked.get(name, nobody) for name in contrast_classes()}
    return protocol.complete_images(caption_to_image, by_class, PER_CLASS)


@register("task", "own_pools")
class OwnPoolsTask(VSECTask):
    """VSE-C's adversaries of an image's own captions among its candidates, also on images with twenty of each class."""

    records_queries = True
    revision = 2  # 2: what each image met is kept

    def list_metrics(self) -> tuple[Metric, ...]:
        return (
            *own_pool_list("", "", (NONE, *set_paradigms(), ALL)),
            *chosen_images("complete", "complete images"),
            *own_pool_list("complete/", "complete images, ", (NONE, *contrast_classes(), ALL)),
        )

    def measure(self, context: Context) -> dict[str, float]:
        values = {}
        for words, _ in context.adversaries(VSEC, self.config.words):
            own = context.own_scores(VSEC, words)
            pools = [own_pool_ranks(*each, contrast_classes()) for each in zip(context.counters, own, strict=True)]
            for fold, ranks in enumerate(pools):
                _record(context, "", words, fold, ranks)
            values |= own_pool_values("", words, pools)
            values |= chosen_pools(context, "complete", complete_images, contrast_classes(), words)
        return values
