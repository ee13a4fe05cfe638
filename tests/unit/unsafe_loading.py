"""Finds, in the text of a module, calls that may run what a file says: pickles, and loaders that fall back to them."""

import ast
from collections.abc import Iterator

# Modules that unpickle or run code when they read; naming one of its harmless parts is allowed.
_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle", "runpy"}
_HARMLESS = {"pickle.UnpicklingError", "pickle.PicklingError"}
# A call with one of these last names needs the keyword that makes it safe, said on the spot.
_NEEDS = {
    ("torch", "load"): ("weights_only", True),
    ("", "get_state_dict"): ("weights_only", True),
    ("", "load_state_dict_from_url"): ("weights_only", True),
    ("np", "load"): ("allow_pickle", False),
    ("numpy", "load"): ("allow_pickle", False),
    ("", "open_memmap"): None,  # maps numbers; refuses objects by itself
}
_NEVER = {
    *("read_pickle", "unpickle", "load_pickle", "exec_module", "load_model", "load_module", "unsafe_load", "full_load"),
    *("find_class", "deserialize_object"),
}
_NEVER_OF = {"yaml": {"load", "load_all"}, "jit": {"load"}, "hub": {"load"}, "export": {"load"}, "package": {"load"}}
_BUILTINS = {"eval", "exec", "compile", "__import__"}


def unsafe(source: str) -> Iterator[str]:
    """`line: what` for every way of reading that may run what it reads."""
    tree = ast.parse(source)
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {a.asname or a.name.split(".")[0]: a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                aliases[name.asname or name.name] = f"{node.module}.{name.name}"
                if (node.module or "").split(".")[0] in _MODULES and f"{node.module}.{name.name}" not in _HARMLESS:
                    yield f"{node.lineno}: from {node.module} import {name.name}"
                if node.module in ("numpy", "torch", "yaml") and name.name == "load":
                    yield f"{node.lineno}: {node.module}.load under a name of its own"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = aliases.get(node.value.id, "").split(".")[0]
            if module in _MODULES and f"{module}.{node.attr}" not in _HARMLESS:
                yield f"{node.lineno}: {module}.{node.attr}"
        if isinstance(node, ast.Attribute) and node.attr == "cloudpickle":
            yield f"{node.lineno}: cloudpickle"
        if isinstance(node, ast.Call):
            yield from _call(node)


def _call(node: ast.Call) -> Iterator[str]:
    words = ast.unparse(node.func).split(".")
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if len(words) == 1 and last in _BUILTINS:
        yield f"{node.lineno}: {last}()"
    if last in _NEVER or last in _NEVER_OF.get(before, ()):
        yield f"{node.lineno}: {'.'.join(words)}"
    for wanted in ((before, last), ("", last)):
        need = _NEEDS.get(wanted)
        if need is not None and not _says(node, *need):
            yield f"{node.lineno}: {'.'.join(words)} without {need[0]}={need[1]}"


def _says(node: ast.Call, keyword: str, value: bool) -> bool:
    return any(
        given.arg == keyword and isinstance(given.value, ast.Constant) and given.value.value is value
        for given in node.keywords
    )
