"""The kinds of sentence features, registered as `sentence`: none, mean, gmm, hglmm, encoder, states."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from vse.config import fingerprint, knob
from vse.errors import InputError
from vse.registry import ComponentConfig, name_of, register
from vse.text import open_clip_encoder  # noqa: F401  (registers an encoder)
from vse.text.encoder import TextEncoder
from vse.text.sentence.encoded import EncoderSentenceFeatures, EncoderWordStates, states_fingerprint
from vse.text.sentence.features import SentenceFeatures, WordSentenceFeatures
from vse.text.sentence.mixture import Kind, Mixture, fit_mixture
from vse.text.sentence.pca import fit_pca
from vse.text.word_vectors import WordVectors

TextSource = WordVectors | TextEncoder  # what sentence features are made of

OF_ENCODER = ("encoder", "states")  # kinds that are made by `text.encoder`
STATES = "states"
REVISION = 2  # raise it whenever the same captions and vectors give other sentence vectors


def sentence_fingerprint(config: ComponentConfig, train_texts: Sequence[str], source: TextSource) -> str:
    """Eight digits over everything that determines the fitted features.

    Args:
        config: kind of the features and its settings.
        train_texts: the captions that features are fitted to, in their order. They do not count with an encoder.
        source: word vectors or an encoder, by its fingerprint.
    """
    if isinstance(source, TextEncoder):
        return states_fingerprint(source) if name_of("sentence", config) == STATES else source.fingerprint
    return fingerprint(
        [REVISION, name_of("sentence", config), config, source.fingerprint, fingerprint(list(train_texts))]
    )


class _Sentence:
    """Base of the kinds: holds the configuration."""

    def __init__(self, config: Any) -> None:
        self.config = config


@register("sentence", "none")
class NoSentence(_Sentence):
    """No sentence features: families that read tokens or components need none."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """Nothing to set."""

    def fit(self, train_texts: Sequence[str], source: TextSource) -> None:
        """None, whatever the captions."""


@register("sentence", "encoder")
class EncoderSentence(_Sentence):
    """The pooled vector of the pretrained encoder `text.encoder`; training captions decide nothing."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """The keys are those of `text.encoder`."""

    def fit(self, train_texts: Sequence[str], source: TextSource) -> EncoderSentenceFeatures:
        """Features that encode each caption by the encoder `source`. Nothing is fitted."""
        assert isinstance(source, TextEncoder), "asked before"
        return EncoderSentenceFeatures(source)


@register("sentence", "states")
class WordStates(_Sentence):
    """The states that the pretrained encoder `text.encoder` has at the words, for families that read these."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """The keys are those of `text.encoder`."""

    def fit(self, train_texts: Sequence[str], source: TextSource) -> EncoderWordStates:
        """Features that encode the words of each caption by the encoder `source`. Nothing is fitted."""
        assert isinstance(source, TextEncoder), "asked before"
        return EncoderWordStates(source)


class _Fitted(_Sentence):
    """Base of the fitted kinds: words with a vector, and principal components of the training captions' vectors."""

    power = 1.0  # of Fisher vectors

    def fit(self, train_texts: Sequence[str], source: TextSource) -> SentenceFeatures:
        """Vectors of captions, reduced to `dims` principal components of the training captions unless `dims` is 0.

        Raises InputError if the word vectors contain no word of the captions, or there are too few captions for
        components.
        """
        assert isinstance(source, WordVectors), "asked before"
        covered = [word for word, is_found in zip(source.words, source.found, strict=True) if is_found]
        rows = source.vectors[source.found]
        digits = sentence_fingerprint(self.config, train_texts, source)
        features = WordSentenceFeatures(tuple(covered), rows, None, self.power, None, digits)
        counts = np.bincount(features.bags(train_texts).rows, minlength=len(covered))
        if not counts.any():
            raise InputError("text.sentence: the word vectors contain no word of the training captions")
        features = replace(features, mixture=self._mixture(rows[counts > 0], counts[counts > 0].astype(np.float64)))
        if not self.config.dims:
            return features
        bags = features.bags(train_texts)
        if len(bags) < 2:
            raise InputError("text.sentence.dims: components need two training captions; 0 leaves vectors as they are")
        return replace(features, pca=fit_pca(lambda: features.blocks(bags), self.config.dims))

    def _mixture(self, rows: np.ndarray, counts: np.ndarray) -> Mixture | None:
        return None


@register("sentence", "mean")
class Mean(_Fitted):
    """Mean of the word vectors (Wang et al., 2016; jWAE 5.1 with 300-d word2vec); training captions decide nothing."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """The papers reduce no means."""

        dims: int = knob(0, "principal components kept; 0: the mean itself, as published", low=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class FisherConfig(ComponentConfig):
    """30 components, power 0.5 (Klein et al., 2015) and 6,000 dimensions (Wang et al., 2016); the others are ours.

    count_power is ours too, and chosen on the validation images of Flickr8k alone: CCA on HGLMM of 300-d vectors of the
    3,000 training captions, 1,000 components, rsum of 100 images for three seeds of EM. With power 0 it was 239.8,
    249.4 and 257.2, with 0.5 234.2, 230.2 and 244.8, with 1 (EM over all tokens, which spends half of its components
    on one frequent word each) 239.0, 232.8 and 246.8; mean vectors gave 242.2.
    """

    num_components: int = knob(30, "components of the mixture, as published", low=1)
    dims: int = knob(6000, "principal components kept, at most training captions - 1, as published; 0: all", low=0)
    power: float = knob(0.5, "signed power before unit length, as published", above=0, high=1)
    count_power: float = knob(
        0.0, "EM weighs a word seen c times by c to this power: 1 every token, 0 every word once", low=0, high=1
    )
    iterations: int = knob(100, "EM steps at most", low=1)
    tolerance: float = knob(1e-5, "EM ends when a step adds less to the mean log-likelihood", low=0)
    least_scale: float = knob(0.01, "smallest scale, in standard deviations of all tokens", above=0)
    seed: int = knob(0, "seed of EM's first assignment", low=0)


class _Fisher(_Fitted):
    """Kinds with a mixture, fitted by EM over the words of the training captions."""

    kind: ClassVar[Kind]

    def __init__(self, config: FisherConfig) -> None:
        super().__init__(config)
        self.power = config.power

    def _mixture(self, rows: np.ndarray, counts: np.ndarray) -> Mixture:
        c = self.config
        fitted, _ = fit_mixture(
            rows,
            counts**c.count_power,
            c.num_components,
            self.kind,
            seed=c.seed,
            iterations=c.iterations,
            tolerance=c.tolerance,
            least_scale=c.least_scale,
        )
        return fitted


@register("sentence", "gmm")
class GMM(_Fisher):
    """Fisher vectors of a mixture of Gaussians with diagonal covariances."""

    kind = "gaussian"

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(FisherConfig):
        """Knobs of the Fisher vectors."""


@register("sentence", "hglmm")
class HGLMM(_Fisher):
    """Fisher vectors of a hybrid mixture, Gaussian or Laplacian by component and dimension (Klein et al., 2015)."""

    kind = "hybrid"

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(FisherConfig):
        """Knobs of the Fisher vectors."""
