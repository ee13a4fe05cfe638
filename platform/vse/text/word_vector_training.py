"""Train word vectors on captions: skip-gram with negative sampling, with subwords as an option (fastText)."""

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from vse.config import knob
from vse.errors import InputError, install
from vse.storage import columns
from vse.storage.user_files import is_file, local, refuse_placeholder
from vse.text.tokens import nfc, without_web, words

# The first line of a table: `7.jpg#0`, a tab and a caption, as in Flickr8k.token.txt, or a header `image,caption`.
_TABLE = re.compile(
    r"\S+\.(?:jpe?g|png|gif|bmp|tiff?|webp)(?:\.\d+)?(?:#\d+)?\s*[\t,;|]"
    r"|\W*(?:image|img|file)[\w ]*\W?\s*[\t,;|].*\b(?:caption|comment|sentence|text)",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorConfig:
    """Skip-gram (Mikolov et al., 2013) in gensim; one thread, so that the same captions give the same vectors."""

    dim: int = knob(300, "dimension of the vectors", low=2)
    window: int = knob(5, "context words on either side", low=1)
    negative: int = knob(10, "negative samples per word", low=1)
    epochs: int = knob(10, "passes over the captions", low=1)
    min_count: int = knob(2, "rarer words are left out", low=1)
    subwords: bool = knob(False, "fastText, which uses character n-grams of words, instead of word2vec")
    seed: int = knob(0, "seed of initial vectors and samples", low=0)


def read_captions(path: str) -> Iterator[str]:
    """Captions of a text file (one a line), of a .csv or .tsv with a column `caption`, or of a .jsonl whose objects
    have one; any of them also gzipped.

    They are in composed Unicode, like the captions of data sets. Raises InputError naming the file if it is missing,
    damaged, has no such column or is a table under the name of a text, and the line if a row or an object is malformed.
    """
    refuse_placeholder(path)
    if not is_file(path):
        raise InputError(f"{path}: no such file of captions")
    file = local(path)
    name = file.name.lower()
    open_as, kind = gzip.open if name.endswith(".gz") else open, Path(name.removesuffix(".gz")).suffix
    columned = {".csv": ",", ".tsv": "\t"}.get(kind, "")
    try:
        # utf-8-sig: spreadsheets begin a file with a byte order mark; newline="": ends of lines in quoted fields stay
        with open_as(file, "rt", encoding="utf-8-sig", newline="" if columned else None) as lines:
            if columned:
                captions = _column(lines, path, columned)
            elif kind in (".jsonl", ".ndjson", ".json"):
                captions = _objects(lines, path)
            else:
                captions = _lines(lines, path)
            yield from (nfc(without_web(caption.strip())) for caption in captions if caption.strip())
    except (UnicodeDecodeError, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: not a text file ({error})") from None
    except (EOFError, zlib.error) as error:
        raise InputError(f"{path}: is not a complete .gz file ({error}); was it cut off?") from None


def _lines(lines: Iterable[str], path: str) -> Iterator[str]:
    """Captions, one a line. A table would add the names of its images to their words."""
    first = True
    for line in lines:
        if first and _TABLE.match(line):
            raise InputError(
                f"{path}: begins like a table of images and captions ({line.strip():.60}); give it a header with a "
                "column named caption and the ending .csv (commas) or .tsv (tabs)"
            )
        first = first and not line.strip()
        yield line


def _column(lines: Iterable[str], path: str, delimiter: str) -> Iterator[str]:
    """The column `caption`."""
    for _, row in columns.named(lines, path, _check_header, delimiter=delimiter):
        yield row["caption"]


def _check_header(header: list[str], where: str) -> None:
    if not header:
        raise InputError(f"{where}: is empty; a table needs a header with a column named caption")
    if header.count("caption") != 1:
        raise InputError(f"{where}: a table needs exactly one column named caption; found {', '.join(header)}")


def _objects(lines: Iterable[str], path: str) -> Iterator[str]:
    """The captions of JSON lines."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            caption = record.get("caption") if isinstance(record, dict) else None
            if not isinstance(caption, str):
                raise InputError(
                    f"{path}: line {number}: expected one JSON object per line, with a string as its caption"
                )
            yield caption


def train_word_vectors(captions: Iterable[str], config: VectorConfig) -> tuple[list[str], np.ndarray]:
    """(words, vectors (words, dim)) over the tokens that vocabulary and parser use too, most frequent words first.

    Raises InputError if no word is frequent enough.
    """
    sentences = [list(words(caption)) for caption in captions]
    counts = Counter(chain.from_iterable(sentences))
    if not counts:
        raise InputError(
            "captions: the files hold none; name files with one caption per line, or a table with a column caption"
        )
    if max(counts.values()) < config.min_count:
        raise InputError(
            f"vectors.min_count={config.min_count}: no word occurs that often in {len(sentences)} captions; the most "
            f"frequent one occurs {max(counts.values())} times"
        )
    try:
        from gensim.models import FastText, Word2Vec
    except ImportError:
        raise InputError(f"training word vectors needs gensim; {install('vectors')}") from None

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
    """Write vectors in word2vec's text form, with its header line; `text.word_vectors` reads it.

    Args:
        path: of the file, which is replaced.
        names: the words, in the order of the rows.
        vectors: (words, dim), written with five significant digits.
    """
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{len(names)} {vectors.shape[1]}\n")
        for name, vector in zip(names, vectors, strict=True):
            file.write(f"{name} {' '.join(f'{value:.5g}' for value in vector)}\n")
