"""Word vectors from the training captions themselves: factors of their co-occurrence statistics.

Levy and Goldberg (2014): word2vec's skip-gram with negative sampling factorises a matrix of pointwise mutual
information; here the positive part of that matrix is factorised directly, which is deterministic. No outside text is
used: a model with these vectors has seen the training captions only.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from vse.config import fingerprint
from vse.errors import InputError
from vse.text.tokens import words as token_words
from vse.text.word_vectors import WordVectors

if (
    TYPE_CHECKING
):  # SciPy is imported by the functions that need it: every training imports this module, few make vectors
    from scipy import sparse

REVISION = 2
DIM, WINDOW, SMOOTHING = 300, 5, 0.75


def caption_vectors_fingerprint(texts: Sequence[str]) -> str:
    """Eight digits that identify the vectors of these captions, for any selection of words."""
    return fingerprint(["caption_vectors", REVISION, DIM, WINDOW, SMOOTHING, fingerprint(list(texts))])


def caption_vectors(texts: Sequence[str], words: Sequence[str]) -> WordVectors:
    """Vectors of `words`, (words, at most 300), of mean square length 1; zero and not found for words not in `texts`.

    Raises InputError if the captions hold fewer than three words, or no two that occur together.
    """
    digits = fingerprint([caption_vectors_fingerprint(texts), list(words)])
    vocabulary = sorted({word for text in texts for word in token_words(text)})
    if len(vocabulary) < 3:
        raise InputError(
            "text.word_vectors=captions: the training captions have fewer than three different words; an empty "
            "text.word_vectors= learns vectors from scratch"
        )
    information = positive_information(cooccurrences(texts, vocabulary))
    if not information.count_nonzero():  # ARPACK has no eigenvectors of nothing
        raise InputError(
            "text.word_vectors=captions: no two words occur in one training caption more often than by chance (is "
            "each a single word?), so vectors cannot be made; name a file, text.word_vectors=FILE, or learn vectors "
            "from scratch, text.word_vectors="
        )
    rows = factors(information, DIM)
    place = {word: k for k, word in enumerate(vocabulary)}
    in_vocabulary = np.array([word in place for word in words], dtype=bool)
    vectors = np.zeros((len(words), rows.shape[1]), dtype=np.float32)
    vectors[in_vocabulary] = rows[[place[word] for word in words if word in place]]
    return WordVectors(tuple(words), vectors, in_vocabulary, "captions", digits)


def cooccurrences(texts: Iterable[str], words: Sequence[str]) -> "sparse.csr_array":
    """Symmetric counts (words, words) of neighbours within WINDOW tokens, each weighted by 1 / distance."""
    from scipy import sparse

    place = {word: k for k, word in enumerate(words)}
    rows: list[np.ndarray] = []
    columns: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    for text in texts:
        ids = np.array([place[word] for word in token_words(text)], dtype=np.int64)
        for distance in range(1, min(WINDOW, len(ids) - 1) + 1):
            rows += [ids[:-distance], ids[distance:]]
            columns += [ids[distance:], ids[:-distance]]
            weights.append(np.full(2 * (len(ids) - distance), 1 / distance))
    if not rows:
        return sparse.csr_array((len(words), len(words)))
    counts = (np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns)))
    return sparse.coo_array(counts, shape=(len(words), len(words))).tocsr()


def positive_information(counts: "sparse.csr_array") -> "sparse.csr_array":
    """max(0, log p(w, c) / (p(w) p(c))) with p(c) smoothed to the power 0.75, symmetrised."""
    from scipy import sparse

    marginal = np.asarray(counts.sum(axis=1)).ravel()
    context = marginal**SMOOTHING
    context /= max(context.sum(), 1e-300)
    entries = counts.tocoo()
    rows, columns = entries.coords
    information = np.log(entries.data / (marginal[rows] * context[columns]))
    positive = sparse.coo_array((information.clip(min=0), (rows, columns)), shape=counts.shape).tocsr()
    return (positive + positive.T) / 2


def factors(matrix: "sparse.csr_array", dim: int) -> np.ndarray:
    """Rows W (words, min(dim, words - 2)) with W Wᵀ near the symmetric matrix: its largest positive eigenvalues.

    Scaled to a mean square length of 1; signs are fixed by the largest entry of each column.
    """
    from scipy.sparse.linalg import eigsh

    num = len(matrix.indptr) - 1
    start = np.full(num, 1 / np.sqrt(num))
    values, vectors = eigsh(matrix.astype(np.float64), k=min(dim, num - 2), which="LA", v0=start)
    order = np.argsort(-values)
    values, vectors = values[order].clip(min=0), vectors[:, order]
    vectors *= np.sign(vectors[np.abs(vectors).argmax(0), np.arange(len(values))])
    rows = vectors * np.sqrt(values)
    return (rows / max(np.sqrt(np.square(rows).sum(1).mean()), 1e-12)).astype(np.float32)
