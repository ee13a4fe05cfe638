"""Word lists that several attacks of VSE-C's type read, from `lists.toml`."""

from collections.abc import Mapping
from dataclasses import dataclass

from vse.adversaries.word_lists import Groups, Table, Words, read_lists


@dataclass(frozen=True, kw_only=True)
class ContrastLists:
    """Word lists of a TOML file, which describes each of them."""

    ambient: Words
    mass: Words
    counted_too: Words
    places: Words
    plural_only: Words
    poor: Words
    visible: Words
    personal: Words
    enclosures: Words
    enclosed: Words
    slopes: Words
    waters: Words
    terrain: Words
    tethers: Words
    colors: Words
    preposition_sets: Groups
    false_instead: Table
    phrases_instead: Mapping[str, str]


LISTS = read_lists(ContrastLists, __file__)
