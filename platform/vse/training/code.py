"""Which code trained a run: recorded with its results, to tell them from results of other code."""

import ast
import functools
import hashlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import vse
from vse.registry import ComponentConfig
from vse.workspace.provenance import code_digits, git_state

# Where what decides weights lies, and which of them are kept
SOURCES = (
    *("config.py", "registry.py", "determinism.py", "storage/parallel_reads.py"),
    *("data", "text", "adversaries", "features", "models", "objectives", "training", "stages"),
    *("evaluation/codes.py", "evaluation/metrics.py", "evaluation/retrieval.py"),
)


class Sources:
    """Texts of modules by name, less the package's own name; parsed when first asked for."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self._parsed: dict[str, tuple[str, frozenset[str]]] = {}

    @classmethod
    def read(cls, folder: Path) -> "Sources":
        """`SOURCES` of the package in a folder, as they are now."""
        texts: dict[str, str] = {}
        for source in SOURCES:
            place = folder / source
            for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
                text, lists = file.read_text(encoding="utf-8"), file.with_suffix(".toml")
                if lists.exists():  # the word lists of the module, as one more statement
                    text += f"\n{tomllib.loads(lists.read_text(encoding='utf-8'))!r}\n"
                texts[".".join(file.relative_to(folder).with_suffix("").parts)] = text
        return cls(texts)

    def digest(self, module: str) -> str:
        """Digest of what a module says, less comments, docstrings and layout; comparable within a version of Python."""
        return self._parse(module)[0]

    def reached(self, modules: Iterable[str]) -> set[str]:
        """Those of these modules that there are, what they import, and so on.

        The `__init__` of a package belongs to it where a name of its own is imported, and not where one of its modules
        is: it is what lists the components that there are.
        """
        found, waiting = set[str](), [module for module in modules if module in self.texts]
        while waiting:
            if (module := waiting.pop()) not in found:
                found.add(module)
                waiting += self._parse(module)[1]
        return found

    def _parse(self, module: str) -> tuple[str, frozenset[str]]:
        if module not in self._parsed:
            tree, imported = ast.parse(self.texts[module]), set[str]()
            for node in ast.walk(tree):
                imported |= {*self._imported(node)}
                documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                if documented and ast.get_docstring(node, clean=False) is not None:
                    del node.body[0]
            # not the tree, which is megabytes over all modules, and would be hashed for every run that is asked about
            self._parsed[module] = hashlib.sha256(ast.dump(tree).encode()).hexdigest(), frozenset(imported)
        return self._parsed[module]

    def _imported(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from filter(None, (self._module(alias.name) for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                if self._module(inside) or self._package(inside):
                    yield from filter(None, [self._module(inside)])
                else:
                    yield from filter(None, [self._module(node.module) or self._package(node.module)])

    def _module(self, name: str) -> str:
        """The key of that full name; "" where it is no module of ours."""
        package, _, module = name.partition(".")
        return module if package == vse.__name__ and module in self.texts else ""

    def _package(self, name: str) -> str:
        return self._module(f"{name}.__init__")


_BEGINS = "stages.train"
Code = Mapping[str, Any]
"""`digest` of the sources that a run reads, whose own `components` are named, and, where they lie in a repository, its
`commit` and whether files are `changed` from it."""


def this_code(config: Any) -> dict[str, Any]:
    """The code of this process that trains a configuration, as it was when it first asked for any.

    Other families and losses are not of it: to add one makes no earlier run another code's.
    """
    sources, git = read_code()
    of_git = {"commit": git["commit"], "changed": bool(git["changed_files"])} if git else {}
    components = sorted({*_modules(config)})
    return {"digest": digest_of(sources, components), "components": components, **of_git}


@functools.cache
def read_code() -> tuple[Sources, dict[str, Any]]:
    """The sources of this process and their state in git, read once: what is edited later is not what it runs."""
    code_digits()  # which the run is tagged with, once its stages are done
    return Sources.read(Path(vse.__file__).parent), git_state()


def digest_of(sources: Sources, components: Iterable[str]) -> str:
    """Eight digits over the sources that a training with those components reads: what is imported from where it begins
    and by them."""
    found = hashlib.sha256()
    for module in sorted(sources.reached([_BEGINS, *components])):
        found.update(f"{module}\n{sources.digest(module)}\n".encode())
    return found.hexdigest()[:8]


def _modules(value: Any) -> Iterator[str]:
    """Where the components of a configuration are written."""
    if isinstance(value, ComponentConfig):
        yield type(value).__module__.partition(".")[2]
    if is_dataclass(value):
        for each in fields(value):
            yield from _modules(getattr(value, each.name))


def others(code: Iterable[Code]) -> list[Code]:
    """Those whose sources are not this process's."""
    return [each for each in code if each["digest"] != digest_of(read_code()[0], each.get("components", ()))]


def name_of(code: Code, digits: int = 40) -> str:
    """So many digits of its commit, and whether that was changed; of its sources where no commit is known."""
    if "commit" not in code:
        return f"code {code['digest']}"
    return f"commit {code['commit'][:digits]}{' with changes' * code['changed']}"


def names_of(code: Iterable[Code]) -> str:
    """Codes in words, each once, for a line."""
    return ", ".join(dict.fromkeys(name_of(each, 8) for each in code))


def warning(made: Mapping[str, Iterable[Code]], what: str, again: str) -> str:
    """One line if some of `made`, codes by name, is of other code, else "". again: how to make it anew."""
    theirs = {name: found for name, code in made.items() if (found := others(code))}
    if not theirs:
        return ""
    by = names_of(each for found in theirs.values() for each in found)
    return f"warning: {len(theirs)} {what} were made with other code ({by}); to make them again, {again}"
