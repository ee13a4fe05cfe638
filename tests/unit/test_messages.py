"""`docs/operations/when-it-breaks.md` lists the errors of operators by texts that the code has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "platform" / "vse"
PAGE = ROOT / "docs" / "operations" / "when-it-breaks.md"
KEYS = {"run=", "sweep="}  # stand in front of a message
OPERATORS_MEET = {"StorageError", "PlacementError", "WorkersLostError", "CredentialsError", "TakenOver"}
ROOMS = ("storage", "cluster")


def phrases() -> list[str]:
    """The texts in code marks of the first column of the tables by error message."""
    tables = PAGE.read_text(encoding="utf-8").partition("## By error message")[2].partition("## On a cluster")[0]
    cells = re.findall(r"^\| ([^|]+) \|", tables, re.MULTILINE)
    return [phrase for cell in cells for phrase in re.findall("`([^`]+)`", cell) if phrase not in KEYS]


def literal(node: ast.AST) -> str:
    """The text of a string; an ellipsis for what an f-string inserts."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def sources() -> Iterator[ast.Module]:
    yield from (ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py")))


def raised() -> Iterator[str]:
    """Literal messages of errors that operators meet, in the rooms of storage and cluster."""
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in OPERATORS_MEET and node.args:
                    text = literal(node.args[0])
                    if re.search(r"[a-z]+ [a-z]+", text):
                        yield text


@pytest.mark.seconds
def test_every_listed_text_is_one_of_the_code() -> None:
    texts = {text for tree in sources() for node in ast.walk(tree) if (text := literal(node))}
    assert [phrase for phrase in phrases() if not any(phrase in text for text in texts)] == []


@pytest.mark.parametrize("message", list(raised()))
def test_errors_of_storage_and_cluster_are_listed(message: str) -> None:
    assert any(phrase in message for phrase in phrases())
