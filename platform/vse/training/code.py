"""Which code trained a run: kept beside its numbers, so that numbers of other code are not mistaken for this one's."""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import vse
from vse.registry import ComponentConfig
from vse.training.sources import Sources
from vse.workspace.provenance import code_digits, git_state

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
