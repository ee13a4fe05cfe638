"""The code that trained a run, recorded with its results, so results of other code can be recognised."""

import ast
import functools
import hashlib
import importlib.util
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import vse
from vse.registry import ComponentConfig
from vse.workspace.provenance import code_digits, git_state

# Sources that decide weights, and which of them are kept
SOURCES = (
    *("config.py", "registry.py", "determinism.py", "storage/parallel_reads.py"),
    *("data", "text", "adversaries", "features", "models", "objectives", "training", "stages"),
    *("evaluation/codes.py", "evaluation/metrics.py", "evaluation/retrieval.py"),
)


class Sources:
    """Sources of modules by name, without the package's name; parsed on first use."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self._parsed: dict[str, tuple[str, frozenset[str]]] = {}

    @classmethod
    def read(cls, folder: Path) -> "Sources":
        """The present `SOURCES` of the package in a folder."""
        texts: dict[str, str] = {}
        for source in SOURCES:
            path = folder / source
            for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
                text, lists = file.read_text(encoding="utf-8"), file.with_suffix(".toml")
                if lists.exists():  # the word lists of the module, as one more statement
                    text += f"\n{tomllib.loads(lists.read_text(encoding='utf-8'))!r}\n"
                texts[".".join(file.relative_to(folder).with_suffix("").parts)] = text
        return cls(texts)

    def digest(self, module: str) -> str:
        """Digest of a module without comments, docstrings and layout; comparable within a version of Python."""
        return self._parse(module)[0]

    def reached(self, modules: Iterable[str]) -> set[str]:
        """The existing ones of these modules, and all modules that they import, directly or indirectly.

        The `__init__` of a package is included if a name of its own is imported, but not for an import of one of its
        modules, because it lists all components.
        """
        closure, waiting = set[str](), [module for module in modules if module in self.texts]
        while waiting:
            if (module := waiting.pop()) not in closure:
                closure.add(module)
                waiting += self._parse(module)[1]
        return closure

    def _parse(self, module: str) -> tuple[str, frozenset[str]]:
        if module not in self._parsed:
            words, imported = list[str](), set[str]()
            self._spell(ast.parse(self.texts[module]), words, imported)
            # only the digest: the trees of all modules take megabytes, and hashing them takes time for every run
            self._parsed[module] = hashlib.sha256(" ".join(words).encode()).hexdigest(), frozenset(imported)
        return self._parsed[module]

    def _spell(self, node: ast.AST, words: list[str], imported: set[str]) -> None:
        """Append the kinds of nodes and their values, without positions and docstrings, and add what is imported.

        Every process that trains does this for all sources; `ast.walk` and `ast.dump` would take three times as long.
        """
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported.update(self._imported(node))
        words.append(type(node).__name__)
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        docstring = node.body[0] if documented and ast.get_docstring(node, clean=False) is not None else None
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                self._spell(value, words, imported)
            elif isinstance(value, list):
                words.append("[")
                for each in value:
                    if isinstance(each, ast.AST):
                        if each is not docstring:
                            self._spell(each, words, imported)
                    else:
                        words.append(repr(each))
                words.append("]")
            else:
                words.append(repr(value))

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
        """The key of a full name; "" if it is no module of ours."""
        package, _, module = name.partition(".")
        return module if package == vse.__name__ and module in self.texts else ""

    def _package(self, name: str) -> str:
        return self._module(f"{name}.__init__")


_BEGINS = "stages.train"
Code = Mapping[str, Any]
"""`digest` of the sources of a run with its own `components`, and in a repository the `commit` and whether files are
`changed` from it."""


def this_code(config: Any) -> dict[str, Any]:
    """The code of this process that trains a configuration, read once.

    Other families and losses are not included, so adding one does not change the code of earlier runs.
    """
    sources, git = read_code()
    of_git = {"commit": git["commit"], "changed": bool(git["changed_files"])} if git else {}
    components = sorted({*_modules(config)})
    return {"digest": digest_of(sources, components), "components": components, **of_git}


@functools.cache
def read_code() -> tuple[Sources, dict[str, Any]]:
    """The sources of this process and their state in git, read once, because later edits do not affect it."""
    code_digits()  # cached now for the tag that a run gets after its stages
    return Sources.read(Path(vse.__file__).parent), git_state()


def digest_of(sources: Sources, components: Iterable[str]) -> str:
    """Eight digits over the sources of a training: all imports of the training stage and of these components."""
    digest = hashlib.sha256()
    for module in sorted(sources.reached([_BEGINS, *components])):
        digest.update(f"{module}\n{sources.digest(module)}\n".encode())
    for name in sorted(name for name in components if name.startswith(_OTHER)):
        digest.update(f"{name}\n{_digest_of_other(name.removeprefix(_OTHER))}\n".encode())
    return digest.hexdigest()[:8]


_OTHER = "@"  # begins the full name of a component's module in another package


@functools.cache
def _digest_of_other(module: str) -> str:
    """Digest of all sources of the package that a module belongs to; "absent" if it is not installed."""
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        return "absent"
    file = Path(spec.origin)
    files = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else [file]
    digest = hashlib.sha256()
    for each in files:
        digest.update(ast.dump(ast.parse(each.read_text(encoding="utf-8"))).encode())
    return digest.hexdigest()


def _modules(value: Any) -> Iterator[str]:
    """The modules of a configuration's components."""
    if isinstance(value, ComponentConfig):
        module = type(value).__module__
        ours, _, name = module.partition(".")
        yield name if ours == vse.__name__ else _OTHER + module
    if is_dataclass(value):
        for each in fields(value):
            yield from _modules(getattr(value, each.name))


def others(code: Iterable[Code]) -> list[Code]:
    """The codes whose sources differ from those of this process."""
    return [each for each in code if each["digest"] != digest_of(read_code()[0], each.get("components", ()))]


def name_of(code: Code, digits: int = 40) -> str:
    """The commit with `digits` digits, and whether files were changed; without a commit, the digest of the sources."""
    if "commit" not in code:
        return f"code {code['digest']}"
    return f"commit {code['commit'][:digits]}{' with changes' * code['changed']}"


def names_of(code: Iterable[Code]) -> str:
    """Codes in words, each once, for a line."""
    return ", ".join(dict.fromkeys(name_of(each, 8) for each in code))


def warning(codes: Mapping[str, Iterable[Code]], what: str, again: str) -> str:
    """One line if some results were computed with other code than this process has, else "".

    Args:
        codes: by result, the codes of all processes that computed it.
        what: the results in the plural, as `trainings of NAME`.
        again: how to repeat the work.
    """
    other_code = {name: other for name, code in codes.items() if (other := others(code))}
    if not other_code:
        return ""
    by = names_of(each for other in other_code.values() for each in other)
    return f"warning: {len(other_code)} {what} were computed with other code ({by}); to compute them again, {again}"
