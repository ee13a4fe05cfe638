"""Files that differ from the manifest of their folder: named in messages, or removed and made again."""

import logging
from collections.abc import Sequence

from vse.storage.folder import MANIFEST, Folder

log = logging.getLogger(__name__)

_NAMED = 3


def damaged_files(folder: Folder) -> list[str]:
    """Names of files in a committed folder that are missing or differ from the manifest in size or checksum.

    Reads every file. A damaged manifest is named itself.
    """
    manifest = folder.manifest_alone()
    if manifest is None:
        return [MANIFEST] if folder.exists(MANIFEST) else []
    return sorted(name for name, entry in manifest["files"].items() if not _is_whole(folder, name, entry))


def remove_damaged(folder: Folder) -> list[str]:
    """Remove the damaged files of a folder with a warning; returns their names.

    The caller holds the folder's lock and makes the missing files again.
    """
    names = damaged_files(folder)
    for name in names:
        folder.delete(name)
    if names:
        log.warning("%s: %s; making them again", folder, listed(names))
    return names


def listed(names: Sequence[str]) -> str:
    """The names of damaged files as a clause, at most three of them."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more} {'is' if len(names) == 1 else 'are'} damaged or missing"


def _is_whole(folder: Folder, name: str, entry: dict) -> bool:
    try:
        return folder.size(name) == entry["bytes"] and folder.entry(name) == entry
    except FileNotFoundError:
        return False
