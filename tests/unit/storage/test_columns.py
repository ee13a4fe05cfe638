"""Rows between commas or tabs: what stands inside quotes, and one line for what is no row."""

import io
from collections.abc import Iterable

import pytest

from vse.errors import InputError
from vse.storage import columns


def read(text: str | Iterable[str], delimiter: str = ",", *, quoted: bool = True) -> list[tuple[int, list[str]]]:
    lines = io.StringIO(text, newline="") if isinstance(text, str) else text
    return list(columns.rows(lines, "t.csv", delimiter=delimiter, quoted=quoted))


def test_rows_begin_where_their_first_line_does() -> None:
    text = 'image, caption\r\n\r\n1.jpg, "A dog,\nrunning"\r\n2.jpg,A cat'
    assert read(text) == [(1, ["image", "caption"]), (3, ["1.jpg", "A dog,\nrunning"]), (5, ["2.jpg", "A cat"])]
    assert read("") == []
    assert read("a,b\n1,2\n   \n\t\n") == [(1, ["a", "b"]), (2, ["1", "2"])]
    with pytest.raises(InputError, match=r"field limit \(131072\)$"):
        read(f'a,b\n1,"{"a dog " * 30_000}"\n')


def test_rows_by_the_names_of_their_columns() -> None:
    seen: list[tuple[list[str], str]] = []

    def check(header: list[str], where: str) -> None:
        seen.append((header, where))
        if "caption" not in header:
            raise InputError(f"{where}: no column named caption")

    def named(text: str) -> list[tuple[int, dict[str, str]]]:
        return list(columns.named(io.StringIO(text, newline=""), "t.csv", check, delimiter=","))

    assert named("\n Image,CAPTION\n1.jpg,A Dog\n") == [(3, {"image": "1.jpg", "caption": "A Dog"})]
    with pytest.raises(InputError, match=r"^t\.csv: line 1: no column named caption$"):
        named("image,text\n1.jpg,a,b\n")
    with pytest.raises(InputError, match=r"^t\.csv: no column"):
        named("")
    assert seen == [(["image", "caption"], "t.csv: line 2"), (["image", "text"], "t.csv: line 1"), ([], "t.csv")]


def test_between_tabs_quotation_marks_are_quotes_or_letters() -> None:
    def named(text: str, delimiter: str = "\t") -> list[tuple[int, dict[str, str]]]:
        lines = io.StringIO(text, newline="")
        return list(columns.named(lines, "t.tsv", lambda header, where: None, delimiter=delimiter))

    assert named('caption\ti\n"A ""sign"""\t1\n') == [(2, {"caption": 'A "sign"', "i": "1"})]
    assert named('caption\ti\n"A" sign\t1\n') == [(2, {"caption": '"A" sign', "i": "1"})]
    lost = 'i\tcaption\n1\t"A\n2\tB\n3\tsome\n4\tC"\n'
    assert [row["caption"] for _, row in named(lost)] == ['"A', "B", "some", 'C"']
    with pytest.raises(InputError, match="line 2: 3 fields"):
        named("a\tb\n1\t2\t3\n")
    with pytest.raises(InputError, match="line 2: ',' expected after"):
        named('a,b\n"A" b,1\n', ",")


def test_a_quotation_mark_may_be_a_character_like_others() -> None:
    assert read('a\tb\n1\t"Stop\n', "\t", quoted=False) == [(1, ["a", "b"]), (2, ["1", '"Stop'])]


@pytest.mark.parametrize(
    ("text", "delimiter", "quoted", "message"),
    [
        (
            "a,b\n1,A dog, brown\n",
            ",",
            True,
            "line 2: 3 fields, but the header has 2; put a field that holds a comma in",
        ),
        ("a,b\n\n1\n", ",", True, "line 3: 1 fields, but the header has 2; put a field that holds a comma in double"),
        ("a\tb\n1\t2\t3\n", "\t", False, "line 2: 3 fields, but the header has 2; no field may hold a tab"),
        (
            'a,b\n1,"A dog\n2,A cat\n',
            ",",
            True,
            "line 2: unexpected end of data; double the quotes inside a quoted field",
        ),
        ('a,b\n1,"A" dog\n', ",", True, "line 2: ',' expected after '\"'"),
        (f'a,b\n1,"{"a dog " * 30_000}"\n', ",", True, "line 2: field larger than field limit"),
        (f"a\tb\n1\t{'a dog ' * 30_000}\n", "\t", False, r"line 2: field larger than field limit \(131072\)$"),
    ],
)
def test_what_is_no_row_is_one_line(text: str, delimiter: str, quoted: bool, message: str) -> None:
    with pytest.raises(InputError, match=rf"^t\.csv: {message}") as caught:
        read(text, delimiter, quoted=quoted)
    assert "\n" not in str(caught.value)
