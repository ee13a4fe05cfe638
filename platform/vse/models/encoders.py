"""Layers that families share: word tables, encoders of pooled features and of regions."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vse.models.family import Batch, Context, FeatureScale
from vse.models.noise import KeyedDropout
from vse.models.pooling import GPO, pool_regions

IMAGES, WORDS, MODIFIERS = 900, 901, 902  # streams of dropout
EPSILON = 1e-8  # of every normalisation, so that a zero vector stays zero


def epsilon(dtype: torch.dtype) -> float:
    """EPSILON, or the smallest normal number of the type if that is larger."""
    return max(EPSILON, torch.finfo(dtype).tiny)


def unit(x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Norm(x) = x / ‖x‖₂ over the last dimension, with an epsilon and in single precision at least."""
    single = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    return F.normalize(single, dim=-1, eps=epsilon(x.dtype))


class WordTable(nn.Module):
    """Word vectors by vocabulary id: given ones, and learned ones initialised in U(-0.1, 0.1) (VSE++) for other words.

    The state dict has one table, `embedding.weight` (vocabulary, dim), so that a trained model can be loaded without
    the given vectors. If they are fixed, that table is not trained and learned rows are a parameter of their own:
    weight decay would move the given rows of a shared parameter even without a gradient.

    Args:
        context: the vocabulary's size and the given vectors.
        dim: dimension of a vector if none are given. Given vectors have their own, so a family continues with the
            table's `dim`.
        fixed: keep given vectors as they are (UniVSE, A.3).
        learn_missing: learn vectors of words without a given one if the given ones are fixed.
    """

    learned: nn.Parameter | None
    place: Tensor

    def __init__(self, context: Context, dim: int, fixed: bool, learn_missing: bool = True) -> None:
        super().__init__()
        vectors = context.word_vectors
        self.embedding = nn.Embedding(
            context.vocabulary_size, dim if vectors is None else vectors.shape[1], padding_idx=0
        )
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.register_parameter("learned", None)
        if vectors is None:
            return
        has_vector = vectors.abs().sum(1) > 0
        with torch.no_grad():
            self.embedding.weight[has_vector] = vectors[has_vector].to(self.embedding.weight.dtype)
        if not fixed:
            return
        self.embedding.weight.requires_grad_(False)
        missing = ~has_vector & (torch.arange(len(has_vector)) != 0)  # padding learns nothing
        if learn_missing and missing.any():
            self.learned = nn.Parameter(self.embedding.weight[missing].clone())
            # Row of `learned` for each word, -1 for a word with a given vector
            self.register_buffer("place", torch.where(missing, missing.cumsum(0) - 1, -1), persistent=False)
            self.register_state_dict_post_hook(_join_table)
            self.register_load_state_dict_pre_hook(_split_table)

    @property
    def dim(self) -> int:
        """Dimension of a word vector: of the given ones, else as configured."""
        return self.embedding.embedding_dim

    def forward(self, words: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch dim"]:
        vectors = self.embedding(words)
        if self.learned is None:
            return vectors
        place = self.place[words]
        return torch.where((place >= 0)[..., None], F.embedding(place.clamp_min(0), self.learned), vectors)

    def rows(self, batch: Batch) -> tuple[Float[Tensor, "words dim"], Int[Tensor, "batch time"]]:
        """Vectors of the distinct words of a batch, and the row numbers of every caption."""
        words, (tokens,) = distinct(batch["tokens"])
        return self(words), tokens


def _join_table(table: nn.Module, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    """Write the learned rows into the table of a state dict that is being saved."""
    assert isinstance(table, WordTable)
    whole = state[f"{prefix}embedding.weight"].clone()
    whole[table.place >= 0] = state.pop(f"{prefix}learned").to(whole.dtype)
    state[f"{prefix}embedding.weight"] = whole


def _split_table(table: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Take the learned rows from a state dict that is being loaded; torch reports a table of another shape."""
    assert isinstance(table, WordTable)
    whole = state.get(f"{prefix}embedding.weight")
    if whole is not None and whole.shape == table.embedding.weight.shape:
        state[f"{prefix}learned"] = whole[(table.place >= 0).to(whole.device)]


def distinct(*ids: Int[Tensor, "..."]) -> tuple[Int[Tensor, " distinct"], list[Tensor]]:
    """Distinct numbers of several tensors.

    On a GPU every number counts as distinct, since counting them would stop it. So it is in an exported graph.

    Args:
        *ids: tensors of numbers.

    Returns:
        The distinct numbers, always with 0, and each tensor as positions among them.
    """
    flat = torch.cat([torch.zeros(1, dtype=torch.long, device=ids[0].device), *(i.reshape(-1) for i in ids)])
    if flat.is_cuda or torch.onnx.is_in_onnx_export():
        values, inverse = flat, torch.arange(flat.shape[0], device=flat.device)
    else:
        values, inverse = torch.unique(flat, return_inverse=True)
    parts = torch.split(inverse[1:], [i.numel() for i in ids])
    return values, [part.view(i.shape) for part, i in zip(parts, ids, strict=True)]


def linear_xavier(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer initialised in U(±sqrt(6 / (inputs + outputs))) with bias zero, as in the code of VSE++."""
    layer = nn.Linear(inputs, outputs)
    bound = math.sqrt(6.0 / (inputs + outputs))
    nn.init.uniform_(layer.weight, -bound, bound)
    nn.init.zeros_(layer.bias)
    return layer


def present(features: Float[Tensor, "batch regions channels"]) -> Bool[Tensor, "batch regions"] | None:
    """Mask of the regions that exist (absent ones of ready-made arrays are zeros), or None if all do.

    A GPU always gets a mask: asking whether a region is absent would stop it, and the mask costs little. An exported
    graph has one because it has no branches.
    """
    mask = (features != 0).any(-1)
    return mask if mask.is_cuda or torch.onnx.is_in_onnx_export() or not bool(mask.all()) else None


def two_layers(inputs: int, hidden_dim: int, outputs: int) -> nn.Sequential:
    """Two linear layers with a ReLU between them.

    Args:
        inputs: dimension of the input.
        hidden_dim: dimension between the layers.
        outputs: dimension of the output.
    """
    return nn.Sequential(nn.Linear(inputs, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, outputs))


class RegionEncoder(nn.Module):
    """A 1x1 convolution over frozen regions (UniVSE §3.3) and a pooling Ψ of them (supplement A.2, or `gpo`).

    Args:
        channels: of the features.
        dim: of the joint space.
        pooling: `avg`, `max`, `maxk` (see `pool_regions`) or `gpo`.
        k: of `maxk`.
        scale: of the features (see `FeatureScale`).
        dropout: of the features.
    """

    def __init__(self, channels: int, dim: int, pooling: str, k: int, scale: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.scale, self.dropout = FeatureScale(channels, scale), KeyedDropout(dropout, IMAGES)
        self.project = linear_xavier(channels, dim)
        self.pooling, self.k = pooling, k
        self.gpo = GPO() if pooling == "gpo" else None

    def forward(
        self,
        features: Float[Tensor, "batch regions channels"],
        mask: Bool[Tensor, "batch regions"] | None = None,
        draw: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch regions dim"], Float[Tensor, "batch dim"]]:
        """Embeddings of regions and images.

        Args:
            features: of regions.
            mask: True for regions that exist; None if all do.
            draw: keys for dropout, needed in training.

        Returns:
            Local embeddings V, not normalised, and the unit embedding v of each image.
        """
        regions = self.project(self.dropout(self.scale(features), draw))
        pooled = self.gpo(regions, mask) if self.gpo else pool_regions(regions, self.pooling, self.k, mask)
        return regions, unit(pooled)


class PooledEncoder(nn.Module):
    """A linear layer over a pooled CNN feature, or over a fixed vector of a caption.

    Args:
        channels: of the feature.
        dim: of the joint space.
        scale: of the feature (see `FeatureScale`).
        dropout: of the feature.
        normalize: to unit length (VSE++) or not (VSE0).
        images: whether the features are of images.
    """

    def __init__(
        self, channels: int, dim: int, scale: str, dropout: float = 0.0, normalize: bool = True, *, images: bool = True
    ) -> None:
        super().__init__()
        self.scale = FeatureScale(channels, scale, images=images)
        self.dropout = KeyedDropout(dropout, IMAGES if images else WORDS)
        self.project = linear_xavier(channels, dim)
        self.normalize = normalize

    def forward(
        self, features: Float[Tensor, "batch channels"], draw: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, "batch dim"]:
        """Embeddings. `draw`: keys for dropout, needed in training."""
        codes = self.project(self.dropout(self.scale(features), draw))
        return unit(codes) if self.normalize else codes
