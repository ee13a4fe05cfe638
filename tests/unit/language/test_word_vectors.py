"""Word vectors as text: with and without a header, restricted to a vocabulary, refused in one line."""

import numpy as np
import pytest

from vse.errors import InputError
from vse.language.word_vectors import file_digits, load_word_vectors

WORDS = ("<pad>", "cat", "dog", "tree")


def file(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "vectors.vec"
    path.write_bytes(text.encode(encoding))
    return str(path)


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_rows_of_the_vocabulary(tmp_path, header):
    path = file(tmp_path, header + "dog 1 -2.5\nhorse 9 9\ncat 1e-3 4 \n")
    found = load_word_vectors(path, WORDS)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array([[0, 0], [1e-3, 4], [1, -2.5], [0, 0]], dtype=np.float32))


def test_vectors_of_one_number_are_not_taken_for_a_header(tmp_path):
    np.testing.assert_array_equal(load_word_vectors(file(tmp_path, "2 1\ncat 5\ndog 6\n"), WORDS)[:, 0], [0, 5, 6, 0])


def test_words_that_are_no_text_are_passed_over(tmp_path):
    path = file(tmp_path, "caf\xe9 1 2\ncat 3 4\n", "latin-1")
    np.testing.assert_array_equal(load_word_vectors(path, WORDS)[1], [3, 4])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dog 1 2\ncat 1 2 3\n", "line 2: 3 numbers, earlier lines have 2"),
        ("dog 1 two\n", "line 1: expected a word and numbers"),
        ("horse 1 2\n", "holds no word of the vocabulary"),
        ("", "holds no word of the vocabulary"),
        ("dog 1 nan\n", "line 1: expected a word and numbers"),
        ("x 1 2\ndog\n", "line 2: expected a word and numbers"),
    ],
)
def test_anything_else_is_one_line(tmp_path, text, message):
    path = file(tmp_path, text)
    with pytest.raises(InputError, match=message) as caught:
        load_word_vectors(path, WORDS)
    assert path in str(caught.value)


def test_a_missing_file_names_the_key(tmp_path):
    with pytest.raises(InputError, match=r"text\.word_vectors=.*absent: no such file"):
        load_word_vectors(str(tmp_path / "absent"), WORDS)


def test_another_content_is_another_fingerprint(tmp_path):
    first = file_digits(file(tmp_path, "cat 1 2\n"))
    assert file_digits(file(tmp_path, "cat 1 2\n")) == first
    assert file_digits(file(tmp_path, "cat 1 3\n")) != first
