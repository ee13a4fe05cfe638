"""How many images of a data set get no features, whoever makes them: a few are left out, too many end the job."""

import math
from collections.abc import Sequence

from vse.errors import InputError
from vse.progress import Progress


class TooManyRejects(InputError):  # noqa: N818  (reads as the finding it is)
    """More images could not be read than `max_rejected` allows."""


class Watch:
    """Counts committed images for the progress bar and stops the work when too many are rejected."""

    def __init__(self, bar: Progress, total: int, limit: float) -> None:
        """`total` images of the data set, of which a share of `limit` may be rejected."""
        self.bar, self.total, self.limit, self.rejected = bar, total, limit, 0

    def committed(self, num_images: int, rejects: Sequence[tuple[str, str]]) -> None:
        """A shard with so many images, and those it lacks with their reasons. Raises TooManyRejects."""
        self.rejected += len(rejects)
        self.bar.advance(num_images + len(rejects), f"{self.rejected} rejected" if self.rejected else "")
        if self.rejected > self.limit * self.total:
            raise _too_many(self.rejected, self.total, self.limit, rejects[-1])


def _too_many(num: int, total: int, limit: float, example: tuple[str, str]) -> TooManyRejects:
    return TooManyRejects(
        f"{num} of {total} images cannot be read, more than max_rejected={limit:g} allows; "
        f"for one, {example[0]!r}: {example[1]}; mend them, or let jobs/extract_features.py pass with "
        f"extraction.max_rejected={max(0.1, math.ceil(10 * num / total) / 10):g}"
    )
