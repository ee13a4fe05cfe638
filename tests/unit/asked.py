"""What tests ask of a measurement."""

import json
from pathlib import Path
from typing import Any

from vse.config import override
from vse.data.records import Split
from vse.evaluation import tasks
from vse.stages.measuring.options import MeasureOptions, SharedOptions

CONTRAST = ("contrast", "own_pools", "plural_split")


def asked(*names: str, **keys: Any) -> tuple[tuple[str, ...], SharedOptions]:
    """(tasks, options); the default tasks if none is named. Two underscores in a key stand for the dot."""
    return names or tasks.DEFAULT, override(MeasureOptions(), {key.replace("__", "."): v for key, v in keys.items()})


def contrast(*words: str) -> dict[str, Any]:
    """The keys of the tasks with VSE-C's adversaries."""
    return {f"{name}__words": words for name in CONTRAST}


def every_task(split: Split, folder: Path, **keys: Any) -> tuple[tuple[str, ...], SharedOptions]:
    """Every task, with files in a folder that have one entry for each caption of the split, and further keys."""
    negatives = [{"filename": each.image, "caption": each.text, "negative_caption": "a sea"} for each in split.captions]
    pairs = [
        {"image_0": one.image, "image_1": other.image, "caption_0": one.text, "caption_1": other.text}
        for one, other in zip(split.captions, reversed(split.captions), strict=True)
        if one.image != other.image
    ]
    contents = {
        "caption_pairs.files": dict(enumerate(negatives)),
        "winoground.files": pairs,
        "extended_positives.image_to_caption": {each.image: [each.id] for each in split.captions},
        "extended_positives.caption_to_image": {each.id: [each.image] for each in split.captions},
    }
    files = {key: folder / f"{key}.json" for key in contents}
    for key, content in contents.items():
        files[key].write_text(json.dumps(content))
    return asked(*tasks.names(), **keys, **{key.replace(".", "__"): str(file) for key, file in files.items()})
