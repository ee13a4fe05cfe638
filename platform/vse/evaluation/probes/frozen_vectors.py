"""The frozen vectors that probes read: of images, and of words from a trained run, a file or a random draw."""

import zlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from vse.data import keyed
from vse.errors import InputError
from vse.evaluation.file_names import stem
from vse.text.word_vectors import WordVectors

OWN, RANDOM = "own", "random"
RANDOM_DIM = 300  # if the measured run has no word vectors whose dimension a random draw could have
_ROWS = 256  # images of which a map is in memory at once


def image_vectors(features: np.ndarray) -> Float[np.ndarray, "images channels"]:
    """One vector for each image: a pooled feature as it is, of a map the mean over its regions (absent ones are zero).

    Args:
        features: (images, channels) or (images, regions, channels).
    """
    if features.ndim == 2:
        return np.asarray(features, dtype=np.float32)
    pooled = np.zeros((len(features), features.shape[2]), dtype=np.float32)
    for start in range(0, len(features), _ROWS):
        block = np.asarray(features[start : start + _ROWS], dtype=np.float32)
        count = (block != 0).any(2).sum(1).clip(1)
        pooled[start : start + _ROWS] = block.sum(1) / count[:, None]
    return pooled


def standardized(
    train: Float[np.ndarray, "train channels"], images: Float[np.ndarray, "images channels"]
) -> tuple[Float[np.ndarray, "train channels"], Float[np.ndarray, "images channels"]]:
    """Both arrays less the mean of the training images and divided by their deviation, channel by channel."""
    mean, std = train.mean(0, dtype=np.float64), train.std(0, dtype=np.float64)
    std = np.where(std > 1e-6, std, 1)
    return ((train - mean) / std).astype(np.float32), ((images - mean) / std).astype(np.float32)


def scaled(vectors: Float[np.ndarray, "words dim"]) -> Float[np.ndarray, "words dim"]:
    """Vectors times one number, so that the entries of nonzero vectors have a mean square of 1.

    Tables of trained models and of files differ in length by a factor of ten; a probe's rate must fit all of them.
    """
    used = vectors[vectors.any(1)].astype(np.float64)
    scale = np.sqrt(np.square(used).mean()) if used.size else 1.0
    return (vectors / max(scale, 1e-12)).astype(np.float32)


def random_vectors(words: Sequence[str], dim: int) -> WordVectors:
    """Normal vectors that depend on the word alone: a control that knows which word it is and nothing else."""
    codes = np.array([zlib.crc32(word.encode()) for word in words], dtype=np.int64)
    first, second = np.split(keyed.uniform(keyed.keys(0, 0, "random word vectors", codes), 2 * dim), 2, axis=1)
    vectors = np.sqrt(-2 * np.log1p(-first)) * np.cos(2 * np.pi * second)
    present = np.ones(len(words), dtype=bool)
    return WordVectors(tuple(words), vectors.astype(np.float32), present, RANDOM, f"{RANDOM}-{dim}")


def source_labels(sources: Sequence[str], key: str) -> dict[str, str]:
    """Name in metrics -> source of word vectors. Raises InputError if none or two of one name are given."""
    labels = {stem(source): source for source in sources}
    if not sources:
        raise InputError(f"{key}=: name one or more of {OWN}, {RANDOM}, a run, a file of word vectors")
    if len(labels) < len(sources):
        raise InputError(f"{key}={','.join(sources)}: two have the same name in tables; rename a file")
    return labels
