"""The pictures of a folder that is no data set: files of known formats, by their paths below it."""

import os
from pathlib import Path

from vse import named_files
from vse.errors import InputError
from vse.object_store import ObjectStore

ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


def picture_files(root: str, key: str) -> list[str]:
    """Paths below `root` (a folder or an s3:// address) of all files in it, at any depth, whose ending is one of
    `ENDINGS`, sorted; `open_image` reads them with this root.

    Hidden files and folders are passed over: systems keep thumbnails and remains there. Links to folders are not
    followed. Raises InputError, naming `key`, where there is no such folder or no picture file in it.
    """
    if named_files.is_remote(root):
        found = [name for name, _ in ObjectStore.open(root).walk()]
    elif Path(root).is_dir():
        found = [str((Path(folder) / name).relative_to(root)) for folder, _, names in os.walk(root) for name in names]
    else:
        raise InputError(f"{key}={root}: no such folder")
    shown = sorted(path for path in found if path.lower().endswith(ENDINGS) and not _is_hidden(path))
    if not shown:
        raise InputError(f"{key}={root}: holds no picture file ({', '.join(ENDINGS)})")
    return shown


def _is_hidden(path: str) -> bool:
    return any(step.startswith(".") for step in path.split("/"))
