"""Reads the nouns of a WordNet 3.0 database directory (Miller, 1995): data.noun, index.noun, noun.exc, cntlist.rev.

The format is documented in the manual pages wndb(5WN) and senseidx(5WN). Debian has the files in `wordnet-base`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import TypeVar

from vse.errors import InputError
from vse.storage.folder import Folder
from vse.storage.user_files import is_file, local, refuse_placeholder
from vse.text.lexicon.lexicon import Lexicon

DEBIAN = "/usr/share/wordnet"
NOUN_FILES = ("data.noun", "index.noun", "noun.exc")
_HYPERNYMS = ("@", "@i")
Entry = TypeVar("Entry")
NOUN = "1"  # how sense keys number parts of speech


def read_wordnet(directory: str = DEBIAN) -> Lexicon:
    """All nouns of the database in `directory`, a path or s3:// address.

    Raises InputError if it is absent or not such a database.
    """
    folder = Folder.open(directory)
    for name in NOUN_FILES:
        if not is_file(folder.address(name)):
            raise InputError(
                f"{directory}: no WordNet database here ({name} is missing); install one (Debian: apt-get install "
                "wordnet-base) and name its directory, or use the shipped sub-lexicon"
            )
    parents = dict(_read(folder.address("data.noun"), _synset))
    words = dict(_read(folder.address("index.noun"), _word))
    exceptions = dict(_read(folder.address("noun.exc"), _exception))
    return Lexicon(words, parents, exceptions, directory)


def read_sense_counts(directory: str = DEBIAN) -> dict[str, dict[str, Counter[int]]]:
    """lemma -> part of speech (as sense keys number it) -> sense number from 1 -> occurrences in tagged texts.

    Raises InputError naming the file, and the line if it is not a count.
    """
    file = Folder.open(directory).address("cntlist.rev")
    if not is_file(file):
        raise InputError(f"{directory}: no WordNet sense counts here (cntlist.rev is missing)")
    counts: dict[str, dict[str, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    for lemma, kind, number, count in _read(file, _count):
        counts[lemma][kind][number] += count
    return counts


def single_words(directory: str = DEBIAN) -> set[str]:
    """Lemmas of any part of speech that are one word of letters: what a list of general English would hold.

    Raises InputError if an index is missing or not text.
    """
    lemmas: set[str] = set()
    for kind in ("noun", "verb", "adj", "adv"):
        file = Folder.open(directory).address(f"index.{kind}")
        if not is_file(file):
            raise InputError(f"{directory}: no complete WordNet database here (index.{kind} is missing)")
        lemmas.update(_read(file, lambda line: line.split(" ", 1)[0]))
    return {lemma for lemma in lemmas if lemma.isalpha()}


def _read(file: str, entry: Callable[[str], Entry]) -> Iterator[Entry]:
    """The entries of a file without the licence at its head, whose lines begin with a blank.

    Raises InputError naming file and line if `entry` cannot read a line.
    """
    refuse_placeholder(file)
    try:
        with local(file).open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                if not line.startswith(" "):
                    yield _entry(line, entry, f"{file}: line {number}")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not a WordNet database: not UTF-8 text ({error})") from None


def _entry(line: str, entry: Callable[[str], Entry], where: str) -> Entry:
    try:
        return entry(line)
    except (ValueError, IndexError) as error:
        raise InputError(f"{where}: not a WordNet database as wndb(5WN) describes it ({error})") from None


def _synset(line: str) -> tuple[int, tuple[int, ...]]:
    """(offset, offsets of its hypernyms) from: offset file type count (word id)... count (sign offset pos ends)..."""
    fields = line.split(" | ")[0].split()
    first = 4 + 2 * int(fields[3], 16)
    pointers = fields[first + 1 : first + 1 + 4 * int(fields[first])]
    above = [int(to) for sign, to in zip(pointers[::4], pointers[1::4], strict=True) if sign in _HYPERNYMS]
    return int(fields[0]), tuple(above)


def _word(line: str) -> tuple[str, tuple[int, ...]]:
    """(lemma, offsets of its senses) from: lemma pos senses pointers sign... senses tagged offset..."""
    fields = line.split()
    return fields[0], tuple(int(offset) for offset in fields[-int(fields[2]) :])


def _exception(line: str) -> tuple[str, str]:
    form, lemma, *_ = line.split()
    return form, lemma


def _count(line: str) -> tuple[str, str, int, int]:
    """(lemma, part of speech, sense number, occurrences) from: lemma%pos:... number occurrences."""
    key, number, count = line.split()
    lemma, _, sense = key.partition("%")
    return lemma, sense[0], int(number), int(count)
