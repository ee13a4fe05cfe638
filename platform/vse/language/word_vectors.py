"""Word vectors from text files, restricted to a vocabulary."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vse.errors import InputError
from vse.storage import sha256_of_file


def file_digits(path: str) -> str:
    """Eight digits of a file's SHA-256: a run's identity has the vectors' content, not their address."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"text.word_vectors={path}: no such file")
    return sha256_of_file(file)[:8]


def load_word_vectors(path: str, vocabulary: Sequence[str]) -> np.ndarray:
    """Vectors (len(vocabulary), dim) in single precision, zero rows for words the file lacks.

    Reads the text form of word2vec, fastText (.vec, with a header line) and GloVe (without), line by line: memory
    holds the kept vectors only. Raises InputError naming file and line for anything else.
    """
    place = {word: k for k, word in enumerate(vocabulary)}
    file = Path(path)
    if not file.is_file():
        raise InputError(f"text.word_vectors={path}: no such file")
    vectors: np.ndarray | None = None
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            word, _, rest = line.rstrip("\n").partition(" ")
            if number == 1 and len(rest.split()) == 1:
                continue  # "<words> <dimensions>"
            if word not in place:
                continue
            vector = _numbers(rest)
            if vector is None:
                raise InputError(f"{path}: line {number}: expected a word and numbers")
            if vectors is None:
                vectors = np.zeros((len(vocabulary), len(vector)), dtype=np.float32)
            if vector.shape != vectors.shape[1:]:
                raise InputError(f"{path}: line {number}: {len(vector)} numbers, earlier lines have {vectors.shape[1]}")
            vectors[place[word]] = vector
    if vectors is None:
        raise InputError(f"text.word_vectors={path}: holds no word of the vocabulary")
    return vectors


def _numbers(text: str) -> np.ndarray | None:
    try:
        vector = np.array(text.split(), dtype=np.float32)
    except ValueError:
        return None
    return vector if len(vector) and np.isfinite(vector).all() else None
