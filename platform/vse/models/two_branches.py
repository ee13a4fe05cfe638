"""Two branches over fixed vectors, of an image and of a caption, whose pairs a network scores."""

from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Float, Int
from torch import Tensor, nn

from vse.config import knob
from vse.models.encoders import IMAGES, WORDS
from vse.models.family import Batch, Context, Family, FeatureScale, Inputs
from vse.models.noise import KeyedDropout


@dataclass(frozen=True, kw_only=True)
class BranchConfig:
    """Keys of both branches."""

    dropout: float = knob(0.0, "dropout of the first layer of each branch", low=0, high=0.9)


class Branch(nn.Module):
    """Two linear layers over a scaled vector, with a ReLU and dropout between them.

    Args:
        scale: of the vectors.
        hidden_dim: outputs of the first layer.
        dim: outputs of the second layer.
        dropout: of the first layer's outputs.
        stream: of dropout.
    """

    def __init__(self, scale: FeatureScale, hidden_dim: int, dim: int, dropout: float, stream: int) -> None:
        super().__init__()
        self.scale, self.dropout = scale, KeyedDropout(dropout, stream)
        self.first, self.last = nn.Linear(len(scale.mean), hidden_dim), nn.Linear(hidden_dim, dim)

    def forward(
        self, vectors: Float[Tensor, "batch length"], draw: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, "batch dim"]:
        """Outputs of the branch, not normalised. `draw`: keys for dropout, needed in training."""
        return self.last(self.dropout(self.first(self.scale(vectors)).relu(), draw))


class TwoBranches(Family):
    """Base of the families with a branch for each side.

    Args:
        config: sizes and settings, among them `image`, `hidden_dim`, `dim` and `dropout`.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    unit_codes = False
    text_scale: ClassVar[str] = "none"  # with `standardize`, rsum of jWAE-MSE was 213 and not 239 (scenes, one seed)

    @classmethod
    def requires(cls, config: Any) -> Inputs:
        return Inputs(image=config.image, components=False, sentence=True)

    def __init__(self, config: Any, context: Context, scale: str = "standardize") -> None:
        super().__init__(config)
        sizes = config.hidden_dim, config.dim, config.dropout
        self.image = Branch(FeatureScale(context.feature_dims[config.image], scale), *sizes, IMAGES)
        self.text = Branch(FeatureScale(context.sentence_dim, self.text_scale, images=False), *sizes, WORDS)

    def branch_of_images(self, batch: Batch) -> Tensor:
        """(batch, dim) from features (batch, channels)."""
        return self.image(batch[self.inputs.image], batch.get("draw"))

    def branch_of_captions(self, batch: Batch) -> Tensor:
        """(batch, dim) from sentence vectors (batch, length)."""
        return self.text(batch["sentence"], batch.get("draw"))
