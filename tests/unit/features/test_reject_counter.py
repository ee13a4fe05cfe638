"""A few rejects are counted, too many end the work in one line that says of how many images, and what to do."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from vse.data.images import MISSING
from vse.display.progress import Progress
from vse.features.rejects import RejectCounter, TooManyRejects
from vse.storage.folder import Folder

KEYS = ("data.root", "data.file")
Attempt = Callable[..., RejectCounter]


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """Commits shards, each of so many images and rejects, to a counter of so many images."""

    def made(
        total: int, limit: float, *shards: tuple[int, Sequence[tuple[str, str]]], before: int = 0
    ) -> RejectCounter:
        with Progress("features", total=total - before, unit="images", out=io.StringIO()) as bar:
            folder = Folder.open(tmp_path)
            counter = RejectCounter(
                bar, total, limit, folder, lambda image: f"/photos/{image}.jpg", keys=KEYS, done=before
            )
            for num_images, rejects in shards:
                counter.committed(num_images, rejects)
                assert bar.done + before == counter.seen
        return counter

    return made


def some(count: int, reason: str) -> list[tuple[str, str]]:
    return [(str(k), reason) for k in range(count)]


def test_the_share_is_of_the_whole_data_set(attempt: Attempt, tmp_path: Path) -> None:
    first = (8, [("a", "file is empty"), ("b", MISSING)])
    assert attempt(100, 0.02, first, before=70).seen == 80
    assert not list(tmp_path.iterdir())
    said = (
        r"^of the first 90 of 100 images 3 cannot be read, more than max_rejected=0\.02 allows \(2 x file is empty, "
        r"1 x file is missing\); for one, 'c'; each so far is listed in "
        rf"{tmp_path}/rejects\.parquet; fix them, or .*max_rejected=0\.1$"
    )
    with pytest.raises(TooManyRejects, match=said):
        attempt(100, 0.02, first, (9, [("c", "file is empty")]), before=70)
    listed = pq.read_table(tmp_path / "rejects.parquet").to_pylist()
    assert [tuple(row.values()) for row in listed] == [*first[1], ("c", "file is empty")]


@pytest.mark.parametrize(("rejected", "enough"), [(1, "0.1"), (11, "0.2"), (90, "0.9")])
def test_what_it_names_would_let_them_pass(attempt: Attempt, rejected: int, enough: str) -> None:
    shard = (100 - rejected, some(rejected, "file is empty"))
    with pytest.raises(TooManyRejects, match=rf"^{rejected} of 100 images cannot be read.*max_rejected={enough}$"):
        attempt(100, 0.0, shard)
    attempt(100, float(enough), shard)


@pytest.mark.parametrize("readable", [0, 5])
def test_where_nearly_every_image_fails_the_reason_and_the_keys_are_named_instead(
    attempt: Attempt, readable: int
) -> None:
    said = (
        rf"^{100 - readable} of 100 images cannot be read, .* allows \({98 - readable} x is a Git LFS pointer, 2 x "
        r"file is empty\); for one, '\d+'; data\.root, data\.file say where images are; each "
        r"is listed in \S+/rejects\.parquet$"
    )
    rejects = [*some(98 - readable, "is a Git LFS pointer"), *some(2, "file is empty")]
    with pytest.raises(TooManyRejects, match=said):
        attempt(100, 0.05, (readable, rejects))


def test_a_format_that_has_to_be_converted_is_no_reason_to_raise_the_limit(attempt: Attempt) -> None:
    heic = "HEIC file, which cannot be read here; convert it to JPEG"
    said = rf"^6 of 20 images cannot be read, .* \(6 x {heic}\); for one, '5'; each is listed in \S+/rejects\.parquet$"
    with pytest.raises(TooManyRejects, match=said):
        attempt(20, 0.05, (14, some(6, heic)))


def test_what_it_names_lets_as_many_of_the_others_pass(attempt: Attempt) -> None:
    """A share of what was seen: one of the whole data set would have to be raised again and again."""
    with pytest.raises(TooManyRejects, match=r"^of the first 20 of 100 images 6 cannot be read.*max_rejected=0\.3$"):
        attempt(100, 0.05, (14, some(6, "file is empty")))


@pytest.mark.parametrize("found", [0, 1, 13])
def test_where_most_images_are_missing_the_keys_are_named_instead(attempt: Attempt, found: int) -> None:
    said = (
        rf"^of the first {16 + found} of 152 images 16 cannot be read, .* \(15 x file is missing, 1 x file is empty\); "
        r"for one, /photos/14\.jpg; data\.root, data\.file say where images are; each so far is listed in \S+$"
    )
    with pytest.raises(TooManyRejects, match=said):
        attempt(152, 0.05, (found, [*some(15, MISSING), ("x", "file is empty")]))


def test_where_most_images_are_there_some_may_be_missing(attempt: Attempt) -> None:
    for before, shard, enough in ((90, (0, some(10, MISSING)), "0.1"), (0, (19, some(11, MISSING)), "0.4")):
        said = rf"for one, /photos/\d+\.jpg; data\.root, data\.file say where images are; .*max_rejected={enough}$"
        with pytest.raises(TooManyRejects, match=said):
            attempt(100, 0.05, shard, before=before)


def test_the_example_says_what_varies(attempt: Attempt) -> None:
    cut = [(f"{k}.jpg", f"image file is truncated ({k} bytes not processed)") for k in range(6)]
    said = r"\(6 x image file is truncated \(… bytes not processed\)\); for one, '5\.jpg': image file is .* \(5 bytes"
    with pytest.raises(TooManyRejects, match=said):
        attempt(100, 0.05, (94, cut))
