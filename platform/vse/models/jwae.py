"""jWAE (Mahajan et al., ICCV 2019): two autoencoders whose codes share a Gaussian prior and are aligned by pairs.

Equation and section numbers are the paper's. Its supplement is not among our sources, so the following is ours: widths
of the hidden layers and recurrent networks, one word table for encoder and decoder, and the discriminator's period and
β₁ (0.5 as in the released code). The discriminator reads codes that are not normalised, since a unit vector cannot look
like a sample of N(0, I), whose norm is about √dim. The score is the cosine of the normalised codes.

Regularisers: `adversary` is the paper's. `vae` maps each input to its own Gaussian (eq. 2, VAE-MH of Table 4;
evaluation uses the means). `none` does not regularise (the ablations MSE, and MMD-MSE with the objective's MMD).
"""

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse.config import knob
from vse.models.autoencoder import (
    DISCRIMINATOR,
    BidirectionalEncoder,
    DiscriminatorConfig,
    WordDecoder,
    adversarial_phases,
    discriminator_of,
    sampled,
)
from vse.models.encoders import WordTable, two_layers, unit
from vse.models.family import Batch, Context, Encoded, Family, FeatureScale, Inputs, Phase
from vse.registry import ComponentConfig, register

IMAGE_NOISE, CAPTION_NOISE = 912, 913  # streams of the VAE


@register("family", "jwae")
class JWAE(Family):
    """Codes `images` and `captions` (batch, dim) are unit vectors; the score is their cosine.

    Training adds `image_codes` and `caption_codes` (batch, dim), the codes before normalisation, their
    reconstructions, and the logits of the discriminator.

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig, DiscriminatorConfig):
        """Published: two layers in encoders and decoders. Widths are ours."""

        dim: int = knob(1024, "dimension of the joint space (ours)", low=1)
        hidden_dim: int = knob(1024, "hidden layer of encoders and decoders (ours)", low=1)
        image: str = knob("pooled", "which image features", choices=("pooled", "fc1"))
        text: str = knob("gru", "words through a GRU, or one fixed vector per sentence", choices=("gru", "sentence"))
        text_scale: str = knob(
            "standardize",
            "scaling of fixed sentence vectors (ours)",
            choices=("standardize", "none", "l2"),
            only="text=sentence",
        )
        word_dim: int = knob(300, "dimension of learned word vectors", low=1, only="text=gru text.word_vectors=")
        fixed_words: bool = knob(False, "keep given word vectors fixed", only="text=gru text.word_vectors!=")
        gru_dim: int = knob(512, "state of the encoding GRU in each direction (ours)", low=1, only="text=gru")
        word_dropout: float = knob(
            0.2,
            "words hidden from the decoder (released code)",
            low=0,
            high=0.9,
            only="text=gru objective.lambda2>0",
        )
        regularizer: str = knob("adversary", "regulariser of the codes", choices=("adversary", "vae", "none"))

    @classmethod
    def requires(cls, config: "JWAE.Config") -> Inputs:
        return Inputs(image=config.image, components=False, sentence=config.text == "sentence")

    def __init__(self, config: "JWAE.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config)
        channels, dim, hidden = context.feature_dims[config.image], config.dim, config.hidden_dim
        coded = 2 * dim if config.regularizer == "vae" else dim  # mean and log-variance
        self.scale = FeatureScale(channels, scale)
        self.encode_image, self.decode_image = two_layers(channels, hidden, coded), two_layers(dim, hidden, channels)
        if config.text == "sentence":
            self.text_scale = FeatureScale(context.sentence_dim, config.text_scale, images=False)
            self.encode_text: nn.Module = two_layers(context.sentence_dim, hidden, coded)
            self.decode_text: nn.Module = two_layers(dim, hidden, context.sentence_dim)
        else:
            self.words = WordTable(context, config.word_dim, config.fixed_words)
            self.encode_text = BidirectionalEncoder(self.words.dim, config.gru_dim, coded)
            self.decode_text = WordDecoder(self.words.dim, dim, context.vocabulary_size, config.word_dropout)
        if config.regularizer == "adversary":
            self.discriminator = discriminator_of(dim, config)

    def phases(self) -> tuple[Phase, ...]:
        """One phase, and another for the discriminator if there is one."""
        if self.config.regularizer != "adversary":
            return super().phases()
        return adversarial_phases(self, self.discriminator, self.config)

    def forward(self, batch: Batch, phase: str = "") -> Encoded:
        """Codes, reconstructions and logits for the encoders; in the discriminator's phase, its logits alone."""
        if phase == DISCRIMINATOR:
            with torch.no_grad():
                codes = self.image_codes(batch)[0], self.caption_codes(batch)[0]
            judged = [self.discriminator(code) for code in codes]
            prior = self.discriminator.judge_prior(batch["draw"])
            return {"judged_prior": prior, "judged_images": judged[0], "judged_captions": judged[1]}
        (image, image_spread), (caption, caption_spread) = self.image_codes(batch), self.caption_codes(batch)
        encoded = {"images": unit(image), "captions": unit(caption), "image_codes": image, "caption_codes": caption}
        encoded |= {"image_inputs": self._features(batch), "image_outputs": self.decode_image(image)}
        encoded |= self._decoded_text(batch, caption) | self.scalars()
        if self.config.regularizer == "adversary":
            encoded["fooling_images"] = self.discriminator(image, fixed=True)
            encoded["fooling_captions"] = self.discriminator(caption, fixed=True)
        encoded |= {f"image_{name}": value for name, value in image_spread.items()}
        encoded |= {f"caption_{name}": value for name, value in caption_spread.items()}
        return encoded

    def word_vectors(self, words: Int[Tensor, " words"]) -> Float[Tensor, "words dim"] | None:
        return None if self.config.text == "sentence" else self.words(words)

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim), unit vectors."""
        return {"images": unit(self.image_codes(batch)[0])}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim), unit vectors."""
        return {"captions": unit(self.caption_codes(batch)[0])}

    def image_codes(self, batch: Batch) -> tuple[Float[Tensor, "batch dim"], Encoded]:
        """Codes f_v(x), not normalised, and the VAE's `mean` and `log_variance` (batch, dim), if it is one."""
        return self._spread(self.encode_image(self._features(batch)), batch, IMAGE_NOISE)

    def caption_codes(self, batch: Batch) -> tuple[Float[Tensor, "batch dim"], Encoded]:
        """Codes f_t(y), not normalised, and the VAE's `mean` and `log_variance` (batch, dim), if it is one."""
        if self.config.text == "sentence":
            coded = self.encode_text(self._sentences(batch))
        else:
            coded = self.encode_text(self.words(batch["tokens"]), batch["lengths"])
        return self._spread(coded, batch, CAPTION_NOISE)

    def _spread(self, coded: Tensor, batch: Batch, stream: int) -> tuple[Tensor, Encoded]:
        if self.config.regularizer != "vae":
            return coded, {}
        mean, log_variance = coded.chunk(2, dim=1)
        code = sampled(mean, log_variance, batch["draw"], stream) if self.training else mean
        return code, {"mean": mean, "log_variance": log_variance}

    def _features(self, batch: Batch) -> Float[Tensor, "batch channels"]:
        return self.scale(batch[self.inputs.image])

    def _sentences(self, batch: Batch) -> Float[Tensor, "batch sentence"]:
        return self.text_scale(batch["sentence"])

    def _decoded_text(self, batch: Batch, codes: Tensor) -> Encoded:
        """Inputs and outputs of fixed vectors, or logits of all next words (words, vocabulary) and the words."""
        if self.config.text == "sentence":
            return {"sentence_inputs": self._sentences(batch), "sentence_outputs": self.decode_text(codes)}
        tokens, decode = batch["tokens"], cast(WordDecoder, self.decode_text)
        logits, words = decode(self.words(decode.read(tokens, batch["draw"])), tokens, batch["lengths"], codes)
        return {"next_word_logits": logits, "next_words": words}
