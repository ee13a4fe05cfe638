import pyarrow.parquet as pq
import pytest

from tests.unit.text.trees import CLOCK_UD, tree
from vse.errors import InputError, StorageError
from vse.storage.folder import Folder
from vse.text.components import EMPTY, extract
from vse.text.corpus import Language, finished, table_of, write_shard

DOG = tree("black/black/ADJ/JJ/2/amod dog/dog/NOUN/NN/0/ROOT in/in/ADP/IN/4/case snow/snow/NOUN/NN/2/nmod")
TEXTS = ["A white clock on the wall is above a table", "", "\U0001f408 ' \" \\", "black dog in snow"]
PARSES = [tree(CLOCK_UD), (), (), DOG]


@pytest.fixture
def folder(tmp_path):
    return Folder.open(tmp_path / "language")


def committed(folder, shards):
    names = [write_shard(folder, "abcd1234", texts, parses) for texts, parses in shards]
    folder.commit_manifest(names, {"kind": "language", "fingerprint": "abcd1234"})
    return Language.open(folder)


def test_parses_and_components_come_back_whole_over_shards(folder):
    stored = committed(folder, [(TEXTS[:3], PARSES[:3]), (TEXTS[3:], PARSES[3:])])
    assert len(stored) == 4
    assert set(stored.texts()) == set(TEXTS)
    for text, parse in zip(TEXTS, PARSES, strict=True):
        assert text in stored
        assert stored.parse(text) == parse
        assert stored.components(text) == extract(parse)
    assert stored.components("") == EMPTY
    assert stored.fingerprint == "abcd1234"
    with pytest.raises(KeyError):
        stored.parse("never parsed")


def test_a_corpus_without_texts(folder):
    stored = committed(folder, [])
    assert len(stored) == 0
    assert "x" not in stored


def test_shards_are_plain_parquet(folder):
    name = write_shard(folder, "abcd1234", TEXTS, PARSES)
    table = pq.read_table(folder.local(name))
    assert table.equals(table_of(TEXTS, PARSES))
    row = table.slice(3, 1).to_pylist()[0]
    assert row["text"] == "black dog in snow"
    assert [t["lemma"] for t in row["tokens"]] == ["black", "dog", "in", "snow"]
    assert row["relations"] == [
        {"subject": "dog", "word": "in", "object": "snow", "subject_token": 1, "tokens": [2], "object_token": 3}
    ]


def test_the_same_texts_make_the_same_shard(folder):
    assert write_shard(folder, "abcd1234", TEXTS, PARSES) == write_shard(folder, "abcd1234", TEXTS, PARSES)
    assert write_shard(folder, "abcd1234", TEXTS[::-1], PARSES[::-1]) != write_shard(folder, "abcd1234", TEXTS, PARSES)
    assert len(folder.names()) == 2


def test_readers_trust_manifests_only(folder):
    name = write_shard(folder, "abcd1234", TEXTS, PARSES)
    with pytest.raises(InputError, match="holds no complete parsed captions"):
        Language.open(folder)
    folder.commit_manifest([name], {"kind": "language", "fingerprint": "abcd1234"})
    assert len(Language.open(folder)) == 4
    folder.write_bytes(name, folder.read_bytes(name)[:-7])
    with pytest.raises(InputError, match="holds no complete parsed captions"):
        Language.open(folder)


def test_a_store_that_does_not_answer_has_damaged_nothing(folder, monkeypatch):
    name = write_shard(folder, "abcd1234", TEXTS, PARSES)
    with monkeypatch.context() as away:
        away.setattr(Folder, "read_bytes", refused)
        with pytest.raises(StorageError, match="slow down"):
            finished(folder, "abcd1234")
    assert finished(folder, "abcd1234") == {name: TEXTS}


def refused(folder, name):
    raise StorageError(f"{name}: slow down")


def test_damaged_and_foreign_shards_do_not_count_as_finished(folder):
    name = write_shard(folder, "abcd1234", TEXTS, PARSES)
    other = write_shard(folder, "ffff0000", TEXTS[:1], PARSES[:1])
    folder.write_bytes("parses-abcd1234-0000000000000000.parquet", b"PAR1 broken")
    assert finished(folder, "abcd1234") == {name: TEXTS}
    assert finished(folder, "ffff0000") == {other: TEXTS[:1]}
    assert "parses-abcd1234-0000000000000000.parquet" not in folder.names()
