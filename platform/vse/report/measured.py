"""What evaluations found of a run, under names that say how it was measured."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from vse.stages.measuring.caption_pairs import PAIRS_REVISION
from vse.stages.measuring.options import Size
from vse.storage.folder import Folder
from vse.training.checkpoint import Checkpoints, weights_of

_OF_TRAINING = ("train", "val")  # what training tells of every epoch begins with these


def altered(options: Mapping[str, Any]) -> str:
    """What an evaluation did to the run as configured (`alpha-0.6`, `drop-0.3`), or the data it was on instead of its
    own (`on-flickr30k`), as a folder's name; "" for nothing."""
    parts = []
    if options.get("on"):
        items = sorted(options["on"], key=lambda item: not item.startswith("path="))  # the path, then what is below it
        parts.append("on-" + "-".join(_stem(item.partition("=")[2]) for item in items))
    if options.get("alpha") is not None:
        parts.append(f"alpha-{options['alpha']:g}")
    if options.get("components"):
        parts.append("components-" + "-".join(options["components"]))
    if options.get("folds", 1) != 1:
        parts.append(f"folds-{options['folds']}")
    if options.get("drop_components"):
        seed = options.get("drop_seed", 0)
        parts.append(f"drop-{options['drop_components']:g}" + (f"-seed-{seed}" if seed else ""))
    return "_".join(parts)


def told(metrics: Mapping[str, float], options: Mapping[str, Any]) -> dict[str, float]:
    """Metrics as journals and reports name them, so that no two ways of measuring share a name.

    What was altered stands in front (`alpha-0.6/test/rsum`), or `measured` where that would be a name of training's own
    (`measured/val/rsum`); the files of pairs stand behind `pairs` (`pairs/swap_att/mean`).
    """
    head = altered(options)
    files = "-".join(_stem(file) for file in options.get("pairs", ()))
    found = {}
    for name, value in metrics.items():
        full = name.replace("pairs/", f"pairs/{files}/", 1) if files and name.startswith("pairs/") else name
        found[f"{head}/{full}" if head else evaluated(full)] = value
    return found


def evaluated(name: str) -> str:
    """A name that begins with a split, such as `val/rsum`, as an evaluation of a run as configured tells it."""
    return f"measured/{name}" if name.partition("/")[0] in _OF_TRAINING else name


def _stem(file: str) -> str:
    return re.sub(r"[^\w.-]", "_", PurePosixPath(file.partition("?")[0]).stem)


def run_metrics(run: Folder) -> dict[str, float]:
    """What is known of a run as configured: validation at its kept epoch, and what evaluations of these weights say."""
    found: dict[str, float] = {}
    if run.exists("result.json"):
        found |= {
            key: value for key, value in run.read_json("result.json")["metrics"].items() if key.startswith("val/")
        }
    for measured in _measures(run):
        found |= told(measured["metrics"], measured["options"])
    return found


def run_sizes(run: Folder) -> dict[str, Size]:
    """Of what the run's numbers are, by what stands before `/rsum` in them, as far as its evaluations have noted it."""
    return {
        evaluated(split): Size(**size)
        for measured in _measures(run)
        for split, size in measured.get("sizes", {}).items()
    }


def _measures(run: Folder) -> Iterator[Mapping[str, Any]]:
    """Evaluations of a run's kept weights as configured, as they were asked for one after another, the present revision
    last: of two that have a name in common, as after a file of pairs was corrected, the later counts."""
    folder, kept = run.child("evaluation"), Checkpoints(run.child("checkpoints")).best()
    measures = [
        folder.read_json(name)
        for name in sorted(folder.names())
        if name.startswith("measures-") and name.endswith(".json")
    ]
    for measured in sorted(measures, key=lambda each: (each.get("revision", 0), each.get("asked", 0.0))):
        stale = kept is not None and "weights" in measured and measured["weights"] != [weights_of(kept)]
        if measured["options"].get("pairs"):
            stale = stale or measured.get("pairs_revision") != PAIRS_REVISION
        if not stale and not altered(measured["options"]):
            yield measured
