"""The candidate stage: each caption once, the same from one process and from several, going on where it stopped."""

import pytest

from tests.unit.adversaries.vsec.made import TEXTS, Parses, parsed, records
from vse.adversaries.vsec import table
from vse.adversaries.vsec.candidates import Rules
from vse.adversaries.vsec.table import Candidates
from vse.errors import InputError, StorageError
from vse.stages import contrast as stage
from vse.stages.contrast import contrast_candidates
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace, dataset_name

RULES = Rules(minimum=5)
RECORDS = records((*TEXTS, *TEXTS))


def made(place, **options):
    return contrast_candidates(RECORDS, Parses(), "train", RULES, place, words="all", **options)


def rows(candidates):
    return sorted(candidates.table.to_pylist(), key=str)


@pytest.fixture
def place(tmp_path):
    return Workspace.open(str(tmp_path))


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(stage, "SHARD_CAPTIONS", 24)


@pytest.mark.seconds
def test_slots_are_those_of_the_generator(place):
    found = made(place, num_workers=1)
    captions = RECORDS.split("train").captions
    by_image = {}
    for caption in captions:
        by_image.setdefault(caption.image, []).append(parsed(caption.text, id=caption.id, image=caption.image))
    words = stage.contrast_words(RECORDS, Parses(), RULES).of("all")
    generator = stage.Generator(words, stage.knowledge(), RULES)
    expected = {
        caption.id: slots
        for group in by_image.values()
        for caption, slots in zip(group, generator.of_image(group), strict=True)
        if slots
    }
    assert found.slots() == expected
    assert found.words == words or found.words.fingerprint == words.fingerprint


@pytest.mark.seconds
def test_made_once_and_read_back(place, monkeypatch):
    first = made(place, num_workers=1)
    monkeypatch.setattr(stage, "make_shard", lambda *a: pytest.fail("made again"))
    again = made(place)
    assert rows(again) == rows(first)
    folder = place.language(dataset_name(RECORDS), first.fingerprint)
    manifest = folder.read_manifest()
    assert manifest["captions"] == len(RECORDS.split("train").captions)
    assert manifest["numbers"]["noun"]["per_caption"] > 5
    assert set(manifest["numbers"]) == {"noun", "numeral", "shuffle", "preposition", "relation"}


@pytest.mark.seconds
def test_what_was_read_for_its_numbers_is_not_read_for_its_checksums(place, small_shards, monkeypatch):
    monkeypatch.setattr(Folder, "entry", lambda *a: pytest.fail("read again"))
    first = made(place, num_workers=1)
    monkeypatch.undo()
    assert len(place.language(dataset_name(RECORDS), first.fingerprint).read_manifest()["files"]) > 2


@pytest.mark.seconds
def test_a_stopped_run_goes_on(place, small_shards, monkeypatch):
    whole = rows(made(Workspace.open(f"{place.root.uri}/other"), num_workers=1))
    original, done = stage.make_shard, []

    def failing(shard, recipe):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(len(shard))
        return original(shard, recipe)

    monkeypatch.setattr(stage, "make_shard", failing)
    with pytest.raises(KeyboardInterrupt):
        made(place, num_workers=1)
    later = []
    monkeypatch.setattr(stage, "make_shard", lambda shard, recipe: later.append(len(shard)) or original(shard, recipe))
    found = made(place, num_workers=1)
    assert rows(found) == whole
    assert sum(done) + sum(later) == len(RECORDS.split("train").captions)


@pytest.mark.seconds
def test_a_damaged_shard_is_made_again(place, small_shards):
    first = made(place, num_workers=1)
    folder = place.language(dataset_name(RECORDS), first.fingerprint)
    (name, *_) = [n for n in folder.names() if n.endswith(".parquet")]
    folder.write_bytes(name, b"PAR1 nonsense")
    with pytest.raises(InputError, match="holds no complete candidates"):
        Candidates.open(folder)
    assert rows(made(place, num_workers=1)) == rows(first)


@pytest.mark.parametrize("error", [StorageError("slow down"), InputError("credentials have expired")])
def test_a_store_that_does_not_answer_has_damaged_nothing(place, small_shards, monkeypatch, error):
    first = made(place, num_workers=1)
    folder = place.language(dataset_name(RECORDS), first.fingerprint)

    def refused(folder, name):
        raise error

    before = table.finished(folder, first.fingerprint)
    with monkeypatch.context() as away:
        away.setattr(Folder, "read_bytes", refused)
        with pytest.raises(type(error)):
            table.finished(folder, first.fingerprint)
    assert table.finished(folder, first.fingerprint) == before != {}


def test_images_stay_in_one_shard(small_shards):
    shards = stage._shards(RECORDS.split("train").captions)
    assert len(shards) > 3
    images = [{caption.image for caption in shard} for shard in shards]
    assert sum(map(len, images)) == len(set().union(*images))


@pytest.mark.seconds
def test_other_rules_words_and_splits_are_other_candidates(place):
    first = made(place, num_workers=1)
    for kind, rules, split in (("shared", RULES, "train"), ("all", Rules(minimum=6), "train"), ("all", RULES, "test")):
        other = contrast_candidates(RECORDS, Parses(), split, rules, place, words=kind, num_workers=1)
        assert other.fingerprint != first.fingerprint
    with pytest.raises(InputError, match="no split 'none'"):
        contrast_candidates(RECORDS, Parses(), "none", RULES, place)
    with pytest.raises(InputError, match="no WordNet database here"):
        contrast_candidates(RECORDS, Parses(), "train", Rules(lexicon="/absent"), place)


@pytest.mark.seconds
def test_words_are_read_back_or_refused(place):
    words = made(place, num_workers=1).words
    assert table.words_from_json(table.words_to_json(words), "x").fingerprint == words.fingerprint
    for data in (b"{", b"{}", b'{"nouns": 3}'):
        with pytest.raises(InputError, match="x: not words of contrastive captions"):
            table.words_from_json(data, "x")


@pytest.mark.slow
def test_several_processes_make_the_same(place, small_shards):
    one = made(Workspace.open(f"{place.root.uri}/one"), num_workers=1)
    two = made(Workspace.open(f"{place.root.uri}/two"), num_workers=2)
    assert rows(one) == rows(two)
    names = [
        place.root.child(which, "language", dataset_name(RECORDS), one.fingerprint).names() for which in ("one", "two")
    ]
    assert names[0] == names[1]


@pytest.mark.slow
def test_ray_makes_the_same(place, small_shards, monkeypatch):
    from vse.cluster.runtime import Config, running_ray

    one = made(Workspace.open(f"{place.root.uri}/one"), num_workers=1)
    monkeypatch.setattr(stage, "WORTH_RAY", 1)
    with running_ray(Config()):
        two = made(Workspace.open(f"{place.root.uri}/two"), num_workers=2)
    assert rows(one) == rows(two)
