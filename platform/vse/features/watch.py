"""How many images of a data set get no features, whoever makes them: a few are left out, too many end the job."""

import math
from collections.abc import Callable, Sequence

from vse.data.images import MISSING
from vse.display.progress import Progress
from vse.errors import InputError, by_reason, grouped_reasons
from vse.features.store import REJECTS, write_rejects
from vse.storage.folder import Folder


class TooManyRejects(InputError):  # noqa: N818  (reads as the finding it is)
    """More images could not be read than `max_rejected` allows."""


class Watch:
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
        made: int = 0,
    ) -> None:
        """`total` images of the data set, of which a share of `limit` may be rejected; where an image is looked for.

        folder: of the features; where the work is stopped, it gets the list of rejects. keys: those that say where
        images are. made: images that have features from before.
        """
        self.bar, self.total, self.limit, self.folder, self.address = bar, total, limit, folder, address
        self.keys, self.seen = keys, made
        self.rejects: list[tuple[str, str]] = []

    def committed(self, num_images: int, rejects: Sequence[tuple[str, str]]) -> None:
        """A shard with so many images, and those it lacks with their reasons. Raises TooManyRejects."""
        self.rejects += rejects
        self.seen += num_images + len(rejects)
        rejected = len(self.rejects)
        self.bar.advance(num_images + len(rejects), f"{rejected} rejected" if rejected else "")
        if rejected > self.limit * self.total:
            write_rejects(self.folder, self.rejects)
            raise TooManyRejects(self._too_many())

    def _too_many(self) -> str:
        """What is known when the work stops, rarely of the whole data set: numbers say of how many images they are.

        To let images pass is no advice if nearly all fail, or most are missing: then the folder is wrong, or how they
        are named, or what lies there.
        """
        rejected, missing = len(self.rejects), sum(reason == MISSING for _, reason in self.rejects)
        whole = self.seen >= self.total
        count = f"{rejected} of {self.total} images"
        if not whole:
            count = f"of the first {self.seen} of {self.total} images {rejected}"
        reasons = by_reason(reason for _, reason in self.rejects)
        image, reason = self._example()
        one = self.address(image) if reason == MISSING else repr(image)
        more = f": {reason}" if reason not in reasons else ""
        said = [
            f"{count} cannot be read, more than max_rejected={self.limit:g} allows ({reasons})",
            f"for one, {one}{more}",
        ]
        allowed = allowance(rejected, missing, self.seen)
        if self.keys and (2 * missing > rejected or not allowed):
            said.append(f"{', '.join(self.keys)} say where images are")
        said.append(f"{'each' if whole else 'each so far'} is listed in {self.folder.address(REJECTS)}")
        return "; ".join([*said, *allowed])

    def _example(self) -> tuple[str, str]:
        """An image with the most frequent reason."""
        most = set(grouped_reasons(reason for _, reason in self.rejects)[0])
        return next(each for each in reversed(self.rejects) if each[1] in most)


def allowance(rejected: int, missing: int, seen: int) -> list[str]:
    """How to let so many of the images that were seen pass; nothing if most are missing or nearly all fail."""
    enough = max(0.1, math.ceil(10 * rejected / seen) / 10)
    if 2 * missing > seen or enough >= 1:
        return []
    return [f"fix them, or let jobs/extract_features.py pass with extraction.max_rejected={enough:g}"]
