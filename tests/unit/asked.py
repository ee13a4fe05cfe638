"""What tests ask of a measurement."""

from typing import Any

from vse.config import override
from vse.evaluation import tasks
from vse.stages.measuring.options import MeasureOptions, SharedOptions

CONTRAST = ("contrast", "own_pools", "plural_split")


def asked(*names: str, **keys: Any) -> tuple[tuple[str, ...], SharedOptions]:
    """(tasks, options); the default tasks if none is named. Two underscores in a key stand for the dot."""
    return names or tasks.DEFAULT, override(MeasureOptions(), {key.replace("__", "."): v for key, v in keys.items()})


def contrast(*words: str) -> dict[str, Any]:
    """The keys of the tasks with VSE-C's adversaries."""
    return {f"{name}__words": words for name in CONTRAST}
