"""The reader of WordNet databases, on a small one written for it and, where it is installed, on the real one."""

import os

import pytest

from tests.unit.text.lexicon.database import SYNSETS, write
from vse.errors import InputError
from vse.text.lexicon.wordnet import DEBIAN, read_sense_counts, read_wordnet, single_words

installed = pytest.mark.skipif(not os.path.isdir(DEBIAN), reason="WordNet (wordnet-base) is not installed")


@pytest.fixture
def small(tmp_path):
    return read_wordnet(write(tmp_path))


def test_senses_and_hypernyms(small):
    assert small.synsets("dog") == (600, 1100)
    assert small.hypernyms(700, transitive=False) == {600}
    assert small.hypernyms(700) == {600, 500, 400, 200, 100}
    assert small.hypernyms(SYNSETS["entity"][0]) == frozenset()
    assert small.synsets("unicorn") == ()
    assert "unicorn" not in small
    assert "DOG" in small


def test_plurals_by_exceptions_and_endings(small):
    assert [small.lemma(w) for w in ("knives", "dogs", "couches", "mice", "dogses")] == [
        "knife",
        "dog",
        "couch",
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("one", "other", "shared", "related", "one_step"),
    [
        ("dog", "cat", True, False, False),  # both are said of people
        ("sofa", "couch", True, False, False),
        ("dog", "animal", False, True, False),
        ("dog", "canine", False, True, True),
        ("animal", "poodle", False, True, False),
        ("poodle", "dogs", False, True, True),
        ("couch", "knife", False, False, False),
        ("couch", "unicorn", False, False, False),
    ],
)
def test_relations_hold_both_ways(small, one, other, shared, related, one_step):
    for a, b in ((one, other), (other, one)):
        assert small.shares_synset(a, b) is shared
        assert small.related(a, b) is related
        assert small.related(a, b, transitive=False) is one_step


def test_is_a_looks_at_the_first_senses(small):
    assert small.is_a("poodle", "animal")
    assert small.is_a("dog", "dog")
    assert not small.is_a("plan", "physical_entity")
    assert small.is_a("plan", "physical_entity", senses=2)
    assert not small.is_a("dog", "unicorn")


def test_a_part_answers_as_the_whole(small):
    part = small.part(["dogs", "sofa", "knife", "unicorn"], "part")
    assert part.words == ("dog", "knife", "sofa")
    assert part.hypernyms(600) == small.hypernyms(600)
    assert part.lemma("knives") == "knife"
    assert part.fingerprint != small.fingerprint
    assert part.fingerprint == small.part(["knife", "dog", "sofa"], "other name").fingerprint


def test_absence_is_one_clear_line(tmp_path):
    with pytest.raises(InputError, match=r"no WordNet database here \(data.noun is missing\).*install wordnet-base"):
        read_wordnet(str(tmp_path))
    with pytest.raises(InputError, match=r"cntlist\.rev is missing"):
        read_sense_counts(str(tmp_path))


def test_a_damaged_database_is_named(tmp_path):
    write(tmp_path)
    (tmp_path / "data.noun").write_text("00000100 05 n zz dog\n")
    with pytest.raises(InputError, match=r"data\.noun: line 1: not a WordNet database"):
        read_wordnet(str(tmp_path))
    (tmp_path / "data.noun").write_bytes(b"caf\xe9\n")
    with pytest.raises(InputError, match=r"data\.noun: not a WordNet database: not UTF-8 text"):
        read_wordnet(str(tmp_path))


@pytest.mark.parametrize("kind", ["noun", "verb", "adj", "adv"])
def test_a_missing_index_is_named(tmp_path, kind):
    write(tmp_path)
    (tmp_path / f"index.{kind}").unlink()
    with pytest.raises(InputError, match=rf"no complete WordNet database here \(index\.{kind} is missing\)"):
        single_words(str(tmp_path))


@pytest.mark.parametrize("line", ["dog%1:05:00:: 1", "dog%1:05:00:: one 42", "dog% 1 42", "dog 1 42", ""])
def test_a_damaged_count_is_named_with_its_line(tmp_path, line):
    write(tmp_path)
    (tmp_path / "cntlist.rev").write_text(f"dog%1:05:00:: 1 42\n{line}\n")
    with pytest.raises(InputError, match=r"cntlist\.rev: line 2: not a WordNet database"):
        read_sense_counts(str(tmp_path))


def test_counts_by_sense_number(tmp_path):
    counts = read_sense_counts(write(tmp_path))
    assert counts["dog"]["1"][1] == 42
    assert counts["dog"]["2"][1] == 5
    assert single_words(str(tmp_path)) >= {"dog", "run", "entity"}
    assert "physical_entity" not in single_words(str(tmp_path))


@installed
def test_the_real_database():
    wordnet = read_wordnet()
    assert len(wordnet) == 117_798
    assert wordnet.shares_synset("couch", "sofa")
    assert wordnet.related("cat", "animal")  # the paper's example
    assert not wordnet.related("cat", "animal", transitive=False)
    assert wordnet.related("dogs", "canines", transitive=False)
    assert not wordnet.related("banana", "bus")
    assert wordnet.lemma("geese") == "goose"
