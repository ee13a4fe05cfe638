"""Words and phrases that sources and pages avoid, each with its plain form."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "platform" / "vse").rglob("*.py")) + sorted((ROOT / "jobs").glob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

PHRASES = {
    r"\bRaises \w+(?:, \w+)?(?: in one line)? where\b": "Raises InputError if ...",
    r"\b(?:[Nn]one|[Nn]othing|[Ee]mpty|[Zz]ero|itself) where\b": "None if ...",
    r"\bbeside (?:a|an|the|its|their|them|it|each)\b": "next to, with, in the same folder as",
    r"\bthose that\b(?! them)": "name them: the rows that ...",  # not the list of pronouns in text/lemmas.py
    r"\bthat of (?:a|an|the|its|their)\b": "repeat the noun",
    r"\b(?:comes?|came) again\b": "is retried, is read again",
    r"\b(?:is|are|was|were|be) given back\b": "is released",
    r"\b(?:hears?|learns?) of\b": "is told by a callback: is called with",
    r"\b[Ww]hoever\b": "name the caller, reader or process",
    r"\bof (?:his|her) own\b": "of its own",
    r"\bwithholds?\b": "prevents",
    r"\buntold\b": "unreported",
    r"\bmade anew\b": "recomputed",
}
CLASSES = frozenset(
    {"Options", "Plan", "Setting", "Settings", "Need", "Found", "Held", "Line", "Made", "Told", "Sent", "Story"}
    | {"Watch", "Kept", "Known", "Asked", "Given", "Thing", "Stuff", "Helper", "Manager"}
)
VARIABLES = frozenset({"told", "asked", "said", "theirs", "mine"})  # name the value instead
MODULES = frozenset(
    {"reach", "arithmetic", "judging", "artefacts", "utils", "util", "misc", "common", "helpers", "tools"}
)


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring, comment and literal of several words in a source."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, " ".join(node.value.split())
    for token in tokenize.generate_tokens(iter(source.splitlines(keepends=True)).__next__):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def breaches(text: str) -> list[str]:
    """`phrase -> plain form` for every phrase of the list in a text."""
    return [f"{match.group()!r} -> {plain}" for phrase, plain in PHRASES.items() for match in re.finditer(phrase, text)]


@pytest.mark.seconds
@pytest.mark.parametrize("folder", sorted({path.parent for path in SOURCES}), ids=lambda f: str(f.relative_to(ROOT)))
def test_sources_avoid_phrases(folder: Path) -> None:
    lines = [
        f"{path.relative_to(ROOT)}:{line}: {breach}"
        for path in SOURCES
        if path.parent == folder
        for line, text in prose(path.read_text(encoding="utf-8"))
        for breach in breaches(text)
    ]
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_avoid_phrases(page: Path) -> None:
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert breaches(text) == []


@pytest.mark.seconds
def test_names_of_classes_and_modules_are_specific() -> None:
    classes = [
        f"{path.relative_to(ROOT)}:{node.lineno}: class {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name in CLASSES
    ]
    assert classes + [str(path.relative_to(ROOT)) for path in SOURCES if path.stem in MODULES] == []


@pytest.mark.seconds
def test_names_of_variables_are_nouns() -> None:
    names = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name | ast.arg)
        and (name := node.id if isinstance(node, ast.Name) else node.arg) in VARIABLES
    ]
    assert names == []


def test_the_list_is_applied() -> None:
    source = '"""Raises InputError where none is."""\n# kept beside the run\nx = "those that come again"\n'
    phrases = [breach.split(" -> ")[0] for _, text in prose(source) for breach in breaches(text)]
    assert phrases == ["'Raises InputError where'", "'those that'", "'come again'", "'beside the'"]
