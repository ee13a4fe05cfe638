"""Who may import whom. Reads the sources, so that a breach is found even where no test goes."""

import ast
from collections.abc import Iterator
from pathlib import Path

# Rooms (files or folders of the package) from the ground up; a room may import its own floor and those below it.
FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"config", "registry", "errors", "redaction", "progress", "journal", "environment", "storage"})
    | {
        "capacity",
        "values",
        "object_store",
        "sealed_folder",
        "node_cache",
        "named_files",
        "file_lock",
        "scratch",
        "arithmetic",
        "columns",
        "escaping",
        "interrupts",
        "paths",
        "reading",
        "placeholders",
        "prefetch",
        "lease",
        "memory_shortage",
        "markdown",
        "checksums",
        "damage",
    },
    frozenset({"data", "language", "models", "objectives", "evaluation", "features", "training", "workspace"})
    | {"summary"},
    frozenset({"cluster", "prometheus", "tracking"}),
    frozenset({"presets", "pipeline", "adversaries", "trained", "measuring", "artefacts", "embedder", "served_model"})
    | {"judging", "reach", "search", "before_stages"},
    frozenset({"studies"}),
    frozenset({"sweeps", "report", "command", "hints", "addresses", "run_names", "status", "status_screen"})
    | {"preflight", "node_logs"},
)
# Modules that bind a stage of a pure room to Ray or to the stages before it, and so stand where the pipeline stands
ABOVE_THEIR_ROOM = frozenset(
    {
        "features.extraction",
        "features.distributed",
        "language.parsing",
        "language.parsing_ray",
        "language.pool_ray",
        "language.contrast.page",
        "language.contrast.stage",
        "language.contrast.stage_ray",
        "training.run",
        "training.distributed",
        "training.process_group",
        "training.timing",
        "training.worker",
    }
)
_STAGES = 3
ONLY_IN: dict[str, tuple[str, ...]] = {
    "mlflow": ("tracking",),
    "spacy": ("language.parser", "language.parser_training"),
    "torchvision": ("features",),
    "argparse": ("command",),
    "fcntl": ("file_lock",),
}
NOT_EACH_OTHER = (("models", "objectives"), ("objectives", "models"))
PURE_OF = ("ray", "mlflow", "argparse", "hyperopt")
PURE_ROOMS = ("data", "language", "models", "objectives", "evaluation", "config", "registry", "errors", "training")
# What lies in datasets/<name>/annotations is ground truth; one function of training may ask a source what is true of
# its images, for the control arm `mask=truth`.
GROUND_TRUTH = ("annotations", "read_annotations", "write_annotations", "true_pairs", "truth_matrix", "holds")
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


def floor_of(module: str) -> int:
    """The floor a module stands on; raises KeyError for a room nobody gave a place."""
    room = module.split(".")[0]
    for level, rooms in enumerate(FLOORS):
        if room in rooms:
            return max(level, _STAGES) if _stands_higher(module) else level
    raise KeyError(room)


def _stands_higher(module: str) -> bool:
    return any(module == name or module.startswith(name + ".") for name in ABOVE_THEIR_ROOM)


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
            yield f"{module} imports {library}, which only {' and '.join(places)} may"
    room = module.split(".")[0]
    if top in PURE_OF and room in PURE_ROOMS and not _stands_higher(module):
        yield f"{module} is pure and imports {top}"
    if top != "vse" or not module:
        return
    target = name.removeprefix("vse.")
    while target and target not in modules:  # `from vse.config import knob` names a thing inside a module
        target = target.rpartition(".")[0]
    if not target:
        return
    for one, other in NOT_EACH_OTHER:
        if room == one and target.split(".")[0] == other:
            yield f"{module} imports {target}; {one} and {other} meet in training.step"
    try:
        if floor_of(target) > floor_of(module):
            yield f"{module} imports {target}, which stands above it"
    except KeyError as error:
        yield f"{error.args[0]} has no place in FLOORS"
    if room == "training" and target in ("data.annotations", "data.scenes.truth"):
        yield f"{module} imports {target}; training never sees ground truth"


def _calls(module: str, source: str) -> Iterator[str]:
    tree = ast.parse(source)
    for node in ast.walk(tree):
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
