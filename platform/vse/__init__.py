"""Distributed experiments with visual-semantic embeddings: joint spaces of images and sentences.

The public interface is imported when it is first used, so that `import vse` stays fast:

    import vse

    run = vse.train("vsepp_small", "workspace")
    metrics = vse.evaluate(run, tasks=["retrieval"])
    model = vse.load(run)
    model.scores(["ball.png"], ["a red ball", "two dogs"])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vse.api import (
        Diverged,
        Embedder,
        InputError,
        Run,
        Workspace,
        adversarial_captions,
        compare,
        evaluate,
        load,
        open_image,
        outcomes,
        preset,
        relevance_map,
        runs,
        saliency,
        train,
    )
    from vse.api import (
        presets as presets,
    )

__version__ = "0.2.0"
__all__ = [
    "Diverged",
    "Embedder",
    "InputError",
    "Run",
    "Workspace",
    "adversarial_captions",
    "compare",
    "evaluate",
    "load",
    "open_image",
    "outcomes",
    "preset",
    "relevance_map",
    "runs",
    "saliency",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in (*__all__, "presets"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("vse.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
