"""Canonical correlation analysis of image features and sentence vectors: the baseline without negatives.

Our reading of Klein et al. (CVPR 2015), which is not among our sources, as the jWAE paper compares with it: CCA on mean
word vectors or Fisher vectors. Codes are the canonical variables, each scaled by a power of its correlation and
compared by cosine (Gong et al., IJCV 2014, power 4). Every default is ours.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse.config import knob
from vse.models.encoders import unit
from vse.models.family import Batch, Context, Encoded, Family, FeatureScale, Inputs
from vse.registry import ComponentConfig, register


class Moments(NamedTuple):
    """Means and covariances (divided by the number of rows) of two sets of paired rows, in float64."""

    mean_x: Float[Tensor, " x"]
    mean_y: Float[Tensor, " y"]
    xx: Float[Tensor, "x x"]
    yy: Float[Tensor, "y y"]
    xy: Float[Tensor, "x y"]


def moments(pairs: Callable[[], Iterator[tuple[Tensor, Tensor]]]) -> Moments:
    """Moments of paired rows in two passes, means first for numerical accuracy.

    Args:
        pairs: each call iterates over the same blocks of rows of x and y.
    """
    count = 0
    sums: tuple[Tensor, Tensor] | None = None
    for x, y in pairs():
        count += len(x)
        block = x.double().sum(0), y.double().sum(0)
        sums = block if sums is None else (sums[0] + block[0], sums[1] + block[1])
    assert sums is not None, "no pair to learn from"
    mean_x, mean_y = sums[0] / count, sums[1] / count
    xx = torch.zeros(len(mean_x), len(mean_x), dtype=torch.float64)
    yy = torch.zeros(len(mean_y), len(mean_y), dtype=torch.float64)
    xy = torch.zeros(len(mean_x), len(mean_y), dtype=torch.float64)
    for x, y in pairs():
        a, b = x.double() - mean_x, y.double() - mean_y
        xx.addmm_(a.T, a, alpha=1 / count)
        yy.addmm_(b.T, b, alpha=1 / count)
        xy.addmm_(a.T, b, alpha=1 / count)
    return Moments(mean_x, mean_y, xx, yy, xy)


def canonical_maps(
    stats: Moments, dim: int, ridge: float
) -> tuple[Float[Tensor, "x dim"], Float[Tensor, "y dim"], Float[Tensor, " dim"]]:
    """Solution of CCA: AᵀC_xx A = BᵀC_yy B = I and AᵀC_xy B = diag ρ.

    Args:
        stats: moments of x and y.
        dim: canonical variables to keep, at most the smaller dimension.
        ridge: added to the diagonal of each covariance, as a share of its mean variance.

    Returns:
        Maps A (x, dim) and B (y, dim), and the correlations ρ (dim,) in descending order.
    """

    def root(covariance: Tensor) -> Tensor:
        """Lower Cholesky factor of the regularised covariance."""
        add = ridge * covariance.diagonal().mean().clamp_min(1e-12)
        return torch.linalg.cholesky(covariance + add * torch.eye(len(covariance), dtype=covariance.dtype))

    root_x, root_y = root(stats.xx), root(stats.yy)
    half = torch.linalg.solve_triangular(root_x, stats.xy, upper=False)
    whitened = torch.linalg.solve_triangular(root_y, half.T, upper=False).T
    u, correlations, v = torch.linalg.svd(whitened, full_matrices=False)
    a = torch.linalg.solve_triangular(root_x.T, u[:, :dim], upper=True)
    b = torch.linalg.solve_triangular(root_y.T, v[:dim].T, upper=True)
    return a, b, correlations[:dim]


def principal_part(stats: Moments, components: int) -> tuple[Moments, Float[Tensor, "x components"]]:
    """Moments of the first principal components of x with y.

    Args:
        stats: moments of x and y.
        components: number of components, at most the dimension of x.

    Returns:
        The moments, with the mean of x at zero, and the directions of the components in descending order of variance.
    """
    directions = torch.linalg.eigh(stats.xx).eigenvectors.flip(1)[:, :components]
    mean = torch.zeros(directions.shape[1], dtype=directions.dtype)
    part = Moments(mean, stats.mean_y, directions.T @ stats.xx @ directions, stats.yy, directions.T @ stats.xy)
    return part, directions


class Fitted(NamedTuple):
    """Maps of both sides, each scaled by a power of the correlations, and the means that are subtracted before."""

    image_map: Float[Tensor, "x dim"]
    image_mean: Float[Tensor, " x"]
    caption_map: Float[Tensor, "y dim"]
    caption_mean: Float[Tensor, " y"]


def fitted_maps(
    pairs: Callable[[], Iterator[tuple[Tensor, Tensor]]], dim: int, ridge: float, power: float, components: int
) -> Fitted:
    """CCA of paired rows, which keeps only means and covariances in memory.

    Args:
        pairs: each call iterates over the same blocks of rows of x and y.
        dim: canonical variables to keep, at most the smaller dimension.
        ridge: added to the diagonal of each covariance, as a share of its mean variance.
        power: of the correlations.
        components: principal components of x that are read; 0: all.
    """
    stats = moments(pairs)
    part, directions = principal_part(stats, components) if components else (stats, None)
    a, b, correlations = canonical_maps(part, dim, ridge)
    if directions is not None:
        a = directions @ a
    shrink = correlations.clamp_min(0) ** power
    return Fitted(a * shrink, stats.mean_x, b * shrink, stats.mean_y)


@register("family", "cca")
class CCA(Family):
    """Codes `images` and `captions` (batch, dim) are unit vectors. Fitted in closed form, without training steps.

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    by_steps = False
    image_map: nn.Parameter
    image_mean: nn.Parameter
    caption_map: nn.Parameter
    caption_mean: nn.Parameter

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """All ours."""

        dim: int = knob(1024, "canonical variables kept; at most the smaller of the input dimensions", low=1)
        image: str = knob("pooled", "which image features", choices=("pooled", "fc1"))
        image_components: int = knob(0, "principal components of the image features that are read; 0: all", low=0)
        ridge: float = knob(0.1, "ridge added to the variances, as a share of their mean", above=0)
        power: float = knob(4.0, "power of the correlations that scale the variables (Gong et al.)", low=0)

    @classmethod
    def requires(cls, config: "CCA.Config") -> Inputs:
        return Inputs(image=config.image, components=False, sentence=True)

    def __init__(self, config: "CCA.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config)
        channels, length = context.feature_dims[config.image], context.sentence_dim
        dim = min(config.dim, channels, length, config.image_components or channels)
        self.scale = FeatureScale(channels, scale)
        for side, size in (("image", channels), ("caption", length)):
            self.register_parameter(f"{side}_map", nn.Parameter(torch.zeros(size, dim), requires_grad=False))
            self.register_parameter(f"{side}_mean", nn.Parameter(torch.zeros(size), requires_grad=False))

    @torch.no_grad()
    def fit(self, batches: Callable[[], Iterator[Batch]], pairs: Callable[[], Iterator[Batch]] | None = None) -> None:
        """Fit exactly in two passes over the pairs, which keep only means and covariances in memory."""

        def vectors() -> Iterator[tuple[Tensor, Tensor]]:
            for batch in (pairs or batches)():
                yield self.scale(batch[self.inputs.image]), batch["sentence"]

        c = self.config
        maps = fitted_maps(vectors, self.image_map.shape[1], c.ridge, c.power, c.image_components)
        for name, values in maps._asdict().items():
            self.get_parameter(name).copy_(values)

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim) from features (batch, channels)."""
        features = self.scale(batch[self.inputs.image].to(self.image_map.dtype))
        return {"images": unit((features - self.image_mean) @ self.image_map)}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim) from sentence vectors (batch, length)."""
        vectors = batch["sentence"].to(self.image_map.dtype)
        return {"captions": unit((vectors - self.caption_mean) @ self.caption_map)}
