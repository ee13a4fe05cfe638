import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared import SHARED
from vse.data.sources.karpathy import Karpathy
from vse.errors import InputError
from vse.evaluation.attacks import unknown_word_rate
from vse.text.tokens import words
from vse.text.vocabulary import END, PAD, SPECIAL, START, UNKNOWN, Vocabulary, build_vocabulary

CAPTIONS = ["A cat sits.", "a dog", "The cat and a dog", "A bird"]


def test_order_and_ids() -> None:
    v = build_vocabulary(CAPTIONS)
    assert v.words == ("a", "cat", "dog", ".", "and", "bird", "sits", "the")
    assert v.counts == (4, 2, 2, 1, 1, 1, 1, 1)
    assert (PAD, START, END, UNKNOWN) == (0, 1, 2, 3)
    assert len(v) == 12
    assert v.encode(("a", "zebra", "cat")) == [4, UNKNOWN, 5]
    assert v.decode([0, 1, 4, 3]) == ["<pad>", "<start>", "a", "<unk>"]
    assert "cat" in v
    assert "zebra" not in v


def test_minimum_count_absolute_and_relative() -> None:
    assert build_vocabulary(CAPTIONS, 2).words == ("a", "cat", "dog")
    assert build_vocabulary(CAPTIONS, 0.5).words == ("a", "cat", "dog")  # half of four captions
    assert build_vocabulary(CAPTIONS, 0.51).words == ("a",)
    assert build_vocabulary(CAPTIONS, 0).words == build_vocabulary(CAPTIONS, 1).words
    for wrong in (-1, 1.5):
        with pytest.raises(InputError, match="min_count"):
            build_vocabulary(CAPTIONS, wrong)


def test_extra_words_follow_the_same_rule() -> None:
    v = build_vocabulary(CAPTIONS, 2, extra={"sit": 3, "rare": 1, "cat": 1, "dog": 5})
    assert v.words == ("dog", "a", "sit", "cat")
    assert v.counts == (5, 4, 3, 2)


@given(st.lists(st.text(max_size=30), max_size=20), st.randoms())
def test_json_round_trip_and_independence_of_caption_order(texts: list[str], random) -> None:
    v = build_vocabulary(texts)
    assert Vocabulary.from_json(v.to_json()) == v
    shuffled = texts.copy()
    random.shuffle(shuffled)
    assert build_vocabulary(shuffled) == v
    assert build_vocabulary(shuffled).fingerprint == v.fingerprint
    assert all(v.encode(words(text)).count(UNKNOWN) == 0 for text in texts)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        json.dumps({"words": ["a", "a"], "counts": [1, 1]}),
        json.dumps({"words": ["a"], "counts": []}),
        json.dumps({"words": [1], "counts": [1]}),
        json.dumps({"words": ["a"], "counts": ["1"]}),
        json.dumps({"words": [SPECIAL[3]], "counts": [1]}),
    ],
)
def test_damaged_files_are_input_errors(text: str) -> None:
    with pytest.raises(InputError, match=r"vocabulary\.json: not a vocabulary file"):
        Vocabulary.from_json(text, "vocabulary.json")


@pytest.mark.skipif(SHARED is None, reason="no real captions on this machine")
def test_real_captions() -> None:
    assert SHARED is not None
    records = Karpathy(Karpathy.Config(root=str(SHARED / "data/flickr8k_800"))).describe()
    v = build_vocabulary((c.text for c in records.split("train").captions), 4)
    assert 500 < len(v) < 1500
    assert unknown_word_rate((c.text for c in records.split("test").captions), set(v.words)) < 15
