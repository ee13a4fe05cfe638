"""Which published data set a run is on, by names alone: a translation or other captions of the same images would have
the same numbers of images and captions."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

_KNOWN = {"coco": "COCO", "mscoco": "COCO", "flickr30k": "Flickr30k", "f30k": "Flickr30k"}
# what may stand beside them; any other word, as in coco_german, makes it other data
_BESIDE = {"annotations", "captions", "data", "dataset", "images", "karpathy", "ms", "precomp", "train", "val"}
_YEAR = re.compile(r"20(14|17)$")


def benchmark_of(name: str) -> str:
    """`COCO`, `Flickr30k`, or empty for the name of any other data set, file or folder."""
    words = [_YEAR.sub("", word) for word in re.findall(r"[^\W_]+", name.lower())]
    found = {_KNOWN[word] for word in words if word in _KNOWN}
    rest = [word for word in words if word and word not in _KNOWN and word not in _BESIDE]
    return found.pop() if len(found) == 1 and not rest else ""


def configured_name(config: Mapping[str, Any]) -> str:
    """What a run's data set is called as far as its configuration says it: after its file, else after its folder."""
    data = config.get("data", {})
    if data.get("name") == "coco":  # a format, which other captions of the same images come in too
        files = (str(data.get(split) or "") for split in ("train", "val", "test"))
        return f"coco {PurePosixPath(next(filter(None, files), '')).stem}"
    return PurePosixPath(str(data.get("file") or data.get("root") or "").partition("?")[0]).stem
