"""Every form of file against the library that writes it, and every way a file can be wrong."""

import gzip
import zipfile

import numpy as np
import pytest
from gensim.models import FastText, KeyedVectors
from gensim.models.fasttext import save_facebook_model

from vse.errors import InputError
from vse.text.word_vector_files import read_rows

NAMES = ["dog", "cat", "naïve", "n't", "3,000", "犬", "-", "été"]
WANTED = {"<pad>": 0, "cat": 1, "犬": 2, "n't": 3, "unicorn": 4}


@pytest.fixture(scope="module")
def vectors() -> KeyedVectors:
    made = KeyedVectors(vector_size=7)
    made.add_vectors(NAMES, np.random.default_rng(0).normal(size=(len(NAMES), 7)).astype(np.float32))
    return made


def expected(vectors):
    rows = np.zeros((len(WANTED), 7), dtype=np.float32)
    for word, k in WANTED.items():
        if word in vectors:
            rows[k] = vectors[word]
    return rows


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("packed", ["", ".gz", ".zip"])
def test_what_gensim_writes(tmp_path, vectors, binary, packed):
    path = tmp_path / "vectors.any"
    vectors.save_word2vec_format(str(path), binary=binary)
    if packed == ".gz":
        path.with_suffix(".gz").write_bytes(gzip.compress(path.read_bytes()))
        path = path.with_suffix(".gz")
    elif packed == ".zip":
        with zipfile.ZipFile(path.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(path, "vectors.any")
        path = path.with_suffix(".zip")
    found = read_rows(str(path), WANTED)
    assert found.form == ("word2vec-bin" if binary else "text")
    assert found.found.tolist() == [False, True, True, True, False]
    np.testing.assert_allclose(found.vectors, expected(vectors), rtol=1e-6)


def test_a_binary_file_larger_than_its_buffer_with_and_without_line_feeds(tmp_path, monkeypatch):
    monkeypatch.setattr("vse.text.word_vector_files._BLOCK", 64)
    values = np.arange(300, dtype="<f4").reshape(50, 6)
    for feed in (b"", b"\n"):
        body = b"".join(f"w{k} ".encode() + row.tobytes() + feed for k, row in enumerate(values))
        path = tmp_path / "vectors.bin"
        path.write_bytes(b"50 6\n" + body)
        found = read_rows(str(path), {f"w{k}": k for k in range(50)})
        np.testing.assert_array_equal(found.vectors, values)


@pytest.fixture(scope="module")
def fasttext(tmp_path_factory):
    captions = [["a", "dog", "runs"], ["the", "cats", "sit"], ["dogs", "running"], ["un", "été", "à", "paris"]] * 5
    model = FastText(captions, vector_size=5, min_count=1, bucket=300, min_n=2, max_n=4, epochs=2, seed=1, workers=1)
    path = tmp_path_factory.mktemp("fasttext") / "model.bin"
    save_facebook_model(model, str(path))
    return path, model.wv


class TestFastText:
    def test_equals_gensim(self, fasttext):
        path, theirs = fasttext
        wanted = {word: k for k, word in enumerate(["dog", "étés", "running", "été", "a", "runner", "à"])}
        found = read_rows(str(path), wanted)
        listed = np.array([word in theirs.key_to_index for word in wanted])
        assert found.found.tolist() == listed.tolist()
        for word, k in wanted.items():
            want = theirs[word] if listed[k] else np.zeros(5)
            np.testing.assert_allclose(found.vectors[k], want, rtol=2e-5, atol=1e-7, err_msg=word)

    def test_a_dictionary_larger_than_its_buffer(self, fasttext, monkeypatch):
        path, theirs = fasttext
        monkeypatch.setattr("vse.text.fasttext_binary._BLOCK", 16)
        np.testing.assert_allclose(read_rows(str(path), {"cats": 0}).vectors[0], theirs["cats"], rtol=2e-5)

    @pytest.mark.parametrize("keep", [10, 70, 140, 400, 3000])
    def test_a_torn_file_is_one_line(self, fasttext, tmp_path, keep):
        path = tmp_path / "torn.bin"
        path.write_bytes(fasttext[0].read_bytes()[:keep])
        with pytest.raises(InputError, match=r"torn\.bin: incomplete or damaged fastText \.bin"):
            read_rows(str(path), {"dog": 0})

    def test_other_versions_and_packed_ones_are_refused(self, fasttext, tmp_path):
        whole = bytearray(fasttext[0].read_bytes())
        packed = tmp_path / "model.bin.gz"
        packed.write_bytes(gzip.compress(bytes(whole)))
        with pytest.raises(InputError, match="unpack it first"):
            read_rows(str(packed), {"dog": 0})
        whole[4] = 11
        (tmp_path / "old.bin").write_bytes(whole)
        with pytest.raises(InputError, match="version 11; only 12 is read"):
            read_rows(str(tmp_path / "old.bin"), {"dog": 0})


class TestText:
    def read(self, tmp_path, text, wanted=None):
        path = tmp_path / "glove.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_rows(str(path), wanted or {"cat": 0, ".": 1})

    def test_words_with_spaces_as_in_glove_840b_are_nobody(self, tmp_path):
        found = self.read(tmp_path, ", 5 5\n. . . 1 2\nat name@domain.com 3 4\ncat 6 7\n. 8 9\n")
        np.testing.assert_array_equal(found.vectors, [[6, 7], [8, 9]])

    def test_the_first_line_may_be_such_a_word(self, tmp_path):
        np.testing.assert_array_equal(self.read(tmp_path, ". . . 1 2\ncat 6 7\n").vectors[0], [6, 7])

    def test_words_that_look_like_line_ends_or_numbers(self, tmp_path):
        text = "2 1 2\n\u2028 9 9\n\x85 8 8\n\u00a0 7 7\ncat 1 2 \r\n"
        found = self.read(tmp_path, text, {"cat": 0, "\x85": 1, "2": 2})
        np.testing.assert_array_equal(found.vectors, [[1, 2], [8, 8], [1, 2]])

    @pytest.mark.parametrize("head", ["", "3 2\n", "3\t2\n", " 3  2 \r\n"])
    @pytest.mark.parametrize(
        "line",
        [
            "{} {} {}\n",
            "{}\t{} {}\n",
            "{}\t{}\t{}\n",
            "{}  {}  {}\n",
            "{} {} {} \r\n",
            " {} {} {}\n",
            "{} \t{}   {}\t\n",
        ],
    )
    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    def test_fields_are_separated_by_any_tabs_and_spaces(self, tmp_path, head, line, mark):
        rows = (("dog", 3, 4), ("cat", 1, 2), (".", 5, 6))
        text = mark + head + "".join(line.format(*row) for row in rows)
        np.testing.assert_array_equal(self.read(tmp_path, text).vectors, [[1, 2], [5, 6]])
        np.testing.assert_array_equal(self.read(tmp_path, text, {"dog": 0}).vectors, [[3, 4]])

    def test_a_word_of_several_before_a_tab_is_nobody(self, tmp_path):
        np.testing.assert_array_equal(
            self.read(tmp_path, "cat\t1 2\nnew york\t3 4\n.\t5 6\n").vectors, [[1, 2], [5, 6]]
        )

    def test_the_first_of_two_entries_counts(self, tmp_path):
        np.testing.assert_array_equal(self.read(tmp_path, "cat 1 2\ncat 3 4\n").vectors[0], [1, 2])

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("3 2\ncat 1 2\ndog 3 4\n", "its first line names 3 words, but 2 follow"),
            ("cat 1 2\nbird 3\n", "line 2: 1 numbers, earlier lines have 2"),
            ("cat 1 2\nbird 3 4 5\n", "line 2: 3 numbers, earlier lines have 2"),
            ("cat 1 2\nbird 3 x 5 y\n", "line 2: expected a word and numbers"),
            ("cat 1 2\n\ndog 1 2\n", "line 2: expected a word and numbers"),
            ("a picture of a cat\n", "line 1: expected a word and numbers; not a file of word vectors"),
            (b"\x89PNG\r\n\x1a\n" + bytes(100), "line 1: expected a word and numbers; not a file of word vectors"),
            (b"x" * (1 << 21), "line 1: does not end"),
            ("2 5\ncat 1 2 3 4\ndog 1 2 3 4\n", "line 2: 4 numbers, its first line says 5$"),
            ("2 3\ncat 1 2 3 4\ndog 1 2 3 4\n", "line 2: 4 numbers, its first line says 3$"),
            ("2 5\ncat\t1\t2\ndog\t1\t2\n", "line 2: 2 numbers, its first line says 5$"),
            (
                b"2 3\ncat " + bytes(12) + b"dog " + bytes(5),
                "ends in word 2 of 2; an incomplete file, or a header with",
            ),
            (
                b"1 3\ncat " + bytes(12) + b"dog " + bytes(12),
                "continues after the 1 words its header names; a header with",
            ),
            (
                b"2 4\ncat " + bytes(12) + b"\ndog " + bytes(12) + b"\n",
                "a header with another number of words or dimens",
            ),
            ("cat 1 2\n".encode("utf-16"), "is UTF-16 text; expected UTF-8"),
            (b"", "file is empty"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "LFS pointer.*git lfs pull"),
            (b"<!DOCTYPE html><title>404</title>", "an HTML or XML page"),
            (b"1 1\ncat \x00\x00\xc0\x7f", "word 1: a number that is not finite"),
        ],
    )
    def test_anything_else_is_one_line(self, tmp_path, text, message):
        with pytest.raises(InputError, match=message) as caught:
            self.read(tmp_path, text)
        assert "\n" not in str(caught.value)
        assert str(tmp_path / "glove.txt") in str(caught.value)


class TestNumpy:
    @pytest.mark.parametrize("kind", ["<U9", "S9"])
    @pytest.mark.parametrize("numbers", ["float16", "float32", "float64"])
    def test_words_and_vectors(self, tmp_path, kind, numbers):
        words = np.array(["dog", "cat", "cat", "n't"], dtype=kind)
        np.savez(tmp_path / "v.npz", words=words, vectors=np.arange(12).reshape(4, 3).astype(numbers), more=[1])
        found = read_rows(str(tmp_path / "v.npz"), WANTED)
        assert (found.form, found.vectors.dtype) == ("npz", np.float32)
        assert found.found.tolist() == [False, True, False, True, False]
        np.testing.assert_array_equal(found.vectors[[1, 3]], [[3, 4, 5], [9, 10, 11]])

    @pytest.mark.parametrize(
        ("words", "vectors", "message"),
        [
            (["cat"], [[1.0], [2.0]], r"expected words, \(n\) of text"),
            (["cat"], [1.0], r"expected words, \(n\) of text"),
            (["cat"], [[1]], r"got words <U3 \(1,\) and vectors int64 \(1, 1\)"),
            ([1], [[1.0]], "got words int64"),
            (np.array(["cat"], dtype=object), [[1.0]], "words must be an array of text"),
            (["cat"], [[np.nan]], r"vectors\[0\]: a number that is not finite"),
        ],
    )
    def test_other_arrays_are_one_line(self, tmp_path, words, vectors, message):
        np.savez(tmp_path / "v.npz", words=words, vectors=vectors)
        with pytest.raises(InputError, match=rf"v\.npz: .*{message}"):
            read_rows(str(tmp_path / "v.npz"), WANTED)

    def test_arrays_of_other_names_are_files_of_an_archive(self, tmp_path):
        np.savez(tmp_path / "v.npz", vocab=["cat"], vectors=[[1.0]])
        with pytest.raises(InputError, match=r"holds vocab\.npy, vectors\.npy"):
            read_rows(str(tmp_path / "v.npz"), WANTED)


class TestArchives:
    def test_a_pointer_in_place_of_a_packed_file_is_told_as_such(self, tmp_path):
        for name in ("v.txt.gz", "v.zip", "v.npz", "v.bin"):
            (tmp_path / name).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
            with pytest.raises(InputError, match=rf"{name}: is a Git LFS pointer"):
                read_rows(str(tmp_path / name), {"cat": 0})

    def test_one_of_several_is_named(self, tmp_path):
        path = tmp_path / "glove.6B.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("glove.50d.txt", "cat 1 2\n")
            archive.writestr("glove.99d.txt", "cat 1 2 3\n")
        assert read_rows(f"{path}/glove.99d.txt", {"cat": 0}).vectors.shape == (1, 3)
        with pytest.raises(InputError, match=r"holds glove\.50d\.txt, glove\.99d\.txt; name one as"):
            read_rows(str(path), {"cat": 0})
        with pytest.raises(InputError, match=r"not other\.txt"):
            read_rows(f"{path}/other.txt", {"cat": 0})

    def test_a_damaged_one_is_one_line(self, tmp_path):
        path = tmp_path / "vectors.txt.gz"
        path.write_bytes(gzip.compress(b"cat 1 2\n" * 10_000)[:-20])
        with pytest.raises(InputError, match="damaged packed file"):
            read_rows(str(path), {"cat": 0})
