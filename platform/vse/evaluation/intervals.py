"""Mean and 95 % confidence interval over seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Interval:
    """`mean` of `count` values, and `half` the width of its 95 % interval (NaN for a single value)."""

    mean: float
    half: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if math.isnan(self.half) else f"{self.mean:.1f} ± {self.half:.1f}"


def quantile(freedom: int) -> float:
    """The factor of a standard error that makes a 95 % interval with so many degrees of freedom (Student's t)."""
    from scipy.special import stdtrit  # here: a job that draws no interval does not wait for it

    return float(stdtrit(freedom, 0.975))


def interval(values: Sequence[float]) -> Interval:
    """Student's t interval of the mean; the values are of independent seeds."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) < 2:
        return Interval(float(data.mean()), math.nan, len(data))
    error = float(data.std(ddof=1)) / math.sqrt(len(data))
    return Interval(float(data.mean()), quantile(len(data) - 1) * error, len(data))
