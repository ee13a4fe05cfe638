"""Evaluation tasks. Adding one is one file and one import line here."""

from collections.abc import Collection

from vse import registry
from vse.errors import InputError, did_you_mean
from vse.evaluation.task import Task
from vse.evaluation.tasks import (
    alpha_curve,
    attacks,
    caption_pairs,
    component_neighbours,
    component_subsets,
    contrast,
    extended_positives,
    fill_in_blank,
    gaussian_codes,
    grounding,
    image_to_word,
    neighbours,
    own_pools,
    phrase_localisation,
    plural_split,
    retrieval,
    saliency,
    true_pairs,
    unified_retrieval,
    visual_parsing,
    winoground,
    zero_shot,
)

__all__ = [
    "alpha_curve",
    "attacks",
    "caption_pairs",
    "component_neighbours",
    "component_subsets",
    "contrast",
    "extended_positives",
    "fill_in_blank",
    "gaussian_codes",
    "grounding",
    "image_to_word",
    "neighbours",
    "own_pools",
    "phrase_localisation",
    "plural_split",
    "retrieval",
    "saliency",
    "true_pairs",
    "unified_retrieval",
    "visual_parsing",
    "winoground",
    "zero_shot",
]

DEFAULT = ("retrieval", "attacks")
_FIRST = (*DEFAULT, "contrast", "own_pools", "plural_split", "true_pairs", "caption_pairs")  # in tables; then by name


def names() -> tuple[str, ...]:
    """All tasks, in the order of tables."""
    return tuple(dict.fromkeys((*_FIRST, *registry.names("task"))))


def task(name: str) -> type[Task]:
    """The task of a name."""
    return registry.component("task", name)


def check_names(tasks: Collection[str]) -> None:
    """Raises InputError for a name that no task has, with what may be meant, and if none is named."""
    for name in tasks:
        if name not in names():
            registry.check_extension("task", name)
            suggestion = did_you_mean(name, names()) or f"expected one of {', '.join(names())}"
            raise InputError(f"tasks={name}: unknown; {suggestion}")
    if not tasks:
        raise InputError(f"tasks: name one or more of {', '.join(names())}")


def help_text() -> str:
    """A line for each task, for `--help`."""
    width = max(map(len, names())) + 1
    lines = (f"\n      {name:{width}}{task(name).about()}" for name in names())
    return f"what to measure; an error if a run can be measured by none of them:{''.join(lines)}"
