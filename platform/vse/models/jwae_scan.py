"""jWAE-MH+SCAN (Mahajan et al., ICCV 2019, Table 3): SCAN whose regions and words are codes of autoencoders.

The paper extends jWAE for SCAN without saying how. Our reading: eq. 6 regularises and decodes the codes of regions and
words before normalisation. One region of each image and one word of each caption, drawn in every step, represent all:
the mean is the same at a fortieth of the cost. The caption's decoder starts from the mean of its word codes. Regions
and words are encoded as in SCAN by one linear layer and a one-layer GRU; section 4.2 has two layers.

The released code has this system only, and its discriminator differs from the paper's: two layers
(`discriminator_layers=2`, `discriminator_dim=256`) instead of three, unit vectors (`discriminator_codes=unit`), an
update every third step (`discriminator_every=3`), and one position for a whole batch, never the last (`draw=batch`).
Its position of the word is one index for all captions, possibly after a caption's end; here it is one share of each
caption's length, equal on any number of workers. It also decodes regions with three layers and words with a two-layer
GRU that reads the word's code in every step, with λ₁ = 0.05 on an ℓ1 norm; we did not implement that.
"""

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse.config import knob
from vse.models import noise
from vse.models.autoencoder import (
    DISCRIMINATOR,
    DiscriminatorConfig,
    WordDecoder,
    adversarial_phases,
    discriminator_of,
)
from vse.models.encoders import distinct, present, two_layers, unit
from vse.models.family import Batch, Context, Encoded, Phase
from vse.models.scan import SCAN
from vse.registry import register

REGION, WORD = 914, 915  # streams of the drawn region and word
DRAWS = ("own", "batch")


@register("family", "jwae_scan")
class JWAESCAN(SCAN):
    """SCAN whose training adds `image_codes` and `caption_codes` (batch, dim) of the drawn region and word.

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SCAN.Config, DiscriminatorConfig):
        """Keys of SCAN, and those of jWAE that differ."""

        text: str = knob("words", "word vectors and a GRU; the decoder needs their vectors", choices=("words",))
        hidden_dim: int = knob(1024, "hidden layer of the regions' decoder (ours)", low=1)
        word_dropout: float = knob(
            0.2, "words hidden from the decoder (released code)", low=0, high=0.9, only="objective.lambda2>0"
        )
        draw: str = knob(
            "own", "drawn region and word: of each pair, or one position for all (released code)", choices=DRAWS
        )

    def __init__(self, config: "JWAESCAN.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config, context, scale)
        self.decode_region = two_layers(config.dim, config.hidden_dim, context.feature_dims["map"])
        self.decode_words = WordDecoder(self.vectors.dim, config.dim, context.vocabulary_size, config.word_dropout)
        self.discriminator = discriminator_of(config.dim, config)

    def phases(self) -> tuple[Phase, ...]:
        """Phases of the encoders and of the discriminator."""
        return adversarial_phases(self, self.discriminator, self.config)

    def forward(self, batch: Batch, phase: str = "") -> Encoded:
        """In the encoders' phase codes, reconstructions and logits; in the discriminator's phase only its logits."""
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
        """Code of the drawn region of each image, not normalised."""
        return self._region_codes(batch)[1], {}

    def caption_codes(self, batch: Batch) -> tuple[Float[Tensor, "batch dim"], Encoded]:
        """Code of the drawn word of each caption, not normalised."""
        return self._word_codes(batch)[1], {}

    def _region_codes(self, batch: Batch) -> tuple[Tensor, Float[Tensor, "batch dim"], Tensor]:
        """Codes of all regions (zero if absent), the code of the drawn one, and its scaled features."""
        mask, scaled = present(batch["map"]), self.scale(batch["map"])
        codes = self.project(scaled)
        if mask is None:
            mask = torch.ones(codes.shape[:2], dtype=torch.bool, device=codes.device)
        else:
            codes = codes * mask[..., None]
        chosen = self._drawn(batch, mask, REGION)
        rows = torch.arange(len(codes), device=codes.device)
        return codes, codes[rows, chosen], scaled[rows, chosen]

    def _word_codes(self, batch: Batch) -> tuple[Float[Tensor, "batch time dim"], Float[Tensor, "batch dim"]]:
        """Codes of all words (zero after a caption's end) and of the drawn one."""
        numbers, (tokens,) = distinct(batch["tokens"])
        codes = cast(Tensor, self.states(self.vectors(numbers), tokens, batch["lengths"]))
        if codes.shape[1] == 0:  # an empty batch: one position to draw from
            codes = F.pad(codes, (0, 0, 0, 1))
        mask = torch.arange(codes.shape[1], device=codes.device)[None, :] < batch["lengths"][:, None]
        return codes, codes[torch.arange(len(codes), device=codes.device), self._drawn(batch, mask, WORD)]

    def _drawn(self, batch: Batch, mask: Bool[Tensor, "batch items"], stream: int) -> Int[Tensor, " batch"]:
        """Index of the drawn item of each row."""
        return _draw(batch["draw"], mask, stream) if self.config.draw == "own" else _one_place(mask, stream)


def _draw(keys: Int[Tensor, " batch"], mask: Bool[Tensor, "batch items"], stream: int) -> Int[Tensor, " batch"]:
    """Index of a uniformly drawn item of each row, 0 if it has none."""
    return noise.uniform(keys, mask.shape[1], stream).masked_fill(~mask, -1.0).argmax(1)


def _one_place(mask: Bool[Tensor, "batch items"], stream: int) -> Int[Tensor, " batch"]:
    """Index of the item at one share of each row's length, never the last of several; 0 if a row has none.

    The share depends on the step, by torch's seed, which the training loop sets equal on every worker.
    """
    step = noise.keys(torch.initial_seed(), torch.zeros(1, dtype=torch.int64, device=mask.device))
    before = mask.sum(1) - 1
    place = (noise.uniform(step, 1, stream)[0] * before).long().clamp_min(0)
    return ((mask.cumsum(1) == place[:, None] + 1) & mask).int().argmax(1)
