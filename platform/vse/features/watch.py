"""How many images of a data set get no features, whoever makes them: a few are left out, too many end the job."""

import math
from collections.abc import Callable, Sequence

from vse.data.images import MISSING
from vse.errors import InputError
from vse.progress import Progress


class TooManyRejects(InputError):  # noqa: N818  (reads as the finding it is)
    """More images could not be read than `max_rejected` allows."""


class Watch:
    """Counts committed images for the progress bar and stops the work when too many are rejected."""

    def __init__(
        self,
        bar: Progress,
        total: int,
        limit: float,
        address: Callable[[str], str] = lambda image: image,
        *,
        made: int = 0,
    ) -> None:
        """`total` images of the data set, of which a share of `limit` may be rejected; where an image is looked for.

        made: images that have features from before.
        """
        self.bar, self.total, self.limit, self.address, self.made = bar, total, limit, address, made
        self.rejected = self.missing = 0

    def committed(self, num_images: int, rejects: Sequence[tuple[str, str]]) -> None:
        """A shard with so many images, and those it lacks with their reasons. Raises TooManyRejects."""
        self.rejected, self.made = self.rejected + len(rejects), self.made + num_images
        self.missing += sum(reason == MISSING for _, reason in rejects)
        self.bar.advance(num_images + len(rejects), f"{self.rejected} rejected" if self.rejected else "")
        if self.rejected > self.limit * self.total:
            raise TooManyRejects(self._too_many(*rejects[-1]))

    def _too_many(self, image: str, reason: str) -> str:
        if not self.made and self.missing == self.rejected:
            return (
                f"the first {self.rejected} of {self.total} images are missing; for one, {self.address(image)}; "
                "data.root, data.file and data.images say where they are"
            )
        enough = max(0.1, math.ceil(10 * self.rejected / self.total) / 10)
        return (
            f"{self.rejected} of {self.total} images cannot be read, more than max_rejected={self.limit:g} allows; "
            f"for one, {image!r}: {reason}; fix them, or let jobs/extract_features.py pass with "
            f"extraction.max_rejected={enough:g}"
        )
