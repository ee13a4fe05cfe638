"""Mean and 95 % confidence interval over seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_T += (2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)
_T += (2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


@dataclass(frozen=True, slots=True)
class Interval:
    """`mean` of `count` values, and `half` the width of its 95 % interval (NaN for a single value)."""

    mean: float
    half: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if math.isnan(self.half) else f"{self.mean:.1f} ± {self.half:.1f}"


def quantile(freedom: int) -> float:
    """The factor of a standard error that makes a 95 % interval with so many degrees of freedom."""
    return _T[freedom - 1] if freedom <= len(_T) else 1.96 + 2.4 / freedom  # within 0.003 of the exact value


def interval(values: Sequence[float]) -> Interval:
    """Student's t interval of the mean; the values are of independent seeds."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) < 2:
        return Interval(float(data.mean()), math.nan, len(data))
    error = float(data.std(ddof=1)) / math.sqrt(len(data))
    return Interval(float(data.mean()), quantile(len(data) - 1) * error, len(data))
