"""Whatever a name holds is shown as it is."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse.display.markdown import artifact, block, commands, escaped, run, table

ODD = "my_*[x](y)|<b>&`~~~ @you ![p](q) www.a.b http://c"


@given(st.text())
def test_escaped_text_reads_the_same_and_has_no_markup(text: str) -> None:
    shown = escaped(text)
    assert html.unescape(shown.replace("&amp;", "&")) == html.unescape(" ".join(text.split())) or "&" in text
    bare = re.sub(r"&#\d+;", "", shown)
    assert not re.search(r"[\\`*_\[\]|<>@!~#]|://|www\.", bare)
    assert "\n" not in shown


def test_an_odd_name_is_text() -> None:
    assert html.unescape(escaped(ODD)) == ODD


def test_a_table_keeps_its_cells_whatever_they_hold() -> None:
    lines = table(["model", "rsum"], [[ODD, "1.0 ± 0.2"], ["a\nb", 3]]).splitlines()
    assert [line.count("|") for line in lines] == [3, 3, 3, 3]
    assert lines[1] == "| :-- | --: |"


def test_a_block_is_closed_by_nothing_that_is_in_it() -> None:
    lines = block(["python x.py 'a ```` b'"]).splitlines()
    assert (lines[0], lines[-1]) == ("`" * 5, "`" * 5)


def test_long_commands_go_on_in_the_next_line() -> None:
    long = "python jobs/train.py " + " ".join(f"data.key{k}=value" for k in range(12))
    told = commands([long, "python jobs/search.py 'text=" + "a red ball " * 12 + "'"]).splitlines()[1:-1]
    assert max(map(len, told[:-1])) <= 92
    assert " ".join(line.rstrip("\\").strip() for line in told[:-1]) == long
    assert told[-1].startswith("python jobs/search.py 'text=a red ball a red")  # a quoted argument stays whole


def test_an_option_stays_with_its_value() -> None:
    command = "python jobs/evaluate.py measure.attacks= run=vsepp-scenes-s2-6af228e5 x=1234567 --workspace /data/work"
    assert commands([command]).splitlines()[2] == "  --workspace /data/work"


@pytest.mark.parametrize("name", ["alpha.png", "a (b).png", "ä/x]y.html"])
def test_links_hold_whatever_a_file_is_called(name: str) -> None:
    assert re.fullmatch(r"\[[^\[\]]*\]\(artifact:[\w./%-]+\)", artifact(name))
    assert re.fullmatch(r"\[[^\[\]]*\]\(run:[\w.%-]+\)", run(name))
