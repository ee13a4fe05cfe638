"""The one tokeniser: offsets, treebank-like splits, any script."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse.language.tokens import tokenize, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A white clock.", ["A", "white", "clock", "."]),
        ("the man's hat", ["the", "man", "'s", "hat"]),
        ("the men\u2019s hats", ["the", "men", "\u2019s", "hats"]),
        ("isn't it? can't", ["is", "n't", "it", "?", "ca", "n't"]),
        ("don\u2019t they're I'd we'll I'm", ["do", "n\u2019t", "they", "'re", "I", "'d", "we", "'ll", "I", "'m"]),
        ("ISN'T", ["IS", "N'T"]),
        ("the dogs' bowls", ["the", "dogs", "'", "bowls"]),
        ("a black-and-white cat", ["a", "black", "-", "and", "-", "white", "cat"]),
        ("3,000 people at 10:30, 2.5 m", ["3,000", "people", "at", "10:30", ",", "2.5", "m"]),
        ("2 dogs, 3.", ["2", "dogs", ",", "3", "."]),
        ('"red" (or blue)', ['"', "red", '"', "(", "or", "blue", ")"]),
        ("a_b", ["a", "_", "b"]),
        (
            "caf\u00e9 cafe\u0301 \u0447\u0430\u0448\u043a\u0430",
            ["caf\u00e9", "cafe\u0301", "\u0447\u0430\u0448\u043a\u0430"],
        ),
        ("size 10m", ["size", "10", "m"]),
        ("\u732b\u3068\u72ac", ["\u732b\u3068\u72ac"]),
        ("smile \U0001f600!", ["smile", "\U0001f600", "!"]),
        ("", []),
        (" \t\n\u00a0\u200b", []),
    ],
)
def test_examples(text: str, expected: list[str]) -> None:
    assert [token.text for token in tokenize(text)] == expected


@given(st.text(max_size=80))
def test_offsets_point_into_the_text_and_never_overlap(text: str) -> None:
    tokens = tokenize(text)
    for token in tokens:
        assert text[token.start : token.end] == token.text
        assert token.text
        assert not any(sign.isspace() for sign in token.text)
    assert all(one.end <= two.start for one, two in pairwise(tokens))


@given(st.text(max_size=80))
def test_nothing_visible_is_lost(text: str) -> None:
    """What lies between tokens is white space, control characters and marks that belong to no letter."""
    covered = {k for token in tokenize(text) for k in range(token.start, token.end)}
    for k, sign in enumerate(text):
        if sign.isalnum() or (sign.isprintable() and not sign.isspace()):
            assert k in covered, (sign, tokenize(text))


@given(
    st.lists(st.sampled_from(["dog", "isn't", "man's", "12", "3,000", "red-hot", "x.", "\u00e9t\u00e9"]), max_size=8)
)
def test_spaces_separate(parts: list[str]) -> None:
    whole = [token.text for token in tokenize("  ".join(parts))]
    assert whole == [token.text for part in parts for token in tokenize(part)]


@given(st.text(max_size=60) | st.text(alphabet="ants'\u2019 .,1:-", max_size=16))
def test_tokens_of_tokens_are_themselves(text: str) -> None:
    """Joined by spaces and split again nothing changes: adversaries are made so and parsed like any text."""
    tokens = [token.text for token in tokenize(text)]
    assert [token.text for token in tokenize(" ".join(tokens))] == tokens


def test_words_are_lower_case() -> None:
    assert words("A Dog ISN'T here") == ("a", "dog", "is", "n't", "here")
