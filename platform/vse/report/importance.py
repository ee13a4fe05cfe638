"""Which searched key matters: permutation importance in a random forest of the objective (Breiman, 2001)."""

import math
from dataclasses import dataclass

import numpy as np

from vse.report.response import ResponseResults, is_numeric

FEWEST = 8  # points below which a forest says nothing
TREES, REPEATS = 200, 20


@dataclass(frozen=True, kw_only=True)
class Importance:
    """`shares`: key -> (mean, standard deviation over permutations) of the R² that is lost when its values are
    permuted, largest first. `explained`: R² of the forest on points that a tree has not seen; near or below 0 the
    shares mean nothing."""

    shares: dict[str, tuple[float, float]]
    explained: float
    points: int


def importance(results: ResponseResults) -> Importance | None:
    """Importance of the searched keys over all complete points; None with too few points or one key."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.inspection import permutation_importance

    points = [p for p in results.complete if all(key in p.values for key in results.keys)]
    if len(points) < FEWEST or len(results.keys) < 2:
        return None
    table = encoded(results)
    objective = np.array([p.objective.mean for p in points])
    if np.ptp(objective) == 0:
        return None
    forest = RandomForestRegressor(TREES, oob_score=True, min_samples_leaf=2, random_state=0, n_jobs=1)
    forest.fit(table, objective)
    found = permutation_importance(forest, table, objective, n_repeats=REPEATS, random_state=0, n_jobs=1)
    shares = {
        key: (float(found["importances_mean"][k]), float(found["importances_std"][k]))
        for k, key in enumerate(results.keys)
    }
    ranked = dict(sorted(shares.items(), key=lambda item: -item[1][0]))
    return Importance(shares=ranked, explained=float(forest.oob_score_), points=len(points))


def encoded(results: ResponseResults) -> np.ndarray:
    """(complete points, keys) numbers: sizes of numbers, their logarithms where all are positive, places of texts."""
    columns = []
    points = [p for p in results.complete if all(key in p.values for key in results.keys)]
    for key in results.keys:
        values = [p.values[key] for p in points]
        if is_numeric(results, key):
            numbers = [float(value) for value in values]
            columns.append([math.log(v) for v in numbers] if min(numbers) > 0 else numbers)
        else:
            names = sorted({str(value) for value in values})
            columns.append([float(names.index(str(value))) for value in values])
    return np.array(columns).T
