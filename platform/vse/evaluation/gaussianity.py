"""Are codes distributed as N(0, I)? What the Gaussian regulariser of jWAE (section 4.2) is for, measured.

Per dimension: moments, and the Kolmogorov-Smirnov distance to the standard normal, of the codes as they are and of the
dimension standardised (its shape alone). Of the whole: the norm, correlations between dimensions, and how well a
discriminator tells codes from samples of the prior: the family's own, or a fresh one trained on half of the codes.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

Judge = Callable[[Tensor], Tensor]  # codes (items, dim) -> logits (items,), positive for the prior


@dataclass(frozen=True)
class Gaussianity:
    """Means over dimensions. N(0, I): 0, 1, 0, 3, about 0.87 / √items, the same, 1, about 0.8 / √items.

    norm: mean length over √dim; correlation: mean absolute value between two dimensions.
    """

    mean: float
    variance: float
    skewness: float
    kurtosis: float
    distance: float
    shape_distance: float
    norm: float
    correlation: float

    def numbers(self) -> dict[str, float]:
        """By name, for journals and tables."""
        return asdict(self)


def normal_distance(codes: Float[Tensor, "items dim"]) -> Float[Tensor, " dim"]:
    """Kolmogorov-Smirnov distance sup |F_n − Φ| of each dimension to the standard normal."""
    num = len(codes)
    ordered = 0.5 * (1 + torch.erf(codes.double().sort(dim=0).values / math.sqrt(2)))
    steps = torch.arange(num + 1, dtype=torch.float64, device=codes.device)[:, None] / num
    return torch.maximum((ordered - steps[:-1]).amax(0), (steps[1:] - ordered).amax(0))


def gaussianity(codes: Float[Tensor, "items dim"]) -> Gaussianity:
    """Statistics of codes that are not normalised; at least two items. A constant dimension is at distance 1."""
    assert len(codes) > 1, "statistics need two codes"
    codes = codes.double()
    mean, variance = codes.mean(0), codes.var(0, correction=0)
    varies = variance > 1e-24
    standard = (codes - mean) / torch.where(varies, variance, torch.ones_like(variance)).sqrt()
    shape = torch.where(varies, normal_distance(standard), torch.ones_like(variance))
    correlations = standard.T @ standard / len(codes)
    dim = codes.shape[1]
    off = correlations.abs().sum() - correlations.diagonal().abs().sum()
    return Gaussianity(
        mean=float(mean.abs().mean()),
        variance=float(variance.mean()),
        skewness=float((standard**3).mean(0).abs().mean()),
        kurtosis=float((standard**4).mean(0).mean()),
        distance=float(normal_distance(codes).mean()),
        shape_distance=float(shape.mean()),
        norm=float(codes.norm(dim=1).mean()) / math.sqrt(dim),
        correlation=float(off) / max(1, dim * (dim - 1)),
    )


@torch.no_grad()
def accuracy(judge: Judge, codes: Float[Tensor, "items dim"], seed: int = 0) -> float:
    """Share of codes and as many samples of N(0, I) that `judge` tells right; chance is one half."""
    samples = _prior(codes, torch.Generator().manual_seed(seed))
    right = (judge(samples) > 0).double().mean() + (judge(codes) < 0).double().mean()
    return float(right) / 2


def fresh_accuracy(codes: Float[Tensor, "items dim"], seed: int = 0, steps: int = 300, hidden_dim: int = 64) -> float:
    """`accuracy` on one half of the codes of a discriminator trained on the other half, three layers as jWAE's.

    It begins at zero knowledge for every model, so that it compares models that never had a discriminator.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(codes), generator=generator)
    codes = codes.detach().float().cpu()[order]
    seen, unseen = codes[: len(codes) // 2], codes[len(codes) // 2 :]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        judge = nn.Sequential(
            nn.Linear(codes.shape[1], hidden_dim),
            nn.LeakyReLU(),
            nn.Linear(hidden_dim, hidden_dim),
            nn.LeakyReLU(),
            nn.Linear(hidden_dim, 1),
            nn.Flatten(0),
        )
    optimizer = torch.optim.Adam(judge.parameters(), lr=1e-3)
    for _ in range(steps):
        rows = torch.randint(len(seen), (128,), generator=generator)
        loss = F.softplus(judge(seen[rows])).mean() + F.softplus(-judge(_prior(seen[rows], generator))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return accuracy(judge, unseen, seed + 1)


def _prior(codes: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(codes.shape, generator=generator).to(codes)
