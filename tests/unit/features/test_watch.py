"""A few rejects are counted, too many end the work in one line that says how to let them pass."""

import io

import pytest

from vse.data.images import MISSING
from vse.features.watch import TooManyRejects, Watch
from vse.progress import Progress


def test_the_share_is_of_the_whole_data_set() -> None:
    with Progress("features", total=30, unit="images", out=io.StringIO()) as bar:  # 70 were there before
        watch = Watch(bar, 100, 0.02)
        watch.committed(8, [("a", "file is empty"), ("b", "file is missing")])
        assert (bar.done, watch.rejected) == (10, 2)
        said = r"^3 of 100 images cannot .* max_rejected=0\.02 .* one, 'c': file is empty; .*max_rejected=0\.1$"
        with pytest.raises(TooManyRejects, match=said):
            watch.committed(9, [("c", "file is empty")])


@pytest.mark.parametrize(("rejected", "enough"), [(1, "0.1"), (11, "0.2"), (100, "1")])
def test_what_it_names_would_let_them_pass(rejected: int, enough: str) -> None:
    reasons = [(str(k), "file is empty") for k in range(rejected)]
    with Progress("features", out=io.StringIO()) as bar, pytest.raises(TooManyRejects, match=f"max_rejected={enough}$"):
        Watch(bar, 100, 0.0).committed(0, reasons)
    with Progress("features", out=io.StringIO()) as bar:
        Watch(bar, 100, float(enough)).committed(0, reasons)


def test_where_no_image_is_there_the_folder_is_asked_for() -> None:
    with Progress("features", out=io.StringIO()) as bar:
        watch = Watch(bar, 60, 0.05, lambda image: f"/photos/{image}.jpg")
        said = r"^the first 16 of 60 images are missing; for one, /photos/15\.jpg; data\.root, data\.file and"
        with pytest.raises(TooManyRejects, match=said):
            watch.committed(0, [(str(k), MISSING) for k in range(16)])
    with Progress("features", out=io.StringIO()) as bar:
        watch = Watch(bar, 60, 0.05, lambda image: f"/photos/{image}.jpg")
        watch.committed(1, [])
        with pytest.raises(TooManyRejects, match=r"16 of 60 images cannot be read"):
            watch.committed(0, [(str(k), MISSING) for k in range(16)])


def test_where_images_are_there_but_for_those_left_to_do_the_folder_is_right() -> None:
    some = [(str(k), MISSING) for k in range(10)]
    for made, rejects, enough in ((90, some, "0.1"), (0, [("a", "file is empty"), *some], "0.2")):
        said = f"max_rejected={enough}$"
        with Progress("features", out=io.StringIO()) as bar, pytest.raises(TooManyRejects, match=said):
            Watch(bar, 100, 0.05, made=made).committed(0, rejects)
