"""Which code made a number: what its digest sees, and what is said where it is another's."""

from pathlib import Path

import pytest

import vse
from tests.unit.boundaries import imports_of
from vse.training import code
from vse.training.code import SOURCES, digest_of, name_of, others, this_code, told, warning

# Rooms that training reads and that decide no weight
ELSEWHERE = {"cluster", "environment", "errors", "journal", "metrics", "object_store", "storage", "workspace"}
LOSS = '"""A loss."""\n\n\nclass Hinge:\n    """As published."""\n\n    margin = 0.2  # of VSE++\n'


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for source in SOURCES:
        file = tmp_path / source if source.endswith(".py") else tmp_path / source / "room" / "module.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(LOSS)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("'''Said otherwise.'''\nclass Hinge:\n\n\n    '''Of ours.'''\n    margin = (0.2)\n", True),
        ("class Hinge:\n    margin = 0.2\n", True),
        (LOSS.replace("0.2", "0.3"), False),
        (LOSS + "\n\nscale = 1\n", False),
    ],
)
@pytest.mark.parametrize("source", ["objectives/room/module.py", "config.py"])
def test_the_digest_sees_what_a_source_does(package: Path, source: str, text: str, same: bool) -> None:
    before = digest_of(package)
    assert len(before) == 8
    (package / source).write_text(text)
    assert (digest_of(package) == before) is same


def test_the_digest_sees_files_come_and_move(package: Path) -> None:
    before = digest_of(package)
    (package / "models" / "new.py").write_text("")
    assert digest_of(package) != before
    (package / "models" / "new.py").rename(package / "report.py")
    assert digest_of(package) == before  # which is no source of weights


def test_everything_that_training_reads_is_a_source_or_decides_no_weight() -> None:
    root = Path(vse.__file__).parent
    for module in ("run", "loop", "step", "inputs", "checkpoint", "collectives"):
        for name, _ in imports_of((root / "training" / f"{module}.py").read_text(), f"training.{module}"):
            room, _, rest = name.removeprefix("vse.").partition(".")
            if not name.startswith("vse.") or room in ELSEWHERE:
                continue
            file = f"{room}/{rest.partition('.')[0]}.py" if rest else f"{room}.py"
            assert {room, f"{room}.py", file} & set(SOURCES), f"training.{module} reads {name}"
    assert all((root / source).exists() for source in SOURCES)


def test_this_code_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    this_code.cache_clear()
    monkeypatch.setattr(code, "git_state", lambda: {"commit": "0123456789", "changed_files": 2})
    assert this_code() == {"digest": digest_of(Path(vse.__file__).parent), "commit": "0123456789", "changed": True}
    monkeypatch.setattr(code, "digest_of", lambda package: pytest.fail("read again"))
    assert this_code()["changed"]
    this_code.cache_clear()
    monkeypatch.setattr(code, "git_state", dict)
    monkeypatch.setattr(code, "digest_of", lambda package: "89abcdef")
    assert this_code() == {"digest": "89abcdef"}
    this_code.cache_clear()


def test_other_code_is_named_by_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "this_code", lambda: {"digest": "aa", "commit": "f" * 40, "changed": False})
    mine, later = {"digest": "aa", "commit": "e" * 40, "changed": True}, {"digest": "aa"}
    theirs = {"digest": "bb", "commit": "0123456789", "changed": True}
    bare, clean = {"digest": "cc"}, {"digest": "dd", "commit": "fedcba9876", "changed": False}
    assert others([mine, theirs, later, bare]) == [theirs, bare]
    assert told([theirs, bare, clean, theirs]) == "commit 01234567 with changes, code cc, commit fedcba98"
    assert name_of(clean) == "commit fedcba9876"
    assert warning({"one": [mine], "two": []}, "runs", "remove x") == ""
    line = "warning: 2 runs are by other code (code cc, commit fedcba98); to make them again, remove x"
    assert warning({"one": [mine, bare], "two": [clean, bare], "three": [mine]}, "runs", "remove x") == line
