"""Captions are read from text and tables; vectors know which words keep company, and are the same twice."""

import gzip

import numpy as np
import pytest

from vse.errors import InputError
from vse.language.word_vector_training import VectorConfig, read_captions, save_text, train_word_vectors
from vse.language.word_vectors import word_vectors


def test_captions_of_text_and_tables(tmp_path):
    (tmp_path / "a.txt").write_text("A dog runs.\n\n Two cats \n")
    (tmp_path / "b.csv").write_text('image,caption\n1.jpg,"A dog, running"\n2.jpg,\n')
    with gzip.open(tmp_path / "c.csv.gz", "wt") as file:
        file.write("image,caption\n1.jpg,A cat\n")
    (tmp_path / "d.txt").write_text("cafe\u0301\n", encoding="utf-8")
    (tmp_path / "d.csv").write_text("caption\ncafe\u0301\n", encoding="utf-8")
    for name in ("d.txt", "d.csv"):
        assert list(read_captions(str(tmp_path / name))) == ["caf\u00e9"]
    assert list(read_captions(str(tmp_path / "a.txt"))) == ["A dog runs.", "Two cats"]
    assert list(read_captions(str(tmp_path / "b.csv"))) == ["A dog, running"]
    assert list(read_captions(str(tmp_path / "c.csv.gz"))) == ["A cat"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.txt", None, "no such file"),
        ("bad.csv", "image,text\n1,A dog\n", "a column named caption"),
        ("bad.gz", "not gzipped", "not a text file"),
    ],
)
def test_wrong_files_are_one_line(tmp_path, name, content, says):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=says):
        list(read_captions(str(tmp_path / name)))


@pytest.mark.parametrize("subwords", [False, True])
def test_words_in_like_company_are_alike(subwords):
    pytest.importorskip("gensim", reason="needs the extra `vectors`")
    captions = [f"a {animal} eats {food}" for animal in ("dog", "cat") for food in ("meat", "bread")] * 60
    captions += [f"the {car} drives on {way}" for car in ("bus", "truck") for way in ("roads", "streets")] * 60
    config = VectorConfig(dim=12, epochs=30, min_count=1, subwords=subwords)
    names, vectors = train_word_vectors(captions, config)
    again = train_word_vectors(captions, config)
    assert names == again[0]
    assert np.array_equal(vectors, again[1])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    at = {name: unit[k] for k, name in enumerate(names)}
    assert at["dog"] @ at["cat"] > at["dog"] @ at["bus"]
    assert at["bus"] @ at["truck"] > at["truck"] @ at["meat"]


def test_what_is_saved_is_read_back(tmp_path):
    vectors = np.array([[1.5, -2.0], [0.25, 3.0]], dtype=np.float32)
    save_text(tmp_path / "v.vec", ["dog", "café"], vectors)
    found = word_vectors(str(tmp_path / "v.vec"), ("<pad>", "café", "dog")).vectors
    assert found.tolist() == [[0, 0], [0.25, 3.0], [1.5, -2.0]]
