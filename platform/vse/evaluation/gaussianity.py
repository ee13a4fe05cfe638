"""Are codes distributed as N(0, I)? What the Gaussian regulariser of jWAE (section 4.2) is for, measured.

Per dimension: moments, and the Kolmogorov-Smirnov distance to the standard normal, of the codes as they are and of the
dimension standardised (its shape alone). Of the whole: the norm, correlations between dimensions, and how well a
discriminator tells codes from samples of the prior: the family's own, and a fresh one trained on half of the codes.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse.errors import Diverged
from vse.evaluation.codes import Encode, encode_captions, encode_images
from vse.models import noise
from vse.models.autoencoder import Discriminator
from vse.models.family import Batch, Encoded, Family
from vse.training.examples import Examples

Judge = Callable[[Tensor], Tensor]  # vectors (items, dim) -> logits (items,), positive for the prior
LEVEL = 0.05  # of the Kolmogorov-Smirnov test


@runtime_checkable
class KeepsCodes(Protocol):
    """Families whose unit vectors have codes behind them; the first of each pair has shape (batch, dim).

    A family with codes of regions or words gives one of each item, drawn by the batch's `draw`, as its discriminator
    sees them. In eval mode a VAE gives the means.
    """

    def image_codes(self, batch: Batch) -> tuple[Tensor, Encoded]: ...

    def caption_codes(self, batch: Batch) -> tuple[Tensor, Encoded]: ...


@dataclass(frozen=True)
class Gaussianity:
    """Over the dimensions of n codes; in brackets what n samples of N(0, I) give.

    mean: mean absolute mean (0.8 / √n); std: mean standard deviation (1), std_spread: their standard deviation (0.7 /
    √n); skewness: mean absolute value (2 / √n); kurtosis: mean (3); ks_median: median distance to N(0, 1) (0.83 / √n),
    ks_rejected: share of dimensions that a Kolmogorov-Smirnov test rejects at 0.05 (0.05), exact for independent codes,
    which those of one image's captions are not; ks_shape: median distance of standardised dimensions (0.6 / √n); norm:
    mean length over √dim (1); correlation: mean absolute value between two dimensions (0.8 / √n).
    """

    mean: float
    std: float
    std_spread: float
    skewness: float
    kurtosis: float
    ks_median: float
    ks_rejected: float
    ks_shape: float
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
    """Statistics of codes that are not normalised; at least two. The shape of a constant dimension is at distance 1.

    Raises Diverged if a code is NaN or infinite.
    """
    from scipy.stats import kstwo

    assert len(codes) > 1, "statistics need two codes"
    if not codes.isfinite().all():
        raise Diverged("codes are NaN or infinite, so the training has diverged")
    codes = codes.double()
    mean, std = codes.mean(0), codes.std(0, correction=0)
    varies = std > 1e-12
    standard = (codes - mean) / torch.where(varies, std, torch.ones_like(std))
    distance = normal_distance(codes)
    shape = torch.where(varies, normal_distance(standard), torch.ones_like(std))
    correlations = standard.T @ standard / len(codes)
    dim = codes.shape[1]
    off = correlations.abs().sum() - correlations.diagonal().abs().sum()
    return Gaussianity(
        mean=float(mean.abs().mean()),
        std=float(std.mean()),
        std_spread=float(std.std(correction=0)),
        skewness=float((standard**3).mean(0).abs().mean()),
        kurtosis=float((standard**4).mean(0).mean()),
        ks_median=float(distance.quantile(0.5)),
        ks_rejected=float((distance > float(kstwo.isf(LEVEL, len(codes)))).double().mean()),
        ks_shape=float(shape.quantile(0.5)),
        norm=float(codes.norm(dim=1).mean()) / math.sqrt(dim),
        correlation=float(off) / max(1, dim * (dim - 1)),
    )


@torch.no_grad()
def accuracy(judge: Judge, codes: Float[Tensor, "items dim"], seed: int = 0, judge_prior: Judge | None = None) -> float:
    """Share of codes and as many samples of N(0, I) that a discriminator tells apart correctly; chance is one half.

    Args:
        judge: Gives one logit for each vector, positive for what it takes for a sample of the prior.
        codes: The codes, not normalised.
        seed: Seed of the samples.
        judge_prior: Judges the samples if `judge` changes what it reads, such as one that normalises codes first; None
            for `judge`.
    """
    samples = _prior(codes, torch.Generator().manual_seed(seed))
    right = ((judge_prior or judge)(samples) > 0).double().mean() + (judge(codes) < 0).double().mean()
    return float(right) / 2


def fresh_accuracy(
    codes: Float[Tensor, "items dim"],
    image: Int[Tensor, " items"] | None = None,
    steps: int = 300,
) -> float:
    """`accuracy` on one half of the codes of a discriminator trained on the other half, three layers as jWAE's.

    It begins at zero knowledge for every model, so that it compares models that never had a discriminator.

    Args:
        codes: The codes, not normalised.
        image: The image of each code; None if each is of another image. Halves are of images, since one caption of an
            image gives the others away: captions with one normal code per image would be told from the prior in 97 % of
            cases.
        steps: Training steps, each on 128 codes and as many samples.
    """
    generator = torch.Generator().manual_seed(0)
    codes = codes.detach().float().cpu()
    image = torch.arange(len(codes)) if image is None else image.cpu().unique(return_inverse=True)[1]
    num_images = int(image.max()) + 1
    place = torch.randperm(num_images, generator=generator).argsort()[image]
    codes, num_seen = codes[place.argsort(stable=True)], int((place < num_images // 2).sum())
    seen, unseen = codes[:num_seen], codes[num_seen:]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = (nn.Linear(codes.shape[1], 64), nn.LeakyReLU(), nn.Linear(64, 64), nn.LeakyReLU(), nn.Linear(64, 1))
        judge = nn.Sequential(*layers, nn.Flatten(0))
    optimizer = torch.optim.Adam(judge.parameters(), lr=1e-3)
    for _ in range(steps):
        rows = torch.randint(len(seen), (128,), generator=generator)
        loss = F.softplus(judge(seen[rows])).mean() + F.softplus(-judge(_prior(seen[rows], generator))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return accuracy(judge, unseen, seed=1)


def _prior(codes: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(codes.shape, generator=generator).to(codes)


def gaussian_numbers(family: Family, examples: Examples) -> dict[str, dict[str, float]]:
    """Of `images` and of `captions`, all of them: `Gaussianity`, `fresh_accuracy`, and `own_accuracy` of the family's
    discriminator where it has one, which sees codes and samples as it did in training. The family is in eval mode."""
    assert isinstance(family, KeepsCodes), "asked of families that keep codes"
    own = getattr(family, "discriminator", None)
    image = examples.features[family.inputs.image]
    images = encode_images(family, image, _numbered(family.image_codes))["codes"]
    captions = encode_captions(family, examples.texts, _numbered(family.caption_codes))["codes"]
    by_side = dict[str, dict[str, float]]()
    for side, codes, of in (("images", images, None), ("captions", captions, torch.from_numpy(examples.image))):
        numbers = gaussianity(codes).numbers() | {"fresh_accuracy": fresh_accuracy(codes, of)}
        if isinstance(own, Discriminator):
            numbers["own_accuracy"] = accuracy(own, codes, judge_prior=own.logits)
        by_side[side] = numbers
    return by_side


def _numbered(codes: Callable[[Batch], tuple[Tensor, Encoded]]) -> Encode:
    """`codes` with a key for each item in `draw`: its place in the order in which items come, whatever the blocks."""
    seen = 0

    def encode(batch: Batch) -> Encoded:
        nonlocal seen
        first = next(iter(batch.values()))
        places = torch.arange(seen, seen + len(first), device=first.device)
        seen += len(first)
        return {"codes": codes({**batch, "draw": noise.keys(0, places)})[0]}

    return encode
