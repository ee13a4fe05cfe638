"""The losses of CITE (Plummer et al., ECCV 2018), and those of jWAE-MSE+CITE (Mahajan et al., ICCV 2019, Table 7)."""

from dataclasses import dataclass
from types import MappingProxyType

from jaxtyping import Float
from torch import Tensor

from vse.config import knob
from vse.objectives.hinge import ABOUT_MASK, MASKS
from vse.objectives.jwae import JWAELoss
from vse.objectives.logistic import Logistic
from vse.objectives.objective import BATCH_NEGATIVES, LISTED, Encoded
from vse.registry import register

L1 = knob(5e-5, "weight of the L1 norm of the concepts' logits (released code)", low=0)


def concept_norm(logits: Float[Tensor, "items concepts"]) -> Float[Tensor, ""]:
    """Σ_i ‖u_i‖₁ of the logits of concept weights, before their softmax."""
    return logits.abs().sum()


@register("objective", "cite")
class CITELoss(Logistic):
    """Losses `sent`, the logistic loss over the pairs of a batch, and `concepts`, Σ ‖u‖₁.

    Args:
        config: keys below `objective.`.
    """

    local = frozenset({"concepts"})
    families = frozenset({"cite"})
    semi_supervised = False

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(Logistic.Config):
        """λ of the released code."""

        l1: float = L1

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        return {**super().__call__(encoded, gathered, epoch), "concepts": concept_norm(encoded["concepts"])}

    def weights(self, epoch: int) -> dict[str, float]:
        return {"sent": 1.0, "concepts": self.config.l1}


@register("objective", "jwae_cite")
class JWAECITELoss(JWAELoss):
    """Losses of jWAE-MSE (eq. 8), and CITE's `logistic` over the pairs of a batch and `concepts`.

    Args:
        config: keys below `objective.`.
    """

    gathers = JWAELoss.gathers | LISTED
    local = JWAELoss.local | {"concepts"}
    sole = MappingProxyType({"jwae_cite": {}})
    families = frozenset(sole)
    semi_supervised = False
    own_negatives = True

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(JWAELoss.Config):
        """Published for jWAE-MSE: λ = 1, 1, 0.2, 0.2. The weight of CITE's loss is ours."""

        match: str = knob("mse", "squared error (eq. 8)", choices=("mse",))
        logistic: float = knob(1.0, "weight of CITE's logistic loss (ours)", above=0)
        l1: float = L1
        mask: str = knob("same", ABOUT_MASK, choices=MASKS, only="batch_negatives=true")
        batch_negatives: bool = BATCH_NEGATIVES

    def __init__(self, config: "JWAECITELoss.Config") -> None:
        super().__init__(config)
        if self.averaged:
            self.averaged |= {"logistic"}
        self._pairs = Logistic(Logistic.Config(mask=config.mask, batch_negatives=config.batch_negatives))
        self.scalars = self._pairs.scalars

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        losses = super().__call__(encoded, gathered, epoch)
        if "judged_prior" in encoded:
            return losses
        logistic = self._pairs(encoded, gathered, epoch)["sent"]
        return {**losses, "logistic": logistic, "concepts": concept_norm(encoded["concepts"])}

    def weights(self, epoch: int) -> dict[str, float]:
        return super().weights(epoch) | {"logistic": self.config.logistic, "concepts": self.config.l1}
