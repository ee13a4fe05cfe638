"""Image paths before extraction: which lie elsewhere than written, which are no files, and for what likely reason."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from vse import registry
from vse.data.image_files import Located, locate
from vse.data.images import MISSING
from vse.data.records import Image, Records
from vse.features.arrays import ReadyMade
from vse.features.store import REJECTS, write_rejects
from vse.features.watch import TooManyRejects, allowance
from vse.registry import ComponentConfig
from vse.storage.folder import Folder

log = logging.getLogger(__name__)


def located(
    records: Records, todo: Sequence[Image], folder: Folder, root: str, keys: Sequence[str], limit: float
) -> list[Image]:
    """The images of `todo` with the addresses of their files.

    Args:
        records: all images, no two of which may be one file.
        todo: those without features.
        folder: of the features; it gets the list of rejects if the work cannot begin.
        root: folder of the images.
        keys: those that say where images are.
        limit: share of the images that may be rejected.

    Raises:
        TooManyRejects: if more images are missing.
        InputError: if two addresses mean one file.
    """
    here = locate(root, (image.uri for image in records.images))
    missing = [image for image in todo if image.uri in here.missing]
    total = len(records.images)
    if len(missing) > limit * total:
        write_rejects(folder, [(image.id, MISSING) for image in missing])
        said = [f"{_missing(here, len(missing), total, root)}; more than max_rejected={limit:g} allows"]
        said += [f"{', '.join(keys)} say where images are"] if keys else []
        said += [f"each is listed in {folder.address(REJECTS)}", *allowance(len(missing), len(missing), total)]
        raise TooManyRejects("; ".join(said))
    for line in _lines(here, records, root):
        log.info("%s", line)
    return [replace(image, uri=here.elsewhere.get(image.uri, image.uri)) for image in todo]


def path_lines(records: Records, data: ComponentConfig, backbone: ComponentConfig) -> Iterator[str]:
    """What a dry run says of image paths that are not files as they are written; nothing of rows of arrays."""
    if not isinstance(backbone, ReadyMade.Config):
        root = registry.build("source", data).image_root
        yield from _lines(locate(root, (image.uri for image in records.images)), records, root)


def _lines(here: Located, records: Records, root: str) -> Iterator[str]:
    """At most one line on images that lie elsewhere, and one on those that are missing."""
    total = len(records.images)
    if here.elsewhere:
        uri, path = next(iter(here.elsewhere.items()))
        count = sum(image.uri in here.elsewhere for image in records.images)
        yield f"{count} of {total} image paths differ from their files in {root}; for one, {uri!r} is {path!r}"
    if here.missing:
        yield _missing(here, sum(image.uri in here.missing for image in records.images), total, root)


def _missing(here: Located, count: int, total: int, root: str) -> str:
    uri, reason = next(iter(here.missing.items()))
    return f"{count} of {total} images are missing in {root}; for one, {uri!r} {reason}"
