"""Word vectors: rows of a vocabulary, kept beside the data set, what they cover; bad files refused in one line."""

import zipfile
from dataclasses import replace

import numpy as np
import pytest

from vse.errors import InputError
from vse.storage.folder import Folder
from vse.text.word_vectors import Coverage, coverage, file_digits, vectors_fingerprint, word_vectors

WORDS = ("<pad>", "cat", "dog", "tree")


def file(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "vectors.vec"
    path.write_bytes(text.encode(encoding))
    return str(path)


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_rows_of_the_vocabulary(tmp_path, header):
    path = file(tmp_path, header + "dog 1 -2.5\nhorse 9 9\ncat 1e-3 4 \n")
    found = word_vectors(path, WORDS).vectors
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array([[0, 0], [1e-3, 4], [1, -2.5], [0, 0]], dtype=np.float32))


def test_vectors_of_one_number_are_not_taken_for_a_header(tmp_path):
    np.testing.assert_array_equal(
        word_vectors(file(tmp_path, "2 1\ncat 5\ndog 6\n"), WORDS).vectors[:, 0], [0, 5, 6, 0]
    )


def test_words_that_are_no_text_are_passed_over(tmp_path):
    path = file(tmp_path, "caf\xe9 1 2\ncat 3 4\n", "latin-1")
    np.testing.assert_array_equal(word_vectors(path, WORDS).vectors[1], [3, 4])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dog 1 2\ncat 1 2 3\n", "line 2: 3 numbers, earlier lines have 2"),
        ("dog 1 two\n", "line 1: expected a word and numbers"),
        ("horse 1 2\n", "holds no vector of any word of the vocabulary"),
        ("", "file is empty"),
        ("dog 1 nan\n", "line 1: expected a word and numbers"),
        ("x 1 2\ndog\n", "line 2: expected a word and numbers"),
    ],
)
def test_anything_else_is_one_line(tmp_path, text, message):
    path = file(tmp_path, text)
    with pytest.raises(InputError, match=message) as caught:
        word_vectors(path, WORDS)
    assert path in str(caught.value)


def test_a_missing_file_names_the_key(tmp_path):
    with pytest.raises(InputError, match="absent: no such file of word vectors"):
        word_vectors(str(tmp_path / "absent"), WORDS)


def test_another_content_is_another_fingerprint(tmp_path):
    first = file_digits(file(tmp_path, "cat 1 2\n"))
    assert file_digits(file(tmp_path, "cat 1 2\n")) == first
    assert file_digits(file(tmp_path, "cat 1 3\n")) != first


def test_the_member_of_an_archive_is_part_of_its_identity(tmp_path):
    archive = tmp_path / "two.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("a.txt", "cat 1 2\n")
        zipped.writestr("b.txt", "cat 3 4\n")
    assert file_digits(f"{archive}/a.txt") != file_digits(f"{archive}/b.txt")


def test_coverage_counts_words_and_tokens_and_names_the_most_frequent_missing_first(tmp_path):
    vectors = word_vectors(file(tmp_path, "cat 1 2\ndog 0 0\n"), ("<pad>", "cat", "dog", "tree", "ant", "owl"))
    found = coverage(vectors, {"cat": 6, "dog": 1, "ant": 2, "tree": 5, "owl": 2})
    assert (found.words, found.found, found.tokens, found.tokens_found) == (5, 2, 16, 7)
    assert found.missing == ("tree", "ant", "owl")  # a word whose numbers are all zero is not missing
    assert found.numbers() == {
        "word_vectors/words": 5.0,
        "word_vectors/found": 2 / 5,
        "word_vectors/tokens_found": 7 / 16,
    }
    assert found.line("glove.txt", show=2) == (
        "warning: text.word_vectors=glove.txt: has 2 of 5 words of the vocabulary (40.0 %), 43.8 % of their "
        "occurrences in training captions; missing: tree ant and 1 more; is the file of the captions' language, and in "
        "lower case as they are read?"
    )


def test_a_file_with_most_of_the_words_is_no_warning():
    some = Coverage(words=4, found=3, tokens=20, tokens_found=19, missing=("zebra",))
    assert some.line("f.bin") == (
        "text.word_vectors=f.bin: has 3 of 4 words of the vocabulary (75.0 %), 95.0 % of their occurrences in training "
        "captions; missing: zebra"
    )
    assert not some.most_missing
    assert replace(some, found=1).most_missing
    assert replace(some, tokens_found=9).most_missing
    assert not replace(some, words=0, found=0, tokens=0, tokens_found=0).most_missing


class TestKept:
    def test_the_second_time_nothing_is_read(self, tmp_path, monkeypatch):
        path, place = file(tmp_path, "cat 1 2\ndog 3 4\n"), Folder.open(tmp_path / "kept").child
        first = word_vectors(path, WORDS, place=place)
        monkeypatch.setattr("vse.text.word_vectors.read_rows", lambda *a, **k: pytest.fail("read again"))
        again = word_vectors(path, WORDS, place=place)
        np.testing.assert_array_equal(again.vectors, first.vectors)
        np.testing.assert_array_equal(again.found, first.found)
        assert (again.words, again.form, again.fingerprint) == (WORDS, "text", first.fingerprint)
        assert again.row == {"cat": 1, "dog": 2}

    def test_arrays_are_not_read_back_for_their_checksums(self, tmp_path, monkeypatch):
        read, entry = [], Folder.entry
        monkeypatch.setattr(Folder, "entry", lambda self, name: read.append(name) or entry(self, name))
        word_vectors(file(tmp_path, "dog 1 2\n"), WORDS, place=Folder.open(tmp_path / "kept").child)
        assert read == ["words.json"]

    def test_what_was_damaged_is_made_again(self, tmp_path):
        path, place = file(tmp_path, "cat 1 2\n"), Folder.open(tmp_path / "kept").child
        first = word_vectors(path, WORDS, place=place)
        place(first.fingerprint).write_bytes("vectors.npy", b"broken")
        np.testing.assert_array_equal(word_vectors(path, WORDS, place=place).vectors, first.vectors)

    def test_file_and_words_have_their_own_place(self, tmp_path):
        path = file(tmp_path, "cat 1 2\n")
        digits = {vectors_fingerprint(path, WORDS), vectors_fingerprint(path, WORDS[::-1])}
        digits.add(vectors_fingerprint(file(tmp_path, "cat 1 2.5\n"), WORDS))
        assert len(digits) == 3
