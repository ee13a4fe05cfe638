"""Every α of a grid exactly, from score parts computed once, and the rule that chooses one.

UniVSE's u_cap = α u_sent + (1 - α) u_comp (§3.2) changes no embedding, so scores at any α follow from two cosines and
the dot product of each caption's two vectors. The two matrix products dominate; what the grid adds is kept small:

- A caption's own length cancels when it ranks images, so an image's lead over the right one, α (a - a*) + (1 - α)
  (b - b*), is linear in α: it changes sign once, and one division says on which side of every grid point.
- For an image that ranks captions, score(α) <= max(a, b, 0) / sqrt((1 + u_sent · u_comp) / 2), since the mix is
  shortest at α = 1/2 and never longer than 1. Only candidates whose bound reaches the image's lowest limit over all α
  are scored at every α; they are few in a trained model. Where they are not, whole blocks are scored.

A GPU is waited for twice a block, for the lengths of the two lists; blocks are as large as its memory allows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse.adversaries.attacks import ATTACKS
from vse.errors import InputError
from vse.evaluation.attacks import Attacked, AttackSet, pair_wins
from vse.evaluation.metrics import Retrieval, RetrievalCounter, own_rows
from vse.evaluation.retrieval import (
    Blocks,
    Encoded,
    ScoresParts,
    as_index,
    blocks_for,
    num_items,
    pair_parts,
    part_blocks,
)

SENTENCE, BAG, DOT = "sentence", "bag", "dot"
"""Names of the score parts: cosines of u_sent and u_comp with the image, and u_sent · u_comp as one row."""

DENSE_ABOVE = 0.15  # share of candidates that may count beyond which whole blocks are faster than lists of entries
ENTRIES_AT_ONCE = 2**13  # of a list that are scored at every α together, so that they stay in a CPU's cache
ENTRIES_ON_GPU = 2**22  # some 2 GB for 21 α
ROUNDING = 1e-6  # of single-precision cosines, generously


@dataclass(frozen=True, kw_only=True, eq=False)
class AlphaPoint:
    """Results at one α: plain retrieval and every attack."""

    alpha: float
    retrieval: Retrieval
    attacks: dict[str, Attacked]

    def metrics(self) -> dict[str, float]:
        """Metrics by their names below the split."""
        values = self.retrieval.metrics()
        for attack, result in self.attacks.items():
            values |= {f"attack_{attack}/{name}": value for name, value in result.metrics().items()}
        return values


class AlphaCounters:
    """One counter per α, in ascending order, that share their score parts; `pairs` are the parts of true pairs."""

    def __init__(
        self,
        model: ScoresParts,
        alphas: Sequence[float],
        pairs: Mapping[str, Tensor],
        caption_to_image: Int[Tensor, " captions"],
        num_images: int,
    ) -> None:
        self.model, self.alphas, self.caption_to_image = model, tuple(sorted(alphas)), caption_to_image
        self.counters = tuple(
            RetrievalCounter(model.combine(pairs, alpha=alpha)[0].float(), caption_to_image, num_images)
            for alpha in self.alphas
        )
        self._grid = torch.tensor(self.alphas, dtype=torch.float32, device=caption_to_image.device)
        self._true = torch.stack([pairs[name][0].float() for name in (SENTENCE, BAG)])
        limits = [counter.limits() for counter in self.counters]
        self._i2t = torch.stack([i2t for i2t, _ in limits])
        self._t2i = torch.stack([t2i for _, t2i in limits])
        # a lead closer to zero than this may be a tie at some α and is scored there
        self._close = (self._t2i[..., 1] - self._t2i[..., 0]).amax(0) + ROUNDING

    def fork(self) -> "AlphaCounters":
        """Counters that go on from here by themselves."""
        twin = AlphaCounters.__new__(AlphaCounters)
        twin.__dict__.update(self.__dict__)
        twin.counters = tuple(counter.fork() for counter in self.counters)
        return twin

    def add(self, parts: Mapping[str, Tensor], rows: slice, cols: slice) -> None:
        """Count a block of images x true captions at every α.

        Args:
            parts: Score parts of the block by name: `SENTENCE` and `BAG` (images, captions), `DOT` (1, captions).
            rows: Positions of the images.
            cols: Positions of the captions.
        """
        by_image = self._possible(parts, rows)
        row, inside = own_rows(self.caption_to_image[cols], rows)
        column = torch.arange(len(row), device=row.device)
        least = self._true[:, cols] - self._close[cols]
        by_caption = (parts[SENTENCE] >= least[0]) | (parts[BAG] >= least[1])
        for flags in (by_image, by_caption):
            flags[row, column] &= ~inside
        sizes = _sizes(by_image, by_caption)
        if sizes[0] > DENSE_ABOVE * by_image.numel():
            for alpha, counter in zip(self.alphas, self.counters, strict=True):
                counter.add(self.model.combine(parts, alpha=alpha).float(), rows, cols)
            return
        i2t = self._score(parts, _entries(by_image, sizes[0]), self._i2t[:, rows], 0)
        t2i = self._lead(parts, _entries(by_caption, sizes[1]), cols)
        for counter, images, captions in zip(self.counters, i2t, t2i, strict=True):
            counter.add_counts(rows, images, cols, captions)

    def add_distractors(self, parts: Mapping[str, Tensor], rows: slice) -> None:
        """Count a block of images x adversaries at every α."""
        possible = self._possible(parts, rows)
        (size,) = _sizes(possible)
        if size > DENSE_ABOVE * possible.numel():
            for alpha, counter in zip(self.alphas, self.counters, strict=True):
                counter.add_distractors(self.model.combine(parts, alpha=alpha).float(), rows)
            return
        counts = self._score(parts, _entries(possible, size), self._i2t[:, rows], 0)
        for counter, images in zip(self.counters, counts, strict=True):
            counter.add_counts(rows, images)

    def _possible(self, parts: Mapping[str, Tensor], rows: slice) -> Bool[Tensor, "rows cols"]:
        """Candidates that may reach their image's lowest tie at some α."""
        for name in (SENTENCE, BAG):
            self.counters[0].watch(parts[name])
        shortest = ((1 + parts[DOT]) / 2).clamp_min(1e-12).sqrt()
        bound = torch.maximum(parts[SENTENCE], parts[BAG]).float().clamp_min_(0).mul_((1 + 1e-5) / shortest)
        return bound >= self._i2t[:, rows, 0].amin(0)[:, None] - ROUNDING

    def _score(
        self,
        parts: Mapping[str, Tensor],
        entries: Int[Tensor, "entries 2"],
        limits: Float[Tensor, "alphas queries 2"],
        axis: int,
    ) -> Int[Tensor, "alphas queries 2"]:
        """(above, not below) counts of entries of a block for each query along `axis`, scored at every α."""
        counts = torch.zeros(limits.shape, dtype=torch.int64, device=entries.device)
        for some in entries.split(ENTRIES_AT_ONCE if entries.device.type == "cpu" else ENTRIES_ON_GPU):
            row, column = some.unbind(1)
            listed = {
                name: (part[0, column] if len(part) == 1 else part[row, column])[None] for name, part in parts.items()
            }
            query = some[:, axis].contiguous()
            scores = torch.stack([self.model.combine(listed, alpha=alpha)[0].float() for alpha in self.alphas])
            for side, chosen in ((0, scores > limits[:, query, 1]), (1, scores >= limits[:, query, 0])):
                counts[:, :, side] += _tally(chosen, query, limits.shape[1])
        return counts

    def _lead(
        self, parts: Mapping[str, Tensor], entries: Int[Tensor, "entries 2"], cols: slice
    ) -> Int[Tensor, "alphas cols 2"]:
        """(above, not below) counts of entries of a block for each caption, from where their lead changes sign."""
        row, column = entries.unbind(1)
        at_one = parts[SENTENCE][row, column].float() - self._true[0, cols][column]
        at_zero = parts[BAG][row, column].float() - self._true[1, cols][column]
        slope = at_one - at_zero
        crossing = torch.where(slope == 0, torch.inf, -at_zero / slope)
        place = torch.searchsorted(self._grid, crossing)  # grid points before `place` lie below the crossing
        last = len(self._grid) - 1
        near = torch.full_like(slope, torch.inf)
        for k in (place - 1, place):
            near = torch.minimum(near, (at_zero + self._grid[k.clamp(0, last)] * slope).abs())
        unsure = near <= self._close[cols][column]
        (size,) = _sizes(unsure)
        counts = self._score(parts, entries[_entries(unsure, size)[:, 0]], self._t2i[:, cols], 1)
        sure, width = ~unsure, self._close[cols].shape[0]
        # ahead below the crossing when the lead falls (or is constant and positive), above it when the lead rises
        rising = slope > 0
        begin = torch.where(rising, place, torch.zeros_like(place))
        end = torch.where(rising | ((slope == 0) & (at_zero <= 0)), last + 1, place)
        begin = torch.where((slope == 0) & (at_zero <= 0), last + 1, begin)
        steps = torch.zeros(last + 2, width, dtype=torch.int64, device=slope.device)
        for edge, sign in ((begin, 1), (end, -1)):
            steps.view(-1).index_add_(0, edge * width + column, sure.long(), alpha=sign)
        return counts + steps.cumsum(0)[:-1, :, None]


def _sizes(*flags: Bool[Tensor, "..."]) -> list[int]:
    """How many flags are set in each. The host waits for a GPU here, once for all."""
    return torch.stack([torch.count_nonzero(each) for each in flags]).tolist()


def _entries(flags: Bool[Tensor, "..."], size: int) -> Int[Tensor, "size axes"]:
    """Positions of the flags that are set, row by row, given their number: a GPU is not waited for."""
    return torch.nonzero(flags) if flags.device.type == "cpu" else torch.nonzero_static(flags, size=size)


def _tally(
    chosen: Bool[Tensor, "alphas entries"], query: Int[Tensor, " entries"], num_queries: int
) -> Int[Tensor, "alphas queries"]:
    """Number of chosen entries of each query at each α."""
    if chosen.device.type == "cpu":
        return torch.stack([torch.bincount(query[some], minlength=num_queries) for some in chosen])
    query, order = query.sort(stable=True)  # sums over runs, since a GPU's additions to one place wait for each other
    ends = torch.searchsorted(query, torch.arange(num_queries, device=query.device), right=True)
    sums = torch.nn.functional.pad(chosen[:, order].cumsum(1), (1, 0))
    return sums[:, ends].diff(dim=1, prepend=sums[:, :1])


@torch.inference_mode()
def evaluate_alphas(
    model: ScoresParts,
    images: Encoded,
    captions: Encoded,
    caption_to_image: np.ndarray | Tensor,
    attacks: Mapping[str, AttackSet],
    alphas: Sequence[float],
    *,
    blocks: Blocks | None = None,
) -> list[AlphaPoint]:
    """Retrieval and attacks at every α in ascending order, each exactly what one evaluation at that α gives.

    Args:
        model: Makes the score parts, and the scores by `combine(parts, alpha=...)`.
        images: Codes of the images.
        captions: Codes of the true captions.
        caption_to_image: (captions,), the position of each caption's image.
        attacks: Encoded adversaries by the name of their attack.
        alphas: Weights of u_sent, in any order.
        blocks: Items that are scored at once; None for `blocks_for`.

    Raises:
        InputError: There is no α, or one is outside [0, 1].
    """
    if not alphas or not all(0 <= alpha <= 1 for alpha in alphas):
        raise InputError(f"alphas={list(alphas)}: expected at least one number between 0 and 1")
    own = as_index(caption_to_image, captions)
    pairs = pair_parts(model, images, captions, own)
    counters = AlphaCounters(model, alphas, pairs, own, num_items(images))
    blocks = blocks or blocks_for(model, images, num_items(captions))
    for rows, cols, parts in part_blocks(model, images, captions, blocks):
        counters.add(parts, rows, cols)
    attacked = {name: _attacked(counters, images, adversaries, blocks) for name, adversaries in attacks.items()}
    return [
        AlphaPoint(
            alpha=alpha, retrieval=counter.result(), attacks={name: results[k] for name, results in attacked.items()}
        )
        for k, (alpha, counter) in enumerate(zip(counters.alphas, counters.counters, strict=True))
    ]


def _attacked(counters: AlphaCounters, images: Encoded, adversaries: AttackSet, blocks: Blocks) -> list[Attacked]:
    """One attack at every α."""
    model, first = counters.model, counters.counters[0]
    caption = as_index(adversaries.caption, images)
    image, more = first.caption_to_image[caption], counters.fork()
    won = [torch.zeros(0, dtype=torch.float64)] * len(counters.alphas)
    if len(caption):
        own = pair_parts(model, images, adversaries.encoded, image)
        for rows, _, parts in part_blocks(model, images, adversaries.encoded, blocks):
            more.add_distractors(parts, rows)
        won = [
            pair_wins(counter.pairs[caption], model.combine(own, alpha=alpha)[0].float(), counter.ties)
            for alpha, counter in zip(counters.alphas, counters.counters, strict=True)
        ]
    return [
        Attacked(i2t=counter.result().i2t, wins=wins, image=image)
        for counter, wins in zip(more.counters, won, strict=True)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class AlphaRule:
    """Rule that is fixed before α is measured: of the α whose plain rsum is close to the best, the most robust one.

    Close means within `within` points, or within one standard error (over seeds, at the best α) when
    `standard_error` is set, as on small sets of photographs.
    """

    split: str = "val"
    within: float = 1.0
    standard_error: bool = False


def attacks_of(curves: Sequence[Mapping[float, Mapping[str, float]]], split: str) -> list[str]:
    """The attacks that every point of every curve has numbers of: those of which the split has adversaries."""
    points = [point for curve in curves for point in curve.values()]
    return [attack for attack in ATTACKS if all(f"{split}/attack_{attack}/rsum3" in point for point in points)]


def choose_alpha(curves: Sequence[Mapping[float, Mapping[str, float]]], rule: AlphaRule | None = None) -> float:
    """The most robust α among those whose plain rsum is close to the best.

    The most robust α has the largest sum of rsum3 over all attacks (shared words), in the mean over seeds. Ties go to
    the larger α. An attack without adversaries in the split is left out of the sum.

    Args:
        curves: For each seed, the metrics by α.
        rule: The split, and what counts as close.

    Raises:
        InputError: The seeds have different grids, or the split has no adversaries at all.
    """
    rule = rule or AlphaRule()
    grids = {tuple(sorted(curve)) for curve in curves}
    if len(grids) != 1 or not curves[0]:
        raise InputError("choosing alpha needs at least one curve, all with the same alphas")
    alphas = sorted(curves[0])
    plain = np.array([[curve[a][f"{rule.split}/rsum"] for a in alphas] for curve in curves])
    names = [f"{rule.split}/attack_{attack}/rsum3" for attack in attacks_of(curves, rule.split)]
    if not names:
        raise InputError(f"alpha is chosen by robustness, and split {rule.split} has no adversaries of any attack")
    robust = np.array([[sum(curve[a][name] for name in names) for a in alphas] for curve in curves]).mean(0)
    best = int(plain.mean(0).argmax())
    within = rule.within
    if rule.standard_error:
        within = float(plain[:, best].std(ddof=1) / np.sqrt(len(plain))) if len(plain) > 1 else 0.0
    tolerance = 1e-9  # sums of the same recalls in another order
    close = np.flatnonzero(plain.mean(0) >= plain.mean(0)[best] - within - tolerance)
    top = robust[close].max()
    return alphas[max(k for k in close if robust[k] >= top - tolerance)]
