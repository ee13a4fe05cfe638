"""How sure a difference is: paired hierarchical bootstrap over seeds and images, Holm's correction, verdicts.

An effect is a weighted sum of metrics, such as one family's rsum minus another's, or a difference of differences. A
replicate draws seeds with replacement, then images with all their captions; everything that belongs to one seed, and
everything that was measured on one set of images, is drawn together, so shared difficulty cancels. By default a
replicate uses one draw of images for all of its seeds, because all seeds were tested on the same images: drawing again
for each seed would average the choice of images away. (`nested` draws again, for cross-validation folds.) One seed
fewer than there are is drawn, which makes the variance over few seeds unbiased (Rao and Wu 1988). What is neither the
seed's nor the image's, chance in single cells, enters with both drawings: intervals are then wider than they need be,
nominal 95 % cover 96 to 99 in simulation, and verdicts err towards `undecided`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from vse.errors import InputError

_NORMAL = NormalDist()
_CHUNK = 200  # replicates at once: bounds memory at chunk x images
_DIGITS = 9  # of an effect, in percent: equal ones that were added up in another order are ties, which BCa counts


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """One metric of one arm: hits (seeds, images, terms), queries (images, terms) and the set of images they are of.

    The metric is 100 times the sum over terms of hits / queries, mean over seeds.
    """

    hits: np.ndarray
    queries: np.ndarray
    images: str

    def __post_init__(self) -> None:
        assert self.hits.ndim == 3, "hits are (seeds, images, terms)"
        assert self.hits.shape[1:] == self.queries.shape, "hits and queries must be of the same images and terms"

    @property
    def defined(self) -> bool:
        """Whether every term has queries; a metric of no queries is no number."""
        return bool((self.queries.sum(0) > 0).all())

    def of_seed(self, seed: int) -> "Sample":
        """That of one seed alone: its replicates draw images only."""
        return replace(self, hits=self.hits[seed : seed + 1])

    def value(self) -> float:
        """The metric itself."""
        return float((100 * self.hits.sum(1) / self.queries.sum(0)).sum(1).mean())


Effect = Sequence[tuple[float, Sample]]
"""Weighted samples; all have the same seeds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bootstrap:
    """An effect, its replicates and the acceleration that BCa intervals need."""

    estimate: float
    draws: np.ndarray
    acceleration: float
    num_seeds: int

    @property
    def error(self) -> float:
        """Standard error of the effect."""
        return float(self.draws.std(ddof=1))

    @property
    def varies(self) -> bool:
        """Whether seeds or images differ at all in it; a run compared with itself has neither."""
        return bool(np.ptp(self.draws) > 1e-9)

    def interval(self, level: float = 0.95, method: str = "bca") -> tuple[float, float]:
        """Two-sided confidence interval, `percentile` or `bca` (Efron 1987)."""
        tail = (1 - level) / 2
        tails = np.array([tail, 1 - tail])
        if method == "bca":
            bias = _NORMAL.inv_cdf(self._below(self.estimate))
            z = bias + np.array([_NORMAL.inv_cdf(t) for t in tails])
            tails = np.array([_NORMAL.cdf(bias + s / max(1 - self.acceleration * s, 0.1)) for s in z])
        elif method != "percentile":
            raise InputError(f"method={method}: expected percentile or bca")
        low, high = np.quantile(self.draws, tails)
        return float(low), float(high)

    def p_above(self, threshold: float) -> float:
        """One-sided p for "the effect exceeds `threshold`": the level at which the BCa interval just touches it."""
        return self._p(threshold, -1)

    def p_below(self, threshold: float) -> float:
        """One-sided p for "the effect is smaller than `threshold`"."""
        return self._p(threshold, 1)

    def detectable(self, level: float = 0.05, power: float = 0.8) -> float:
        """Smallest effect that a two-sided test at `level` would have found with probability `power`.

        Of several claims give level / claims: Holm's first step asks that much.
        """
        return (_NORMAL.inv_cdf(1 - level / 2) + _NORMAL.inv_cdf(power)) * self.error

    def _below(self, threshold: float) -> float:
        """Share of replicates below, ties half, kept off 0 and 1 by half a replicate."""
        threshold = round(threshold, _DIGITS)
        share = float((self.draws < threshold).mean() + 0.5 * (self.draws == threshold).mean())
        edge = 0.5 / len(self.draws)
        return min(max(share, edge), 1 - edge)

    def _p(self, threshold: float, sign: int) -> float:
        bias = _NORMAL.inv_cdf(self._below(self.estimate))
        w = _NORMAL.inv_cdf(self._below(threshold)) - bias
        z = w / max(1 + self.acceleration * w, 0.1) - bias
        p = _NORMAL.cdf(z) if sign < 0 else _NORMAL.cdf(-z)
        return max(p, 1 / (len(self.draws) + 1))


def bootstrap(effect: Effect, *, replicates: int = 4000, seed: int = 0, nested: bool = False) -> Bootstrap:
    """Replicates of an effect.

    Args:
        effect: Weighted metrics, such as (1, one arm) and (-1, another).
        replicates: Number of replicates.
        seed: Seed of the draws.
        nested: Whether each seed has its own draw of images; by default the seeds of a replicate share one.

    Raises:
        InputError: Arms have different seeds, image sets different sizes, or a metric no queries at all.
    """
    return bootstrap_all([effect], replicates=replicates, seed=seed, nested=nested)[0]


def bootstrap_all(
    effects: Sequence[Effect], *, replicates: int = 4000, seed: int = 0, nested: bool = False
) -> list[Bootstrap]:
    """Replicates of several effects over the same draws, which are made once: drawing images costs more than all else.

    Args:
        effects: The effects. If all are on the same sets of images, each result is the one of `bootstrap`.
        replicates: Number of replicates.
        seed: Seed of the draws.
        nested: Whether each seed has its own draw of images; by default the seeds of a replicate share one.

    Raises:
        InputError: Arms have different seeds, image sets different sizes, or a metric no queries at all.
    """
    samples = [sample for effect in effects for _, sample in effect]
    seeds = {sample.hits.shape[0] for sample in samples}
    if len(seeds) != 1:
        raise InputError(f"arms were run with different numbers of seeds: {sorted(seeds)}")
    sizes: dict[str, int] = {}
    for sample in samples:
        if sizes.setdefault(sample.images, len(sample.queries)) != len(sample.queries):
            raise InputError(f"arms were measured on different numbers of images of {sample.images}")
    for sample in samples:
        if not sample.defined:
            raise InputError(f"{sample.images}: no queries, so its metric has no value")
    num_seeds, rng = seeds.pop(), np.random.default_rng(seed)
    draws = [list[np.ndarray]() for _ in effects]
    for start in range(0, replicates, _CHUNK):
        num = min(_CHUNK, replicates - start)
        seed_weights = rng.multinomial(max(num_seeds - 1, 1), np.full(num_seeds, 1 / num_seeds), size=num)
        draw = _drawer(rng, sizes, num, num_seeds if nested else 1)
        known: dict[int, np.ndarray] = {}  # of the samples, which several effects may share
        for sample in samples:
            if id(sample) not in known:
                known[id(sample)] = _replicates(sample, seed_weights, draw)
        for effect, drawn in zip(effects, draws, strict=True):
            drawn.append(sum(weight * known[id(sample)] for weight, sample in effect) / seed_weights.sum(1))
    return [
        Bootstrap(
            estimate=sum(weight * sample.value() for weight, sample in effect),
            draws=np.round(np.concatenate(drawn), _DIGITS),
            acceleration=_acceleration(effect, sizes, num_seeds),
            num_seeds=num_seeds,
        )
        for effect, drawn in zip(effects, draws, strict=True)
    ]


def _drawer(
    rng: np.random.Generator, sizes: Mapping[str, int], num: int, times: int
) -> Callable[[int], dict[str, np.ndarray]]:
    """Image counts of a chunk of replicates by set of images, for a seed; the same for all seeds unless nested."""
    counts = [
        {name: rng.multinomial(n, np.full(n, 1 / n), size=num).astype(np.float64) for name, n in sizes.items()}
        for _ in range(times)
    ]
    return lambda which: counts[which % times]


def _replicates(sample: Sample, seed_weights: np.ndarray, draw: Callable[[int], dict[str, np.ndarray]]) -> np.ndarray:
    """A sample's value under every replicate of a chunk, times the seeds drawn."""
    total = np.zeros(len(seed_weights))
    for which, hits in enumerate(sample.hits):
        counts = draw(which)[sample.images]
        queries = counts @ sample.queries
        # a draw may miss all images that a term has queries of: the term keeps its value, since zero would pull it down
        kept = np.broadcast_to(hits.sum(0) / sample.queries.sum(0), queries.shape).copy()
        recalls = np.divide(counts @ hits, queries, out=kept, where=queries > 0)
        total += 100 * recalls.sum(1) * seed_weights[:, which]
    return total


def _acceleration(effect: Effect, sizes: Mapping[str, int], num_seeds: int) -> float:
    """Skewness from the influence of every seed and image (several-sample form; Efron & Tibshirani 1993, 14.3)."""
    by_seed = np.zeros(num_seeds)
    by_image = {name: np.zeros(size) for name, size in sizes.items()}
    for weight, sample in effect:
        queries = sample.queries.sum(0)
        recalls = sample.hits.sum(1) / queries
        by_seed += weight * 100 * recalls.sum(1)
        residual = sample.hits.mean(0) - sample.queries * recalls.mean(0)
        by_image[sample.images] += weight * 100 * (residual * len(sample.queries) / queries).sum(1)
    influences = [by_seed - by_seed.mean(), *by_image.values()]
    cubes = sum((u**3).sum() / len(u) ** 3 for u in influences)
    squares = sum((u**2).sum() / len(u) ** 2 for u in influences)
    return float(cubes / (6 * squares**1.5)) if squares > 0 else 0.0


def holm(p_values: Mapping[str, float], registered: int = 0) -> dict[str, float]:
    """Adjusted p values (Holm 1979), in the given order.

    registered: how many tests there will be where some have no p yet; these count as if theirs were larger than all.
    """
    adjusted, running, number = {}, 0.0, max(registered, len(p_values))
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        running = max(running, min(1.0, (number - rank) * p))
        adjusted[name] = running
    return {name: adjusted[name] for name in p_values}


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The answer to a claim: `holds`, `does not hold` or `undecided`, with the evidence for it.

    `detectable` is the smallest effect of one comparison that could have been seen with a power of 80 %, after Holm's
    correction at its strictest step; it matters when the answer is undecided.
    """

    answer: str
    p_holds: float
    p_fails: float
    effects: tuple[tuple[str, float, float, float], ...]
    detectable: float
    num_seeds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One comparison of a claim: the claim needs the effect above `margin`; below `margin + negligible` refutes it."""

    name: str
    result: Bootstrap
    margin: float
    negligible: float


def judge(
    claims: Mapping[str, tuple[Sequence[Outcome], int]], level: float = 0.05, registered: int = 0
) -> dict[str, Verdict]:
    """Verdicts on the claims of one paper, with Holm's correction over them.

    A claim *holds* when every one of its comparisons exceeds its margin (so its p is their largest), *does not hold*
    when at least one is shown to stay below margin + negligible (their smallest p, times their number).

    Args:
        claims: By name, (comparisons, seeds needed). With fewer seeds than needed a claim is undecided.
        level: Two-sided intervals have a confidence of 1 - level. Tests are one-sided at level / 2, so that they agree
            with the intervals.
        registered: Number of claims of that paper, including claims without measurements.
    """
    holds = {name: max(t.result.p_above(t.margin) for t in tested) for name, (tested, _) in claims.items()}
    fails = {
        name: min([1.0, *(len(tested) * t.result.p_below(t.margin + t.negligible) for t in tested if t.result.varies)])
        for name, (tested, _) in claims.items()
    }
    number = max(registered, len(claims))
    p_holds, p_fails = holm(holds, number), holm(fails, number)
    verdicts = {}
    for name, (tested, seeds_needed) in claims.items():
        num_seeds = min(t.result.num_seeds for t in tested)
        answer = "undecided"
        if num_seeds >= seeds_needed:
            if p_holds[name] <= level / 2:
                answer = "holds"
            elif p_fails[name] <= level / 2:
                answer = "does not hold"
        verdicts[name] = Verdict(
            answer=answer,
            p_holds=p_holds[name],
            p_fails=p_fails[name],
            effects=tuple((t.name, t.result.estimate, *t.result.interval(1 - level)) for t in tested),
            detectable=max(t.result.detectable(level / number) for t in tested),
            num_seeds=num_seeds,
        )
    return verdicts
