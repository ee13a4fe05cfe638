"""Images of a data set without features: a few are left out, too many end the job.

Before extraction `located` finds the files of image paths. During extraction a `RejectCounter` counts the images that
cannot be read.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from vse import registry
from vse.data.containers import file_of
from vse.data.image_files import Located, locate
from vse.data.images import MISSING
from vse.data.records import Image, Records
from vse.display.progress import Progress
from vse.errors import InputError, by_reason, grouped_reasons
from vse.features.store import REJECTS, write_rejects
from vse.registry import ComponentConfig
from vse.storage.folder import Folder

log = logging.getLogger(__name__)


class TooManyRejects(InputError):  # noqa: N818  (reads as the finding it is)
    """More images could not be read than `max_rejected` allows."""


class RejectCounter:
    """Counts committed images for the progress bar and stops the work when too many are rejected."""

    def __init__(
        self,
        bar: Progress,
        total: int,
        limit: float,
        folder: Folder,
        address: Callable[[str], str] = lambda image: image,
        *,
        keys: Sequence[str] = (),
        done: int = 0,
    ) -> None:
        """
        Args:
            bar: advances by every committed image.
            total: number of images of the data set.
            limit: share of these that may be rejected.
            folder: of the features; it gets the list of rejects if the work is stopped.
            address: path or address of an image by its id.
            keys: configuration keys that say where images are.
            done: number of images that already have features.
        """
        self.bar, self.total, self.limit, self.folder, self.address = bar, total, limit, folder, address
        self.keys, self.seen = keys, done
        self.rejects: list[tuple[str, str]] = []

    def committed(self, num_images: int, rejects: Sequence[tuple[str, str]]) -> None:
        """Count a shard of `num_images` images and its rejects (id, reason). Raises TooManyRejects."""
        self.rejects += rejects
        self.seen += num_images + len(rejects)
        rejected = len(self.rejects)
        self.bar.advance(num_images + len(rejects), f"{rejected} rejected" if rejected else "")
        if rejected > self.limit * self.total:
            write_rejects(self.folder, self.rejects)
            raise TooManyRejects(self._too_many())

    def _too_many(self) -> str:
        """The error message, with the counts of the images seen so far.

        If nearly all images fail, or most are missing, the folder or the names are wrong, and raising the limit is no
        advice.
        """
        rejected, missing = len(self.rejects), sum(reason == MISSING for _, reason in self.rejects)
        complete = self.seen >= self.total
        count = f"{rejected} of {self.total} images"
        if not complete:
            count = f"of the first {self.seen} of {self.total} images {rejected}"
        reasons = by_reason(reason for _, reason in self.rejects)
        image, reason = self._example()
        example = self.address(image) if reason == MISSING else repr(image)
        detail = f": {reason}" if reason not in reasons else ""
        advice = _advice(rejected, missing, self.seen)
        parts = [
            f"{count} cannot be read, more than max_rejected={self.limit:g} allows ({reasons})",
            f"for one, {example}{detail}",
        ]
        if self.keys and (2 * missing > rejected or not advice):
            parts.append(f"{', '.join(self.keys)} say where images are")
        parts.append(f"{'each' if complete else 'each so far'} is listed in {self.folder.address(REJECTS)}")
        return "; ".join([*parts, *advice])

    def _example(self) -> tuple[str, str]:
        """An image with the most frequent reason."""
        most = set(grouped_reasons(reason for _, reason in self.rejects)[0])
        return next(each for each in reversed(self.rejects) if each[1] in most)


def _advice(rejected: int, missing: int, seen: int) -> list[str]:
    """The limit that would let so many rejects pass; empty if most are missing or nearly all fail."""
    enough = max(0.1, math.ceil(10 * rejected / seen) / 10)
    if 2 * missing > seen or enough >= 1:
        return []
    return [f"fix them, or let jobs/extract_features.py pass with extraction.max_rejected={enough:g}"]


def located(
    records: Records, todo: Sequence[Image], folder: Folder, root: str, keys: Sequence[str], limit: float
) -> list[Image]:
    """The images of `todo` with the addresses of their files.

    Args:
        records: all images, no two of which may be one file.
        todo: the images without features.
        folder: of the features; it gets the list of rejects if the work cannot begin.
        root: folder of the images.
        keys: configuration keys that say where images are.
        limit: share of the images that may be rejected.

    Raises:
        TooManyRejects: if more images are missing.
        InputError: if two addresses mean one file.
    """
    paths = locate(root, map(_file_of, records.images))
    missing = [image for image in todo if _file_of(image) in paths.missing]
    total = len(records.images)
    if len(missing) > limit * total:
        write_rejects(folder, [(image.id, MISSING) for image in missing])
        parts = [f"{_missing(paths, len(missing), total, root)}; more than max_rejected={limit:g} allows"]
        parts += [f"{', '.join(keys)} say where images are"] if keys else []
        parts += [f"each is listed in {folder.address(REJECTS)}", *_advice(len(missing), len(missing), total)]
        raise TooManyRejects("; ".join(parts))
    for line in _lines(paths, records, root):
        log.info("%s", line)
    return [_moved(image, paths.elsewhere) for image in todo]


def _file_of(image: Image) -> str:
    """The address of the file, without the entry or region of it that the image may be."""
    return file_of(image.uri)[0]


def _moved(image: Image, elsewhere: Mapping[str, str]) -> Image:
    file, fragment = file_of(image.uri)
    return replace(image, uri=elsewhere[file] + fragment) if file in elsewhere else image


def path_lines(records: Records, data: ComponentConfig, backbone: ComponentConfig) -> Iterator[str]:
    """Lines for a dry run on image paths that are not files as written; none for ready-made features."""
    if registry.name_of("backbone", backbone) != "arrays":
        root = registry.build("source", data).image_root
        yield from _lines(locate(root, map(_file_of, records.images)), records, root)


def _lines(paths: Located, records: Records, root: str) -> Iterator[str]:
    """At most one line on images that lie elsewhere, and one on missing images."""
    total = len(records.images)
    if paths.elsewhere:
        uri, path = next(iter(paths.elsewhere.items()))
        count = sum(_file_of(image) in paths.elsewhere for image in records.images)
        yield f"{count} of {total} image paths differ from their files in {root}; for one, {uri!r} is {path!r}"
    if paths.missing:
        yield _missing(paths, sum(_file_of(image) in paths.missing for image in records.images), total, root)


def _missing(paths: Located, count: int, total: int, root: str) -> str:
    uri, reason = next(iter(paths.missing.items()))
    return f"{count} of {total} images are missing in {root}; for one, {uri!r} {reason}"
