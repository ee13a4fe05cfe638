"""Mixtures over word vectors whose dimensions are Gaussian or Laplacian, fitted by EM (Klein et al., CVPR 2015).

Dimensions of a component are independent. In the hybrid mixture (HGLMM) every dimension of every component is either
Gaussian or Laplacian, whichever makes its words likelier: the published model has an exponent b in [0, 1] between the
two densities, and the expected log-likelihood is linear in b, so that its maximum is at 0 or 1.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

Kind = Literal["gaussian", "laplacian", "hybrid"]
_LOG_2PI = float(np.log(2 * np.pi))
_LEAST_WEIGHT = 1e-6  # of a component that lost its words; its Fisher information would be zero

_NOTHING = 1e-15  # a share of a component's words below rounding


@dataclass(frozen=True, eq=False)
class Mixture:
    """K components over D dimensions.

    For dimensions with `laplacian`, `location` is the median and `scale` the mean absolute deviation. For the others
    they are mean and standard deviation.
    """

    weights: Float[np.ndarray, " K"]
    location: Float[np.ndarray, "K D"]
    scale: Float[np.ndarray, "K D"]
    laplacian: Bool[np.ndarray, "K D"]

    def log_joint(self, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n K"]:
        """log w_k + log p_k(x) of every vector under every component."""
        joint = np.empty((len(x), len(self.weights)))
        for k, (location, scale, laplacian) in enumerate(zip(self.location, self.scale, self.laplacian, strict=True)):
            distance = np.abs(x - location) / scale
            density = np.where(laplacian, -distance - np.log(2.0), -0.5 * distance**2 - 0.5 * _LOG_2PI)
            joint[:, k] = np.log(self.weights[k]) + (density - np.log(scale)).sum(axis=1)
        return joint

    def responsibilities(self, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n K"]:
        """Posterior probability of every component for every vector; rows sum to one."""
        return _posterior(self.log_joint(x))[0]


def _posterior(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(posteriors (n, K), log p(x) (n,)) of log joint densities."""
    top = joint.max(axis=1, keepdims=True)
    shares = np.exp(joint - top)
    total = shares.sum(axis=1, keepdims=True)
    return shares / total, (top + np.log(total))[:, 0]


def fit_mixture(
    x: Float[np.ndarray, "n D"],
    counts: Float[np.ndarray, " n"],
    num_components: int,
    kind: Kind,
    *,
    seed: int = 0,
    iterations: int = 100,
    tolerance: float = 1e-5,
    least_scale: float = 1e-2,
) -> tuple[Mixture, list[float]]:
    """Fit a mixture by EM to vectors weighted by their counts.

    A word with count c stands for c equal tokens, so the result is that of EM over all tokens.

    Args:
        x: one vector for each word.
        counts: weight of each word.
        num_components: K; at most the number of vectors.
        kind: which densities the dimensions may have.
        seed: seed of the first assignment.
        iterations: EM steps at most.
        tolerance: EM ends when a step adds less to the mean log-likelihood.
        least_scale: smallest scale, in standard deviations of a dimension over all tokens. It prevents components
            from collapsing on one frequent word.

    Returns:
        The mixture, and the mean log-likelihood at every step.
    """
    x, counts = x.astype(np.float64), counts.astype(np.float64)
    num_components = min(num_components, len(x))
    spread = np.sqrt(np.average((x - np.average(x, axis=0, weights=counts)) ** 2, axis=0, weights=counts))
    least = least_scale * np.where(spread > 0, spread, 1.0)
    shares = _first_shares(x, counts, num_components, seed)
    mixture = _maximise(x, shares * counts[:, None], kind, least, None)
    history: list[float] = []
    for _ in range(iterations):
        shares, log_density = _posterior(mixture.log_joint(x))
        history.append(float(np.average(log_density, weights=counts)))
        if len(history) > 1 and history[-1] - history[-2] < tolerance:
            break
        mixture = _maximise(x, shares * counts[:, None], kind, least, mixture)
    return mixture, history


def _first_shares(x: np.ndarray, counts: np.ndarray, num: int, seed: int) -> np.ndarray:
    """Hard assignments after k-means++ (Arthur and Vassilvitskii, 2007) and a few rounds of k-means over tokens."""
    rng = np.random.default_rng(seed)
    chosen = [int(rng.choice(len(x), p=counts / counts.sum()))]
    nearest = ((x - x[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < num:
        mass = nearest * counts
        mass[chosen] = 0.0
        if mass.sum() <= 0:  # fewer different vectors than components
            mass = np.ones(len(x))
            mass[chosen] = 0.0
        chosen.append(int(rng.choice(len(x), p=mass / mass.sum())))
        nearest = np.minimum(nearest, ((x - x[chosen[-1]]) ** 2).sum(axis=1))
    centres, nearest_to = x[chosen], np.zeros(len(x), dtype=np.int64)
    for _ in range(5):
        nearest_to = ((centres**2).sum(axis=1) - 2 * x @ centres.T).argmin(axis=1)
        for k in np.unique(nearest_to):
            own = nearest_to == k
            centres[k] = np.average(x[own], axis=0, weights=counts[own])
    for k in np.setdiff1d(np.arange(num), nearest_to):  # nobody begins without a word: take one of the largest group
        largest = np.bincount(nearest_to, minlength=num).argmax()
        nearest_to[np.flatnonzero(nearest_to == largest)[0]] = k
    return np.eye(num)[nearest_to]


def _maximise(x: np.ndarray, mass: np.ndarray, kind: Kind, least: np.ndarray, before: Mixture | None) -> Mixture:
    """The M step: `mass` (n, K) is posterior times count. A component without mass stays as it was."""
    totals = mass.sum(axis=0)
    K, D = mass.shape[1], x.shape[1]
    location, scale = np.empty((K, D)), np.empty((K, D))
    laplacian = np.zeros((K, D), dtype=bool)
    for k in range(K):
        if totals[k] < 1e-8 * totals.sum():
            assert before is not None, "the first assignment leaves no component empty"
            location[k], scale[k], laplacian[k] = before.location[k], before.scale[k], before.laplacian[k]
            continue
        own = mass[:, k] > _NOTHING * totals[k]  # most words of a vocabulary have no part in a component
        location[k], scale[k], laplacian[k] = _component(x[own], mass[own, k] / mass[own, k].sum(), kind, least)
    weights = np.maximum(totals / totals.sum(), _LEAST_WEIGHT)
    return Mixture(weights / weights.sum(), location, scale, laplacian)


def _component(
    x: np.ndarray, shares: np.ndarray, kind: Kind, least: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Location, scale and kind of each dimension of one component; `shares` (n,) sum to one."""
    mean = shares @ x
    variance = shares @ (x - mean) ** 2
    sigma = np.maximum(np.sqrt(variance), least)
    gaussian_cost = np.log(sigma) + 0.5 * _LOG_2PI + 0.5 * variance / sigma**2
    if kind == "gaussian":
        return mean, sigma, np.zeros(len(mean), dtype=bool)
    order = np.argsort(x, axis=0, kind="stable")
    middle = (np.cumsum(shares[order], axis=0) < 0.5 * shares.sum()).sum(axis=0).clip(max=len(x) - 1)
    columns = np.arange(x.shape[1])
    median = x[order[middle, columns], columns]
    deviation = shares @ np.abs(x - median)
    s = np.maximum(deviation, least)
    laplacian_cost = np.log(2 * s) + deviation / s
    better = laplacian_cost < gaussian_cost if kind == "hybrid" else np.ones(len(mean), dtype=bool)
    return np.where(better, median, mean), np.where(better, s, sigma), better
