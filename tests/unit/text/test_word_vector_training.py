"""Captions are read from text and tables; vectors know which words keep company, and are the same twice."""

import gzip

import numpy as np
import pytest

from vse.errors import InputError
from vse.text.word_vector_training import VectorConfig, read_captions, save_text, train_word_vectors
from vse.text.word_vectors import word_vectors

WHOLE = gzip.compress(b"".join(b"caption %d of many\n" % (k * k) for k in range(200)), mtime=0)


def test_captions_of_text_and_tables(tmp_path):
    (tmp_path / "a.txt").write_text("A dog runs.\n\n Two cats \n10.jpg#0\tA cow\n")
    (tmp_path / "b.csv").write_text('image,caption\n1.jpg,"A dog, running"\n2.jpg,\n')
    with gzip.open(tmp_path / "c.csv.gz", "wt") as file:
        file.write("image,caption\n1.jpg,A cat\n")
    (tmp_path / "d.txt").write_text("cafe\u0301\n", encoding="utf-8")
    (tmp_path / "d.csv").write_text("caption\ncafe\u0301\n", encoding="utf-8")
    for name in ("d.txt", "d.csv"):
        assert list(read_captions(str(tmp_path / name))) == ["caf\u00e9"]
    assert list(read_captions(str(tmp_path / "a.txt"))) == ["A dog runs.", "Two cats", "10.jpg#0\tA cow"]
    assert list(read_captions(str(tmp_path / "b.csv"))) == ["A dog, running"]
    assert list(read_captions(str(tmp_path / "c.csv.gz"))) == ["A cat"]
    (tmp_path / "e.tsv").write_text("image\tcaption\n1.jpg\tA dog, running\n")
    (tmp_path / "g.tsv").write_text('image\tcaption\n1.jpg\t"Stop" says a sign\n')
    assert list(read_captions(str(tmp_path / "g.tsv"))) == ['"Stop" says a sign']
    (tmp_path / "f.jsonl").write_text('{"image": "1.jpg", "caption": "A \\"dog\\""}\n\n{"caption": "A cat", "id": 3}\n')
    assert list(read_captions(str(tmp_path / "e.tsv"))) == ["A dog, running"]
    assert list(read_captions(str(tmp_path / "f.jsonl"))) == ['A "dog"', "A cat"]


def test_tables_of_spreadsheets(tmp_path):
    """With a byte order mark, capitals, and ends of lines inside quoted fields."""
    (tmp_path / "A.CSV").write_bytes('\ufeffCaption,image\r\n"A dog\r\nruns",1.jpg\r\n" ",2.jpg\r\n'.encode())
    (tmp_path / "B.TXT.GZ").write_bytes(gzip.compress("\ufeffA cat\n".encode()))
    assert list(read_captions(str(tmp_path / "A.CSV"))) == ["A dog\r\nruns"]
    assert list(read_captions(str(tmp_path / "B.TXT.GZ"))) == ["A cat"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.txt", None, "no such file"),
        ("bad.csv", "image,text\n1,A dog\n", "exactly one column named caption"),
        ("bad.csv", "caption,caption\n", "exactly one column named caption"),
        ("bad.csv", "", "is empty"),
        ("bad.csv", "image,caption\n1,A dog, brown\n", "line 2: 3 fields, but the header has 2"),
        ("bad.csv", 'image,caption\n1,"A dog\n2,A cat\n', "line 2: unexpected end of data"),
        ("bad.csv", f'image,caption\n1,"{"dog " * 40_000}"\n', "line 2: field larger than field limit"),
        ("bad.tsv", "image\tcaption\n1.jpg\tA\tdog\n", "line 2: 3 fields"),
        ("bad.jsonl", '{"caption": "A dog"}\n["A cat"]\n', "line 2: expected one JSON object per line"),
        ("bad.jsonl", '{"caption": 3}\n', "line 1: expected one JSON object per line, with a string as its caption"),
        ("bad.jsonl", "A dog\n", "line 1: expected one JSON object per line"),
        ("bad.gz", "not gzipped", "not a text file"),
        ("bad.txt", b"caf\xe9\n", "not a text file"),
        ("Flickr8k.token.txt", "10_69.jpg#0\tA child in a dress .\n", r"begins like a table .* \.csv .* or \.tsv"),
        ("Flickr8k.token.txt", "10_69.jpg.1#0\tA child in a dress .\n", "begins like a table of images and captions"),
        ("results_20130124.token", "\n10.jpg#0\tTwo young guys .\n", "begins like a table of images and captions"),
        ("captions.txt", "image,caption\n10.jpg,A child .\n", "begins like a table of images and captions"),
        ("results.txt", "image_name| comment_number| comment\n", "begins like a table of images and captions"),
        ("cut.gz", WHOLE[:-20], r"not a complete \.gz file .* cut off"),
        ("damaged.gz", WHOLE[:10] + b"\xff" * 20 + WHOLE[30:], r"not a complete \.gz file"),
        ("damaged.csv.gz", WHOLE[:10] + b"\xff" * 20 + WHOLE[30:], r"not a complete \.gz file"),
    ],
)
def test_wrong_files_are_one_line(tmp_path, name, content, says):
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=says) as caught:
        list(read_captions(str(tmp_path / name)))
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("captions", "says"),
    [
        ([], "captions: the files hold none"),
        (["", " "], "captions: the files hold none"),
        (
            ["A dog", "a cat"],
            r"vectors\.min_count=3: no word occurs that often in 2 captions; the most .* occurs 2 times",
        ),
    ],
)
def test_captions_without_a_frequent_word_are_one_line(captions, says):
    with pytest.raises(InputError, match=says):
        train_word_vectors(captions, VectorConfig(min_count=3))


@pytest.mark.seconds
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
