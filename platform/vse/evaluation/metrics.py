"""Retrieval ranks by counting, never by sorting, from score blocks in any order.

A rank needs only the number of candidates that score above the best positive. Positives come first (they are few), then
every block of scores is compared with two limits per query and forgotten, so memory does not grow with the test set.

Ties: candidates within a tolerance of the best positive tie with it, and every figure is its expectation when tied
candidates are ordered at random. (The published code leaves ties to an unstable sort.) Ranks are 1-based.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse.errors import Diverged, InputError

RECALLS = (1, 5, 10)
WAYS = {"i2t": "image → sentence", "t2i": "sentence → image"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A number that a task measures, as tables, pages and MLflow have it.

    Args:
        name: Below the split: MLflow calls `i2t/r1` of the test split `test/i2t/r1`.
        heading: The column of a table.
        group: The row of a table, such as a direction or an attack; empty for the task as a whole.
        unit: Of the value; empty for ranks and numbers without one.
        higher_is_better: None if neither is.
        decimals: Digits after the point.
        terms: The metrics whose sum this one is.
        main: Whether a figure with room for few metrics shows it.
        summed: Whether it is added up over folds, as numbers of queries are, and not averaged.
    """

    name: str
    heading: str
    group: str = ""
    unit: str = "%"
    higher_is_better: bool | None = True
    decimals: int = 1
    terms: tuple[str, ...] = ()
    main: bool = True
    summed: bool = False

    @property
    def label(self) -> str:
        """The metric in words: `object attack, R@1`."""
        return f"{self.group}, {self.heading}" if self.group else self.heading


def count_metric(name: str, heading: str, group: str = "", *, decimals: int = 0, summed: bool = True) -> Metric:
    """A number of things that were measured, such as queries in all folds, not for figures with little room.

    Args:
        name: Below the split, as of `Metric`.
        heading: The column of a table.
        group: The row of a table; empty for the task as a whole.
        decimals: Digits after the point; not 0 for a mean of counts.
        summed: As of `Metric`; False for a number that every fold has alike, or for a mean of counts.
    """
    fixed = Metric(name=name, heading=heading, group=group, unit="", higher_is_better=None, main=False)
    return replace(fixed, decimals=decimals, summed=summed)


def rank_metrics(head: str, group: str, names: Iterable[str] = ("r1", "r5", "r10", "medr", "meanr")) -> list[Metric]:
    """The metrics of `Ranks.metrics` as a task lists them.

    Args:
        head: Begins their names, which are `<head>/r1` and so on.
        group: The row of a table.
        names: Those of them that the task measures; order does not matter.
    """
    recalls = [Metric(name=f"r{k}", heading=f"R@{k}") for k in RECALLS]
    ranks = [
        Metric(name=name, heading=heading, unit="", higher_is_better=False)
        for name, heading in (("medr", "Med r"), ("meanr", "Mean r"))
    ]
    return [replace(each, name=f"{head}/{each.name}", group=group) for each in (*recalls, *ranks) if each.name in names]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ties:
    """Scores within `tolerance` of the best positive tie with it: absolute up to a score of one, relative beyond.

    Tiles of a matrix product differ in their last bits, so equal pairs do not get equal scores. The bits weigh as much
    as the scores, which are cosines in most families and may be anything in others; a score near zero is a difference
    of greater numbers, so that nothing narrower would do there.
    """

    tolerance: float = 1e-6

    def limits(self, best: Float[Tensor, "*q"]) -> tuple[Float[Tensor, "*q"], Float[Tensor, "*q"]]:
        """(lowest score that still ties, highest score that still ties) for each best positive."""
        width = self.width(best)
        return best - width, best + width

    def width(self, score: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """How far from a score others still tie with it."""
        return self.tolerance * score.abs().clamp_min(1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranks:
    """What one direction's queries met: negatives above the best positive, and how many of each kind tie with it.

    `queries` are the positions of the queries among the images or captions that were evaluated.
    """

    queries: Int[Tensor, " q"]
    above: Int[Tensor, " q"]
    tied_negatives: Int[Tensor, " q"]
    tied_positives: Int[Tensor, " q"]

    def hits(self, k: int) -> Float[Tensor, " q"]:
        """Probability that a positive is among the first k, per query, under random order of the tied candidates.

        Of n tied negatives and p tied positives, the first j are all negative with C(n, j) / C(n + p, j).
        """
        room = k - self.above
        misses = torch.ones(len(self.above), dtype=torch.float64, device=self.above.device)
        for taken in range(k):
            negatives = (self.tied_negatives - taken).clamp_min(0).double()
            tied = (self.tied_negatives + self.tied_positives - taken).clamp_min(1).double()
            misses *= torch.where(room > taken, negatives / tied, 1.0)
        return 1.0 - misses

    def expected(self) -> Float[Tensor, " q"]:
        """Expected 1-based rank of the first positive: above + 1 + n / (p + 1)."""
        return self.above + 1.0 + self.tied_negatives.double() / (self.tied_positives + 1)

    def metrics(self) -> dict[str, float]:
        """r1, r5, r10 in percent, medr and meanr over the queries. Raises InputError when there is no query.

        medr is the median of the expected ranks, between the middle two where their number is even: ranks 1, 1, 2, 6
        give 1.5. Published ones are rounded down, to 1.
        """
        if len(self.queries) == 0:
            raise InputError("retrieval needs at least one image with a caption")
        values = {f"r{k}": 100.0 * self.hits(k).mean().item() for k in RECALLS}
        expected = self.expected()
        return {**values, "medr": expected.quantile(0.5).item(), "meanr": expected.mean().item()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Retrieval:
    """Ranks of both directions over one set of images and captions."""

    i2t: Ranks
    t2i: Ranks

    def metrics(self) -> dict[str, float]:
        """`i2t/r1` … `t2i/meanr` and `rsum`, the sum of the six recalls."""
        return with_rsum(
            {f"{way}/{name}": v for way in ("i2t", "t2i") for name, v in getattr(self, way).metrics().items()}
        )


def with_rsum(values: dict[str, float]) -> dict[str, float]:
    """`values` of both directions plus `rsum`, the sum of the six recalls."""
    return values | {"rsum": sum(values[f"{way}/r{k}"] for way in ("i2t", "t2i") for k in RECALLS)}


def rsum3(values: dict[str, float]) -> float:
    """Sum of R@1, R@5 and R@10 of one direction (what the papers' attack tables call rsum)."""
    return sum(values[f"r{k}"] for k in RECALLS)


def mean_over_folds(folds: Iterable[dict[str, float]], metrics: Iterable[Metric] = ()) -> dict[str, float]:
    """Mean of each metric over the folds that have it; the sum, if it is among `metrics` and `summed` there.

    Since rsum is a sum, its mean is the sum of the mean recalls. A fold without adversaries has no pair accuracy.
    """
    summed = {metric.name for metric in metrics if metric.summed}
    by_name: dict[str, list[float]] = {}
    for row in folds:
        for name, value in row.items():
            by_name.setdefault(name, []).append(value)
    return {name: sum(values) / (1 if name in summed else len(values)) for name, values in by_name.items()}


def by_image(values: np.ndarray, image: np.ndarray, num_images: int) -> np.ndarray:
    """(images, 2): the sum and the number of the values of each image.

    Args:
        values: A value of each query.
        image: The position of each query's image.
        num_images: Images in all, also without queries.
    """
    sums = np.bincount(image, weights=values, minlength=num_images)
    return np.stack((sums, np.bincount(image, minlength=num_images)), axis=1).astype(np.float64)


class RetrievalCounter:
    """Counts both directions from blocks of an images x captions score matrix, in any order and of any shape.

    `pairs[c]` is the score of caption `c` with its own image `caption_to_image[c]`; images may have any number of
    captions, also none. Every block of the matrix must be added exactly once. Complexity: four comparisons per score.
    Raises Diverged if a score is NaN, or a true pair's infinite: for a NaN on a GPU not in `add`, which would have to
    wait for the block, but in `check` and `result`.
    """

    def __init__(
        self,
        pairs: Float[Tensor, " captions"],
        caption_to_image: Int[Tensor, " captions"],
        num_images: int,
        ties: Ties | None = None,
    ) -> None:
        refuse_infinite(pairs)
        self.pairs, self.caption_to_image, self.ties = pairs, caption_to_image, ties or Ties()
        low, high = self.ties.limits(pairs)
        self._t2i_low, self._t2i_high = low, high
        best = pairs.new_full((num_images,), -torch.inf).scatter_reduce(0, caption_to_image, pairs, "amax")
        self._has_captions = torch.bincount(caption_to_image, minlength=num_images) > 0
        best = torch.where(self._has_captions, best, torch.inf)
        self._i2t_low, self._i2t_high = self.ties.limits(best)
        self._i2t_low = torch.where(self._has_captions, self._i2t_low, torch.inf)  # inf - inf is NaN
        self._positives = torch.zeros(num_images, dtype=torch.int64, device=pairs.device)
        self._positives.index_add_(0, caption_to_image, (pairs >= self._i2t_low[caption_to_image]).long())
        # columns: candidates above the highest tie, candidates not below the lowest tie; positives are left out
        self._i2t = torch.zeros(num_images, 2, dtype=torch.int64, device=pairs.device)
        self._t2i = torch.zeros(len(pairs), 2, dtype=torch.int64, device=pairs.device)
        self._highest = pairs.new_full((), -torch.inf, dtype=torch.float32)  # NaN once a score is

    def add(self, scores: Float[Tensor, "rows cols"], rows: slice, cols: slice) -> None:
        """Count a block of the matrix.

        Args:
            scores: Scores of the block; not changed.
            rows: Positions of its images.
            cols: Positions of its captions.
        """
        self.watch(scores)
        row, inside = own_rows(self.caption_to_image[cols], rows)
        true = scores.gather(0, row[None])[0]
        i2t, t2i = self._i2t[rows], self._t2i[cols]
        for k, (i2t_limit, t2i_limit) in enumerate(((self._i2t_high, self._t2i_high), (self._i2t_low, self._t2i_low))):
            compare: Callable[..., Tensor] = torch.gt if k == 0 else torch.ge
            i2t_limit, t2i_limit = i2t_limit[rows], t2i_limit[cols]
            i2t[:, k] += _count(compare, scores, i2t_limit[:, None], dim=1)
            i2t[:, k].index_add_(0, row, (compare(true, i2t_limit[row]) & inside).long(), alpha=-1)
            t2i[:, k] += _count(compare, scores, t2i_limit[None, :], dim=0)
            t2i[:, k] -= (compare(true, t2i_limit) & inside).long()

    def add_distractors(self, scores: Float[Tensor, "rows cols"], rows: slice) -> None:
        """Count candidates that are nobody's captions (adversaries) for the images `rows`."""
        self.watch(scores)
        i2t = self._i2t[rows]
        i2t[:, 0] += _count(torch.gt, scores, self._i2t_high[rows, None], dim=1)
        i2t[:, 1] += _count(torch.ge, scores, self._i2t_low[rows, None], dim=1)

    def watch(self, scores: Float[Tensor, "*scores"]) -> None:
        """Refuse a NaN among scores, on a GPU when `check` is called."""
        if scores.device.type == "cpu":
            refuse_nan(scores)
        elif scores.numel():
            self._highest = torch.maximum(self._highest, scores.amax().float())  # NaN if any is

    def check(self) -> None:
        """Raises Diverged if a score that has been added is NaN."""
        refuse_nan(self._highest)

    def fork(self) -> "RetrievalCounter":
        """A counter that starts from what this one has counted, so that candidates in common are counted once."""
        twin = RetrievalCounter.__new__(RetrievalCounter)
        twin.__dict__.update(self.__dict__)
        twin._i2t, twin._t2i = self._i2t.clone(), self._t2i.clone()
        return twin

    def add_counts(
        self,
        rows: slice,
        i2t: Int[Tensor, "rows 2"],
        cols: slice | None = None,
        t2i: Int[Tensor, "cols 2"] | None = None,
    ) -> None:
        """Add (above, not below) counts of a block that were made elsewhere, positives left out.

        Args:
            rows: Positions of the images.
            i2t: Counts of captions for these images.
            cols: Positions of the captions; None for candidates that are no queries, such as adversaries.
            t2i: Counts of images for these captions; needed with `cols`.
        """
        self._i2t[rows] += i2t
        if cols is not None:
            assert t2i is not None, "captions need their counts"
            self._t2i[cols] += t2i

    def counts(self) -> tuple[Int[Tensor, "images 2"], Int[Tensor, "captions 2"]]:
        """This counter's own (above, not below) counts per image and per caption, positives left out.

        Counters of the same pairs that have seen different blocks make one that has seen all by adding theirs in place.
        """
        return self._i2t, self._t2i

    def limits(self) -> tuple[Float[Tensor, "images 2"], Float[Tensor, "captions 2"]]:
        """(lowest tie, highest tie) per image and per caption; infinite for an image without captions."""
        return (
            torch.stack((self._i2t_low, self._i2t_high), 1),
            torch.stack((self._t2i_low, self._t2i_high), 1),
        )

    def result(self) -> Retrieval:
        """Ranks of both directions over what has been added so far."""
        self.check()
        images = torch.nonzero(self._has_captions).squeeze(1)
        above, level = self._i2t[images].unbind(1)
        i2t = Ranks(queries=images, above=above, tied_negatives=level - above, tied_positives=self._positives[images])
        above, level = self._t2i.unbind(1)
        captions = torch.arange(len(self.caption_to_image), device=self.caption_to_image.device)
        t2i = Ranks(
            queries=captions, above=above, tied_negatives=level - above, tied_positives=torch.ones_like(captions)
        )
        return Retrieval(i2t=i2t, t2i=t2i)


def own_rows(own: Int[Tensor, " cols"], rows: slice) -> tuple[Int[Tensor, " cols"], Bool[Tensor, " cols"]]:
    """(row within the block `rows`, whether it is there) of each caption's own image; any row if it is elsewhere.

    A list of the captions inside would need their number on the host, which would wait for a GPU.
    """
    inside = (own >= rows.start) & (own < rows.stop)
    return (own - rows.start).clamp(0, rows.stop - rows.start - 1), inside


def refuse_nan(scores: Float[Tensor, "*scores"]) -> None:
    """Raises Diverged at a NaN: it compares false with everything, which would read as a perfect rank.

    Infinite scores pass: they compare as others do. Features are refused where they are not finite, so that only
    weights can bring in either.
    """
    # the sum finds it thirty times faster than looking at each score; it is NaN for infinite ones of both signs too
    if scores.sum().isnan() and scores.isnan().any():
        raise Diverged("scores are NaN, so the training has diverged")


def refuse_infinite(scores: Float[Tensor, "*scores"]) -> None:
    """Raises Diverged if a score is NaN or infinite: the limits of what ties with a true pair would be NaN."""
    refuse_nan(scores)
    if scores.isinf().any():
        raise Diverged("scores are infinite, so the training has diverged")


def _count(
    compare: Callable[..., Tensor], scores: Float[Tensor, "rows cols"], limit: Float[Tensor, "..."], dim: int
) -> Int[Tensor, " q"]:
    """Number of scores along `dim` for which `compare(score, limit)`.

    On the CPU eight flags are added at once as the bytes of a 64-bit word, at most 255 words at a time so that no byte
    overflows: ten times faster than summing booleans, which would cost more than the comparison itself.
    """
    if scores.device.type != "cpu":
        return compare(scores, limit).sum(dim)
    num_rows, num_cols = scores.shape
    flags = torch.zeros(num_rows, -(-num_cols // 8) * 8, dtype=torch.bool)
    compare(scores, limit, out=flags[:, :num_cols])
    total = torch.zeros(num_rows if dim == 1 else num_cols, dtype=torch.int64)
    for words in flags.view(torch.int64).split(255, dim=dim):
        counts = words.sum(dim).view(torch.uint8)
        total += counts.view(num_rows, 8).sum(1) if dim == 1 else counts[:num_cols].long()
    return total


def ranks_among(
    scores: Float[Tensor, "queries candidates"],
    positive: Bool[Tensor, "queries candidates"],
    ignored: Bool[Tensor, "queries candidates"] | None = None,
    ties: Ties | None = None,
) -> Ranks:
    """Ranks when any number of candidates may be positive.

    Args:
        scores: Scores of the candidates of each query.
        positive: True for positives. If captions are true of several images, pass all true pairs here, or the described
            pair alone and the other true pairs as `ignored`. Queries without a positive are left out.
        ignored: Candidates that count neither way; None for none.
        ties: The tolerance within which scores tie; None for the default one.

    Raises:
        Diverged: A score is NaN, or a query's best positive infinite.
    """
    refuse_nan(scores)
    queries = torch.nonzero(positive.any(1)).squeeze(1)
    scores, positive = scores[queries], positive[queries]
    best = scores.masked_fill(~positive, -torch.inf).amax(1, keepdim=True)
    refuse_infinite(best)
    low, high = (ties or Ties()).limits(best)
    negative = ~positive if ignored is None else ~(positive | ignored[queries])
    above = ((scores > high) & negative).sum(1)
    level = ((scores >= low) & negative).sum(1)
    tied = ((scores >= low) & positive).sum(1)
    return Ranks(queries=queries, above=above, tied_negatives=level - above, tied_positives=tied)
