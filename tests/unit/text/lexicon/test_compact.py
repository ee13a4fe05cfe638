"""The shipped sub-lexicon: it answers as the whole database does, and is derived from it byte by byte."""

import itertools
import json
import os
import random

import pytest

from tests.unit.text.lexicon.database import write
from vse.assets.lexicon import ANCHORS, derive
from vse.errors import InputError
from vse.text.lexicon.compact import FILE, knowledge, read_compact
from vse.text.lexicon.concreteness import Concreteness, agreement, wordnet_scores
from vse.text.lexicon.wordnet import DEBIAN, read_wordnet

installed = pytest.mark.skipif(not os.path.isdir(DEBIAN), reason="WordNet (wordnet-base) is not installed")


def test_it_is_small_and_says_what_it_is():
    assert FILE.stat().st_size < 500_000
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in json.loads(FILE.read_bytes())["notice"]
    found = knowledge()
    assert found is knowledge()
    assert 3000 < len(found.lexicon) < 6000
    assert all(anchor in found.lexicon for anchor in ANCHORS)


def test_what_captions_speak_of():
    found = knowledge()
    for word in [
        "dog",
        "woman",
        "skateboard",
        "pizza",
        "table",
        "train",
        "bench",
        "shirt",
        "giraffe",
        "kayak",
        "goggles",
    ]:
        assert found.concreteness.is_concrete(word), word
    for word in ["idea", "game", "trick", "color", "group", "time", "team"]:
        assert not found.concreteness.is_concrete(word), word
    assert found.lexicon.shares_synset("couch", "sofa")
    assert found.lexicon.related("cat", "animal")
    assert not found.lexicon.related("cat", "animal", transitive=False)
    assert not found.lexicon.related("dog", "cake")


def test_derived_twice_is_the_same(tmp_path):
    directory = write(tmp_path)
    data = derive(directory, ["dogs", "sofa"], 1)
    assert data == derive(directory, ["sofa", "dogs", "nonsense"], 1)
    path = tmp_path / "nouns.json"
    path.write_bytes(data)
    found = read_compact(path)
    assert set(found.lexicon.words) >= {"dog", "sofa", "physical_entity"}
    assert "idea" not in found.lexicon  # tagged, but abstract
    assert found.concreteness.scores["dog"] == pytest.approx(43 / 46, abs=1e-6)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "nouns.json"
    for content in ("[]", "{", '{"words": {}}'):
        path.write_text(content)
        with pytest.raises(InputError, match=r"nouns.json: not a sub-lexicon"):
            read_compact(path)


def test_other_sources(tmp_path):
    directory = write(tmp_path)
    whole = knowledge(directory, share=0.05)
    assert whole.concreteness.is_concrete("dog")
    scores = tmp_path / "scores.txt"
    scores.write_text("dog\t1\ncat\t2\n")
    named = knowledge(directory, str(scores), 0.5)
    assert named.concreteness.is_concrete("cat")
    assert not named.concreteness.is_concrete("dog")
    assert named.fingerprint != whole.fingerprint
    scores.write_text("dog\t0\ncat\t2\n")  # the same path and threshold
    knowledge.cache_clear()
    assert knowledge(directory, str(scores), 0.5).fingerprint != named.fingerprint
    with pytest.raises(InputError, match="no WordNet database here"):
        knowledge(str(tmp_path / "absent"))


@installed
def test_it_agrees_with_the_whole():
    found, whole = knowledge().lexicon, read_wordnet()
    words = random.Random(0).sample(found.words, 120)
    for one, other in itertools.combinations(words, 2):
        assert found.shares_synset(one, other) == whole.shares_synset(one, other)
        for transitive in (True, False):
            assert found.related(one, other, transitive=transitive) == whole.related(one, other, transitive=transitive)
    scores = Concreteness.calibrated(wordnet_scores(DEBIAN), DEBIAN)
    assert scores.threshold == knowledge().concreteness.threshold
    assert agreement(scores, knowledge().concreteness)["same"] == 1.0
