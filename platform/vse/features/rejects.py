"""Images of a data set without features: a few are left out, too many end the job.

Before extraction `located` finds the files of image paths. During extraction a `RejectCounter` counts the images that
cannot be read.
"""

import logging
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import PIL.Image

from vse.data.containers import file_of
from vse.data.image_files import CONVERT, locate, unnamed_files, unreadable_format
from vse.data.images import MISSING
from vse.data.places import below
from vse.data.records import Image, Records
from vse.data.source import rejects as rejects_of_source
from vse.display.progress import Progress
from vse.errors import InputError, by_reason, grouped_reasons
from vse.features.store import REJECTS, write_rejects
from vse.storage import user_files as named_files
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
        formats = sum(reason.endswith(CONVERT) for _, reason in self.rejects)
        reasons = by_reason(reason for _, reason in self.rejects)
        image, reason = self._example()
        example = self.address(image) if reason == MISSING else repr(image)
        detail = f": {reason}" if reason not in reasons else ""
        advice = _advice(rejected, missing, formats, self.seen)
        parts = [
            f"{count} cannot be read, more than max_rejected={self.limit:g} allows ({reasons})",
            f"for one, {example}{detail}",
        ]
        if self.keys and (2 * missing > rejected or not (advice or formats)):
            parts.append(f"{', '.join(self.keys)} say where images are")
        parts.append(f"{'each' if complete else 'each so far'} is listed in {self.folder.address(REJECTS)}")
        return "; ".join([*parts, *advice])

    def _example(self) -> tuple[str, str]:
        """An image with the most frequent reason."""
        most = set(grouped_reasons(reason for _, reason in self.rejects)[0])
        return next(each for each in reversed(self.rejects) if each[1] in most)


def _advice(rejected: int, missing: int, formats: int, seen: int) -> list[str]:
    """The limit that would let so many rejects pass; empty if most of all images are missing, nearly all fail, or most
    rejects are of a format that has to be converted."""
    enough = max(0.1, math.ceil(10 * rejected / seen) / 10)
    if 2 * missing > seen or 2 * formats > rejected or enough >= 1:
        return []
    return [f"fix them, or let jobs/extract_features.py pass with extraction.max_rejected={enough:g}"]


class FileSurvey:
    """Which image files of a data set are missing, elsewhere, or of a format that cannot be read; opens no image.

    Attributes:
        paths: addresses that are not files as they are written.
        formats: the reason why a file cannot be read, by its address, as its ending and its first bytes tell.
    """

    def __init__(self, records: Records, root: str) -> None:
        """Raises InputError if two addresses mean one file."""
        uris = dict.fromkeys(map(_file_of, records.images))
        self._records, self._root = records, root
        self.paths = locate(root, uris)
        self.formats = dict[str, str]()
        for uri in uris:
            if uri not in self.paths.missing and (reason := _format(root, self.paths.elsewhere.get(uri, uri))):
                self.formats[uri] = reason

    def rejects(self, images: Iterable[Image]) -> list[tuple[str, str]]:
        """Id and reason of images that extraction would reject."""
        reasons = dict.fromkeys(self.paths.missing, MISSING) | self.formats
        return [(image.id, reasons[file]) for image in images if (file := _file_of(image)) in reasons]

    def lines(self) -> Iterator[str]:
        """At most one line each on images that lie elsewhere, are missing, or are of an unreadable format."""
        elsewhere = self.paths.elsewhere
        if elsewhere:
            uri, path = next(iter(elsewhere.items()))
            count, total = self._count(elsewhere), len(self._records.images)
            verb = "differs from its file" if count == 1 else "differ from their files"
            yield f"{count} of {total} image paths {verb} in {self._root}; for one, {uri!r} is {path!r}"
        yield from self.faults()

    def faults(self) -> Iterator[str]:
        """The lines on images that are missing or of an unreadable format."""
        total = len(self._records.images)
        for reasons, one, several in (
            (self.paths.missing, "is missing in", "are missing in"),
            (self.formats, "cannot be read in", "cannot be read in"),
        ):
            if reasons:
                uri, reason = next(iter(reasons.items()))
                count = self._count(reasons)
                what = f"{count} of {total} images {one if count == 1 else several} {self._root}"
                yield f"{what}, for example {uri!r}: {reason}"

    def refuse_many(self, todo: Sequence[Image], limit: float, keys: Sequence[str], folder: Folder | None) -> None:
        """Raise TooManyRejects if extraction would reject too many of the images that it still has to read.

        Args:
            todo: the images without features.
            limit: share of all images that may be rejected.
            keys: configuration keys that say where images are.
            folder: gets the list of rejects; None to write nothing.
        """
        rejects, total = self.rejects(todo), len(self._records.images)
        if len(rejects) <= limit * total:
            return
        missing = sum(reason == MISSING for _, reason in rejects)
        parts = [*self.faults()]
        parts[-1] += f"; more than max_rejected={limit:g} allows"
        parts += [f"{', '.join(keys)} say where images are"] if keys and missing else []
        if folder is not None:
            write_rejects(folder, rejects)
            parts.append(f"each is listed in {folder.address(REJECTS)}")
        parts += _advice(len(rejects), missing, len(rejects) - missing, total)
        raise TooManyRejects("; ".join(parts))

    def unnamed(self, without: str) -> str:
        """A line on image files of the folder that the data set does not name; empty if there are none.

        without: a folder whose files do not count.
        """
        left_out = (reject.id for reject in rejects_of_source(self._records))
        uris = [*map(_file_of, self._records.images), *left_out]
        count = unnamed_files(self._root, uris, self.paths, without)
        if not count:
            return ""
        what = "image file" if count == 1 else "image files"
        return f"{count} {what} in {self._root} {'is' if count == 1 else 'are'} not in the table"

    def _count(self, uris: Container[str]) -> int:
        return sum(_file_of(image) in uris for image in self._records.images)


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
        TooManyRejects: if more images are missing or of an unreadable format.
        InputError: if two addresses mean one file.
    """
    survey = FileSurvey(records, root)
    survey.refuse_many(todo, limit, keys, folder)
    for line in survey.lines():
        log.info("%s", line)
    return [_moved(image, survey.paths.elsewhere) for image in todo]


def _file_of(image: Image) -> str:
    """The address of the file, without the entry or region of it that the image may be."""
    return file_of(image.uri)[0]


def _moved(image: Image, elsewhere: Mapping[str, str]) -> Image:
    file, fragment = file_of(image.uri)
    return replace(image, uri=elsewhere[file] + fragment) if file in elsewhere else image


def _format(root: str, uri: str) -> str:
    """The reason why the file at an address has an unreadable format; empty if it can be read.

    A file on a disk may have a wrong ending, so its first bytes decide.
    """
    reason = unreadable_format(uri)
    if not reason or named_files.is_remote(root):
        return reason
    try:
        with PIL.Image.open(below(root, uri)):
            return ""
    except PIL.UnidentifiedImageError:
        return reason
    except (OSError, ValueError):  # opening it for extraction reports the error
        return ""
