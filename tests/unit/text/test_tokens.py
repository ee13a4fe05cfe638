"""The one tokeniser: offsets, treebank-like splits, any script."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse.text.parser import Parser, shared_parser
from vse.text.tokens import as_caption, nfc, pictographs, revision_of, tokenize, words
from vse.text.vocabulary import UNKNOWN, build_vocabulary
from vse.text.word_vectors import word_vectors

# Words whose vowels are marks of their own: a tokeniser of letters alone takes them to pieces
HINDI, THAI = "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e19\u0e49\u0e33"
HEBREW, ARABIC = "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "\u0643\u0650\u062a\u0627\u0628"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A white clock.", ["A", "white", "clock", "."]),
        ("the man's hat", ["the", "man", "'s", "hat"]),
        ("the men\u2019s hats", ["the", "men", "'s", "hats"]),
        ("isn't it? can't", ["is", "n't", "it", "?", "ca", "n't"]),
        ("don\u2019t they're I'd we'll I'm", ["do", "n't", "they", "'re", "I", "'d", "we", "'ll", "I", "'m"]),
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
        (
            "\u0939\u093f\u0928\u094d\u0926\u0940 \u0e19\u0e49\u0e33",
            ["\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e19\u0e49\u0e33"],
        ),
        (
            "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u0643\u0650\u062a\u0627\u0628",
            ["\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "\u0643\u0650\u062a\u0627\u0628"],
        ),
        ("\u2600\ufe0f sun", ["sun"]),
        ("25\u00b0 \u00a9 \u2122 \u2192", ["25", "\u00b0", "\u00a9", "\u2122", "\u2192"]),
        ("\u0663 \u0643\u0644\u0627\u0628", ["\u0663", "\u0643\u0644\u0627\u0628"]),
        ("rock'n'roll o'clock", ["rock", "'", "n", "'", "roll", "o", "'", "clock"]),
        ("A/C 4x4 50% #1", ["A", "/", "C", "4", "x", "4", "50", "%", "#", "1"]),
        ("size 10m", ["size", "10", "m"]),
        ("\u732b\u3068\u72ac\u3002", ["\u732b", "\u3068", "\u72ac", "\u3002"]),
        ("T\u6064 \u7537\u4eba12", ["T", "\u6064", "\u7537", "\u4eba", "12"]),
        ("\u30b5\u30fc\u30d5", ["\u30b5", "\u30fc", "\u30d5"]),
        ("\ud55c\uad6d\uc5b4 \ubb38\uc7a5", ["\ud55c\uad6d\uc5b4", "\ubb38\uc7a5"]),
        (
            "\u0e2b\u0e21\u0e32\u0e19\u0e49\u0e33\u0e01\u0e33",
            ["\u0e2b", "\u0e21", "\u0e32", "\u0e19\u0e49\u0e33", "\u0e01\u0e33"],
        ),
        ("\u1780\u17d2\u1798\u17c1\u1784", ["\u1780\u17d2\u1798\u17c1", "\u1784"]),
        ("\u101a\u1031\u102c\u1000\u103a", ["\u101a\u1031\u102c", "\u1000\u103a"]),
        ("\u0eab\u0ea1\u0eb2", ["\u0eab", "\u0ea1", "\u0eb2"]),
        ("smile \U0001f600!", ["smile", "!"]),
        ("\U0001f469\U0001f3fd\u200d\U0001f9b1 1\ufe0f\u20e3 \U0001f1e9\U0001f1ea\u2b50", ["1"]),
        ("", []),
        (" \t\n\u00a0\u200b", []),
    ],
)
def test_examples(text: str, expected: list[str]) -> None:
    assert [token.text for token in tokenize(text)] == expected


@pytest.mark.seconds
@given(st.text(max_size=80))
def test_offsets_point_into_the_text_and_never_overlap(text: str) -> None:
    tokens = tokenize(text)
    for token in tokens:
        assert text[token.start : token.end].replace("\u2019", "'") == token.text
        assert token.text
        assert not any(sign.isspace() for sign in token.text)
    assert all(one.end <= two.start for one, two in pairwise(tokens))


@pytest.mark.seconds
@given(st.text(max_size=80))
def test_nothing_visible_is_lost(text: str) -> None:
    """What lies between tokens is white space, control characters, pictographs, and marks that belong to no letter."""
    covered = {k for token in tokenize(text) for k in range(token.start, token.end)}
    drawn = {sign for pictograph in pictographs(text) for sign in pictograph} | {"\ufe0e", "\ufe0f", "\u20e3"}
    for k, sign in enumerate(text):
        if sign in drawn:
            continue
        if sign.isalnum() or (sign.isprintable() and not sign.isspace()):
            assert k in covered, (sign, tokenize(text))


@pytest.mark.seconds
@given(
    st.lists(st.sampled_from(["dog", "isn't", "man's", "12", "3,000", "red-hot", "x.", "\u00e9t\u00e9"]), max_size=8)
)
def test_spaces_separate(parts: list[str]) -> None:
    whole = [token.text for token in tokenize("  ".join(parts))]
    assert whole == [token.text for part in parts for token in tokenize(part)]


MARKED = "a\u0301\u093e\u094d\u0939\u0e33\u05b8\ufe0f\u200d1.'\u20e3 nt"


@given(st.text(max_size=60) | st.text(alphabet="ants'\u2019 .,1:-", max_size=16) | st.text(MARKED, max_size=16))
def test_tokens_of_tokens_are_themselves(text: str) -> None:
    """Joined by spaces and split again nothing changes: adversaries are made so and parsed like any text."""
    tokens = [token.text for token in tokenize(text)]
    assert [token.text for token in tokenize(" ".join(tokens))] == tokens


@given(st.text(alphabet="ants'\u2019 .,1-", max_size=20))
def test_an_apostrophe_is_one_however_it_was_typed(text: str) -> None:
    typed = tokenize(text.replace("\u2019", "'"))
    assert tokenize(text) == typed == tokenize(text.replace("'", "\u2019"))
    vocabulary = build_vocabulary(["it's the dogs' bowl, isn't it?"])
    assert UNKNOWN not in vocabulary.encode(words("it\u2019s the dogs\u2019 bowl, isn\u2019t it?"))


def test_words_are_lower_case() -> None:
    assert words("A Dog ISN'T here") == ("a", "dog", "is", "n't", "here")


TEXTS = st.text(max_size=40) | st.text(MARKED + "'\u2019s-\u732b", max_size=20)


@given(TEXTS)
def test_words_read_again_are_themselves(text: str) -> None:
    """Lower case changes no border, so what a vocabulary lists is what it finds."""
    found = words(text)
    assert words(" ".join(found)) == found


@given(TEXTS)
def test_every_word_of_a_caption_is_in_the_vocabulary_made_of_it(text: str) -> None:
    special = {"<pad>", "<start>", "<end>", "<unk>"}
    vocabulary = build_vocabulary([text])
    assert UNKNOWN not in vocabulary.encode(words(text))
    assert not special & set(words(text))


SCRIPTS = [
    "The man's dogs aren't black-and-white, they're 3,000!",
    "\u092c\u093f\u0932\u094d\u0932\u0940 \u0915\u0941\u0930\u094d\u0938\u0940 \u092a\u0930",
    "\u0427\u0451\u0440\u043d\u0430\u044f \u043a\u043e\u0448\u043a\u0430, \u732b\u3068\u72ac; cafe\u0301 \u2600\ufe0f",
    "na\u00efve\u200b\u00a0x\u2028y",
]


def test_vocabulary_word_vectors_and_parser_see_the_same_tokens(tmp_path) -> None:
    vocabulary = build_vocabulary(SCRIPTS)
    path = tmp_path / "all.vec"
    path.write_bytes("".join(f"{word} {k + 1} 0.5\n" for k, word in enumerate(vocabulary.words)).encode())
    vectors = word_vectors(str(path), vocabulary.words).vectors
    parser = shared_parser(Parser.Config())
    for text in SCRIPTS:
        parse = parser.parse(text)
        assert tuple(token.text.lower() for token in parse) == words(text)
        assert all(text[token.start : token.end] == token.text for token in parse)
        ids = [vocabulary.ids[word] - 4 for word in words(text)]
        assert (vectors[ids, 0] == [k + 1 for k in ids]).all()  # each word has its own row in the file too


@pytest.mark.parametrize(
    ("text", "caption"),
    [
        ("Stone &amp; tile", "Stone & tile"),
        ("&quot;Stop&quot; sign, caf&eacute;&nbsp;bar &#39;x&#x27;", "\"Stop\" sign, caf\u00e9 bar 'x'"),
        ("&amp;quot;Hi&amp;quot;", '"Hi"'),
        ("R&D, salt&pepper, a &copy of &nothing; it", "R&D, salt&pepper, a &copy of &nothing; it"),
        ("A dog http://t.co/Ab1?x=2 runs https://a.b", "A dog runs"),
        ("A dog WWW.dogs.example/x.jpg", "A dog"),
        ("A #beach with a #black_dog", "A beach with a black dog"),
        ("Bus #5 and a 50# bag, C# and #", "Bus #5 and a 50# bag, C# and #"),
        ("RT @user_1: a cat, thanks @me!", "RT : a cat, thanks !"),
        ("a@b.example is @ the park @ 5", "a@b.example is @ the park @ 5"),
        ("A  plain caption.", "A plain caption."),
    ],
)
def test_what_only_web_pages_show_is_no_part_of_a_caption(text: str, caption: str) -> None:
    assert as_caption(text) == caption


@given(st.text(max_size=60) | st.text("&amp;#@quot39x_ /:.w\u00e9", max_size=30))
def test_a_caption_read_again_is_itself(text: str) -> None:
    assert as_caption(as_caption(text)) == as_caption(text)


@given(st.text(st.characters(exclude_characters="&@#:"), max_size=60))
def test_a_caption_without_web_signs_keeps_every_character(text: str) -> None:
    if "www." not in text.lower():
        assert "".join(as_caption(text).split()) == nfc("".join(text.split())) or nfc(text) != text


def test_pictographs_are_listed_with_what_alters_them() -> None:
    assert pictographs("a \u2600\ufe0f and \U0001f600, 1\ufe0f\u20e3 \u00a9") == ("\u2600\ufe0f", "\U0001f600")


def test_the_revision_is_raised_only_for_texts_that_are_read_otherwise_than_before() -> None:
    assert revision_of(["A dog", "25\u00b0 caf\u00e9 \ud55c\uad6d\uc5b4"]) == 1
    assert revision_of(["A dog", "\u732b"]) == revision_of(["\u0e2b"]) == revision_of(["\U0001f600"]) == 2
