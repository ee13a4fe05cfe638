"""The sources of this package that decide what a training finds, and which of them one training reads."""

import ast
import hashlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import vse

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
