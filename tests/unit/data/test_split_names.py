"""Split names of others: what is plainly meant, said once; everything else is refused."""

import re

import pytest

from vse.data.reading import SplitNames
from vse.errors import InputError

PLAIN = {
    "train": ["train", "Train", "TRAIN", "training", "restval", " train "],
    "val": ["val", "dev", "valid", "validation", "Validation", "VAL"],
    "test": ["test", "TEST", "testing"],
}


@pytest.mark.parametrize(("name", "split"), [(name, split) for split, names in PLAIN.items() for name in names])
def test_plain_names(name: str, split: str) -> None:
    assert SplitNames("a.json").split(name, "a.json: line 2") == split


@pytest.mark.parametrize("name", ["", "trial", "tset", "eval", "held-out", "train+val", "rest", "0"])
def test_other_names_are_refused(name: str) -> None:
    message = f"a.json: line 2: unknown split {name!r}; expected one of train, val, test"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        SplitNames("a.json").split(name, "a.json: line 2")


def test_a_source_may_know_other_names() -> None:
    names = SplitNames("a.json", "restval")
    assert names.split("restval", "a.json: line 2") == "restval"
    with pytest.raises(InputError, match="expected one of train, val, test, restval"):
        names.split("rest", "a.json: line 2")


def test_one_line_says_what_names_were_taken_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    names = SplitNames("a.json")
    for name in ("Train", "dev", "test", "dev", "Train"):
        names.split(name, "")
    names.log()
    assert [record.getMessage() for record in caplog.records] == [
        "a.json: reading the splits 'Train' as train, 'dev' as val"
    ]


def test_nothing_is_said_of_names_as_they_should_be(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    names = SplitNames("a.json")
    for split in PLAIN:
        names.split(split, "")
    names.log()
    assert not caplog.records
