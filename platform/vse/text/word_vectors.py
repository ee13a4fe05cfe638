"""Word vectors from files, restricted to a vocabulary and stored with the data set, with a report of their coverage."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vse.config import fingerprint
from vse.errors import InputError
from vse.storage import user_files as named_files
from vse.storage.damage import remove_damaged
from vse.storage.files import entry_of
from vse.storage.folder import Folder
from vse.storage.node_cache import read_committed
from vse.text.word_vector_files import read_rows, split_path

REVISION = 1  # of what is kept: raise it whenever the same file gives other rows
_ARRAYS = ("vectors.npy", "found.npy")
_WORDS = "words.json"


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Rows of a vocabulary: `vectors` (words, dim) float32, zero if `found` is False.

    `fingerprint` names file and vocabulary.
    """

    words: tuple[str, ...]
    vectors: np.ndarray
    found: np.ndarray
    form: str
    fingerprint: str

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def row(self) -> Mapping[str, int]:
        """Row of every word that has a vector."""
        return {word: k for k, word in enumerate(self.words) if self.found[k]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """How much of a vocabulary the vectors know. Shares of tokens count every occurrence in the training captions."""

    words: int
    found: int
    tokens: int
    tokens_found: int
    missing: tuple[str, ...]

    def numbers(self) -> dict[str, float]:
        """Flat numbers for a run's parameters or journal."""
        return {
            "word_vectors/words": float(self.words),
            "word_vectors/found": self.found / max(self.words, 1),
            "word_vectors/tokens_found": self.tokens_found / max(self.tokens, 1),
        }

    def line(self, file: str, show: int = 5) -> str:
        """One line for people, with the most frequent missing words; a warning if most words are missing."""
        share, tokens = 100 * self.found / max(self.words, 1), 100 * self.tokens_found / max(self.tokens, 1)
        text = (
            f"text.word_vectors={file}: has {self.found} of {self.words} words of the vocabulary ({share:.1f} %), "
            f"{tokens:.1f} % of their occurrences in training captions"
        )
        if self.missing:
            more = len(self.missing) - show
            text += f"; missing: {' '.join(self.missing[:show])}" + (f" and {more} more" if more > 0 else "")
        if self.most_missing:
            return f"warning: {text}; is the file of the captions' language, and in lower case as they are read?"
        return text

    @property
    def most_missing(self) -> bool:
        """Whether less than half of the words, or of their occurrences, have a vector."""
        return 2 * self.found < self.words or 2 * self.tokens_found < self.tokens


def coverage(vectors: WordVectors, counts: Mapping[str, int]) -> Coverage:
    """What the vectors know of words with their counts (special tokens left out by having none).

    Missing words come most frequent first, ties in alphabetical order.
    """
    row = vectors.row
    missing = sorted((w for w in counts if w not in row), key=lambda w: (-counts[w], w))
    return Coverage(
        words=len(counts),
        found=len(counts) - len(missing),
        tokens=sum(counts.values()),
        tokens_found=sum(n for w, n in counts.items() if w in row),
        missing=tuple(missing),
    )


def file_digits(path: str) -> str:
    """Eight digits of the content of a file: SHA-256 of all its bytes, with the name of the member of an archive.

    The hash (0.5 to 2 GB/s) costs less than the reading that follows, and is computed once per process.
    """
    file, member = split_path(path)
    whole = named_files.digest(file)
    return whole[:8] if member is None else fingerprint([whole, member])


def vectors_fingerprint(path: str, words: Sequence[str], *, contents: str = "") -> str:
    """Eight digits that name the rows of these words in this file.

    Args:
        path: of the file.
        words: in the order of the rows.
        contents: the file's `file_digits` if known; empty: they are computed from the file.
    """
    return fingerprint(["word_vectors", REVISION, contents or file_digits(path), list(words)])


def word_vectors(
    path: str,
    words: Sequence[str],
    *,
    place: Callable[[str], Folder] | None = None,
    contents: str = "",
) -> WordVectors:
    """The rows of `words` in a file of vectors: GloVe or .vec text, word2vec binary, fastText .bin, numpy .npz.

    Args:
        path: file, `archive.zip/member`, or address on S3.
        words: all different.
        place: maps a fingerprint to the folder that stores the rows, for example
            `partial(workspace.language, dataset)`; the file is then read once for a vocabulary.
        contents: the file's `file_digits` if known; stored rows are then used without the file.

    Returns:
        Vectors, zero for words that the file lacks.

    Raises:
        InputError: the file is missing, damaged, of another kind, or holds none of the words.
    """
    digits = vectors_fingerprint(path, words, contents=contents)
    if place is None:
        return _read(path, words, digits)
    folder = place(digits)
    kept = _open(folder, digits)
    if kept is not None:
        return kept
    with folder.locked():
        kept = _open(folder, digits)
        if kept is None:
            remove_damaged(folder)
            kept = _read(path, words, digits)
            _keep(folder, kept)
    return kept


def _read(path: str, words: Sequence[str], digits: str) -> WordVectors:
    place = {word: k for k, word in enumerate(words)}
    assert len(place) == len(words), "words must differ"
    rows = read_rows(path, place)
    if not rows.found.any():
        raise InputError(f"{path}: holds no vector of any word of the vocabulary")
    return WordVectors(tuple(words), rows.vectors, rows.found, rows.form, digits)


def _keep(folder: Folder, kept: WordVectors) -> None:
    arrays = zip(_ARRAYS, (kept.vectors, kept.found), strict=True)
    entries = {name: save_array(folder, name, values) for name, values in arrays}
    folder.write_text(_WORDS, json.dumps(kept.words, ensure_ascii=False))
    content = {"kind": "word_vectors", "fingerprint": kept.fingerprint, "form": kept.form, "files": entries}
    folder.commit_manifest([*_ARRAYS, _WORDS], content)


def _open(folder: Folder, digits: str) -> WordVectors | None:
    manifest = folder.manifest_alone()
    if manifest is None or manifest.get("fingerprint") != digits:
        return None
    try:
        vectors, found = (load_array(folder, name, manifest) for name in _ARRAYS)
        words: list[Any] = json.loads(read_committed(folder, manifest, _WORDS))
    except (FileNotFoundError, InputError):  # damaged: read the file again
        return None
    return WordVectors(tuple(words), vectors, found, manifest["form"], digits)


def save_array(folder: Folder, name: str, values: np.ndarray) -> dict[str, Any]:
    """Write one array as .npy, without pickle, and return its manifest entry.

    Args:
        folder: gets the file.
        name: of the file.
        values: the array.
    """
    sink = io.BytesIO()
    np.save(sink, values, allow_pickle=False)
    data = sink.getvalue()
    folder.write_bytes(name, data)
    return entry_of(data)


def load_array(
    folder: Folder, name: str, manifest: Mapping[str, Any] | None = None, *, mapped: bool = False
) -> np.ndarray:
    """Read what `save_array` wrote.

    Args:
        folder: of the file.
        name: of the file.
        manifest: the content is verified against it; None: it is not verified.
        mapped: map a local file into memory instead, without verifying it. A file on S3 is read.

    Raises:
        FileNotFoundError, DamagedError: as for `read_committed`, with a manifest.
    """
    if mapped and folder.is_local:
        return np.load(folder.local(name), mmap_mode="r", allow_pickle=False)
    data = folder.read_bytes(name) if manifest is None else read_committed(folder, manifest, name)
    return np.load(io.BytesIO(data), allow_pickle=False)
