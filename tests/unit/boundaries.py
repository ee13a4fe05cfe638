"""Who may import whom. Reads the sources, so that a breach is found even where no test goes."""

import ast
from collections.abc import Iterator
from pathlib import Path

# Modules and folders of the package from the ground up. Each may import those before it in this list.
ORDER = (
    *("errors", "registry", "config", "determinism", "display", "storage", "text", "data", "workspace"),
    *("adversaries", "features", "models", "objectives", "training", "evaluation", "presets", "tracking", "cluster"),
    *(
        "stages",
        "inference",
        "cli",
        "studies",
        "report",
        "api",
        "sweeps",
        "reproduction",
        "status",
        "preflight",
        "assets",
    ),
)
LOOSE = 6  # modules in no folder, at most
ONLY_IN: dict[str, tuple[str, ...]] = {
    "mlflow": ("tracking",),
    "spacy": ("text.parser", "assets.parser_training"),
    "torchvision": ("features",),
    "argparse": ("cli.command",),
    "filelock": ("storage", "tracking.shipping"),
    "fcntl": (),
}
# Parts of Ray without a promise to stay, besides all names that begin with an underscore; one module uses them.
PRIVATE_OF_RAY = ("ray.core.generated", "ray.tune.execution", "ray.autoscaler")
USES_PRIVATE_RAY = "cluster.ray_private"
NOT_EACH_OTHER = (("models", "objectives"), ("objectives", "models"))
PURE_OF = ("ray", "mlflow", "argparse", "hyperopt")
PURE = (
    *("errors", "registry", "config", "determinism", "text", "data", "adversaries", "models", "objectives"),
    *("training", "evaluation"),
)
# One function of training may ask a source what is true of its images, for the control arm `mask=truth`.
GROUND_TRUTH = ("annotate", "true_pairs", "truth_matrix", "holds")
THE_CONTROL_ARM = ("training.inputs", "_truth")


def module_name(path: Path, package: Path) -> str:
    """Dotted name of a source file below the package, without the package's own name."""
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(source: str, module: str, *, package: str = "vse") -> Iterator[tuple[str, int]]:
    """(dotted name, line) of every import anywhere in a source, those inside functions included.

    `from vse import tracking` counts as vse.tracking, relative imports are resolved, and importlib calls with a
    literal name count too.
    """
    inside = module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = [package, *inside[: len(inside) - node.level + 1]] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield (f"{base}.{alias.name}" if base.split(".")[0] == package else base), node.lineno
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = ast.unparse(node.func)
            if name in ("__import__", "import_module", "importlib.import_module"):
                yield str(node.args[0].value), node.lineno


def rank_of(module: str) -> int:
    """The place of a module's folder in `ORDER`; raises KeyError for a folder that has none."""
    room = module.split(".")[0]
    if room not in ORDER:
        raise KeyError(room)
    return ORDER.index(room)


def circles(package: Path) -> list[list[str]]:
    """Groups of modules that import each other, directly or by way of others; imports inside functions count."""
    modules = {module_name(path, package): path for path in sorted(package.rglob("*.py"))}
    imports = {
        module: {
            target
            for name, _ in imports_of(path.read_text(encoding="utf-8"), _inside(module, path))
            if (target := _target(name, modules)) and target != module
        }
        for module, path in modules.items()
    }
    left = dict(imports)
    while ends := [module for module, targets in left.items() if not targets & left.keys()]:
        for module in ends:
            del left[module]
    while starts := [module for module in left if not any(module in targets for targets in left.values())]:
        for module in starts:
            del left[module]
    return [sorted(left)] if left else []


def _inside(module: str, path: Path) -> str:
    return f"{module}.__init__" if path.name == "__init__.py" else module


def _target(name: str, modules: dict[str, Path]) -> str:
    """The module of the package that an imported name is, or lies in; empty for others."""
    target = name.removeprefix("vse.") if name.startswith("vse.") else ""
    while target and target not in modules:  # `from vse.config import knob` names a thing inside a module
        target = target.rpartition(".")[0]
    return target


def breaches(package: Path) -> Iterator[str]:
    """One line per breach in all sources below a package folder."""
    modules = {module_name(path, package): path for path in sorted(package.rglob("*.py"))}
    for module, path in modules.items():
        source = path.read_text(encoding="utf-8")
        yield from _calls(module, source)
        for name, line in imports_of(source, module):
            yield from (f"{path.name}:{line}: {text}" for text in _import_breaches(module, name, modules))


def _import_breaches(module: str, name: str, modules: dict[str, Path]) -> Iterator[str]:
    top = name.split(".")[0]
    for library, places in ONLY_IN.items():
        if top == library and not any(module == p or module.startswith(p + ".") for p in places):
            yield f"{module} imports {library}, which {'only ' + ' and '.join(places) if places else 'nothing'} may"
    if top == "ray" and module != USES_PRIVATE_RAY and (name.startswith(PRIVATE_OF_RAY) or "._" in name):
        yield f"{module} imports {name}, which is private; {USES_PRIVATE_RAY} is the only module that may"
    room = module.split(".")[0]
    if top in PURE_OF and room in PURE:
        yield f"{module} is pure and imports {top}"
    if not module or not (target := _target(name, modules)):
        return
    for one, other in NOT_EACH_OTHER:
        if room == one and target.split(".")[0] == other:
            yield f"{module} imports {target}; {one} and {other} meet in training.step"
    try:
        if rank_of(target) > rank_of(module):
            yield f"{module} imports {target}, which comes after it"
    except KeyError as error:
        yield f"{error.args[0]} has no place in ORDER"
    if room == "training" and target.startswith(("data.scenes", "data.sources.scenes")):
        yield f"{module} imports {target}; training never sees ground truth"


def _calls(module: str, source: str) -> Iterator[str]:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ray":
            for alias in node.names:
                if alias.name.startswith("_") and module != USES_PRIVATE_RAY:
                    yield f"{module}:{node.lineno}: imports Ray's private {alias.name}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ray.init" and module != "cluster.runtime":
            yield f"{module}:{node.lineno}: only cluster.runtime may call ray.init"
    if not module.startswith("training"):
        return
    allowed = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (module, node.name) == THE_CONTROL_ARM
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        named = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if named in GROUND_TRUTH and node not in allowed:
            yield f"{module}:{getattr(node, 'lineno', 0)}: training reads ground truth ({named})"
