"""Files of word vectors, read as a stream: text (GloVe, .vec), word2vec's binary form, fastText's .bin; numpy's .npz.

Memory holds the rows of wanted words and one buffer, whatever the file's size (of an .npz its arrays). The format is
recognised by the content, not by the name. Packed files (.gz, .zip) are read packed; a file in an archive of several is
named `archive.zip/member`. A file on S3 is copied to this node first.
"""

import codecs
import contextlib
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from vse.errors import InputError
from vse.storage import user_files as named_files
from vse.storage.files import local_path
from vse.storage.user_files import placeholder, refuse_placeholder
from vse.text import fasttext_binary

_HEAD = 1 << 20  # bytes read to recognise the format; the longest line of text we accept
_BLOCK = 1 << 22
_WRONG_HEADER = "a header with another number of words or dimensions than the file has"
_NPZ = {"words.npy", "vectors.npy"}


@dataclass(frozen=True, slots=True)
class Rows:
    """Vectors of wanted words in single precision: (wanted, dim), zero if `found`, (wanted,) bool, is False."""

    vectors: np.ndarray
    found: np.ndarray
    form: str


class RowCollector:
    """Collects the rows of wanted words. Of repeated words the first, more frequent entry counts."""

    def __init__(self, place: Mapping[str, int], dim: int) -> None:
        self.place = {word.encode("utf-8", "surrogatepass"): k for word, k in place.items()}
        self.vectors = np.zeros((len(place), dim), dtype=np.float32)
        self.found = np.zeros(len(place), dtype=bool)

    def wants(self, word: bytes) -> bool:
        """Whether a row of this word is wanted and not there yet."""
        k = self.place.get(word)
        return k is not None and not self.found[k]

    def put(self, word: bytes, vector: np.ndarray) -> None:
        """Keep a row. Raises ValueError if it is not finite."""
        if not np.isfinite(vector).all():
            raise ValueError("a number that is not finite")
        k = self.place[word]
        self.vectors[k], self.found[k] = vector, True

    def rows(self, form: str) -> Rows:
        """What was kept."""
        return Rows(self.vectors, self.found, form)


def read_rows(path: str, wanted: Mapping[str, int]) -> Rows:
    """Read the rows of some words.

    Args:
        path: file, `archive.zip/member`, or address on S3.
        wanted: word -> row, rows 0 to n - 1.

    Raises:
        InputError: the file is missing, damaged or of another kind; one line.
    """
    try:
        if (arrays := _npz(path)) is not None:
            return _rows_of(path, arrays, wanted)
        with opened(path) as stream:
            if stream.peek(_HEAD).startswith(codecs.BOM_UTF8):
                stream.read(len(codecs.BOM_UTF8))
            head = stream.peek(_HEAD)[:_HEAD]
            if (reason := placeholder(head)) or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise InputError(f"{path}: {reason or 'is UTF-16 text; expected UTF-8'}")
            if head[:4] == fasttext_binary.MAGIC:
                return _fasttext(path, stream, wanted)
            count, dim, start = _header(head)
            if dim is not None and _looks_binary(head[start:], dim):
                stream.read(start)
                return _binary(path, stream, RowCollector(wanted, dim), count)
            return _text(path, stream, wanted)
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: a damaged packed file ({error})") from None


def _npz(path: str) -> Mapping[str, np.ndarray] | None:
    """The arrays `words` and `vectors` of numpy's .npz, None for another file."""
    address, member = split_path(path)
    file = named_files.local(address)
    if member is not None or not _is_npz(file):
        return None
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in ("words", "vectors")}
    except ValueError as error:  # an array of objects
        raise InputError(f"{path}: words must be an array of text, vectors one of floats ({error})") from None


def _is_npz(file: Path) -> bool:
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return set(archive.namelist()) >= _NPZ


def _rows_of(path: str, arrays: Mapping[str, np.ndarray], wanted: Mapping[str, int]) -> Rows:
    words, vectors = arrays["words"], arrays["vectors"]
    fits = words.dtype.kind in "US" and vectors.dtype.kind == "f" and vectors.ndim == 2
    if not fits or words.shape != vectors.shape[:1]:
        raise InputError(
            f"{path}: expected words, (n) of text, and vectors, (n, dimension) of floats; got words {words.dtype} "
            f"{words.shape} and vectors {vectors.dtype} {vectors.shape}"
        )
    kept = RowCollector(wanted, vectors.shape[1])
    for number, word in enumerate(words.tolist()):
        name = word if isinstance(word, bytes) else word.encode("utf-8", "surrogatepass")
        if kept.wants(name):
            try:
                kept.put(name, vectors[number])
            except ValueError as error:
                raise InputError(f"{path}: vectors[{number}]: {error}") from None
    return kept.rows("npz")


def check_head(path: str) -> None:
    """Raises InputError for a file that does not begin as one of word vectors does; reads no more than its head."""
    address, member = split_path(path)
    if member is None and _is_npz(named_files.local(address)):
        return
    try:
        with opened(path) as stream:
            head = stream.peek(_HEAD)[:_HEAD]
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: a damaged packed file ({error})") from None
    _, dim, _ = _header(head)
    if head[:4] == fasttext_binary.MAGIC or dim is not None:
        return
    if not head:
        raise InputError(f"{path}: an empty file")
    _first_width(path, head.partition(b"\n")[0])


def _fasttext(path: str, stream: io.BufferedReader, wanted: Mapping[str, int]) -> Rows:
    if not stream.seekable() or isinstance(stream.raw, gzip.GzipFile | zipfile.ZipExtFile):
        raise InputError(f"{path}: a fastText .bin needs random access; unpack it first")
    return Rows(*fasttext_binary.read(path, stream, wanted), "fasttext-bin")


@contextlib.contextmanager
def opened(path: str) -> Generator[io.BufferedReader]:
    """The bytes of a file of vectors, unpacked. Raises InputError if it is missing, or an archive of several files."""
    with contextlib.ExitStack() as stack:
        address, member = split_path(path)
        file = named_files.local(address)
        if member is None and not zipfile.is_zipfile(file):
            packed = file.name.endswith(".gz")
            source = stack.enter_context(gzip.GzipFile(file) if packed else file.open("rb", buffering=0))
        else:
            archive = stack.enter_context(zipfile.ZipFile(file))
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
            if member is None and len(names) != 1:
                raise InputError(f"{path}: holds {', '.join(names) or 'nothing'}; name one as {path}/MEMBER")
            if member is not None and member not in names:
                raise InputError(f"{path}: {file.name} holds {', '.join(names) or 'nothing'}, not {member}")
            source = stack.enter_context(archive.open(member or names[0]))
        # every source has readinto; one buffer over all of them gives `peek` of the size that telling the form needs
        yield stack.enter_context(io.BufferedReader(cast(Any, source), _HEAD))


def split_path(path: str) -> tuple[str, str | None]:
    """(path or address of the file, its member that is meant or None). Raises InputError if there is no such file.

    On S3 an archive is recognised by its name, which ends in .zip.
    """
    refuse_placeholder(path)
    if named_files.is_file(path):
        return path, None
    if named_files.is_remote(path):
        place, mark, options = path.partition("?")
        archive, ending, member = place.partition(".zip/")
        address = f"{archive}.zip{mark}{options}"
        if ending and member and named_files.is_file(address):
            return address, member
        raise InputError(f"{path}: no such file of word vectors")
    file = local_path(path)
    for parent in file.parents:
        if parent.is_file() and zipfile.is_zipfile(parent):
            return str(parent), file.relative_to(parent).as_posix()
    raise InputError(f"{path}: no such file of word vectors")


def _header(head: bytes) -> tuple[int | None, int | None, int]:
    """(number of words, dimension, bytes) of a first line "<words> <dimension>"; (None, None, 0) without one."""
    line, newline, _ = head.partition(b"\n")
    parts = line.split()
    if newline and len(parts) == 2 and all(part.isdigit() for part in parts):
        return int(parts[0]), int(parts[1]), len(line) + 1
    return None, None, 0


def _looks_binary(body: bytes, dim: int) -> bool:
    """Whether what follows the header is no line of a word and numbers in text, be they `dim` of them or not."""
    fields = _squeezed(body.partition(b"\n")[0]).split(b" ")
    return _numbers(fields[1:]) is None and (len(fields) <= dim or _numbers(fields[-dim:]) is None)


def _squeezed(line: bytes) -> bytes:
    """A line without its end, one space between fields whatever stood there."""
    return re.sub(rb"[ \t]+", b" ", line.rstrip(b" \t\r\n"))


def _binary(path: str, stream: io.BufferedReader, kept: RowCollector, count: int | None) -> Rows:
    """word2vec's binary form: word, space, little-endian single floats; a line feed after each is optional."""
    size = kept.vectors.shape[1] * 4
    buffer, at = b"", 0
    for number in range(1, (count or 0) + 1):
        space = buffer.find(b" ", at)
        if space < 0 or len(buffer) < space + 1 + size:
            buffer, at = buffer[at:] + stream.read(max(_BLOCK, 4 * size)), 0
            space = buffer.find(b" ")
            if space < 0 or len(buffer) < space + 1 + size:
                raise InputError(f"{path}: ends in word {number} of {count}; an incomplete file, or {_WRONG_HEADER}")
        word = buffer[at:space].lstrip(b"\n")
        if kept.wants(word):
            try:
                kept.put(word, np.frombuffer(buffer, "<f4", kept.vectors.shape[1], space + 1))
            except ValueError as error:
                raise InputError(f"{path}: word {number}: {error}") from None
        at = space + 1 + size
    if (buffer[at:] + stream.read(2)).strip(b"\n"):
        raise InputError(f"{path}: continues after the {count} words its header names; {_WRONG_HEADER}")
    return kept.rows("word2vec-bin")


def _text(path: str, stream: io.BufferedReader, wanted: Mapping[str, int]) -> Rows:
    """One word a line with its numbers. Every line's width is checked, kept or not."""
    kept: RowCollector | None = None
    count: int | None = None
    dim = lines = 0
    for number, line in enumerate(_lines(path, stream), start=1):
        if number == 1:
            count, dim_said, _ = _header(line)
            dim = dim_said or _first_width(path, line)
            kept = RowCollector(wanted, dim)
            if count is not None:
                continue
        assert kept is not None
        lines += 1
        line = line.rstrip(b" \r\n")
        word, _, rest = line.partition(b" ")
        if line.count(b" ") != dim or b"\t" in word or rest.startswith(b" "):
            line = _squeezed(line)
            if line.count(b" ") == dim + 1:
                line = line.removeprefix(b" ")
            if line.count(b" ") != dim:
                _explain(path, number, line, dim, f"its first line says {dim}" if count is not None else "")
                continue  # a word with spaces in it (GloVe 840B has some): no token of ours
            word, _, rest = line.partition(b" ")
        if kept.wants(word):
            try:
                kept.put(word, np.array(rest.split(b" "), dtype=np.float32))
            except ValueError:
                raise InputError(f"{path}: line {number}: expected a word and numbers") from None
    assert kept is not None, "an empty file is a placeholder"
    if count is not None and lines != count:
        raise InputError(f"{path}: its first line names {count} words, but {lines} follow; the file is incomplete")
    return kept.rows("text")


def _lines(path: str, stream: io.BufferedReader) -> Iterator[bytes]:
    """Lines, none longer than a buffer: a file without line feeds is not read into memory."""
    number = 0
    while line := stream.readline(_HEAD):
        number += 1
        if len(line) == _HEAD and not line.endswith(b"\n"):
            raise InputError(f"{path}: line {number}: does not end; not a text file of vectors")
        yield line


def _first_width(path: str, line: bytes) -> int:
    fields = _squeezed(line).removeprefix(b" ").split(b" ")
    dim = 0
    while dim < len(fields) - 1 and _numbers(fields[-dim - 1 :][:1]) is not None:
        dim += 1
    if dim == 0:
        raise InputError(f"{path}: line 1: expected a word and numbers; not a file of word vectors")
    return dim


def _explain(path: str, number: int, line: bytes, dim: int, dim_source: str) -> None:
    """Raise InputError for a line of another width, unless the surplus fields are part of the word.

    `dim_source`: the source of the expected dimension; earlier lines if empty."""
    fields = line.split(b" ")
    surplus = fields[1:-dim]
    if len(fields) > dim + 1 and _numbers(fields[-dim:]) is not None and _numbers(surplus) is None:
        return
    if len(fields) < 2 or _numbers(fields[1:]) is None:
        raise InputError(f"{path}: line {number}: expected a word and numbers")
    raise InputError(f"{path}: line {number}: {len(fields) - 1} numbers, {dim_source or f'earlier lines have {dim}'}")


def _numbers(fields: list[bytes]) -> np.ndarray | None:
    """Finite numbers, or None."""
    try:
        numbers = np.array(fields, dtype=np.float32)
    except ValueError:
        return None
    return numbers if len(numbers) and np.isfinite(numbers).all() else None
