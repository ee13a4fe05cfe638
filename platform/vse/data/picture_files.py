"""The pictures of a folder that is no data set: files of known formats, by their paths below it."""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import PIL.features

from vse.errors import InputError
from vse.storage import user_files as named_files
from vse.storage.object_store import ObjectStore

_OPTIONAL = {".avif": "avif", ".j2k": "jpg_2000", ".jp2": "jpg_2000", ".webp": "webp"}  # if Pillow was built with it
_ALWAYS = (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff")
ENDINGS = tuple(sorted([*_ALWAYS, *(ending for ending, part in _OPTIONAL.items() if PIL.features.check(part))]))
_UNREADABLE = {".heic", ".heif", ".jxl", ".svg", ".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raf", ".rw2"}
_UNREADABLE |= set(_OPTIONAL) - set(ENDINGS)
_NAMED = 5  # endings that the line about other files names


def picture_files(root: str, key: str) -> tuple[list[str], str]:
    """Paths below `root` (a folder or an s3:// address) of all files in it, at any depth, whose ending is one of
    `ENDINGS`, sorted, and a line that says which other files were passed over, and why, if any were.

    `open_image` reads the paths with this root. Hidden files and folders are passed over without a word: systems keep
    thumbnails and remains there. Links to folders are not followed. Raises InputError, naming `key`, where there is no
    such folder or no picture file in it.
    """
    if named_files.is_remote(root):
        found = [name for name, _ in ObjectStore.open(root).walk()]
    elif Path(root).is_dir():
        found = [str((Path(folder) / name).relative_to(root)) for folder, _, names in os.walk(root) for name in names]
    else:
        raise InputError(f"{key}={root}: no such folder")
    shown = sorted(path for path in found if not _is_hidden(path))
    files = [path for path in shown if path.lower().endswith(ENDINGS)]
    others = _counted(_ending(path) for path in shown if not path.lower().endswith(ENDINGS))
    if not files:
        raise InputError(f"{key}={root}: holds no picture file ({', '.join(ENDINGS)})" + (others and f", but {others}"))
    return files, others and f"{key}={root}: passed over {others}"


def _ending(path: str) -> str:
    ending = os.path.splitext(path)[1].lower()
    return ending if ending[1:].isascii() and ending[1:].isalnum() else "without a usual ending"


def _counted(endings: Iterable[str]) -> str:
    """Numbers of files by their endings, pictures that cannot be read apart from what is no picture."""
    counts = Counter(endings)
    told = []
    for reason, named in (
        ("pictures that cannot be read here; convert them, for instance to JPEG", _UNREADABLE),
        ("no pictures", counts.keys() - _UNREADABLE),
    ):
        most = [f"{count} x {ending}" for ending, count in counts.most_common() if ending in named]
        if most:
            told.append(", ".join([*most[:_NAMED], *["..."] * (len(most) > _NAMED)]) + f" ({reason})")
    return " and ".join(told)


def _is_hidden(path: str) -> bool:
    return any(step.startswith(".") for step in path.split("/"))
