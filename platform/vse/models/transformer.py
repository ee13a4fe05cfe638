"""Pre-norm transformer encoder layers (Vaswani et al., 2017) over sets of regions or words (thesis §2.1)."""

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vse.errors import InputError


class EncoderLayer(nn.Module):
    """Z = X + Concat(heads(LN(X))) W^O; X' = Z + FF(LN(Z)).

    The thesis prints X' = X + FF(LN(Z)), which cannot be meant: in its first text layer X has another dimension than
    X' and no residual (§2.3). Where `input_dim` differs from `dim`, Z has no X.
    """

    def __init__(self, input_dim: int, dim: int, heads: int, hidden: int) -> None:
        super().__init__()
        if dim % heads:
            raise InputError(f"model.heads={heads}: must divide model.dim={dim}")
        self.heads, self.size, self.residual = heads, dim // heads, input_dim == dim
        self.before, self.between = nn.LayerNorm(input_dim), nn.LayerNorm(dim)
        self.queries_keys_values = nn.Linear(input_dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.feed_forward = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(
        self, items: Float[Tensor, "batch items input"], mask: Bool[Tensor, "batch items"] | None = None
    ) -> Float[Tensor, "batch items dim"]:
        """`mask` is True for items that exist; others are attended by none, and their own rows mean nothing."""
        projected = self.queries_keys_values(self.before(items)).unflatten(-1, (3, self.heads, self.size))
        queries, keys, values = projected.permute(2, 0, 3, 1, 4)
        allowed = None if mask is None else mask[:, None, None, :]
        attended = F.scaled_dot_product_attention(queries, keys, values, attn_mask=allowed)
        mixed = self.out(attended.transpose(1, 2).flatten(2))
        if self.residual:
            mixed = items + mixed
        return mixed + self.feed_forward(self.between(mixed))
