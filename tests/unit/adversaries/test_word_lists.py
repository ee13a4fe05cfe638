"""Word lists in TOML files: shipped ones can be read, and a damaged file gets one line that names file and key."""

import itertools
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from vse.adversaries.attacks.numeral import NUMERAL
from vse.adversaries.attacks.preposition import PREPOSITION
from vse.adversaries.attacks.shuffle import SHUFFLE
from vse.adversaries.univse.editor import barred_attributes, barred_nouns, barred_relations
from vse.adversaries.vsec.grammar import NUMBER
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.word_lists import SHARED, Groups, Table, Words, read_lists, spellings
from vse.errors import InputError
from vse.text.lexicon.compact import knowledge

GOOD = 'words = "b a"\nordered = "b a"\ngroups = ["a b", "c"]\n[table]\n"x y" = "a"\n'


@dataclass(frozen=True, kw_only=True)
class Lists:
    words: Words
    ordered: tuple[str, ...]
    groups: Groups
    table: Table


def read(folder: Path, text: str) -> Lists:
    (folder / "made.toml").write_text(text)
    return read_lists(Lists, str(folder / "made.py"))


def test_a_file_is_read_by_the_types_of_the_fields(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD) == Lists(
        words=frozenset("ab"),
        ordered=("b", "a"),
        groups=(frozenset("ab"), frozenset("c")),
        table={"x y": frozenset("a")},
    )


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('words = "b a"', "", "words: missing"),
        (
            'words = "b a"',
            'words = "b a"\nwoods = "c"',
            "woods: unknown key; expected one of words, ordered, groups, table",
        ),
        ('words = "b a"', "words = 3", "words: expected a string of words, got 3"),
        ('words = "b a"', 'words = " "', "words: expected a string of words, got ' '"),
        ('words = "b a"', 'words = "a b a"', "words: 'a' is repeated"),
        ('words = "b a"', 'words = "a B"', "words: 'B' is not in lower case"),
        ('["a b", "c"]', '"a b"', "groups: expected an array of strings, got 'a b'"),
        ('["a b", "c"]', '["a b", ""]', r"groups\[1\]: expected a string of words, got ''"),
        ('"x y" = "a"', '"x y" = ["a"]', r"table.x y: expected a string of words, got \['a'\]"),
        ('words = "b a"', "words = b", "cannot be read as TOML"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, before: str, after: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"made\.toml: {message}") as error:
        read(tmp_path, GOOD.replace(before, after))
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: cannot be read"):
        read_lists(Lists, str(tmp_path / "none.py"))


@pytest.mark.parametrize("lists", [SHARED, LISTS, NUMERAL, SHUFFLE, PREPOSITION, NUMBER])
def test_shipped_lists_are_not_empty(lists: Any) -> None:
    assert all(getattr(lists, field.name) for field in fields(lists))


def test_attributes_contradict_others_of_their_kind_only() -> None:
    kinds = [word for words in SHARED.attribute_kinds.values() for word in words]
    assert len(kinds) == len(set(kinds))
    assert SHARED.never_of_living | SHARED.hardly_of_things <= set(kinds)


def test_every_word_has_one_set_of_spellings() -> None:
    every = [word for group in SHARED.spellings for word in group]
    assert len(every) == len(set(every))
    assert all(len(group) > 1 for group in SHARED.spellings)
    assert spellings(["gray"]) == spellings(["grey"]) == {"gray", "grey"}
    assert spellings(["dog", "doughnut"]) == {"dog", "donut", "doughnut"}
    assert spellings([]) == frozenset()


def test_spellings_share_a_synset_of_the_lexicon() -> None:
    """No group that the lexicon has in two spellings holds words of different meaning."""
    lexicon = knowledge().lexicon
    both = [(a, b) for group in SHARED.spellings for a, b in itertools.combinations(sorted(group), 2)]
    held = [(a, b) for a, b in both if a in lexicon.words and b in lexicon.words]
    assert len(held) >= 9
    assert [pair for pair in held if not lexicon.shares_synset(*pair)] == []


def test_no_list_has_one_spelling_of_two() -> None:
    """Every spelling of a word has the same similar words, kind and bars."""
    for word in (word for group in SHARED.spellings for word in group):
        same = spellings([word])
        for barred in (barred_nouns, barred_attributes, barred_relations):
            assert barred([word]) == barred(same) >= same
        assert len({word in SHARED.not_concrete for word in same}) == 1, word
        assert len({word in SHARED.vague_relations for word in same}) == 1, word
        kinds = {kind for kind, words in SHARED.attribute_kinds.items() if words & same}
        assert all(same <= SHARED.attribute_kinds[kind] for kind in kinds), word
