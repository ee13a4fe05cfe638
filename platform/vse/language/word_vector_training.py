"""Word vectors from captions, for those who have none: skip-gram with negative sampling and subwords (fastText)."""

import csv
import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vse.config import knob
from vse.errors import InputError
from vse.language.tokens import nfc, words


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorConfig:
    """Skip-gram (Mikolov et al., 2013) in gensim; one thread, so that the same captions give the same vectors."""

    dim: int = knob(300, "dimension", low=2)
    window: int = knob(5, "words to either side", low=1)
    negative: int = knob(10, "negative samples a word", low=1)
    epochs: int = knob(10, "passes over the captions", low=1)
    min_count: int = knob(2, "rarer words are left out", low=1)
    subwords: bool = knob(False, "fastText instead of word2vec: characters of a word take part")
    seed: int = knob(0, "initial vectors and samples", low=0)


def read_captions(path: str) -> Iterator[str]:
    """Captions of a text file (one a line) or of a .csv with a column `caption`, either also gzipped.

    They come in composed Unicode, as those of data sets do. Raises InputError naming the file where it is missing
    or has no such column.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{path}: no such file of captions")
    plain = file.name.removesuffix(".gz")
    try:
        with gzip.open(file, "rt", encoding="utf-8") if plain != file.name else file.open(encoding="utf-8") as lines:
            if not plain.endswith(".csv"):
                yield from (nfc(line.strip()) for line in lines if line.strip())
                return
            rows = csv.DictReader(lines)
            if "caption" not in (rows.fieldnames or ()):
                raise InputError(f"{path}: a .csv needs a column named caption, found {rows.fieldnames}")
            yield from (nfc(row["caption"]) for row in rows if row["caption"])
    except (UnicodeDecodeError, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: not a text file ({error})") from None


def train_word_vectors(captions: Iterable[str], config: VectorConfig) -> tuple[list[str], np.ndarray]:
    """(words, vectors (words, dim)) over the tokens that vocabulary and parser use too, most frequent words first."""
    try:
        from gensim.models import FastText, Word2Vec
    except ImportError:
        raise InputError("training word vectors needs gensim: pip install -c constraints.txt '.[vectors]'") from None

    sentences = [list(words(caption)) for caption in captions]
    model = (FastText if config.subwords else Word2Vec)(
        sentences,
        vector_size=config.dim,
        window=config.window,
        negative=config.negative,
        epochs=config.epochs,
        min_count=config.min_count,
        sg=1,
        workers=1,
        seed=config.seed,
    )
    return [str(name) for name in model.wv.index_to_key], np.asarray(model.wv.vectors, dtype=np.float32)


def save_text(path: Path, names: list[str], vectors: np.ndarray) -> None:
    """Word2vec's text form, with its header line; what `text.word_vectors` reads."""
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{len(names)} {vectors.shape[1]}\n")
        for name, vector in zip(names, vectors, strict=True):
            file.write(f"{name} {' '.join(f'{value:.5g}' for value in vector)}\n")
