"""Files that are not what the manifest of their folder says: named for messages, or removed to be made again."""

import logging
from collections.abc import Sequence

from vse.storage.folder import MANIFEST, Folder

log = logging.getLogger(__name__)

_NAMED = 3


def damaged_files(folder: Folder) -> list[str]:
    """Files of a committed folder that are missing, or differ from its manifest by size or checksum; the manifest
    itself if it is damaged. Reads all of them."""
    manifest = folder.manifest_alone()
    if manifest is None:
        return [MANIFEST] if folder.exists(MANIFEST) else []
    return sorted(name for name, entry in manifest["files"].items() if not _is_whole(folder, name, entry))


def remove_damaged(folder: Folder) -> list[str]:
    """Remove the damaged files of a folder, with a warning that they are made again; returns their names.

    For whoever holds the folder's lock and makes what is missing.
    """
    names = damaged_files(folder)
    for name in names:
        folder.delete(name)
    if names:
        log.warning("%s: %s; made again", folder, listed(names))
    return names


def listed(names: Sequence[str]) -> str:
    """Which files are damaged, in a few words."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more} {'is' if len(names) == 1 else 'are'} damaged or missing"


def _is_whole(folder: Folder, name: str, entry: dict) -> bool:
    try:
        return folder.size(name) == entry["bytes"] and folder.entry(name) == entry
    except FileNotFoundError:
        return False
