"""Which sources a training reads: what is imported, from wherever it is, and what of a text counts."""

from pathlib import Path

import pytest

from vse.training.code import SOURCES, Sources

LOSS = '"""A loss."""\n\n\nclass Hinge:\n    """As published."""\n\n    margin = 0.2  # of VSE++\n'


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("'''Said otherwise.'''\nclass Hinge:\n\n\n    '''Of ours.'''\n    margin = (0.2)\n", True),
        ("class Hinge:\n    margin = 0.2\n", True),
        (LOSS.replace("0.2", "0.3"), False),
        (LOSS + "\n\nscale = 1\n", False),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(text: str, same: bool) -> None:
    sources = Sources({"a": LOSS, "b": text})
    assert (sources.digest("a") == sources.digest("b")) is same


@pytest.mark.parametrize(
    ("line", "reached"),
    [
        ("import torch", set()),
        ("import vse.models.scan", {"models.scan"}),
        ("from vse.models.scan import Scan, score", {"models.scan"}),
        ("from vse.models import gru, scan", {"models.gru", "models.scan"}),
        ("from vse import config", {"config"}),
        ("from vse import models", set()),  # which registers what there is
        ("from vse.models import every", {"models.__init__", "models.gru"}),  # a name of its own
        ("def late():\n    from vse.models.scan import Scan", {"models.scan"}),
        ("from vse.elsewhere import x", set()),
    ],
)
def test_imports_are_followed(line: str, reached: set[str]) -> None:
    package = {"models.__init__": "from vse.models import gru\nevery = gru.SIZE", "models.gru": "SIZE = 3"}
    sources = Sources({**package, "models.scan": "", "config": "", "begins": line})
    assert sources.reached(["begins", "gone"]) == {"begins"} | reached


def test_imports_of_imports_are_followed_once_round() -> None:
    sources = Sources({"a": "import vse.b", "b": "import vse.c", "c": "import vse.a", "d": ""})
    assert sources.reached("a") == {"a", "b", "c"}


def test_sources_of_a_package_are_read_by_name(tmp_path: Path) -> None:
    for source in SOURCES:
        file = tmp_path / source if source.endswith(".py") else tmp_path / source / "room" / "module.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(LOSS)
    (tmp_path / "report.py").write_text(LOSS)  # no source of weights
    texts = Sources.read(tmp_path).texts
    assert set(texts.values()) == {LOSS}
    assert {"config", "models.room.module", "evaluation.codes"} < texts.keys()
    assert "report" not in texts
    assert len(texts) == len(SOURCES)
