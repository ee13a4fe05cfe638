"""Losses of relational embeddings (Yan, 2019, §2.4-2.5): the global hinge, and alignment of structure under it.

The negative of an image (or caption) in §2.5 is its hardest under the global score, as stated. Our readings: L_pool
prints v but means p_v. L_ca prints the same term for positive and negative; we take v'_i from the own caption as the
positive and from the hardest negative caption as the negative, and likewise for words. Sums are over pools and nodes as
printed. v'_i is a mean of unit nodes and is not normalised again, since s is an inner product.
"""

from dataclasses import dataclass
from types import MappingProxyType

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse.config import knob
from vse.errors import InputError
from vse.objectives.objective import Encoded, batch_scores, single
from vse.objectives.ranking import HingeConfig, HingeObjective
from vse.registry import register


def hardest(
    scores: Float[Tensor, "items items"], excluded: Bool[Tensor, "items items"]
) -> tuple[Int[Tensor, " items"], Bool[Tensor, " items"]]:
    """For each row, the column of its hardest negative and whether it has one. The diagonal is no negative."""
    excluded = excluded | torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    if not len(scores):
        return torch.zeros(0, dtype=torch.long, device=scores.device), excluded.new_zeros(0)
    return scores.detach().masked_fill(excluded, -torch.inf).argmax(1), ~excluded.all(1)


def pool_hinge(
    pools: Float[Tensor, "items pools dim"],
    others: Float[Tensor, "items pools dim"],
    negative: Int[Tensor, " items"],
    some: Bool[Tensor, " items"],
    margin: float,
) -> Float[Tensor, ""]:
    """L_pool (§2.5.1) in one direction: Σ_b Σ_i [γ + p_i(b) · q_i(b⁻) − p_i(b) · q_i(b)]₊.

    Args:
        pools: unit pools p of one modality.
        others: unit pools q of the other modality.
        negative: hardest negative b⁻ of each item.
        some: whether an item has a negative.
        margin: γ.
    """
    pools, others = single(pools), single(others)
    gap = (pools * others[negative]).sum(-1) - (pools * others).sum(-1)
    return ((margin + gap).clamp_min(0) * some[:, None]).sum()


def attended(
    nodes: Float[Tensor, "items n dim"], others: Float[Tensor, "items m dim"]
) -> tuple[Float[Tensor, "items n"], Float[Tensor, "items m"]]:
    """Cross attention s(v_i, v'_i) and s(u_j, u'_j) with v'_i = Σ_j softmax_j(v_i · u_j) u_j (§2.5.2).

    Args:
        nodes: unit vectors v, or zero if absent. Nothing attends to absent nodes, and they score zero.
        others: unit vectors u, likewise.

    Returns:
        Scores of nodes (items, n) and of others (items, m).
    """
    with torch.autocast(nodes.device.type, enabled=False):
        products = single(nodes) @ single(others).mT
    lowest = torch.finfo(products.dtype).min
    here, there = (nodes != 0).any(-1)[..., None], (others != 0).any(-1)[:, None]
    over_others = products.masked_fill(~there, lowest).softmax(2)
    over_nodes = products.masked_fill(~here, lowest).softmax(1)
    return (over_others * products).sum(2), (over_nodes * products).sum(1)


@register("objective", "relational")
class RelationalLoss(HingeObjective):
    """Losses `sent` (global, §2.4), and `pool` (§2.5.1) or `attention` (§2.5.2) if the family returns their codes.

    Args:
        config: keys below `objective.`.
    """

    gathers = frozenset({"images", "captions", "image_pools", "caption_pools", "image_nodes", "caption_nodes"})
    ragged = frozenset({"caption_nodes"})
    sole = MappingProxyType({"relational": {"structure": "pool"}})

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(HingeConfig):
        """§3.4: margins 0.2; pooling trains 0.2 global + 0.8 pool, cross attention global + 0.15 attention."""

        margin: float = knob(0.2, "α of the global hinge", low=0)
        structure_margin: float = knob(
            0.2, "γ of the alignment of pools or nodes", low=0, only="model.structure=pool|attention"
        )
        global_weight: float = knob(1.0, "weight of the global loss (with pools: 0.2)", low=0)
        pool_weight: float = knob(0.8, "weight of the alignment of pools", low=0, only="model.structure=pool")
        attention_weight: float = knob(
            0.15, "weight of the alignment by cross attention", low=0, only="model.structure=attention"
        )
        hinge: str = knob("hardest", "negatives of the global loss", choices=("hardest", "sum"))

    def check(self, model: object) -> None:
        weight, structure = self.config.global_weight, getattr(model, "structure", "none")
        if structure != "none" and not self.weights(0)[structure]:
            raise InputError(
                f"objective.{structure}_weight=0: nothing else trains model.structure={structure}; use "
                "model.structure=none"
            )
        if structure == "none" and not weight:
            raise InputError("objective.global_weight=0: leaves no loss without pools or attention; use one above 0")
        if structure == "pool" and weight == type(self.config)().global_weight:
            raise InputError(
                f"objective.global_weight={weight:g}: is the weight without pools; with model.structure=pool add "
                "objective.global_weight=0.2, the thesis's weight (section 3.4), or another"
            )

    def weights(self, epoch: int) -> dict[str, float]:
        c = self.config
        return {"sent": c.global_weight, "pool": c.pool_weight, "attention": c.attention_weight}

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        c, scores = self.config, batch_scores(gathered)
        excluded = self.excluded(gathered)
        losses = {"sent": self.ranked(scores, excluded, epoch)}
        caption, some_caption = hardest(scores, excluded)
        image, some_image = hardest(scores.T, excluded.T)
        if "image_pools" in gathered:
            pools, others = gathered["image_pools"], gathered["caption_pools"]
            losses["pool"] = pool_hinge(pools, others, caption, some_caption, c.structure_margin) + pool_hinge(
                others, pools, image, some_image, c.structure_margin
            )
        if "image_nodes" in gathered:
            nodes, others = gathered["image_nodes"], gathered["caption_nodes"]
            own_nodes, own_others = attended(nodes, others)
            wrong_nodes, wrong_others = attended(nodes, others[caption])[0], attended(nodes[image], others)[1]
            of_nodes = (c.structure_margin + wrong_nodes - own_nodes).clamp_min(0)
            of_others = (c.structure_margin + wrong_others - own_others).clamp_min(0)
            losses["attention"] = (of_nodes * (nodes != 0).any(-1) * some_caption[:, None]).sum() + (
                of_others * (others != 0).any(-1) * some_image[:, None]
            ).sum()
        return losses
