"""fastText's .bin (version 12): the rows of wanted words, read at their places in the file.

A word's vector is the mean of its own row and the rows of its character n-grams, which are hashed into buckets
(Bojanowski et al., 2017); the file stores the summands, so every wanted word costs a few reads. Nothing else of the
input matrix (GBs) comes to memory. The dictionary is passed through once.
"""

import struct
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import numpy as np

from vse.errors import InputError

MAGIC = struct.pack("<i", 793712314)
VERSION = 12
_WORD, _END = 0, b"</s>"  # entries are words or labels; the mark of line ends has no n-grams
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class _Model:
    """What stands before the matrix: sizes, range of n-grams, rows of the wanted words."""

    dim: int
    bucket: int
    shortest: int
    longest: int
    num_words: int
    rows: dict[bytes, int]
    matrix_at: int
    num_rows: int


def read(path: str, stream: BufferedReader, wanted: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of some words, read at their places in a fastText .bin.

    Args:
        path: of the file, for errors.
        stream: the open file at its beginning; it must be seekable.
        wanted: word -> its row in the results, from 0 without gaps.

    Returns:
        (vectors, found): (words, dim) float32, with zeros for words that the file does not list; (words,) bool.

    Raises:
        InputError: the model is quantised, of another version, or the file ends early.
    """
    keys = {word.encode("utf-8", "surrogatepass"): k for word, k in wanted.items()}
    try:
        model = _model(path, stream, keys.keys())
        vectors = np.zeros((len(keys), model.dim), dtype=np.float32)
        for word, row in model.rows.items():
            parts = [row]
            if model.bucket and word != _END:
                parts += [model.num_words + h % model.bucket for h in _hashes(word, model.shortest, model.longest)]
            vectors[keys[word]] = _mean_row(path, stream, model, parts)
        return vectors, np.array([word in model.rows for word in keys], dtype=bool)
    except (struct.error, ValueError) as error:
        raise InputError(f"{path}: incomplete or damaged fastText .bin ({error}); download it again") from None


def _mean_row(path: str, stream: BufferedReader, model: _Model, rows: list[int]) -> np.ndarray:
    total = np.zeros(model.dim, dtype=np.float64)
    for row in rows:
        if row >= model.num_rows:
            raise ValueError(f"row {row} of {model.num_rows}")
        stream.seek(model.matrix_at + row * model.dim * 4)
        total += np.frombuffer(_exactly(stream, model.dim * 4), "<f4")
    if not np.isfinite(total).all():
        raise InputError(f"{path}: holds numbers that are not finite")
    return (total / len(rows)).astype(np.float32)


def _model(path: str, stream: BufferedReader, wanted: Container[bytes]) -> _Model:
    magic, version = _unpack(stream, "<2i")
    assert struct.pack("<i", magic) == MAGIC, "the caller looked"
    if version != VERSION:
        raise InputError(f"{path}: fastText .bin of version {version}; only {VERSION} is read")
    dim, _, _, _, _, _, _, _, bucket, shortest, longest, _, _ = _unpack(stream, "<12id")
    size, num_words, _, _, pruned = _unpack(stream, "<3i2q")
    if not (0 < dim < 100_000 and size > 0 and 0 <= num_words <= size):
        raise ValueError("impossible sizes")
    rows = {word: k for k, word in enumerate(_entries(stream, size)) if word in wanted}
    for _ in range(max(pruned, 0)):
        _unpack(stream, "<2i")
    (quantised,) = _unpack(stream, "<?")
    if quantised or pruned >= 0:
        raise InputError(f"{path}: a quantised fastText model; word vectors need the full one")
    num_rows, width = _unpack(stream, "<2q")
    if width != dim or num_rows != num_words + bucket:
        raise ValueError(f"a matrix of {num_rows} x {width}; expected {num_words + bucket} x {dim}")
    at = stream.tell()
    if stream.seek(0, 2) < at + num_rows * dim * 4:
        raise ValueError("it ends inside the matrix")
    return _Model(dim, bucket, shortest, longest, num_words, rows, at, num_rows)


def _entries(stream: BufferedReader, size: int) -> Iterator[bytes]:
    """Texts of the dictionary's entries in order: a text ended by a zero byte, an int64 count, an int8 kind."""
    start = stream.tell()
    buffer, at, base = b"", 0, start
    for _ in range(size):
        end = buffer.find(b"\0", at)
        if end < 0 or len(buffer) < end + 10:
            base += at
            buffer, at = buffer[at:] + stream.read(_BLOCK), 0
            end = buffer.find(b"\0")
            if end < 0 or len(buffer) < end + 10:
                raise ValueError("it ends inside the dictionary")
        yield buffer[at:end] if buffer[end + 9] == _WORD else b""  # labels have rows in no matrix that we read
        at = end + 10
    stream.seek(base + at)


def _hashes(word: bytes, shortest: int, longest: int) -> Iterator[int]:
    """FNV-1a of the character n-grams of <word>, bytes taken as signed, as fastText's dictionary does."""
    marked = b"<" + word + b">"
    starts = [k for k in range(len(marked)) if marked[k] & 0xC0 != 0x80]  # of UTF-8 characters
    bounds = [*starts, len(marked)]
    for first in range(len(starts)):
        for length in range(1, longest + 1):
            last = first + length
            if last >= len(bounds):
                break
            if length >= shortest and not (length == 1 and (first == 0 or last == len(starts))):
                yield _fnv(marked[bounds[first] : bounds[last]])


def _fnv(gram: bytes) -> int:
    value = 2166136261
    for byte in gram:
        value = ((value ^ (byte | 0xFFFFFF00 if byte > 127 else byte)) * 16777619) & 0xFFFFFFFF
    return value


def _unpack(stream: BufferedReader, form: str) -> tuple[Any, ...]:
    return struct.unpack(form, _exactly(stream, struct.calcsize(form)))


def _exactly(stream: BufferedReader, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise ValueError("it ends early")
    return data
