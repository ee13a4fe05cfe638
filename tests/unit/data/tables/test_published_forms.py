"""Tables in the shapes that data sets and programs write: the same captions from each, and a line that says how."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from vse.config import override
from vse.data.sources.table import Table

PAIRS = [("1.jpg", "A dog , running"), ("2.jpg", "A cat 's nose"), ("1.jpg", "Two dogs")]
FRAME = pd.DataFrame(PAIRS, columns=["image", "caption"])


def read(folder: Path, content: str | bytes, **changes: Any) -> list[tuple[str, str]]:
    (folder / "table").write_bytes(content if isinstance(content, bytes) else content.encode())
    records = Table(override(Table.Config(file=str(folder / "table")), changes)).describe()
    return [(caption.image, caption.text) for caption in records.captions]


def lines(*rows: str, end: str = "\n") -> str:
    return "".join(row + end for row in rows)


def plain(separator: str, header: str = "image{}caption", before: str = "") -> str:
    return before + lines(header.format(separator), *(f"{i}{separator}{c}" for i, c in PAIRS))


def written(**options: Any) -> str:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, **options)
    writer.writerows([("image", "caption"), *PAIRS])
    return stream.getvalue()


def by_image(one: Callable[[list[str]], Any] = list) -> dict[str, Any]:
    found: dict[str, list[str]] = {}
    for image, caption in PAIRS:
        found.setdefault(image, []).append(caption)
    return {image: one(captions) for image, captions in found.items()}


def grouped(**cells: str) -> str:
    """One row an image, its captions in one cell."""
    frame = pd.DataFrame([(image, cells[image]) for image in by_image()], columns=["filename", "raw"])
    return frame.to_csv(index=False)


WIDE = pd.DataFrame([(i, *c, *[None] * (2 - len(c))) for i, c in by_image().items()], columns=["file", "x", "y"])

FLICKR30K = lines(
    "image_name| comment_number| comment",
    "1.jpg| 0| A dog , running",
    "1.jpg| 1   Two dogs",
    "2.jpg| 0| A cat 's nose",
)

FORMS: dict[str, Any] = {
    "Flickr30k's results.csv with its damaged row": FLICKR30K,
    "Flickr30k's results.csv of Windows": FLICKR30K.replace("\n", "\r\n"),
    "Flickr8k's token file": lines("1.jpg#0\tA dog , running", "1.jpg#1\tTwo dogs", "2.jpg#0\tA cat 's nose"),
    "Flickr8k's token file with a quotation mark": lines(
        "1.jpg#0\tA dog , running", "2.jpg#0\tA cat 's nose", "1.jpg#1\tTwo dogs", '3.jpg#0\t" hello', '3.jpg#1\tsays "'
    ),
    "token file under a header": plain("\t").replace("1.jpg", "1.jpg#0", 1),
    "no header, commas": lines(*(f'{i},"{c}"' for i, c in PAIRS)),
    "semicolons": plain(";"),
    "bars": plain("|"),
    "bars with spaces": plain(" | "),
    "quoted bars": written(delimiter="|", quoting=csv.QUOTE_ALL),
    "tabs": plain("\t"),
    "Excel": "\ufeff" + written(dialect="excel", delimiter=";"),
    "Excel with sep=;": "sep=;\r\n" + written(dialect="excel", delimiter=";"),
    "Excel with a quoted sep": '"sep=,"\r\n' + written(),
    "Excel's Unicode text": b"\xff\xfe" + written(dialect="excel-tab").encode("utf-16-le"),
    "another separator that sep= says": "sep=^\n" + plain("^"),
    "comments at the top": "# from a camera\n# , really\n\n" + written(),
    "a comment before a table without a header": "# image, caption\n" + lines(*(f"{i}\t{c}" for i, c in PAIRS)),
    "blank lines": "\n\n" + written().replace("\r\n", "\r\n\r\n") + "\n \n",
    "rows of separators alone": written() + ",\r\n , \r\n",
    "CR": lines("image\tcaption", *(f"{i}\t{c}" for i, c in PAIRS), end="\r"),
    "all quoted": written(quoting=csv.QUOTE_ALL),
    "spaces after commas": plain(", ").replace("A dog , running", '"A dog , running"'),
    "UTF-16 big-endian": written().encode("utf-16-be").join([b"\xfe\xff", b""]),
    "UTF-32": written().encode("utf-32"),
    "UTF-16 of JSON": json.dumps(by_image()).encode("utf-16"),
    "pandas": FRAME.to_csv(),
    "pandas, read and written again": pd.read_csv(io.StringIO(FRAME.to_csv())).to_csv(),
    "pandas, tabs": FRAME.to_csv(sep="\t", index=False),
    "pandas, bars, literal": FRAME.to_csv(sep="|", index=False, quoting=csv.QUOTE_NONE),
    "OpenCLIP": FRAME.rename(columns={"image": "filepath", "caption": "title"}).to_csv(sep="\t", index=False),
    "Hugging Face's metadata.csv": plain(";", "file_name{}text"),
    "Hugging Face's metadata.jsonl": lines(*(json.dumps({"file_name": i, "text": c}) for i, c in PAIRS)),
    "img2dataset's input": FRAME.rename(columns={"image": "URL", "caption": "TEXT"}).to_csv(index=False),
    "other headers": FRAME.rename(columns={"image": "Image Path", "caption": "Sentence"}).to_csv(index=False),
    "an export with more columns": FRAME.assign(width=3, sha256="x", status="ok").to_csv(index=False),
    "a list in a cell": grouped(**by_image(str)),
    "a JSON list in a cell": grouped(**by_image(json.dumps)),
    "NumPy's array in a cell": grouped(**by_image(lambda c: "[" + "\n ".join(map(repr, c)) + "]")),
    "wide": WIDE.set_axis(["image", "caption_0", "caption_1"], axis=1).to_csv(index=False),
    "wide, from 1": WIDE.set_axis(["filename", "caption1", "caption2"], axis=1).to_csv(index=False),
    "wide sentences": WIDE.set_axis(["filename", "Sentence 1", "Sentence 2"], axis=1).to_csv(sep="|"),
    "wide, JSON with NaN": json.dumps(
        WIDE.set_axis(["image", "caption_0", "caption_1"], axis=1).fillna(float("nan")).to_dict("records")
    ),
    "JSON of columns": FRAME.to_json(orient="columns"),
    "JSON of records": FRAME.to_json(orient="records"),
    "JSON lines of records": FRAME.to_json(orient="records", lines=True),
    "JSON split": FRAME.to_json(orient="split"),
    "JSON by index": FRAME.to_json(orient="index"),
    "JSON table": FRAME.to_json(orient="table"),
    "JSON table, indented": FRAME.to_json(orient="table", indent=2),
    "JSON of columns by name": FRAME.set_index(pd.Index(["x", "y", "z"])).to_json(),
    "a dict of lists": json.dumps(FRAME.to_dict("list")),
    "a dict of lists with more": json.dumps({**FRAME.to_dict("list"), "name": "mine", "url": ["", "", ""]}),
    "captions by image": json.dumps(by_image()),
    "captions by image, indented": json.dumps(by_image(), indent=1),
    "objects by image": json.dumps(by_image(lambda c: {"captions": c, "width": 7})),
    "JSON lines with lists": lines(*(json.dumps({"filename": i, "caption": c}) for i, c in by_image().items())),
    "a row of JSON with NaN": lines(*(json.dumps({"image": i, "caption": c, "id": float("nan")}) for i, c in PAIRS)),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_captions(tmp_path: Path, form: str) -> None:
    pairs = read(tmp_path, FORMS[form])
    assert sorted(pair for pair in pairs if pair[0] != "3.jpg") == sorted(PAIRS)


def test_one_caption_by_image(tmp_path: Path) -> None:
    assert read(tmp_path, json.dumps(dict(PAIRS[:2]))) == PAIRS[:2]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8", "mac-roman"])
def test_encodings_by_key(tmp_path: Path, encoding: str) -> None:
    assert read(tmp_path, "image,caption\né.jpg,Un café\n".encode(encoding), encoding=encoding) == [
        ("é.jpg", "Un café")
    ]


def test_columns_by_key(tmp_path: Path) -> None:
    content = "title;text;picture;Alt 1;Alt 2\nx;y;1.jpg;A dog;Two dogs\n"
    assert read(tmp_path, content, image_column="picture", caption_column="text") == [("1.jpg", "y")]
    both = read(tmp_path, content, image_column="Picture", caption_column="Alt 1, Alt 2")
    assert both == [("1.jpg", "A dog"), ("1.jpg", "Two dogs")]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (
            FLICKR30K,
            "3 rows, |-separated, 1 of them without a separator after 'comment_number', UTF-8; "
            "images in 'image_name', captions in 'comment'",
        ),
        ("1.jpg#0\tA dog\n", "1 rows, tab-separated without a header, UTF-8; images in 'image', captions in 'caption'"),
        (
            'image\tcaption\tsplit\n1.jpg\t"A dog\tdev\n',
            "1 rows, tab-separated with literal quotation marks, UTF-8; images in 'image', captions in 'caption', "
            "splits in 'split'",
        ),
        (
            "file_name;caption_0;caption_1;id\n1.jpg;A dog;Two dogs;7\n".encode("utf-16"),
            "1 rows, ;-separated, UTF-16-LE; images in 'file_name', captions in 'caption_0', 'caption_1', ids in 'id'",
        ),
        (
            json.dumps(by_image()),
            "2 rows, JSON object of captions by image, UTF-8; images in 'image', captions in 'captions'",
        ),
    ],
)
def test_a_line_says_what_was_recognised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str | bytes, line: str
) -> None:
    caplog.set_level("INFO")
    read(tmp_path, content)
    assert caplog.records[0].getMessage() == f"{tmp_path / 'table'}: {line}"
