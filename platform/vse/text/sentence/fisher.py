"""Fisher vectors of bags of words under a mixture (Perronnin and Dance, 2007; Klein et al., 2015 for Laplacians).

The gradient of a caption's mean log-likelihood by locations and scales, each divided by the square root of the
diagonal Fisher information of one word: w/sigma^2 and 2w/sigma^2 for a Gaussian dimension, w/s^2 twice for a
Laplacian one. Gradients by the weights are left out, as published. Then a signed power and unit length (Perronnin et
al., 2010).
"""

import numpy as np
from jaxtyping import Float

from vse.text.sentence.bags import Bags
from vse.text.sentence.mixture import Mixture


def fisher_vectors(
    mixture: Mixture,
    vectors: Float[np.ndarray, "words D"],
    responsibilities: Float[np.ndarray, "words K"],
    bags: Bags,
    power: float = 0.5,
) -> Float[np.ndarray, "captions 2*K*D"]:
    """Normalised Fisher vectors: locations of all components, then scales. A caption without known words is zero.

    Args:
        mixture: K components over D dimensions.
        vectors: of the words of a vocabulary.
        responsibilities: `mixture.responsibilities(vectors)`, computed once for a vocabulary.
        bags: the words of each caption, as rows of `vectors`.
        power: exponent of the signed power; 1 leaves values as they are.
    """
    return normalised(raw_fisher_vectors(mixture, vectors, responsibilities, bags), power)


def raw_fisher_vectors(
    mixture: Mixture,
    vectors: Float[np.ndarray, "words D"],
    responsibilities: Float[np.ndarray, "words K"],
    bags: Bags,
) -> Float[np.ndarray, "captions 2*K*D"]:
    """Fisher vectors before power and length. Each word that occurs is computed once, so repetition costs little.

    Args:
        mixture: K components over D dimensions.
        vectors: of the words of a vocabulary.
        responsibilities: share of each component in each word.
        bags: the words of each caption, as rows of `vectors`.
    """
    (K, D), n = mixture.location.shape, len(bags)
    types, rows = np.unique(bags.rows, return_inverse=True)
    local = Bags(rows.astype(np.int64), bags.starts)
    x, shares = vectors[types].astype(np.float32), responsibilities[types].astype(np.float32)
    location, scale = mixture.location.astype(np.float32), mixture.scale.astype(np.float32)
    out = np.zeros((n, 2, K, D), dtype=np.float32)
    if len(types):
        per_token = (1 / np.maximum(bags.lengths, 1)[:, None]).astype(np.float32)
        for k in range(K):
            distance = (x - location[k]) / scale[k]
            laplacian = mixture.laplacian[k]
            by_location = np.where(laplacian, np.sign(distance), distance)
            by_scale = np.where(laplacian, np.abs(distance) - 1, (distance**2 - 1) * np.float32(0.5**0.5))
            share = shares[:, k : k + 1] / np.float32(np.sqrt(mixture.weights[k]))
            for place, gradient in enumerate((by_location, by_scale)):
                out[:, place, k] = local.sums(gradient * share) * per_token
    return out.reshape(n, 2 * K * D)


def normalised(raw: Float[np.ndarray, "captions dim"], power: float) -> Float[np.ndarray, "captions dim"]:
    """sign(z) |z|^power, then unit length; rows of zeros stay zero."""
    magnitude = np.sqrt(np.abs(raw)) if power == 0.5 else np.abs(raw) ** power
    values = np.copysign(magnitude, raw)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return (values / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
