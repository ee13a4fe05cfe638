"""Reads the nouns of a WordNet 3.0 database directory (Miller, 1995): data.noun, index.noun, noun.exc, cntlist.rev.

The format is documented in the manual pages wndb(5WN) and senseidx(5WN). Debian has the files in `wordnet-base`.
"""

from collections import Counter, defaultdict
from pathlib import Path

from vse.errors import InputError
from vse.language.lexicon.lexicon import Lexicon

DEBIAN = "/usr/share/wordnet"
_HYPERNYMS = ("@", "@i")
NOUN = "1"  # how sense keys number parts of speech


def read_wordnet(directory: str = DEBIAN) -> Lexicon:
    """All nouns of the database in `directory`. Raises InputError where it is absent or not such a database."""
    folder = Path(directory)
    for name in ("data.noun", "index.noun", "noun.exc"):
        if not (folder / name).is_file():
            raise InputError(
                f"{directory}: no WordNet database here ({name} is missing); install one (Debian: apt-get install "
                "wordnet-base) and name its directory, or use the shipped sub-lexicon"
            )
    try:
        parents = dict(_synset(line) for line in _lines(folder / "data.noun"))
        words = dict(_word(line) for line in _lines(folder / "index.noun"))
        exceptions = dict(_exception(line) for line in _lines(folder / "noun.exc"))
    except (ValueError, IndexError) as error:
        raise InputError(f"{directory}: not a WordNet database as wndb(5WN) describes it ({error})") from None
    return Lexicon(words, parents, exceptions, directory)


def read_sense_counts(directory: str = DEBIAN) -> dict[str, dict[str, Counter[int]]]:
    """lemma -> part of speech (as sense keys number it) -> sense number from 1 -> occurrences in tagged texts."""
    path = Path(directory, "cntlist.rev")
    if not path.is_file():
        raise InputError(f"{directory}: no WordNet sense counts here (cntlist.rev is missing)")
    counts: dict[str, dict[str, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    for line in _lines(path):
        key, number, count = line.split()
        lemma, _, sense = key.partition("%")
        counts[lemma][sense[0]][int(number)] += int(count)
    return counts


def single_words(directory: str = DEBIAN) -> set[str]:
    """Lemmas of any part of speech that are one word of letters: what a list of general English would hold."""
    names = (f"index.{kind}" for kind in ("noun", "verb", "adj", "adv"))
    lemmas = {line.split(" ", 1)[0] for name in names for line in _lines(Path(directory, name))}
    return {lemma for lemma in lemmas if lemma.isalpha()}


def _lines(path: Path) -> list[str]:
    """Lines of a file without the licence at its head, whose lines begin with a blank."""
    with path.open(encoding="utf-8") as stream:
        return [line for line in stream if not line.startswith(" ")]


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
