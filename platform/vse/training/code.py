"""Which code trained a run: kept beside its numbers, so that numbers of other code are not taken for this one's."""

import ast
import functools
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import vse
from vse.environment import git_state

# What decides weights, and which of them are kept
SOURCES = (
    *("config.py", "registry.py", "arithmetic.py", "pipeline.py", "data", "features", "language", "models"),
    *("objectives", "training", "evaluation/codes.py", "evaluation/metrics.py", "evaluation/retrieval.py"),
)
Code = Mapping[str, Any]
"""`digest` of the sources and, where they lie in a repository, its `commit` and whether files are `changed` from it."""


@functools.cache
def this_code() -> dict[str, Any]:
    """The code of this process, as it was when it first asked."""
    git = git_state()
    of_git = {"commit": git["commit"], "changed": bool(git["changed_files"])} if git else {}
    return {"digest": digest_of(Path(vse.__file__).parent), **of_git}


def digest_of(package: Path) -> str:
    """Eight digits over what the `SOURCES` of a package say: comments, docstrings and layout do not count.

    Comparable between processes of one version of Python, whose syntax trees it reads.
    """
    found = hashlib.sha256()
    for source in SOURCES:
        place = package / source
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            found.update(
                f"{file.relative_to(package).as_posix()}\n{_bare(file.read_text(encoding='utf-8'))}\n".encode()
            )
    return found.hexdigest()[:8]


def _bare(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree)


def others(code: Iterable[Code]) -> list[Code]:
    """Those whose sources are not this process's."""
    mine = this_code()["digest"]
    return [each for each in code if each["digest"] != mine]


def name_of(code: Code, digits: int = 40) -> str:
    """So many digits of its commit, and whether that was changed; of its sources where no commit is known."""
    if "commit" not in code:
        return f"code {code['digest']}"
    return f"commit {code['commit'][:digits]}{' with changes' * code['changed']}"


def told(code: Iterable[Code]) -> str:
    """Codes in words, each once, for a line."""
    return ", ".join(dict.fromkeys(name_of(each, 8) for each in code))


def warning(made: Mapping[str, Iterable[Code]], what: str, again: str) -> str:
    """One line where some of what was made, by name, is by other code; "" where none is. again: how it is made anew."""
    theirs = {name: found for name, code in made.items() if (found := others(code))}
    if not theirs:
        return ""
    by = told(each for found in theirs.values() for each in found)
    return f"warning: {len(theirs)} {what} are by other code ({by}); to make them again, {again}"
