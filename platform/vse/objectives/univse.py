"""UniVSE's losses (Wu et al., 2019, §3.1 eq. 1, §3.4 eqs. 2-3, §3.5 eq. 4; negatives of supplement A.1).

The paper does not give the following, chosen here: margin 0.2; the mean over the negatives of a component, the mean
over a caption's components of a type, the sum over captions; a temperature of the relevance map in eq. 2 (1 as
printed).
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse.adversaries.negatives import NegativeCounts
from vse.config import knob
from vse.errors import InputError
from vse.objectives.hinge import same_meaning
from vse.objectives.matching import MATCH, MATCHES, MatchingObjective
from vse.objectives.objective import Encoded, products
from vse.objectives.ranking import HingeConfig
from vse.registry import register

LEARNED = ("gru", "attention")  # aggregations with parameters, which only ℓ_comp trains


def masked_mean(values: Float[Tensor, "..."], mask: Bool[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Mean over the last dimension of the values that the mask keeps, or 0 if it keeps none."""
    return (values * mask).sum(-1) / mask.sum(-1).clamp_min(1)


def region_scores(
    table: Float[Tensor, "rows dim"], index: Int[Tensor, "batch items"], regions: Float[Tensor, "batch regions dim"]
) -> Float[Tensor, "batch items regions"]:
    """Products table[index[b, n]] · regions[b, r], by the cheaper of two ways.

    With few distinct rows, the whole table is multiplied with all regions. With many, rows are gathered and multiplied
    image by image.

    Args:
        table: embeddings of distinct components.
        index: rows of the table for each image.
        regions: embeddings of regions.

    Returns:
        Scores of shape (batch, items, regions).
    """
    batch, items = index.shape
    num = len(table)
    if num <= 2 * items:
        products = (table @ regions.flatten(0, 1).T).view(num * batch, regions.shape[1])
        rows = index * batch + torch.arange(batch, device=index.device)[:, None]
        return F.embedding(rows, products)
    return _GatheredProduct.apply(table, index, regions)


class _GatheredProduct(torch.autograd.Function):
    """table[index] @ regionsᵀ image by image, with both gradients in the layout in which they are accumulated.

    Autograd would compute the transpose of the regions' gradient, the largest tensor of a step, and copy it.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, regions: Tensor) -> Tensor:
        rows = F.embedding(index, table)
        ctx.save_for_backward(rows, index, regions)
        ctx.num = len(table)
        return torch.bmm(rows, regions.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, Tensor]:
        (grad,) = grad_outputs
        rows, index, regions = ctx.saved_tensors
        # Under autocast the product, and so its gradient, is of half precision while the factors may not be.
        to_rows = torch.bmm(grad, regions.to(grad.dtype)).to(rows.dtype)
        to_table = torch.ops.aten.embedding_dense_backward(to_rows, index, ctx.num, -1, False)
        return to_table, None, torch.bmm(grad.transpose(1, 2), rows.to(grad.dtype)).to(regions.dtype)


def region_hinge(
    positive: Float[Tensor, "batch items regions"],
    negative: Float[Tensor, "batch items count regions"],
    mask: Bool[Tensor, "batch items count"],
    margin: float,
    temperature: float,
    there: Bool[Tensor, "batch regions"] | None = None,
) -> Float[Tensor, "batch items"]:
    """Relevance-weighted alignment (eqs. 2-3) of each component: Σ_i M_i [δ + s(u⁻, V_i) − s(u⁺, V_i)]₊, mean over u⁻.

    M is the softmax over regions of s(u⁺, V_i) / temperature. The gradient flows through M too; the paper does not say.

    Args:
        positive: s(u⁺, V_i).
        negative: s(u⁻, V_i).
        mask: True for negatives that exist.
        margin: δ.
        temperature: of the relevance map.
        there: True for regions that exist; None if all do.

    Returns:
        Losses of shape (batch, items), 0 for an image without regions.
    """
    logits = positive / temperature
    if there is None:
        relevance = F.softmax(logits, dim=2)
    else:
        shown = there[:, None]
        relevance = F.softmax(logits.masked_fill(~shown, torch.finfo(logits.dtype).min), dim=2) * shown
    hinges = (negative + (margin - positive)[:, :, None]).clamp_min(0)
    return masked_mean((hinges * relevance[:, :, None]).sum(-1), mask)


@register("objective", "univse")
class UniVSELoss(MatchingObjective):
    """ℓ = ℓ_sent + η_c ℓ_comp + η_o ℓ_obj + η_a ℓ_attr + η_r ℓ_rel (eq. 4), each term by name.

    Args:
        config: keys below `objective.`.
    """

    gathers = frozenset(
        {"images", "sentences", "bags", "bag_mask", "captions", "frozen_images"}
        | {"image_group", "text_group", "sampled_relations", "sampled_relation"}
    )
    sole = MappingProxyType({"univse": {}})
    families = frozenset(sole)
    local = frozenset({"obj", "attr_word", "attr_noun", "rel_word", "rel_subject", "rel_object", "rel_batch"})

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(HingeConfig):
        """§3.5: η_c = η_o = η_a = 0.5; η_r = 0 for two epochs, then 1. Counts of negatives: A.1."""

        margin: float = knob(0.2, "δ of every hinge", low=0)
        eta_c: float = knob(0.5, "weight of the bag-of-components loss", low=0)
        eta_o: float = knob(0.5, "weight of the object loss", low=0)
        eta_a: float = knob(0.5, "weight of the attribute loss", low=0)
        eta_r: float = knob(1.0, "weight of the relation loss", low=0)
        relation_epoch: int = knob(2, "first epoch (0-based) with the relation loss", low=0, only="eta_r>0")
        temperature: float = knob(1.0, "temperature of the relevance map (eq. 2)", above=0, only="eta_o>0 or eta_a>0")
        hinge: str = knob("hardest", "negatives of sentences and bags", choices=("hardest", "sum"), only="match=hinge")
        nouns: int = knob(16, "negative nouns per object", low=1, only="eta_o>0")
        attribute_words: int = knob(8, "negative adjectives per pair", low=1, only="eta_a>0")
        attribute_nouns: int = knob(8, "negative nouns per pair", low=1, only="eta_a>0")
        relation_words: int = knob(4, "negative relation words per triple", low=1, only="eta_r>0")
        relation_subjects: int = knob(2, "negative subjects per triple", low=1, only="eta_r>0")
        relation_objects: int = knob(2, "negative objects per triple", low=1, only="eta_r>0")
        match: str = knob("hinge", MATCH, choices=MATCHES)

    def __init__(self, config: "UniVSELoss.Config") -> None:
        super().__init__(config, config.match)
        names = NegativeCounts.__dataclass_fields__.keys() - {"required"}
        weights = {
            "nouns": config.eta_o + config.eta_a + config.eta_r,
            "attributes": config.eta_a,
            "relations": config.eta_r,
        }
        self.negatives = NegativeCounts(
            **{name: getattr(config, name) for name in names},
            required=frozenset(pool for pool, weight in weights.items() if weight),
        )

    def check(self, model: object) -> None:
        how = getattr(model, "aggregation", "")
        if not self.config.eta_c and how in LEARNED:
            raise InputError(
                f"objective.eta_c=0: nothing else trains model.aggregation={how}; use more than 0, or avg, sum or max"
            )

    def weights(self, epoch: int) -> dict[str, float]:
        c = self.config
        eta_r = c.eta_r if epoch >= c.relation_epoch else 0.0
        weights = {"sent": 1.0, "comp": c.eta_c, "obj": c.eta_o, "attr_word": c.eta_a, "attr_noun": c.eta_a}
        weights |= dict.fromkeys(("rel_word", "rel_subject", "rel_object", "rel_batch"), eta_r)
        return weights | {"cap": 1.0}

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        weights = self.weights(epoch)
        losses = self._whole_captions(gathered, weights, epoch)
        if weights["obj"]:
            losses |= self._regions(encoded, "object", "words", {"obj": "object_negative"})
        if weights["attr_word"]:
            parts = {"attr_word": "attribute_word", "attr_noun": "attribute_noun"}
            losses |= self._regions(encoded, "attribute", "pairs", parts)
        if weights["rel_word"]:
            losses |= self._relations(encoded, gathered)
        return losses

    def _whole_captions(self, gathered: Encoded, weights: dict[str, float], epoch: int) -> dict[str, Tensor]:
        """ℓ_sent and ℓ_comp: eq. 1 on u_sent, and on u_comp of captions with components."""
        excluded, images = self.excluded(gathered), gathered["images"]
        losses = {"sent": self.matched(products(images, gathered["sentences"]), excluded, gathered, epoch)}
        if weights["comp"]:
            losses["comp"] = self._bags(gathered, excluded, epoch)
        if "captions" in gathered:
            scores = products(gathered["frozen_images"], gathered["captions"])
            fixed = {**gathered, **{name: gathered[name].detach() for name in self.scalars}}  # with gradient to α alone
            losses["cap"] = self.matched(scores, excluded, fixed, epoch)
        return losses

    def _bags(self, gathered: Encoded, excluded: Tensor, epoch: int) -> Float[Tensor, ""]:
        """Eq. 1 on u_comp of captions with components.

        A CPU selects them; a GPU, which selecting would stop, excludes the others.
        """
        images, bags, some = gathered["images"], gathered["bags"], gathered["bag_mask"]
        if some.is_cuda:
            excluded = excluded | ~(some[:, None] & some[None, :])
            return self.matched(products(images, bags), excluded, gathered, epoch, some)
        chosen = some.nonzero().squeeze(1)
        scores = products(images[chosen], bags[chosen])
        return self.matched(scores, excluded[chosen][:, chosen], gathered, epoch) if len(chosen) else scores.sum()

    def _regions(self, encoded: Encoded, positive: str, table: str, negatives: dict[str, str]) -> dict[str, Tensor]:
        """ℓ_obj, or both parts of ℓ_attr: local alignment of components in `table`, one loss per type of negative."""
        index = [encoded[f"{positive}_index"], *(encoded[f"{n}_index"].flatten(1) for n in negatives.values())]
        scores = region_scores(encoded[table], torch.cat(index, dim=1), encoded["regions"])
        scores = scores / encoded["region_norms"][:, None]
        there = encoded.get("region_mask")
        positives, *others = scores.split([i.shape[1] for i in index], dim=1)
        losses = {}
        for (name, negative), other in zip(negatives.items(), others, strict=True):
            mask = encoded[f"{negative}_mask"]
            other = other.view(*mask.shape, other.shape[-1])
            each = region_hinge(positives, other, mask, self.config.margin, self.config.temperature, there)
            losses[name] = masked_mean(each, encoded[f"{positive}_mask"]).sum()
        return losses

    def _relations(self, encoded: Encoded, gathered: Encoded) -> dict[str, Tensor]:
        """ℓ_rel: negatives on the text side of four types against the whole image, one loss each (A.1)."""
        margin, mask = self.config.margin, encoded["relation_mask"]
        table = products(encoded["images"], encoded["triples"])
        batch, items, count = encoded["relation_negative_index"].shape
        positive = table.gather(1, encoded["relation_index"])
        negative = table.gather(1, encoded["relation_negative_index"].flatten(1)).view(batch, items, count)
        hinges = (margin + negative - positive[..., None]).clamp_min(0)
        c, losses, start = self.config, {}, 0
        for kind, num in (("word", c.relation_words), ("subject", c.relation_subjects), ("object", c.relation_objects)):
            part = slice(start, start + num)
            means = masked_mean(hinges[..., part], encoded["relation_negative_mask"][..., part])
            losses[f"rel_{kind}"] = masked_mean(means, mask).sum()
            start += num
        others = products(encoded["images"], gathered["sampled_relations"])
        usable = self._foreign(encoded, gathered)
        hinges = (margin + others[:, None, :] - positive[..., None]).clamp_min(0)
        means = masked_mean(hinges, usable[:, None, :].expand_as(hinges))
        losses["rel_batch"] = masked_mean(means, mask).sum()
        return losses

    def _foreign(self, encoded: Encoded, gathered: Encoded) -> Bool[Tensor, "own all"]:
        """Mask of other captions' sampled triples that are negatives: present, and in no caption of the image (footnote
        2). With `mask=truth`, triples of captions that are true of the image are excluded too."""
        triples = gathered["sampled_relation"]
        usable = triples[:, 0] != 0
        mentioned = _any_equal(encoded["mentioned_relations"], triples)
        if self.config.mask == "none":
            return usable[None, :] & ~mentioned
        same = same_meaning(
            encoded["image_group"], encoded["text_group"], gathered["image_group"], gathered["text_group"]
        )
        if self.config.mask == "truth":
            same = same | gathered["true_images"][:, encoded["image_group"]].T
        return usable[None, :] & ~mentioned & ~same


def _any_equal(mentioned: Int[Tensor, "own mentioned 3"], triples: Int[Tensor, "all 3"]) -> Bool[Tensor, "own all"]:
    """Whether a row of `known` contains the triple."""
    return (_number(mentioned)[:, :, None] == _number(triples)[None, None, :]).any(1)


def _number(triples: Int[Tensor, "*batch 3"]) -> Int[Tensor, "*batch"]:
    """A triple as one number: vocabulary ids are below 2**20."""
    return triples[..., 0] * 2**40 + triples[..., 1] * 2**20 + triples[..., 2]
