"""Every α of a grid exactly, from score parts computed once, and the rule that chooses one.

UniVSE's u_cap = α u_sent + (1 - α) u_comp (§3.2) changes no embedding, so scores at any α follow from two cosines and
the dot product of each caption's two vectors. The two matrix products dominate; what α adds is kept small by a bound:

    score(α) <= max(cos_sent, cos_comp, 0) / sqrt((1 + u_sent · u_comp) / 2)      for every α in [0, 1],

since α cos_sent + (1 - α) cos_comp is at most the larger and the mix is shortest at α = 1/2 (never longer than 1). Only
candidates whose bound reaches a query's lowest limit over all α can count at any α; they are few in a trained model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse.errors import InputError
from vse.evaluation.attacks import Attacked, AttackSet, pair_wins
from vse.evaluation.metrics import Retrieval, RetrievalCounter, Ties, refuse_nan
from vse.evaluation.retrieval import Blocks, Encoded, ScoresParts, as_owner, num_items, pair_parts, part_blocks

SENTENCE, BAG, DOT = "sentence", "bag", "dot"
"""Names of the score parts: cosines of u_sent and u_comp with the image, and u_sent · u_comp as one row."""

DENSE_ABOVE = 0.12  # share of candidates that may count beyond which whole blocks are faster than lists of entries


@dataclass(frozen=True, kw_only=True, eq=False)
class AlphaPoint:
    """What one α gives: plain retrieval and every attack."""

    alpha: float
    retrieval: Retrieval
    attacks: dict[str, Attacked]

    def metrics(self, split: str) -> dict[str, float]:
        """Metrics by their full names."""
        values = {f"{split}/{name}": value for name, value in self.retrieval.metrics().items()}
        for attack, result in self.attacks.items():
            values |= {f"{split}/attack_{attack}/{name}": value for name, value in result.metrics().items()}
        return values


class AlphaCounters:
    """One counter per α that share their score parts."""

    def __init__(self, model: ScoresParts, alphas: Sequence[float], counters: Sequence[RetrievalCounter]) -> None:
        self.model, self.alphas, self.counters = model, tuple(alphas), tuple(counters)
        limits = [counter.limits() for counter in counters]
        self._i2t = torch.stack([i2t for i2t, _ in limits])
        self._t2i = torch.stack([t2i for _, t2i in limits])

    def fork(self) -> "AlphaCounters":
        """Counters that go on from here by themselves."""
        return AlphaCounters(self.model, self.alphas, [counter.fork() for counter in self.counters])

    def add(self, parts: Mapping[str, Tensor], rows: slice, cols: slice) -> None:
        """Count a block of images x true captions at every α."""
        bound = _bound(parts)
        owner = self.counters[0].owner[cols]
        column = torch.nonzero((owner >= rows.start) & (owner < rows.stop)).squeeze(1)
        by_image = bound >= self._i2t[:, rows, 0].amin(0)[:, None]
        by_caption = bound >= self._t2i[:, cols, 0].amin(0)[None, :]
        if (_share(by_image) + _share(by_caption)) / 2 > DENSE_ABOVE:
            for alpha, counter in zip(self.alphas, self.counters, strict=True):
                counter.add(self.model.combine(parts, alpha=alpha).float(), rows, cols)
            return
        row = owner[column] - rows.start
        by_image[row, column] = False
        by_caption[row, column] = False
        i2t = self._count(parts, by_image, self._i2t[:, rows], 0)
        t2i = self._count(parts, by_caption, self._t2i[:, cols], 1)
        for counter, images, captions in zip(self.counters, i2t, t2i, strict=True):
            counter.add_counts(rows, images, cols, captions)

    def add_distractors(self, parts: Mapping[str, Tensor], rows: slice) -> None:
        """Count a block of images x adversaries at every α."""
        possible = _bound(parts) >= self._i2t[:, rows, 0].amin(0)[:, None]
        if _share(possible) > DENSE_ABOVE:
            for alpha, counter in zip(self.alphas, self.counters, strict=True):
                counter.add_distractors(self.model.combine(parts, alpha=alpha).float(), rows)
            return
        for counter, images in zip(self.counters, self._count(parts, possible, self._i2t[:, rows], 0), strict=True):
            counter.add_counts(rows, images)

    def _count(
        self,
        parts: Mapping[str, Tensor],
        possible: Bool[Tensor, "rows cols"],
        limits: Float[Tensor, "alphas queries 2"],
        axis: int,
    ) -> Int[Tensor, "alphas queries 2"]:
        """(above, not below) counts of the possible entries for each query along `axis`, at every α."""
        entries = torch.nonzero(possible)
        row, column = entries.unbind(1)
        listed = {
            name: (part[0, column] if len(part) == 1 else part[row, column])[None] for name, part in parts.items()
        }
        query = entries[:, axis]
        counts = torch.zeros(limits.shape, dtype=torch.int64, device=query.device)
        for k, alpha in enumerate(self.alphas):
            scores = self.model.combine(listed, alpha=alpha)[0].float()
            level = query[scores >= limits[k, :, 0][query]]
            above = query[scores > limits[k, :, 1][query]]
            counts[k, :, 0] = torch.bincount(above, minlength=limits.shape[1])
            counts[k, :, 1] = torch.bincount(level, minlength=limits.shape[1])
        return counts


def _bound(parts: Mapping[str, Tensor]) -> Float[Tensor, "rows cols"]:
    """An upper bound of the scores over all α in [0, 1], a little widened against rounding."""
    refuse_nan(parts[SENTENCE])
    refuse_nan(parts[BAG])
    shortest = ((1 + parts[DOT]) / 2).clamp_min(1e-12).sqrt()
    return torch.maximum(parts[SENTENCE], parts[BAG]).float().clamp_min_(0).mul_((1 + 1e-5) / shortest).add_(1e-6)


def _share(flags: Bool[Tensor, "rows cols"]) -> float:
    return torch.count_nonzero(flags).item() / flags.numel()


@torch.inference_mode()
def evaluate_alphas(
    model: ScoresParts,
    images: Encoded,
    captions: Encoded,
    owner: np.ndarray | Tensor,
    attacks: Mapping[str, AttackSet],
    alphas: Sequence[float],
    *,
    ties: Ties | None = None,
    blocks: Blocks | None = None,
) -> list[AlphaPoint]:
    """Retrieval and attacks at every α, each exactly what a single evaluation at that α gives.

    `model.combine(parts, alpha=...)` makes the scores. Raises InputError for an α outside [0, 1].
    """
    if not alphas or not all(0 <= alpha <= 1 for alpha in alphas):
        raise InputError(f"alphas={list(alphas)}: expected at least one number between 0 and 1")
    blocks, own = blocks or Blocks(), as_owner(owner, captions)
    pairs = pair_parts(model, images, captions, own)
    counters = AlphaCounters(
        model,
        alphas,
        [
            RetrievalCounter(model.combine(pairs, alpha=alpha)[0].float(), own, num_items(images), ties)
            for alpha in alphas
        ],
    )
    for rows, cols, parts in part_blocks(model, images, captions, blocks):
        counters.add(parts, rows, cols)
    attacked = {name: _attacked(counters, images, adversaries, blocks) for name, adversaries in attacks.items()}
    return [
        AlphaPoint(
            alpha=alpha, retrieval=counter.result(), attacks={name: results[k] for name, results in attacked.items()}
        )
        for k, (alpha, counter) in enumerate(zip(alphas, counters.counters, strict=True))
    ]


def _attacked(counters: AlphaCounters, images: Encoded, adversaries: AttackSet, blocks: Blocks) -> list[Attacked]:
    """One attack at every α."""
    model, first = counters.model, counters.counters[0]
    caption = as_owner(adversaries.caption, images)
    image, more = first.owner[caption], counters.fork()
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
    """Stated before any α is looked at: among α whose plain rsum is close to the best, the most robust one.

    Close means within `within` points, or within one standard error (over seeds, at the best α) when
    `standard_error` is set, as on small sets of photographs.
    """

    split: str = "val"
    within: float = 1.0
    standard_error: bool = False


def choose_alpha(curves: Sequence[Mapping[float, Mapping[str, float]]], rule: AlphaRule | None = None) -> float:
    """The α with the largest sum of rsum3 over the three attacks (shared words), mean over seeds, among close ones.

    `curves` has one mapping of α to metrics for each seed. Ties go to the larger α. Raises InputError when the seeds
    have different grids.
    """
    rule = rule or AlphaRule()
    grids = {tuple(sorted(curve)) for curve in curves}
    if len(grids) != 1 or not curves[0]:
        raise InputError("choosing alpha needs one curve or more, all with the same alphas")
    alphas = sorted(curves[0])
    plain = np.array([[curve[a][f"{rule.split}/rsum"] for a in alphas] for curve in curves])
    names = [f"{rule.split}/attack_{attack}/rsum3" for attack in ("object", "attribute", "relation")]
    robust = np.array([[sum(curve[a][name] for name in names) for a in alphas] for curve in curves]).mean(0)
    best = int(plain.mean(0).argmax())
    within = rule.within
    if rule.standard_error:
        within = float(plain[:, best].std(ddof=1) / np.sqrt(len(plain))) if len(plain) > 1 else 0.0
    tolerance = 1e-9  # sums of the same recalls in another order
    close = np.flatnonzero(plain.mean(0) >= plain.mean(0)[best] - within - tolerance)
    top = robust[close].max()
    return alphas[max(k for k in close if robust[k] >= top - tolerance)]
