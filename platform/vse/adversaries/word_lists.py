"""Word lists, in TOML files next to the modules that read them, and the lists that several attacks share."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from vse.errors import InputError

Words = frozenset[str]
Groups = tuple[frozenset[str], ...]
Table = Mapping[str, frozenset[str]]
T = TypeVar("T")


def read_lists(lists: type[T], module: str) -> T:
    """Read the TOML file next to a module into a dataclass with a field for each key.

    In the file, words are separated by white space. A field is one of:

    - `Words`: a string of words, in which none is repeated.
    - `tuple[str, ...]`: the same, and the order is kept.
    - `Groups`: an array of such strings.
    - `Table`: a table of such strings.
    - `Mapping[str, str]`: a table of phrases.

    Args:
        lists: The dataclass. The file must have its fields as keys, and no others.
        module: `__file__` of the module; `attacks/noun.py` reads `attacks/noun.toml`.

    Raises:
        InputError: One line that names the file, the key and what is wrong.
    """
    path = Path(module).with_suffix(".toml")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as TOML ({error})") from None
    names = [field.name for field in fields(lists)]  # pyrefly: ignore[bad-argument-type]  # a dataclass
    for key in sorted({*names, *data}):
        if key not in data:
            raise InputError(f"{path}: {key}: missing")
        if key not in names:
            raise InputError(f"{path}: {key}: unknown key; expected one of {', '.join(names)}")
    hints = get_type_hints(lists)
    return lists(**{name: _value(data[name], hints[name], f"{path}: {name}") for name in names})


def _value(value: Any, kind: Any, where: str) -> Any:
    if kind in (Table, Mapping[str, str]):
        if not isinstance(value, dict) or not value:
            raise InputError(f"{where}: expected a table, got {value!r}")
        inner = Words if kind == Table else str
        return {key: _value(text, inner, f"{where}.{key}") for key, text in value.items()}
    if kind == Groups:
        if not isinstance(value, list) or not value:
            raise InputError(f"{where}: expected an array of strings, got {value!r}")
        return tuple(_value(text, Words, f"{where}[{number}]") for number, text in enumerate(value))
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: expected a string of words, got {value!r}")
    words = value.split()
    if kind is str:
        return " ".join(words)
    for number, word in enumerate(words):
        if word != word.lower():
            raise InputError(f"{where}: {word!r} is not in lower case, as words are compared")
        if word in words[:number]:
            raise InputError(f"{where}: {word!r} is repeated")
    return frozenset(words) if kind == Words else tuple(words)


@dataclass(frozen=True, kw_only=True)
class SharedLists:
    """Word lists that several attacks read. The TOML file describes them."""

    published_attributes: tuple[str, ...]
    published_similar_attributes: Groups
    similar_attributes: Groups
    similar_relations: Groups
    similar_nouns: Groups
    spellings: Groups
    not_concrete: Words
    no_relation: Words
    close_attributes: Groups
    never_of_living: Words
    hardly_of_things: Words
    vague_relations: Words
    attribute_kinds: Table

    @property
    def corrected_attributes(self) -> Words:
        """The published attributes without the misprint, and with the colour that was forgotten."""
        return frozenset(self.published_attributes) - {"morden"} | {"blue", "modern"}


SHARED = read_lists(SharedLists, __file__)
_SPELLINGS = {word: group for group in SHARED.spellings for word in group}


def spellings(words: Iterable[str]) -> frozenset[str]:
    """The words in every spelling of theirs: `gray` and `grey` are one word."""
    return frozenset().union(*(_SPELLINGS.get(word, (word,)) for word in words))
