"""Parts of jWAE that its families share (section 4.2): the discriminator and the recurrent sentence autoencoder."""

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse.config import knob
from vse.models import noise
from vse.models.encoders import unit
from vse.models.family import Phase, trainable
from vse.models.gru import states_in_graph, within
from vse.text.vocabulary import UNKNOWN

SLOPE = 0.01  # of the leaky ReLU; the paper gives none, the released code this one
PRIOR = 910  # stream of the prior's samples
CODES, DISCRIMINATOR = "codes", "discriminator"  # phases
BETAS = (0.5, 0.999)  # of the discriminator's Adam, as in the released code
NO_WORD = -100  # index that a cross entropy ignores
DROPPED = 911  # stream of word dropout


# No slots: a Config with slots inherits these keys too, and Python cannot combine two classes with slots.
@dataclass(frozen=True, kw_only=True)
class DiscriminatorConfig:
    """Keys of a family with a discriminator. Published: three layers and half the learning rate of the encoders."""

    discriminator_dim: int = knob(512, "hidden layers of the discriminator (ours)", low=1, only="regularizer=adversary")
    discriminator_layers: int = knob(
        3, "layers of the discriminator; released code: 2", low=2, only="regularizer=adversary"
    )
    discriminator_rate: float = knob(
        0.5,
        "learning rate of the discriminator as a multiple of the encoders' (5e-5 to 1e-4)",
        above=0,
        only="regularizer=adversary",
    )
    discriminator_every: int = knob(
        1, "steps between updates of the discriminator (ours: 1; released code: 3)", low=1, only="regularizer=adversary"
    )
    discriminator_codes: str = knob(
        "raw",
        "codes that the discriminator sees; released code: unit vectors",
        choices=("raw", "unit"),
        only="regularizer=adversary",
    )


class Discriminator(nn.Module):
    """Linear layers with leaky ReLU between them: one logit per code, high for a sample of the prior (section 4.2).

    Args:
        dim: dimension of a code.
        hidden_dim: width of the hidden layers.
        layers: number of linear layers; three in the paper.
        normalize: read unit vectors, as the released code does. The norm alone then identifies the prior, and no
            encoder can look like a Gaussian.
    """

    def __init__(self, dim: int, hidden_dim: int, layers: int = 3, normalize: bool = False) -> None:
        super().__init__()
        assert layers >= 2, layers
        self.dim, self.normalize = dim, normalize
        widths = [dim, *[hidden_dim] * (layers - 1), 1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, codes: Float[Tensor, "*batch dim"], fixed: bool = False) -> Float[Tensor, "*batch"]:
        """Logits of codes. `fixed`: the gradient flows only to the codes, to train the encoders."""
        x = unit(codes) if self.normalize else codes
        return self.logits(x, fixed)

    def judge_prior(self, draw: Int[Tensor, " batch"]) -> Float[Tensor, "batch two"]:
        """Logits of two samples of N(0, I) per key, one for each encoder's code (section 4.2)."""
        samples = noise.normal(draw, 2 * self.dim, PRIOR).to(next(self.parameters()).dtype)
        return self.logits(samples.view(len(draw), 2, self.dim))

    def logits(self, x: Float[Tensor, "*batch dim"], fixed: bool = False) -> Float[Tensor, "*batch"]:
        """Logits of vectors as they are, without normalisation."""
        for k, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Linear)
            weight, bias = (layer.weight.detach(), layer.bias.detach()) if fixed else (layer.weight, layer.bias)
            x = F.linear(F.leaky_relu(x, SLOPE) if k else x, weight, bias)
        return x.squeeze(-1)


def discriminator_of(dim: int, config: DiscriminatorConfig) -> Discriminator:
    """The configured discriminator of codes of `dim` dimensions."""
    width, layers = config.discriminator_dim, config.discriminator_layers
    return Discriminator(dim, width, layers, normalize=config.discriminator_codes == "unit")


def adversarial_phases(family: nn.Module, judge: Discriminator, config: DiscriminatorConfig) -> tuple[Phase, Phase]:
    """Two phases: encoders and decoders, then the discriminator on the updated codes.

    Args:
        family: the model, with the discriminator as one of its modules.
        judge: the discriminator.
        config: the discriminator's learning rate, as a factor, and the steps between its updates.
    """
    judging = trainable(judge)
    own = {id(p) for p in judging}
    others = tuple(p for p in trainable(family) if id(p) not in own)
    rate, every = config.discriminator_rate, config.discriminator_every
    return Phase(CODES, None, others), Phase(DISCRIMINATOR, None, judging, rate, BETAS, every)


def sampled(
    mean: Float[Tensor, "batch dim"], log_variance: Float[Tensor, "batch dim"], draw: Int[Tensor, " batch"], stream: int
) -> Float[Tensor, "batch dim"]:
    """Reparametrised samples of a VAE: mean + exp(log_variance / 2) · ε, ε ~ N(0, I).

    Args:
        mean: of the Gaussian of each item.
        log_variance: of the same.
        draw: keys of the captions for ε.
        stream: 0 to 999, different for each modality.

    Returns:
        Codes of shape (batch, dim).
    """
    samples = noise.normal(draw, mean.shape[1], stream).to(mean.dtype)
    return mean + torch.exp(0.5 * log_variance) * samples


class BidirectionalEncoder(nn.Module):
    """Code of a sentence: a linear layer over the last states of a two-layer bidirectional GRU.

    Args:
        word_dim: dimension of word vectors.
        gru_dim: state in each direction.
        dim: dimension of a code.
    """

    def __init__(self, word_dim: int, gru_dim: int, dim: int) -> None:
        super().__init__()
        self.gru = nn.GRU(word_dim, gru_dim, num_layers=2, bidirectional=True, batch_first=True)
        self.project = nn.Linear(2 * gru_dim, dim)

    def forward(
        self, words: Float[Tensor, "batch time word"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch dim"]:
        """Codes of sentences; vectors after a sentence's length are not read."""
        if words.shape[0] == 0:  # encode one word and keep nothing, so that every parameter stays in the graph
            return self(words.sum((0, 1))[None, None], lengths.new_ones(1))[:0]
        if torch.onnx.is_in_onnx_export():
            forward, backward = states_in_graph(self.gru, words, lengths).chunk(2, dim=2)
            last = (lengths - 1)[:, None, None].expand(-1, 1, forward.shape[2])
            return self.project(torch.cat([forward.gather(1, last).squeeze(1), backward[:, 0]], dim=1))
        packed = nn.utils.rnn.pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states = self.gru(packed)[1]
        return self.project(torch.cat([states[-2], states[-1]], dim=1))


class WordDecoder(nn.Module):
    """GRU with the code as its first state that predicts each next word from the words before it (eq. 5).

    Args:
        word_dim: dimension of word vectors.
        dim: dimension of a code.
        vocabulary_size: number of words to predict among.
        dropout: share of words that become <unk> in training, which forces the decoder to use the code.
    """

    def __init__(self, word_dim: int, dim: int, vocabulary_size: int, dropout: float) -> None:
        super().__init__()
        self.gru = nn.GRU(word_dim, dim, batch_first=True)
        self.words = nn.Linear(dim, vocabulary_size)
        self.dropout = dropout

    def read(self, tokens: Int[Tensor, "batch time"], draw: Int[Tensor, " batch"]) -> Int[Tensor, "batch time"]:
        """Tokens as the decoder reads them: in training some become <unk>, but never <start>."""
        if not self.training or not self.dropout or tokens.shape[1] == 0:
            return tokens
        dropped = noise.uniform(draw, tokens.shape[1], DROPPED) < self.dropout
        dropped[:, 0] = False
        return tokens.masked_fill(dropped & (tokens != 0), UNKNOWN)

    def forward(
        self,
        words: Float[Tensor, "batch time word"],
        tokens: Int[Tensor, "batch time"],
        lengths: Int[Tensor, " batch"],
        codes: Float[Tensor, "batch dim"],
    ) -> tuple[Float[Tensor, "words vocabulary"], Int[Tensor, " words"]]:
        """Predictions of all next words, in one list for all sentences.

        Args:
            words: vectors of the words read.
            tokens: vocabulary ids.
            lengths: of the sentences, at least 2.
            codes: of the sentences.

        Returns:
            Logits and next words. On a GPU the list includes padding, with NO_WORD as the next word.
        """
        if len(words) == 0:
            two = words.sum((0, 1)).expand(1, 2, -1)
            logits, targets = self(two, tokens.new_zeros(1, 2), lengths.new_full((1,), 2), codes.sum(0)[None])
            return logits[:0], targets[:0]
        if words.is_cuda:  # packing needs the lengths on the host, which stops the GPU
            inside = within(lengths - 1, tokens.shape[1] - 1)
            states = self.gru(words[:, :-1], codes[None].contiguous())[0]
            return self.words(states.flatten(0, 1)), tokens[:, 1:].masked_fill(~inside, NO_WORD).flatten()
        before, after = lengths - 1, tokens[:, 1:]
        packed = nn.utils.rnn.pack_padded_sequence(words[:, :-1], before, batch_first=True, enforce_sorted=False)
        targets = nn.utils.rnn.pack_padded_sequence(after, before, batch_first=True, enforce_sorted=False)
        states = self.gru(packed, codes[None].contiguous())[0]
        return self.words(states.data), targets.data
