"""VSE-C (Shi et al., COLING 2018): VSE++ with a bidirectional GRU, trained against adversaries of each caption.

A word is its distributional vector next to a visually grounded one that is learned (§3.1). The first stays fixed as in
the public code; Appendix B says that it initialises embeddings, but not whether they are trained. Eq. 1 prints the
product of two projections; here, as in the public code, both have unit length. States of a pretrained encoder can take
the place of the distributional vectors.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse.config import knob
from vse.models.encoders import WORDS, PooledEncoder, WordTable, distinct, unit
from vse.models.family import Batch, Context, Encoded, Family, Inputs
from vse.models.gru import PrefixGRU, reversed_rows
from vse.models.noise import KeyedDropout, word_keys
from vse.models.word_states import EncodedWords
from vse.registry import ComponentConfig, register


@register("family", "vsec")
class VSEC(Family):
    """Codes `images` and `captions` (batch, dim) are unit vectors; the score is their cosine.

    Training adds `contrast` (batch, adversaries, dim), codes of adversaries, and its mask.

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    vectors_of_paper = "GloVe's of 300 dimensions next to learned ones (Appendix B), kept fixed in the public code"

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """Appendix B: dim 1024, a GRU of 512 units in each direction; word_dim is the public code's."""

        dim: int = knob(1024, "dimension of the joint space, half of it for each direction of the GRU", low=2)
        text: str = knob(
            "words", "fixed part of a word: its given vector, or its state of text.encoder", choices=("words", "states")
        )
        word_dim: int = knob(100, "dimension of the learned part of a word's vector", low=1)
        dropout: float = knob(0.0, "dropout of image features, word vectors and states", low=0, high=0.9)

    @classmethod
    def requires(cls, config: "VSEC.Config") -> Inputs:
        encoded = config.text == "states"
        return Inputs(image="pooled", components=False, contrast=True, sentence=encoded, states=encoded)

    def __init__(self, config: "VSEC.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config)
        self.image = PooledEncoder(context.feature_dims["pooled"], config.dim, scale, config.dropout)
        self.words = GroundedWords(context, config.word_dim)
        self.dropout = KeyedDropout(config.dropout, WORDS)
        self.encoded = EncodedWords(context.sentence_dim) if config.text == "states" else None
        word_dim, half = self.words.dim + (self.encoded.dim if self.encoded else 0), config.dim // 2
        self.forward_gru = PrefixGRU(word_dim, config.dim - half)
        self.backward_gru = PrefixGRU(word_dim, half)

    def forward(self, batch: Batch, phase: str = "") -> Encoded:
        """Codes of both sides and of the adversaries, if the batch has any."""
        encoded = self.encode_images(batch)
        if "contrast" not in batch:
            return encoded | self.encode_captions(batch)
        tokens, lengths = batch["tokens"], batch["lengths"]
        others, other_lengths = batch["contrast"], batch["contrast_lengths"]
        rows, number, time = others.shape
        # One call, since adversaries share beginnings and ends with their caption, which are then encoded once.
        longest = max(tokens.shape[1], time)
        whole = {
            "tokens": torch.cat([_longer(tokens, longest), _longer(others.flatten(0, 1), longest)]),
            "lengths": torch.cat([lengths, other_lengths.flatten().clamp_min(1)]),
        }
        if self.encoded is not None:
            states, of_others = batch["states"], batch["contrast_states"].flatten(0, 1)
            whole["states"] = torch.cat([_longer(states, longest), _longer(of_others, longest)])
        present = other_lengths.flatten() > 0
        codes = self._encode(whole)
        encoded["captions"] = codes[: len(tokens)]
        encoded["contrast"] = (codes[len(tokens) :] * present[:, None]).view(rows, number, codes.shape[1])
        encoded["contrast_mask"] = other_lengths > 0
        return encoded

    def word_vectors(self, words: Int[Tensor, " words"]) -> Float[Tensor, "words dim"] | None:
        return self.words(words) if self.encoded is None else None

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim) from `pooled` (batch, channels)."""
        return {"images": self.image(batch["pooled"], draw=batch.get("draw"))}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim): the last states of both directions."""
        return {"captions": self._encode(batch)}

    def _encode(self, batch: Batch) -> Float[Tensor, "batch dim"]:
        if self.encoded is None:
            words, (local,) = distinct(batch["tokens"])
            table = self.words(words)
        else:
            states, local = self.encoded.rows(batch)
            words = F.pad(batch["tokens"].flatten(), (1, 0))
            table = torch.cat([states, self.words(words)], dim=1)
        # In training a part is dropped, the same for a word wherever it occurs: in its caption as in adversaries.
        table = self.dropout(table, word_keys(words))
        forward = self.forward_gru(table, local, batch["lengths"])
        backward = self.backward_gru(table, reversed_rows(local, batch["lengths"]), batch["lengths"])
        return unit(torch.cat([forward, backward], dim=1))


def _longer(rows: Tensor, time: int) -> Tensor:
    """Rows (batch, shorter, ...) with zeros behind, up to a length."""
    longer = rows.new_zeros(len(rows), time, *rows.shape[2:])
    longer[:, : rows.shape[1]] = rows
    return longer


class GroundedWords(nn.Module):
    """Word vectors [fixed distributional ; learned grounded] (§3.1), or the learned part alone without given vectors.

    As in the public code the whole distributional part is fixed: the meaning of a word without a given vector is
    learned in its grounded part.

    Args:
        context: the vocabulary's size and the given vectors.
        learned_dim: dimension of the learned part.
    """

    def __init__(self, context: Context, learned_dim: int) -> None:
        super().__init__()
        self.learned = nn.Embedding(context.vocabulary_size, learned_dim, padding_idx=0)
        nn.init.uniform_(self.learned.weight, -0.1, 0.1)
        vectors = context.word_vectors
        self.fixed = None if vectors is None else WordTable(context, vectors.shape[1], fixed=True, learn_missing=False)

    @property
    def dim(self) -> int:
        """Dimension of both parts together."""
        return self.learned.embedding_dim + (self.fixed.dim if self.fixed is not None else 0)

    def forward(self, words: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch dim"]:
        learned = self.learned(words)
        return learned if self.fixed is None else torch.cat([self.fixed(words), learned], dim=-1)
