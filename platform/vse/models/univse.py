"""UniVSE (Wu et al., CVPR 2019): one space for objects, attributed objects, relations and whole captions.

Section and equation numbers are the paper's; "A.x" is its supplement. The paper does not give the following, chosen
here: regions V_i are normalised for the score with a component (s is a cosine), u_cap is normalised again by default,
captions have no markers so that ψ reads sentences and triples alike, and the convolution has a bias.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vse.config import knob
from vse.errors import InputError
from vse.models.component_index import component_index
from vse.models.encoders import MODIFIERS, WORDS, RegionEncoder, WordTable, present, unit
from vse.models.family import Batch, Context, Encoded, Family, Inputs
from vse.models.gru import PrefixGRU
from vse.models.noise import KeyedDropout, word_keys
from vse.registry import ComponentConfig, register

CODES = {"object": "words", "attribute": "pairs", "relation": "triples"}  # of each type of component
TYPES = tuple(CODES)


class ObjectEncoder(nn.Module):
    """Encoder φ (§3.2): Norm(σ(W₁w + b₁) · tanh(W₂w + b₂)) with w = basic(noun) ⊕ modifier(noun or adjective).

    The linear maps are applied to the two halves of w separately, once per distinct word, and added for every pair.

    Args:
        context: of the data.
        basic_dim: dimension of the basic embedding if no word vectors are given.
        modifier_dim: dimension of the modifier embedding.
        dim: dimension of the joint space.
        fixed: keep given word vectors fixed.
        dropout: of both embeddings.
    """

    def __init__(
        self, context: Context, basic_dim: int, modifier_dim: int, dim: int, fixed: bool, dropout: float
    ) -> None:
        super().__init__()
        self.dropout, self.modifier_dropout = KeyedDropout(dropout, WORDS), KeyedDropout(dropout, MODIFIERS)
        self.basic = WordTable(context, basic_dim, fixed)
        self.modifier = nn.Embedding(context.vocabulary_size, modifier_dim, padding_idx=0)
        nn.init.uniform_(self.modifier.weight, -0.1, 0.1)
        self.from_basic = nn.Linear(self.basic.dim, 2 * dim)
        self.from_modifier = nn.Linear(modifier_dim, 2 * dim, bias=False)

    def halves(self, words: Int[Tensor, " words"]) -> tuple[Tensor, Tensor]:
        """Contributions of each word as noun and as modifier, both (words, 2·dim)."""
        keys = word_keys(words)
        basic, modifier = self.dropout(self.basic(words), keys), self.modifier_dropout(self.modifier(words), keys)
        return self.from_basic(basic), self.from_modifier(modifier)

    @staticmethod
    def fuse(noun: Float[Tensor, "items twice"], modifier: Float[Tensor, "items twice"]) -> Float[Tensor, "items dim"]:
        """Gated fusion of the contributions of a noun and a modifier."""
        gate, content = (noun + modifier).chunk(2, dim=-1)
        return unit(torch.sigmoid(gate) * torch.tanh(content))


class Aggregation(nn.Module):
    """Aggregation Φ of a caption's components into one vector (§3.2, A.2 and Table 3).

    Args:
        how: `avg`; `sum`, equal to `avg` once normalised; `max` per channel; `gru` over a fixed shuffle of the
            components by their numbers, which does not depend on the batch; or `attention`, the single-hop
            self-attention of Lin et al. (2017) with weights softmax(w₂ · tanh(W₁ u)).
        dim: dimension of a component.
    """

    def __init__(self, how: str, dim: int) -> None:
        super().__init__()
        self.how = how
        if how == "gru":
            self.gru = nn.GRU(dim, dim, batch_first=True)
        elif how == "attention":
            self.hidden, self.weight = nn.Linear(dim, dim // 2, bias=False), nn.Linear(dim // 2, 1, bias=False)

    def forward(
        self,
        items: Float[Tensor, "batch items dim"],
        mask: Bool[Tensor, "batch items"],
        numbers: Int[Tensor, "batch items"],
    ) -> Float[Tensor, "batch dim"]:
        """Aggregated components.

        Args:
            items: embeddings of components.
            mask: True for components that exist.
            numbers: a number per component, equal for equal components.

        Returns:
            Vectors of shape (batch, dim); zero for a caption without components.
        """
        if not mask.numel():
            # One absent component, so that every parameter stays in the graph as distributed training requires.
            size = (max(1, len(items)), max(1, items.shape[1]))
            absent = items.new_zeros(*size, items.shape[2]), mask.new_zeros(size), numbers.new_zeros(size)
            return self(*absent)[: len(items)]
        shown = items * mask[..., None]
        if self.how in ("avg", "sum"):
            total = shown.sum(1)
            return total / mask.sum(1, keepdim=True).clamp_min(1) if self.how == "avg" else total
        some = mask.any(1, keepdim=True)
        if self.how == "max":
            largest = items.masked_fill(~mask[..., None], -torch.inf).amax(1)
            return torch.where(some, largest, torch.zeros_like(largest))
        if self.how == "attention":
            scores = self.weight(torch.tanh(self.hidden(items))).squeeze(-1)
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            return (F.softmax(scores, dim=1)[..., None] * shown).sum(1)
        assert self.how == "gru", self.how
        # Absent items sort after all present ones.
        keys = shuffled(numbers).masked_fill(~mask, torch.iinfo(torch.int64).max)
        order = torch.argsort(keys, dim=1, stable=True)
        ordered = torch.gather(shown, 1, order[..., None].expand_as(shown))
        states = self.gru(ordered)[0]
        last = (mask.sum(1) - 1).clamp_min(0)
        return states[torch.arange(len(states), device=states.device), last] * some


def shuffled(numbers: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    """A pseudo-random key per number: two rounds of multiplying and folding in wrapping 64-bit arithmetic."""
    for _ in range(2):
        numbers = numbers * -7046029254386353131
        numbers = numbers ^ (numbers >> 32)
    return numbers


@register("family", "univse")
class UniVSE(Family):
    """Codes `images` (v), `sentences` (u_sent) and `bags` (u_comp) (batch, dim) are unit vectors.

    The score is the cosine of v and u_cap = α u_sent + (1 - α) u_comp (§3.2). Training adds `regions` (V) and tables of
    components with their negatives.

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    inputs = Inputs(image="map", components=True)
    inference_parameters = ("alpha",)
    vectors_of_paper = "GloVe's of 300 dimensions, kept fixed (supplement A.3)"
    component_types = TYPES
    further_bags: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Component types of further u_comp that `encode_captions` returns, by the names of their codes."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """Published values are the defaults (§3.5, A.2, A.3)."""

        dim: int = knob(1024, "dimension of the joint space", low=1)
        basic_dim: int = knob(
            300, "dimension of the basic embedding if no word vectors are given", low=1, only="text.word_vectors="
        )
        modifier_dim: int = knob(100, "dimension of the modifier embedding", low=1)
        fixed_words: bool = knob(True, "keep given word vectors fixed (A.3)", only="text.word_vectors!=")
        pooling: str = knob("maxk", "spatial aggregation; gpo: ours", choices=("avg", "max", "maxk", "gpo"))
        k: int = knob(10, "largest responses that max-k pooling averages", low=1, only="pooling=maxk")
        aggregation: str = knob("avg", "aggregation of components", choices=("avg", "sum", "max", "gru", "attention"))
        components: tuple[str, ...] = knob(TYPES, "component types in u_comp", choices=TYPES)
        alpha: float = knob(0.75, "weight of u_sent in u_cap at inference", low=0, high=1)
        learn_alpha: bool = knob(False, "add eq. 1 on u_cap with gradient to alpha alone (A.2)")
        renormalize: bool = knob(True, "normalise u_cap again, so that the score is a cosine")
        dropout: float = knob(0.0, "dropout of image features and word vectors", low=0, high=0.9)

    @classmethod
    def requires(cls, config: "UniVSE.Config") -> Inputs:
        """What batches must hold. Raises InputError if no type of component is read."""
        if not config.components:
            raise InputError(f"model.components: name at least one of {', '.join(TYPES)}")
        return cls.inputs

    def __init__(self, config: "UniVSE.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config)
        channels, dim, dropout = context.feature_dims["map"], config.dim, config.dropout
        self.image = RegionEncoder(channels, dim, config.pooling, config.k, scale, dropout)
        self.phi = ObjectEncoder(context, config.basic_dim, config.modifier_dim, dim, config.fixed_words, dropout)
        self.psi = PrefixGRU(config.dim, config.dim)
        self.aggregate = Aggregation(config.aggregation, config.dim)
        self.reads_word_ids = config.aggregation == "gru"  # whose order is a shuffle by these ids
        if config.learn_alpha:
            start = torch.tensor(config.alpha).clamp(0.01, 0.99)
            self.alpha_logit = nn.Parameter(torch.log(start / (1 - start)))

    @property
    def alpha(self) -> Tensor | float:
        """The weight of u_sent, learned or configured."""
        return torch.sigmoid(self.alpha_logit) if self.config.learn_alpha else self.config.alpha

    def forward(self, batch: Batch, phase: str = "") -> Encoded:
        """Codes of both sides, tables of components, and indices of components and negatives into them."""
        encoded = {**self.encode_regions(batch), **self._encode_texts(batch)}
        if self.config.learn_alpha:
            sent, bags = encoded["sentences"].detach(), encoded["bags"].detach()
            encoded["captions"] = self.mix(sent, bags, self.alpha)
            encoded["frozen_images"] = encoded["images"].detach()
        return encoded

    def word_vectors(self, words: Int[Tensor, " words"]) -> Float[Tensor, "words dim"]:
        """Basic and modifier embedding side by side (§3.2)."""
        return torch.cat([self.phi.basic(words), self.phi.modifier(words)], dim=1)

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim), unit vectors, from `map` (batch, regions, channels)."""
        return {"images": self.encode_regions(batch)["images"]}

    def encode_regions(self, batch: Batch) -> Encoded:
        """images (batch, dim), regions V (batch, regions, dim), region_norms and, if regions are absent, region_mask
        (batch, regions), from `map`.

        Dividing a similarity by the norm is much cheaper than normalising every region.
        """
        mask = present(batch["map"])
        regions, images = self.image(batch["map"], mask, batch.get("draw"))
        squares = regions.square().sum(-1, dtype=images.dtype)
        encoded = {"images": images, "regions": regions, "region_norms": squares.clamp_min(1e-16).sqrt()}
        return encoded if mask is None else encoded | {"region_mask": mask}

    def encode_captions(self, batch: Batch) -> Encoded:
        """sentences and bags (batch, dim), and `further_bags`; a caption without components has u_comp = u_sent."""
        if "word_ids" not in batch:
            batch = {k: batch[k] for k in ("tokens", "lengths", "objects", "attributes", "relations")}
        if self.further_bags:
            batch = self.prepared(batch)
        encoded = self._encode_texts(batch)
        further = {name: self._bags(batch, encoded, types)["bags"] for name, types in self.further_bags.items()}
        return {"sentences": encoded["sentences"], "bags": encoded["bags"], **further}

    def encode_components(self, batch: Batch) -> Encoded:
        """Codes of texts that are one component each, in place of both codes of a caption: φ of a noun or a pair, ψ of
        a triple. A text without components has u_sent in place of both.
        """
        encoded = self._encode_texts(batch)
        codes = encoded["sentences"]
        for kind, table in CODES.items():
            mask = encoded[f"{kind}_mask"]
            if mask.shape[1]:
                first = F.embedding(encoded[f"{kind}_index"][:, 0], encoded[table])
                codes = torch.where(mask[:, :1], first, codes)
        return {"sentences": codes, "bags": codes}

    def encode_queries(self, batch: Batch) -> Encoded:
        """captions (batch, dim), the vector of what a text names: φ of its only noun or pair, ψ of its only triple,
        and u_cap of any other text (§4.3, Fig. 6)."""
        encoded = self._encode_texts(batch)
        numbers = {kind: encoded[f"{kind}_mask"].sum(1) for kind in TYPES}
        nouns, pairs, triples = (numbers[kind] for kind in TYPES)
        chosen = {
            "object": (nouns == 1) & (pairs == 0) & (triples == 0),
            "attribute": (nouns <= 1) & (pairs == 1) & (triples == 0),
            "relation": (nouns <= 2) & (pairs == 0) & (triples == 1),
        }
        vectors = self.mix(encoded["sentences"], encoded["bags"], self.alpha)
        for kind, table in CODES.items():
            if encoded[f"{kind}_index"].shape[1]:
                first = F.embedding(encoded[f"{kind}_index"][:, 0], encoded[table])
                vectors = torch.where(chosen[kind][:, None], first, vectors)
        return {"captions": vectors}

    def mix(self, sentences: Tensor, bags: Tensor, alpha: Tensor | float) -> Tensor:
        """u_cap = α u_sent + (1 - α) u_comp (§3.2), a unit vector with `renormalize`.

        Args:
            sentences: u_sent, (batch, dim).
            bags: u_comp, (batch, dim).
            alpha: α, a number or a tensor with gradient.
        """
        mixed = alpha * sentences + (1 - alpha) * bags
        return unit(mixed) if self.config.renormalize else mixed

    def score_parts(self, images: Batch, captions: Batch) -> dict[str, Tensor]:
        """Cosines sentence and bag (images, captions), and dot (1, captions), the product u_sent · u_comp."""
        v, sentences, bags = images["images"], captions["sentences"], captions["bags"]
        return {"sentence": v @ sentences.T, "bag": v @ bags.T, "dot": (sentences * bags).sum(1)[None]}

    def combine(self, parts: Mapping[str, Tensor], **settings: float) -> Tensor:
        """Exact scores at `alpha`, by default as configured or learned, without encoding again."""
        assert set(settings) <= {"alpha"}, f"unknown inference parameters {sorted(settings)}"
        alpha = settings["alpha"] if "alpha" in settings else float(torch.as_tensor(self.alpha).detach())
        mixed = alpha * parts["sentence"] + (1 - alpha) * parts["bag"]
        if not self.config.renormalize:
            return mixed
        square = alpha**2 + (1 - alpha) ** 2 + 2 * alpha * (1 - alpha) * parts["dot"]
        return mixed / square.clamp_min(1e-16).sqrt()

    def prepared(self, batch: Batch) -> Batch:
        """The batch with its component index, so that sizes of tables are known without asking a GPU."""
        return {**batch, **component_index(batch)}

    def _encode_texts(self, batch: Batch) -> Encoded:
        """Codes of sentences and components in one pass over the distinct words of the batch."""
        if "word_ids" not in batch:
            batch = self.prepared(batch)
        noun, modifier = self.phi.halves(batch["word_ids"])
        table = self.phi.fuse(noun, modifier)
        encoded: Encoded = {"sentences": unit(self.psi(table, batch["sentence_index"], batch["lengths"] - 2))}
        encoded.update(self._pairs(batch, noun, modifier))
        encoded.update(self._relations(batch, table))
        encoded.update(words=table, object_index=batch["object_index"], object_mask=batch["objects"] != 0)
        if "object_negatives" in batch:
            encoded["object_negative_index"] = batch["object_negative_index"]
            encoded["object_negative_mask"] = batch["object_negatives"] != 0
        encoded.update(self._bags(batch, encoded, self.config.components))
        return encoded

    def _pairs(self, batch: Batch, noun: Tensor, modifier: Tensor) -> Encoded:
        """φ of every distinct (adjective, noun) pair, positive or negative."""
        encoded: Encoded = {"attribute_mask": batch["attributes"][..., 0] != 0}
        encoded["attribute_index"] = batch["attribute_index"]
        if "attribute_word_negatives" in batch:
            for kind in ("attribute_word", "attribute_noun"):
                encoded[f"{kind}_index"] = batch[f"{kind}_index"]
                encoded[f"{kind}_mask"] = batch[f"{kind}_negatives"] != 0
        nouns, modifiers = F.embedding(batch["pair_noun"], noun), F.embedding(batch["pair_modifier"], modifier)
        encoded["pairs"] = self.phi.fuse(nouns, modifiers)
        return encoded

    def _relations(self, batch: Batch, table: Tensor) -> Encoded:
        """ψ of every distinct triple, positive or negative."""
        triples = batch["triple_words"]
        codes = unit(self.psi(table, triples, torch.full_like(triples[:, 0], 3)))
        encoded: Encoded = {"relation_mask": batch["relations"][..., 0] != 0, "triples": codes}
        encoded["relation_index"] = batch["relation_index"]
        if "relation_negatives" in batch:
            encoded["relation_negative_index"] = batch["relation_negative_index"]
            encoded["relation_negative_mask"] = batch["relation_negatives"][..., 0] != 0
            encoded["sampled_relations"] = F.embedding(batch["sampled_index"], codes)
            encoded["sampled_relation"] = batch["sampled_relation"]
            encoded["mentioned_relations"] = batch["mentioned_relations"]
        return encoded

    def _bags(self, batch: Batch, encoded: Encoded, types: Collection[str]) -> Encoded:
        """u_comp = Norm(Φ(components of some types)), or u_sent if there are none, and the mask of captions that have
        any."""
        chosen = [kind for kind in TYPES if kind in types]
        items = torch.cat([F.embedding(encoded[f"{k}_index"], encoded[CODES[k]]) for k in chosen], dim=1)
        mask = torch.cat([encoded[f"{k}_mask"] for k in chosen], dim=1)
        numbers = torch.cat([_component_number(batch[f"{k}s"], TYPES.index(k)) for k in chosen], dim=1)
        some = mask.any(1)
        bags = torch.where(some[:, None], unit(self.aggregate(items, mask, numbers)), encoded["sentences"])
        return {"bags": bags, "bag_mask": some}


def _component_number(ids: Int[Tensor, "batch items *words"], kind: int) -> Int[Tensor, "batch items"]:
    """One number per component from its type and its vocabulary ids (below 2**20)."""
    number = torch.full(ids.shape[:2], kind, device=ids.device)
    for word in ids.unbind(-1) if ids.ndim == 3 else (ids,):
        number = number * 2**20 + word
    return number
