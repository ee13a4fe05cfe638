"""Encoders that families share: words, images as one vector, images as regions."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vse.models.dropout import KeyedDropout
from vse.models.family import Context, FeatureScale
from vse.models.gpo import GPO
from vse.models.pooling import pool_regions

IMAGES, WORDS, MODIFIERS = 900, 901, 902  # streams of dropout
EPSILON = 1e-8  # of every normalisation: a zero vector stays zero instead of becoming NaN


def epsilon(dtype: torch.dtype) -> float:
    """EPSILON, or the smallest normal number where half precision has none so small."""
    return max(EPSILON, torch.finfo(dtype).tiny)


def unit(x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Norm(x) = x / ‖x‖₂ over the last dimension, with an epsilon; the norm is taken in single precision at least."""
    single = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    return F.normalize(single, dim=-1, eps=epsilon(x.dtype))


class WordTable(nn.Module):
    """Word vectors by vocabulary id: given ones, and learned ones that begin in U(-0.1, 0.1) (VSE++) for other words.

    `dim` is the size of a vector where none are given; given ones bring theirs, so a family takes the table's `dim`
    for what follows, never its own setting. fixed: given vectors stay as they are (UniVSE, A.3). Words without one
    are learned all the same, unless `learn_missing` is off because a family learns a vector of them elsewhere.

    The state has one table, `embedding.weight` (vocabulary, dim), whatever of it was learned: a trained model needs
    no given vectors to be loaded. Of fixed vectors that table is kept out of training, and rows that are learned are a
    parameter of their own: weight decay would move given rows of a shared one, even without a gradient.
    """

    learned: nn.Parameter | None
    place: Tensor

    def __init__(self, context: Context, dim: int, fixed: bool, learn_missing: bool = True) -> None:
        super().__init__()
        given = context.word_vectors
        self.embedding = nn.Embedding(context.vocabulary_size, dim if given is None else given.shape[1], padding_idx=0)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.register_parameter("learned", None)
        if given is None:
            return
        known = given.abs().sum(1) > 0
        with torch.no_grad():
            self.embedding.weight[known] = given[known].to(self.embedding.weight.dtype)
        if not fixed:
            return
        self.embedding.weight.requires_grad_(False)
        missing = ~known & (torch.arange(len(known)) != 0)  # padding learns nothing
        if learn_missing and missing.any():
            self.learned = nn.Parameter(self.embedding.weight[missing].clone())
            # Row of `learned` that each word has, -1 where its vector is given
            self.register_buffer("place", torch.where(missing, missing.cumsum(0) - 1, -1), persistent=False)
            self.register_state_dict_post_hook(_join_table)
            self.register_load_state_dict_pre_hook(_split_table)

    @property
    def dim(self) -> int:
        """Dimension of a word vector: that of the given ones, else the configured one."""
        return self.embedding.embedding_dim

    def forward(self, words: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch dim"]:
        vectors = self.embedding(words)
        if self.learned is None:
            return vectors
        place = self.place[words]
        return torch.where((place >= 0)[..., None], F.embedding(place.clamp_min(0), self.learned), vectors)


def _join_table(table: nn.Module, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    """Put learned rows among the fixed ones of a state that is being saved."""
    assert isinstance(table, WordTable)
    whole = state[f"{prefix}embedding.weight"].clone()
    whole[table.place >= 0] = state.pop(f"{prefix}learned").to(whole.dtype)
    state[f"{prefix}embedding.weight"] = whole


def _split_table(table: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Take learned rows out of a state that is being loaded; one that does not fit is left to torch's complaint."""
    assert isinstance(table, WordTable)
    whole = state.get(f"{prefix}embedding.weight")
    if whole is not None and whole.shape == table.embedding.weight.shape:
        state[f"{prefix}learned"] = whole[(table.place >= 0).to(whole.device)]


def distinct(*ids: Int[Tensor, "..."]) -> tuple[Int[Tensor, " distinct"], list[Tensor]]:
    """The distinct numbers in several tensors (0 always among them), and each tensor as positions among these.

    How many there are is not known before a GPU has counted them: there every number counts as one of its own.
    """
    flat = torch.cat([torch.zeros(1, dtype=torch.long, device=ids[0].device), *(i.reshape(-1) for i in ids)])
    if flat.is_cuda:
        values, inverse = flat, torch.arange(len(flat), device=flat.device)
    else:
        values, inverse = torch.unique(flat, return_inverse=True)
    parts = torch.split(inverse[1:], [i.numel() for i in ids])
    return values, [part.view(i.shape) for part, i in zip(parts, ids, strict=True)]


def linear_xavier(inputs: int, outputs: int) -> nn.Linear:
    """A linear map initialised U(±sqrt(6 / (inputs + outputs))), bias zero, as the VSE++ code does."""
    layer = nn.Linear(inputs, outputs)
    bound = math.sqrt(6.0 / (inputs + outputs))
    nn.init.uniform_(layer.weight, -bound, bound)
    nn.init.zeros_(layer.bias)
    return layer


def present(features: Float[Tensor, "batch regions channels"]) -> Bool[Tensor, "batch regions"] | None:
    """Which regions there are: absent ones of ready-made arrays are zeros. None where none is absent.

    A GPU is not asked whether one is, which would stop it: a mask that hides nothing costs it next to nothing.
    """
    there = (features != 0).any(-1)
    return None if not there.is_cuda and bool(there.all()) else there


class RegionEncoder(nn.Module):
    """A 1x1 convolution over frozen regions (UniVSE §3.3) and a pooling Ψ of them (supplement A.2, or `gpo`)."""

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
        """(local embeddings V, not normalised; unit embedding v of the image). `draw`: keys of dropout, in training."""
        regions = self.project(self.dropout(self.scale(features), draw))
        pooled = self.gpo(regions, mask) if self.gpo else pool_regions(regions, self.pooling, self.k, mask)
        return regions, unit(pooled)


class PooledEncoder(nn.Module):
    """One linear map of a pooled CNN feature, normalised (VSE++) or not (VSE0)."""

    def __init__(self, channels: int, dim: int, scale: str, dropout: float = 0.0, normalize: bool = True) -> None:
        super().__init__()
        self.scale, self.dropout = FeatureScale(channels, scale), KeyedDropout(dropout, IMAGES)
        self.project = linear_xavier(channels, dim)
        self.normalize = normalize

    def forward(
        self, features: Float[Tensor, "batch channels"], draw: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, "batch dim"]:
        """`draw`: keys of dropout, in training."""
        codes = self.project(self.dropout(self.scale(features), draw))
        return unit(codes) if self.normalize else codes
