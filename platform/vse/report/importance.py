"""Which searched key matters: permutation importance in a random forest of the objective (Breiman, 2001)."""

import math
from dataclasses import dataclass

import numpy as np

from vse.report.response import ResponseResults, is_numeric

FEWEST = 8  # fewer points are too few for a forest
TREES, REPEATS = 200, 20


@dataclass(frozen=True, kw_only=True)
class Importance:
    """Permutation importance of the searched keys.

    Attributes:
        shares: (mean, standard deviation over permutations) of the R² lost when the values of a key are permuted, by
            key, largest first.
        explained: R² of the forest on points that a tree has not seen. Near or below 0, the shares mean nothing.
        points: number of points.
        left_out: keys that only some points have, which cannot be permuted.
    """

    shares: dict[str, tuple[float, float]]
    explained: float
    points: int
    left_out: tuple[str, ...] = ()


def importance(results: ResponseResults) -> Importance | None:
    """Importance of the searched keys that every complete point has; None if there are too few points or keys."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.inspection import permutation_importance

    points, keys = results.complete, _shared(results)
    if len(points) < FEWEST or len(keys) < 2:
        return None
    table = encoded(results)
    objective = np.array([p.objective.mean for p in points])
    if np.ptp(objective) == 0:
        return None
    forest = RandomForestRegressor(TREES, oob_score=True, min_samples_leaf=2, random_state=0, n_jobs=1)
    forest.fit(table, objective)
    drops = permutation_importance(forest, table, objective, n_repeats=REPEATS, random_state=0, n_jobs=1)
    shares = {
        key: (float(drops["importances_mean"][k]), float(drops["importances_std"][k])) for k, key in enumerate(keys)
    }
    ranked = dict(sorted(shares.items(), key=lambda item: -item[1][0]))
    left_out = tuple(key for key in results.keys if key not in shares)
    return Importance(shares=ranked, explained=float(forest.oob_score_), points=len(points), left_out=left_out)


def _shared(results: ResponseResults) -> list[str]:
    """Searched keys that every complete point has. Points of another alternative lack the keys below one."""
    return [key for key in results.keys if all(key in p.values for p in results.complete)]


def encoded(results: ResponseResults) -> np.ndarray:
    """Values as numbers (complete points, shared keys): logarithms if all are positive, and indices of texts."""
    columns = []
    for key in _shared(results):
        values = [p.values[key] for p in results.complete]
        if is_numeric(results, key):
            numbers = [float(value) for value in values]
            columns.append([math.log(v) for v in numbers] if min(numbers) > 0 else numbers)
        else:
            names = sorted({str(value) for value in values})
            columns.append([float(names.index(str(value))) for value in values])
    return np.array(columns).T
