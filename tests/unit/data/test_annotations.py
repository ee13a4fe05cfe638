from pathlib import Path

import pytest

from vse.data.annotations import AnnotatedObject, AnnotatedRelation, Annotation, Annotations
from vse.errors import InputError

CAT = AnnotatedObject("cat", (1.0, 2.0, 3.5, 4.0), ("gray", "small"))
BOX = AnnotatedObject("box", (0.0, 0.0, 9.0, 9.0))
KNOWN = Annotations({"a": Annotation((CAT, BOX), (AnnotatedRelation(0, "in", 1),)), "b é": Annotation()})


def test_round_trip(tmp_path: Path) -> None:
    KNOWN.save(tmp_path / "x.jsonl")
    assert Annotations.load(tmp_path / "x.jsonl") == KNOWN
    assert KNOWN.to_bytes() == KNOWN.to_bytes()
    assert len(KNOWN) == 2
    assert KNOWN["a"].objects[0] == CAT


def test_signs_that_end_no_line_stay_inside_a_text() -> None:
    for sign in "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e":
        odd = Annotations(
            {f"a{sign}b": Annotation((AnnotatedObject(f"c{sign}d", (0.0, 0.0, 1.0, 1.0)),)), "c": KNOWN["a"]}
        )
        assert Annotations.from_bytes(odd.to_bytes()) == odd
    assert Annotations.from_bytes(b"") == Annotations({})
    assert Annotations.from_bytes(KNOWN.to_bytes().replace(b"\n", b"\r\n")) == KNOWN


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) - 9],
        lambda data: data + data,
        lambda data: data.replace(b'"objects"', b'"things"'),
        lambda data: data.replace(b'"object":1', b'"object":7'),
        lambda data: data.replace(b"3.5,", b""),
        lambda data: b"[1]\n" + data,
    ],
)
def test_damaged_files_are_input_errors_naming_the_line(damage, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(damage(KNOWN.to_bytes()))
    with pytest.raises(InputError, match=r"x\.jsonl: line \d"):
        Annotations.load(tmp_path / "x.jsonl")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Annotations.load(tmp_path / "none.jsonl")


def test_bytes_that_are_not_utf8_are_refused_by_line() -> None:
    with pytest.raises(InputError, match=r"^x\.jsonl: line 2 is not UTF-8 text"):
        Annotations.from_bytes(KNOWN.to_bytes().replace("é".encode(), b"\xe9"), "x.jsonl")
