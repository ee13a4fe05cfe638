"""Tables that can be meant in two ways or in none: one line that names the file and what to do."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from vse.config import override
from vse.data.source import rejects
from vse.data.sources.table import Table
from vse.errors import InputError


def described(folder: Path, content: str | bytes, **changes: Any) -> Any:
    (folder / "table").write_bytes(content if isinstance(content, bytes) else content.encode())
    return Table(override(Table.Config(file=str(folder / "table")), changes)).describe()


REFUSED: dict[str, tuple[str | bytes, dict[str, str], str]] = {
    "two columns of images": (
        "file_name,url,caption\n",
        {},
        r"2 columns may hold the image; choose with data\.image_column=file_name or data\.image_column=url$",
    ),
    "two columns of captions": (
        json.dumps([{"image": "a.jpg", "text": "A dog", "title": "Dog"}]),
        {},
        r"2 columns may hold the caption; choose with data\.caption_column=text or data\.caption_column=title$",
    ),
    "a caption and numbered ones": (
        "image,caption,caption_1,caption_2\n",
        {},
        r"choose with data\.caption_column=caption or data\.caption_column=caption_1,caption_2$",
    ),
    "no such image column": (
        "picture,caption\n",
        {"image_column": "photo"},
        r"data\.image_column=photo: .*table: line 1 has no column 'photo'; it has picture, caption$",
    ),
    "no such caption column": (
        json.dumps({"image": ["a.jpg"], "caption": ["A dog"]}),
        {"caption_column": "caption,other"},
        r"data\.caption_column=caption,other: .*table has no column 'other'; it has image, caption$",
    ),
    "one column for both": (
        "image,caption\n",
        {"image_column": "caption"},
        r"data\.image_column, data\.caption_column: both name 'caption'; expected two columns",
    ),
    "a column twice": ("image,caption,caption\n", {}, "the column caption occurs 2 times"),
    "neither name known": (
        "picture,words\n",
        {},
        r"line 1: expected JSON, or a header .* found picture, words; .* data\.image_column and data\.caption_column$",
    ),
    "a table without a header that lacks a field": (
        "a.jpg\tA dog\nb.jpg\n",
        {},
        "line 2: 1 fields, but the header has 2",
    ),
    "Latin-1": (b"image,caption\na.jpg,caf\xe9\n", {}, r"line 2: is not UTF-8 text \(byte 0xe9\); .* data\.encoding"),
    "not the encoding of the key": (
        "image,caption\na.jpg,Привет\n".encode(),
        {"encoding": "ascii"},
        r"line 2: is not ASCII text \(byte 0xd0\)",
    ),
    "Windows' quotes as Latin-1": (
        b"image,caption\na.jpg,it\x92s\n",
        {"encoding": "latin-1"},
        r"line 2: byte 0x92 is a control character in Latin-1; set data\.encoding=cp1252",
    ),
    "a spreadsheet": (b"PK\x03\x04\x14\0", {}, r"table: is a spreadsheet or zip archive; export it as CSV$"),
    "an old spreadsheet": (b"\xd0\xcf\x11\xe0\xa1", {}, "table: is a spreadsheet or zip archive; export it as CSV$"),
    "a compressed table": (gzip.compress(b"image,caption\n"), {}, "table: is compressed; unpack it$"),
    "a Parquet file": (b"PAR1\x15\x04", {}, "table: is Parquet; data=hf reads it$"),
    "no such encoding": (b"", {"encoding": "latin-99"}, r"data\.encoding=latin-99: is unknown to Python"),
    "a codec that gives no text": (b"", {"encoding": "base64"}, r"data\.encoding=base64: is unknown to Python"),
    "a contradicting byte order mark": (
        "\ufeffimage,caption\n".encode(),
        {"encoding": "latin-1"},
        r"data\.encoding=latin-1: .*table begins with the byte order mark of utf-8; leave data\.encoding out",
    ),
    "UTF-16 without a mark": (
        "image,caption\n".encode("utf-16-le"),
        {},
        r"line 1: holds a null character; if the table is UTF-16, set data\.encoding=utf-16-le",
    ),
    "a list cut short": (
        "image,caption\na.jpg,\"['A dog', 'Two\"\n",
        {},
        r"""line 2: 'caption': begins like a list of captions but is not one: "\['A dog', 'Two"$""",
    ),
    "a list of other things": ('[{"image": "a.jpg", "raw": ["A", {}]}]', {}, "each of 'raw' must be str, got dict"),
    "columns of different lengths": (
        '{"image": ["a.jpg"], "caption": ["A", "B"]}',
        {},
        r"its columns differ in length \(image 1, caption 2\)",
    ),
    "a short row of JSON": ('{"columns": ["image", "caption"], "data": [["a.jpg"]]}', {}, "entry 1 of data: expected"),
    "an image twice in an object": ('{"a.jpg": "A", "a.jpg": "B"}', {}, r"has the key 'a\.jpg' twice"),
    "a Karpathy file": (
        '{"images": [{"filename": "a.jpg"}], "dataset": "x"}',
        {},
        "looks like .* data=karpathy",
    ),
    "a COCO file": ('{"images": [{"id": 1}], "annotations": []}', {}, "looks like a file for data=coco"),
    "something else": (
        '{"a": 1, "b": [2]}',
        {},
        "found an object with 'a', 'b'",
    ),
    "numbers as captions": ('{"image": ["a.jpg"], "caption": [Infinity]}', {}, "'caption' must be str, got float"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal(tmp_path: Path, case: str) -> None:
    content, changes, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as caught:
        described(tmp_path, content, **changes)
    assert "\n" not in str(caught.value)


def test_own_names_come_before_others(tmp_path: Path) -> None:
    records = described(tmp_path, "url,image,title,caption,text\nhttps://x,a.jpg,T,A dog,Text\n")
    assert [(c.image, c.text) for c in records.captions] == [("a.jpg", "A dog")]


def test_brackets_that_are_no_list_stay(tmp_path: Path) -> None:
    records = described(tmp_path, "image,caption\na.jpg,[unclear] a dog\na.jpg,[A dog]\n")
    assert [c.text for c in records.captions] == ["[unclear] a dog", "[A dog]"]


def test_a_list_in_a_cell_may_hold_quotes_and_brackets(tmp_path: Path) -> None:
    captions = ["A dog's nose", 'A "stop" sign', "x, y] ['z", "back\\slash"]
    for cell in (str(captions), json.dumps(captions), str(captions).replace("', '", "' '")):
        records = described(tmp_path, 'image,caption,id\na.jpg,"' + cell.replace('"', '""') + '",7\n')
        assert [(c.id, c.text) for c in records.captions] == [(f"7#{k}", text) for k, text in enumerate(captions)]


def test_an_empty_list_in_a_cell_is_an_empty_caption(tmp_path: Path) -> None:
    records = described(tmp_path, "image,caption\na.jpg,[]\nb.jpg,A cat\n")
    assert [r.id for r in rejects(records)] == ["a.jpg#0", "a.jpg"]


def test_empty_cells_of_a_wide_table_are_no_captions(tmp_path: Path) -> None:
    records = described(tmp_path, "image,caption_0,caption_1\na.jpg,A dog,\nb.jpg,,\n")
    assert [c.id for c in records.captions] == ["a.jpg#0"]
    assert [r.reason for r in rejects(records)] == ["caption without a word", "image without a caption"]


@pytest.mark.parametrize("image", ["a.jpg", "x/a.JPG", "a.tiff", "1000268201_693b08cb0e"])
def test_numbers_behind_images_count_captions(tmp_path: Path, image: str) -> None:
    records = described(tmp_path, "image\tcaption\n" + "".join(f"{image}#{k}\tA dog {k}\n" for k in range(5)))
    assert [i.id for i in records.images] == [image]
    assert [c.id for c in records.captions] == [f"{image}#{k}" for k in range(5)]


def test_a_number_may_belong_to_the_name_of_a_file(tmp_path: Path) -> None:
    for name in ("dog#1.jpg", "a#1"):
        (tmp_path / name).touch()
    records = described(
        tmp_path, "image,caption\ndog#1,A dog\na#1,A cat\ncow#1,A cow\nb.jpg#1,A pig\nc.jpg.1#0,A hen\nc.jpg.1#1,Hens\n"
    )
    assert [i.id for i in records.images] == ["dog#1", "a#1", "cow", "b.jpg", "c.jpg.1"]


def test_only_lines_of_comments_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    records = described(tmp_path, "# photographs of 2024\n# by Ann\n#1.jpg,A dog\nb.jpg,A cat\n")
    assert [i.id for i in records.images] == ["#1.jpg", "b.jpg"]
    form = "2 rows, comma-separated without a header, after 2 comment lines, UTF-8; images in"
    assert form in caplog.messages[0]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ("a.jpg,A dog\na.jpg,A dog\n", "1 row repeats the image and caption of another row; it is kept"),
        ("a.jpg,A dog\n./a.jpg,A dog\na.jpg,A dog\n", "2 rows repeat the image and caption of another row; they are"),
        ("a.jpg,A dog\nb.jpg,A dog\na.jpg,A cat\n", ""),
    ],
)
def test_repeated_rows_are_kept_with_a_notice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rows: str, line: str
) -> None:
    caplog.set_level("INFO")
    assert len(described(tmp_path, f"image,caption\n{rows}").captions) == rows.count("\n")
    assert len(caplog.messages) == 1 + bool(line)
    assert line in caplog.messages[-1]


def test_numbers_behind_arrays_are_rows(tmp_path: Path) -> None:
    for file in ("feats.npy", "feats.npz", "feats.pt"):
        records = described(tmp_path, f"image,caption\n{file}#0,A dog\n{file}#17,A cat\n")
        assert [i.uri for i in records.images] == [f"{file}#0", f"{file}#17"]
