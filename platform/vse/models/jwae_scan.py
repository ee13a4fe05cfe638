"""jWAE-MH+SCAN (Mahajan et al., ICCV 2019, Table 3): SCAN whose regions and words are codes of autoencoders.

The paper says that jWAE is extended for SCAN and not how. Our reading: a region's code and a word's code, before
normalisation, are what eq. 6 regularises and decodes. One region of each image and one word of each caption, drawn
anew at every step, stand for all: the mean is the same at a fortieth of the cost. The caption's decoder starts from the
mean of its word codes.

The released code is this system alone, and departs from the paper in what its discriminator is and sees: two layers
(`discriminator_layers=2`, `discriminator_dim=256`; the paper has three), unit vectors (`discriminator_codes=unit`; the
paper's codes are not normalised, and a unit vector can never look like a sample of N(0, I)), every third step
(`discriminator_every=3`), and one place for a whole batch, never the last (`draw=batch`). Its place of the word is one
index for all captions and may lie behind a caption's end; here it is one share of each caption's own length, which is
the same on any number of workers. It also decodes regions by three layers and words by a two-layer GRU that reads the
word's code at every step, with λ₁ = 0.05 on an ℓ1 norm; none of that is built. Regions and words are encoded as SCAN
does, by one linear layer and a one-layer GRU, where section 4.2 has two layers.
"""

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse.config import knob
from vse.models import noise
from vse.models.branches import two_layers
from vse.models.discriminator import DISCRIMINATOR, DiscriminatorConfig, adversarial_phases, discriminator_of
from vse.models.encoders import distinct, present, unit
from vse.models.family import Batch, Context, Encoded, Phase
from vse.models.scan import SCAN
from vse.models.sentence_autoencoder import WordDecoder
from vse.registry import register

REGION, WORD = 914, 915  # streams of the drawn region and word
DRAWS = ("own", "batch")


@register("family", "jwae_scan")
class JWAESCAN(SCAN):
    """`regions` and `words` as SCAN's; `image_codes` and `caption_codes` (batch, dim) of the drawn region and word."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SCAN.Config, DiscriminatorConfig):
        """SCAN's, and jWAE's where they are not the same."""

        hidden_dim: int = knob(1024, "hidden layer of the regions' decoder (ours)", low=1)
        word_dropout: float = knob(0.2, "words hidden from the decoder (released code)", low=0, high=0.9)
        draw: str = knob(
            "own", "region and word that stand for all: each pair's own, or one place (released code)", choices=DRAWS
        )

    def __init__(self, config: "JWAESCAN.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config, context, scale)
        self.judged = config
        self.decode_region = two_layers(config.dim, config.hidden_dim, context.feature_dims["map"])
        self.decode_words = WordDecoder(self.vectors.dim, config.dim, context.vocabulary_size, config.word_dropout)
        self.discriminator = discriminator_of(config.dim, config)

    def phases(self) -> tuple[Phase, ...]:
        """Those of an adversary."""
        return adversarial_phases(self, self.discriminator, self.judged)

    def forward(self, batch: Batch, phase: str = "") -> Encoded:
        """What the phase compares: everything but the prior's samples, or what the discriminator says."""
        if phase == DISCRIMINATOR:
            with torch.no_grad():
                region, word = self._region_codes(batch)[1], self._word_codes(batch)[1]
            prior = self.discriminator.judge_prior(batch["draw"])
            judged = {"judged_images": self.discriminator(region), "judged_captions": self.discriminator(word)}
            return {"judged_prior": prior, **judged}
        regions, region, features = self._region_codes(batch)
        words, word = self._word_codes(batch)
        tokens, lengths = batch["tokens"], batch["lengths"]
        read = self.decode_words.read(tokens, batch["draw"])
        sentence = words.sum(1) / lengths[:, None].to(words.dtype)
        logits, targets = self.decode_words(self.vectors(read), tokens, lengths, sentence)
        return {
            "regions": unit(regions),
            "words": unit(words),
            "image_codes": region,
            "caption_codes": word,
            "image_inputs": features,
            "image_outputs": self.decode_region(region),
            "next_word_logits": logits,
            "next_words": targets,
            "fooling_images": self.discriminator(region, fixed=True),
            "fooling_captions": self.discriminator(word, fixed=True),
            **self.scalars(),
        }

    def image_codes(self, batch: Batch) -> tuple[Float[Tensor, "batch dim"], Encoded]:
        """(code of a region of each image, not normalised; nothing): the one that `draw` draws."""
        return self._region_codes(batch)[1], {}

    def caption_codes(self, batch: Batch) -> tuple[Float[Tensor, "batch dim"], Encoded]:
        """(code of a word of each caption, not normalised; nothing): the one that `draw` draws."""
        return self._word_codes(batch)[1], {}

    def _region_codes(self, batch: Batch) -> tuple[Tensor, Float[Tensor, "batch dim"], Tensor]:
        """(codes of all regions, zero where there is none; the drawn one's; its scaled features)."""
        features = batch["map"].to(self.project.weight.dtype)
        mask, scaled = present(features), self.scale(features)
        codes = self.project(scaled)
        if mask is None:
            mask = torch.ones(codes.shape[:2], dtype=torch.bool, device=codes.device)
        else:
            codes = codes * mask[..., None]
        chosen = self._drawn(batch, mask, REGION)
        rows = torch.arange(len(codes), device=codes.device)
        return codes, codes[rows, chosen], scaled[rows, chosen]

    def _word_codes(self, batch: Batch) -> tuple[Float[Tensor, "batch time dim"], Float[Tensor, "batch dim"]]:
        """(codes of all words, zero behind a caption's end; the drawn one's)."""
        numbers, (tokens,) = distinct(batch["tokens"])
        codes = cast(Tensor, self.states(self.vectors(numbers), tokens, batch["lengths"]))
        if codes.shape[1] == 0:  # no caption at all: a width to draw from
            codes = F.pad(codes, (0, 0, 0, 1))
        mask = torch.arange(codes.shape[1], device=codes.device)[None, :] < batch["lengths"][:, None]
        return codes, codes[torch.arange(len(codes), device=codes.device), self._drawn(batch, mask, WORD)]

    def _drawn(self, batch: Batch, mask: Bool[Tensor, "batch items"], stream: int) -> Int[Tensor, " batch"]:
        """Which of each row's items stands for all."""
        return _draw(batch["draw"], mask, stream) if self.judged.draw == "own" else _one_place(mask, stream)


def _draw(keys: Int[Tensor, " batch"], mask: Bool[Tensor, "batch items"], stream: int) -> Int[Tensor, " batch"]:
    """One of each row's items, all alike likely; the first where there is none."""
    return noise.uniform(keys, mask.shape[1], stream).masked_fill(~mask, -1.0).argmax(1)


def _one_place(mask: Bool[Tensor, "batch items"], stream: int) -> Int[Tensor, " batch"]:
    """The item at one share of the way through each row's, never the last of several; the first where there is none.

    The share belongs to the step, by the seed that the training loop gave to torch, which is the same on every worker.
    """
    step = noise.keys(torch.initial_seed(), torch.zeros(1, dtype=torch.int64, device=mask.device))
    before = mask.sum(1) - 1
    place = (noise.uniform(step, 1, stream)[0] * before).long().clamp_min(0)
    return ((mask.cumsum(1) == place[:, None] + 1) & mask).int().argmax(1)
