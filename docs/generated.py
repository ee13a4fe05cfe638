"""A hook of MkDocs: tables of the reference, generated from the code when the site is built.

Run it as `python -m mkdocs` in the folder of the repository.
A page has a line `<!-- generated: NAME -->` for each table. The names are the keys of `TABLES`.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import partial
from typing import Any, get_type_hints

from tests.unit.write_job_keys import declared
from vse import presets, registry
from vse.config import type_name, typed, walk
from vse.evaluation import tasks
from vse.training.config import RunConfig

_MARK = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.MULTILINE)
_HEADINGS = {
    "source": "Sources",
    "backbone": "Backbones",
    "parser": "Parsers",
    "encoder": "Text encoders",
    "sentence": "Sentence vectors",
}
_HEADINGS |= {"family": "Families", "objective": "Objectives"}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marks of a page by their tables."""
    return _MARK.sub(lambda mark: TABLES[mark[1]](), markdown)


def configuration() -> str:
    """Every key of a run configuration: the groups first, then every component of each kind."""
    parts: list[str] = []
    components: dict[str, str] = {}  # kind -> key that chooses it

    def group(config: type, title: str, prefix: str) -> None:
        parts.append(f"## {title}\n\n{_first_sentence(config)}\n")
        rows, below = list[str](), list[tuple[type, str]]()
        hints = get_type_hints(config)
        for spec in fields(config):
            key = f"{prefix}{spec.name}"
            if kind := spec.metadata.get("kind"):
                components[kind] = key
                rows.append(_row(key, f"one of [{_HEADINGS[kind].lower()}](#{_slug(_HEADINGS[kind])})", spec))
            elif is_dataclass(hints[spec.name]):
                below.append((hints[spec.name], key))
                if named := spec.metadata.get("named"):
                    values = " ".join(f"`{each}`" for each in named)
                    rows.append(f"| `{key}` | | {values} | sets all keys of [its group](#group-{_id(key)}) at once |")
            else:
                rows.append(_row(key, _kind(spec, hints[spec.name]), spec))
        parts.append(_table(rows) if rows else "")
        for each, key in below:
            group(each, f"Group `{key}`", f"{key}.")

    group(RunConfig, "A run", "")
    for kind, key in components.items():
        parts.append(f"## {_HEADINGS[kind]}\n\n`{key}=NAME` chooses one. Its keys are below `{key}.`.\n")
        for name in registry.names(kind):
            cls = registry.component(kind, name)
            hints = get_type_hints(cls.Config)
            rows = list[str]()
            for spec in fields(cls.Config):
                if nested := spec.metadata.get("kind"):
                    chosen, others = (
                        components[nested],
                        map(partial(registry.component, nested), registry.names(nested)),
                    )
                    heading = _HEADINGS[nested]
                    rows.append(_row(f"{key}.{spec.name}", f"one of [{heading.lower()}](#{_slug(heading)})", spec))
                    every = dict.fromkeys(
                        each.name for other in others if other is not cls for each in fields(other.Config)
                    )
                    rows += [f"| `{key}.{spec.name}.{each}` | | | as `{chosen}.{each}` |" for each in every]
                else:
                    rows.append(_row(f"{key}.{spec.name}", _kind(spec, hints[spec.name]), spec))
            parts.append(f"### `{key}={name}`\n\n{_first_sentence(cls)}\n")
            parts.append(_table(rows) if rows else "It has no keys.\n")
    return "\n".join(parts)


_GROUPS = {"measure": "Keys of a measurement", "ray": "Keys of Ray", "card": "Keys of a model card"}


def jobs() -> str:
    """The options of every job, apart from those of the run configuration; groups that several jobs take once."""
    parts, groups = [], dict[str, list[str]]()
    for name, job in sorted(declared().items()):
        preset = job.get("default_preset")
        parts.append(f"## `jobs/{name}.py`\n\n{job['description']}\n")
        if preset:
            parts.append(f"It takes `--preset` (default `{preset}`) and every key of the run configuration.\n")
        rows = dict[str, list[str]]()
        for key, spec, hint, value in walk(job["options"]):
            row = _row(f"{key}.KEY" if spec.metadata.get("below") else key, _kind(spec, hint), spec, value)
            group = key.partition(".")[0]
            rows.setdefault(group if group in _GROUPS else "", []).append(row)
        own = rows.pop("", [])
        links = [f"[{_GROUPS[group].lower()}](#{_slug(_GROUPS[group])})" for group in rows]
        parts.append(_table(own) if own else "" if links else "It has no options of its own.\n")
        parts.append(f"It takes the {' and the '.join(links)}.\n" if links else "")
        for group, its in rows.items():
            assert groups.setdefault(group, its) == its, f"jobs take different keys of {group}"
    parts += [f"## {_GROUPS[group]}\n\n{_table(rows)}" for group, rows in groups.items()]
    return "\n".join(parts)


def presets_by_system() -> str:
    """Every preset, one row a system, with its data sets."""
    systems: dict[str, list[str]] = {}
    for name in presets.names():
        system, _, data = name.rpartition("_")
        systems.setdefault(system, []).append(data)
    rows = [f"| `{system}` | {', '.join(f'`{system}_{data}`' for data in data)} |" for system, data in systems.items()]
    return "\n".join(["| system | presets |", "|---|---|", *rows]) + "\n"


def tasks_and_metrics() -> str:
    """Every task with its line of help and its metrics."""
    parts = []
    for name in tasks.names():
        parts.append(f"### `{name}`\n\n{_escaped(tasks.task(name).about())}\n")
        rows = [
            f"| `{m.name}` | {_escaped(m.label)} | {m.unit} | {_BETTER[m.higher_is_better]} |"
            for m in tasks.task(name)().metrics
        ]
        parts.append("\n".join(["| name | in tables | unit | better |", "|---|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


_BETTER = {True: "higher", False: "lower", None: ""}
TABLES: dict[str, Callable[[], str]] = {
    "configuration": configuration,
    "tasks": tasks_and_metrics,
    "jobs": jobs,
    "presets": presets_by_system,
}


def _table(rows: Iterable[str]) -> str:
    return "\n".join(["| key | default | values | meaning |", "|---|---|---|---|", *rows]) + "\n"


def _row(key: str, kind: str, spec: Field[Any], value: Any = MISSING) -> str:
    default = spec.default if value is MISSING else value
    if spec.metadata.get("kind"):
        shown = f"`{value}`" if isinstance(value, str) and value else "of the preset"
    elif default is MISSING:
        shown = ""
    elif default == "" or default == ():
        shown = "empty"
    else:
        shown = f"`{typed(default)}`"
    doc = _escaped(" ".join(str(spec.metadata.get("doc", "")).split()))
    if key == "tasks":  # its help has a line for each
        doc = "what to measure: names of [tasks](metrics.md#tasks)"
    only = " or ".join(f"`{each}`" for each in spec.metadata.get("only", "").split(" or ") if each)
    return f"| `{key}` | {shown} | {kind} | {doc}{only and f'; only with {only}'} |"


def _kind(spec: Field[Any], hint: Any) -> str:
    """Type, choices and range of a key."""
    at = spec.metadata
    if at.get("kind"):
        return " ".join(f"`{name}`" for name in registry.names(at["kind"]))
    if at.get("choices"):
        return " ".join(f"`{typed(choice)}`" if choice != "" else "empty" for choice in at["choices"])
    if at.get("below"):
        return "a string, or keys below"
    return ", ".join([_escaped(type_name(hint)), *_range(at)]) + ("; may be repeated" if at.get("repeated") else "")


def _range(at: Any) -> Iterator[str]:
    for name, sign in (("low", "≥"), ("above", ">"), ("high", "≤")):
        if at.get(name) is not None and abs(at[name]) < 1e6:
            yield f"{sign} {at[name]:g}"


def _first_sentence(of: Any) -> str:
    text = " ".join((inspect.getdoc(of) or "").split("\n\n")[0].split())
    return _escaped(text)


def _escaped(text: str) -> str:
    return re.sub(r"([|<>*_\[\]])", r"\\\1", text) if "`" not in text else text.replace("|", "\\|").replace("<", "&lt;")


def _id(key: str) -> str:
    return key.replace(".", "")


def _slug(heading: str) -> str:
    return heading.lower().replace(" ", "-")
