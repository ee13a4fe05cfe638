"""Sentences with gold trees, and the caption-like variations of them that the parser learns from. Pure Python."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from random import Random

from vse.errors import InputError
from vse.storage.user_files import refuse_placeholder


@dataclass(frozen=True, slots=True)
class Sentence:
    """Parallel columns of one sentence; `heads` are indices into it, a root points to itself (label "ROOT")."""

    words: tuple[str, ...]
    lemmas: tuple[str, ...]
    pos: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    deps: tuple[str, ...]


def read_conllu(path: Path) -> list[Sentence]:
    """All sentences of a (gzipped) CoNLL-U file, syntactic words only; labels keep their subtypes (acl:relcl).

    Raises InputError if the file is missing or damaged, or a line is not CoNLL-U.
    """
    refuse_placeholder(str(path))
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected a Universal Dependencies treebank in CoNLL-U")
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            return list(_sentences(lines, path))
    except gzip.BadGzipFile:
        raise InputError(f"{path}: is not compressed with gzip; rename it to .conllu") from None
    except (EOFError, zlib.error) as error:
        raise InputError(f"{path}: is not a complete .gz file ({error}); was it cut off?") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text ({error}); expected CoNLL-U") from None


def _sentences(lines: Iterable[str], path: Path) -> Iterator[Sentence]:
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines, start=1):
        line = line.rstrip("\n")
        if not line:
            if rows:
                yield _sentence(rows, path)
            rows = []
        elif not line.startswith("#"):
            row = line.split("\t")
            if len(row) != 10:
                raise InputError(f"{path}:{number}: expected ten tab-separated columns, found {len(row)}")
            if row[0].isdigit():  # 3-4 is a multiword token, 3.1 an empty node of the enhanced graph
                rows.append((number, row))
    if rows:
        yield _sentence(rows, path)


def _sentence(numbered: list[tuple[int, list[str]]], path: Path) -> Sentence:
    """The sentence of some rows, each with its line. Columns ID and HEAD are checked."""
    for place, (number, row) in enumerate(numbered, start=1):
        if row[0] != str(place):
            raise InputError(f"{path}:{number}: column ID is {row[0]!r}; expected {place}, the word's place")
        if not row[6].isdecimal() or int(row[6]) > len(numbered):
            raise InputError(
                f"{path}:{number}: column HEAD is {row[6]!r}; expected 0 or the ID of one of {len(numbered)} words"
            )
    rows = [row for _, row in numbered]
    heads = [int(row[6]) - 1 for row in rows]
    return Sentence(
        words=tuple(row[1].replace(" ", "\u00a0") for row in rows),
        lemmas=tuple(row[2].lower() for row in rows),
        pos=tuple(row[3] for row in rows),
        tags=tuple(row[4] for row in rows),
        heads=tuple(i if head < 0 else head for i, head in enumerate(heads)),
        deps=tuple("ROOT" if head < 0 else row[7] for row, head in zip(rows, heads, strict=True)),
    )


def vary(sentence: Sentence, random: Random, lower: float, no_stop: float) -> Sentence:
    """A sentence written as captions often are and treebanks hardly ever: in lower case, without its full stop.

    Args:
        sentence: The sentence of the treebank.
        random: Stream of the two draws.
        lower: Probability of lower case.
        no_stop: Probability that the full stop is left out.
    """
    last = len(sentence.words) - 1
    without_stop = random.random() < no_stop
    if without_stop and last > 0 and sentence.words[last] == "." and last not in sentence.heads:
        sentence = Sentence(*(column[:last] for column in astuple(sentence)))
    if random.random() < lower:
        sentence = replace(sentence, words=tuple(word.lower() for word in sentence.words))
    return sentence


def group(sentences: Iterable[Sentence], random: Random, share: float) -> Iterator[Sentence]:
    """Sentences in order, some of them joined to the one before, so that the parser learns sentence ends as well.

    Args:
        sentences: Sentences of the treebank.
        random: Stream of the draws, one for each sentence but the first.
        share: Probability that a sentence is joined to the one before.
    """
    pending: Sentence | None = None
    for sentence in sentences:
        if pending is not None and random.random() < share:
            pending = _joined(pending, sentence)
            continue
        if pending is not None:
            yield pending
        pending = sentence
    if pending is not None:
        yield pending


def _joined(first: Sentence, second: Sentence) -> Sentence:
    offset = len(first.words)
    return Sentence(
        words=first.words + second.words,
        lemmas=first.lemmas + second.lemmas,
        pos=first.pos + second.pos,
        tags=first.tags + second.tags,
        heads=first.heads + tuple(head + offset for head in second.heads),
        deps=first.deps + second.deps,
    )
