"""Arrays mapped by all processes of a node: made once, within a limit, the longest unused going first."""

import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vse.errors import InputError
from vse.storage import node_cache
from vse.storage.node_cache import make_room, mapped_array

SHAPE = (50, 100)  # 20,000 bytes of single precision


def fill(value: float, made: list[float] | None = None) -> node_cache.Fill:
    def write(values: np.ndarray) -> None:
        values[:] = value
        if made is not None:
            made.append(value)

    return write


def test_made_once_and_mapped_read_only(tmp_path: Path) -> None:
    made: list[float] = []
    mapped_array(tmp_path, "a/x", SHAPE, np.float32, fill(3.0, made))
    values = mapped_array(tmp_path, "a/x", SHAPE, np.float32, fill(3.0, made))
    assert made == [3.0]
    assert isinstance(values, np.memmap)
    assert (values == 3.0).all()
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 1.0
    assert mapped_array(tmp_path, "a/none", (0, 7), np.float16, fill(1.0)).shape == (0, 7)


def test_a_file_cut_short_is_made_again(tmp_path: Path) -> None:
    mapped_array(tmp_path, "x", SHAPE, np.float32, fill(1.0))
    os.truncate(tmp_path / "arrays" / "x.npy", 500)
    assert (mapped_array(tmp_path, "x", SHAPE, np.float32, fill(2.0)) == 2.0).all()
    assert mapped_array(tmp_path, "x", (25, 100), np.float32, fill(4.0)).shape == (25, 100)


def test_the_longest_unused_goes_and_who_has_it_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(node_cache.LIMIT, str(50_000 / 2**30))  # two arrays, not three
    first = mapped_array(tmp_path, "1", SHAPE, np.float32, fill(1.0))
    mapped_array(tmp_path, "2", SHAPE, np.float32, fill(2.0))
    for name, age in (("1", 100), ("2", 50)):
        then = os.stat(tmp_path).st_mtime - age
        os.utime(tmp_path / "arrays" / f"{name}.npy", (then, then))
    mapped_array(tmp_path, "1", SHAPE, np.float32, fill(9.0))  # used: now the younger
    mapped_array(tmp_path, "3", SHAPE, np.float32, fill(3.0))
    assert {file.name for file in (tmp_path / "arrays").glob("*.npy")} == {"1.npy", "3.npy"}
    make_room(tmp_path, 40_000, limit=50_000)
    assert not list((tmp_path / "arrays").glob("*.npy"))
    assert (first == 1.0).all()


def test_what_else_lies_in_the_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user may name a whole scratch disk, with arrays of features on it."""
    monkeypatch.setenv(node_cache.LIMIT, str(30_000 / 2**30))
    (tmp_path / "coco").mkdir()
    for file in (tmp_path / "coco" / "train_ims.npy", tmp_path / "mine.npy"):
        np.save(file, np.zeros(10_000))
        os.utime(file, (1, 1))
    for name in "123":
        mapped_array(tmp_path, name, SHAPE, np.float32, fill(1.0))
    assert {file.name for file in tmp_path.rglob("*.npy")} == {"3.npy", "train_ims.npy", "mine.npy"}


@pytest.mark.parametrize(("needed", "kept"), [(25_000, {"2.npy", "3.npy"}), (28_000, {"3.npy"})])
def test_a_disk_without_room_is_cleared_as_far_as_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needed: int, kept: set[str]
) -> None:
    """A twentieth of it stays free for others."""
    for name in "123":
        mapped_array(tmp_path, name, SHAPE, np.float32, fill(1.0))
        os.utime(tmp_path / "arrays" / f"{name}.npy", (int(name), int(name)))

    class Usage:
        """A disk of 70,000 bytes with nothing else on it."""

        total = 70_000

        @property
        def free(self) -> int:
            return 70_000 - sum(file.stat().st_size for file in (tmp_path / "arrays").glob("*.npy"))

    monkeypatch.setattr(node_cache.shutil, "disk_usage", lambda path: Usage())
    make_room(tmp_path, needed)
    assert {file.name for file in (tmp_path / "arrays").glob("*.npy")} == kept


@pytest.mark.parametrize("text", ["much", "0", "-1", "inf"])
def test_a_limit_that_is_none_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(node_cache.LIMIT, text)
    with pytest.raises(InputError, match=f"VSE_CACHE_GIB={text}: expected a number of GiB above 0"):
        mapped_array(tmp_path, "x", SHAPE, np.float32, fill(1.0))


def _ask(folder: str, number: int, said: Any) -> None:
    values = mapped_array(Path(folder), "shared", SHAPE, np.float32, fill(float(number)))
    said.put(float(values.mean()))


@pytest.mark.process
def test_of_several_processes_one_makes_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    said = context.Queue()
    workers = [context.Process(target=_ask, args=(str(tmp_path), k, said)) for k in range(1, 4)]
    for worker in workers:
        worker.start()
    found = {said.get(timeout=60) for _ in workers}
    for worker in workers:
        worker.join()
    assert len(found) == 1


def test_room_is_not_made_of_what_another_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(node_cache.LIMIT, str(30_000 / 2**30))  # one array, not two

    def write(values: np.ndarray) -> None:
        values[:] = 1.0
        assert (mapped_array(tmp_path, "b/2", SHAPE, np.float32, fill(2.0)) == 2.0).all()

    assert (mapped_array(tmp_path, "a/1", SHAPE, np.float32, write) == 1.0).all()
    assert {file.name for file in tmp_path.rglob("*.npy")} == {"1.npy", "2.npy"}


def test_what_a_dead_process_left_goes_first(tmp_path: Path) -> None:
    mapped_array(tmp_path, "old", SHAPE, np.float32, fill(1.0))
    os.utime(tmp_path / "arrays" / "old.npy", (1, 1))
    (tmp_path / "arrays" / ".writing-0123.npy").write_bytes(bytes(20_000))
    make_room(tmp_path, 20_000, limit=50_000)
    assert {file.name for file in (tmp_path / "arrays").glob("*.npy")} == {"old.npy"}


def test_an_array_that_is_removed_as_soon_as_it_is_there_serves_its_maker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def replace_and_remove(source: Path, target: Path) -> None:
        replace(source, target)
        target.unlink()

    monkeypatch.setattr(node_cache.os, "replace", replace_and_remove)
    assert (mapped_array(tmp_path, "x", SHAPE, np.float32, fill(1.0)) == 1.0).all()


def test_a_limit_that_is_too_small_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(node_cache.LIMIT, str(30_000 / 2**30))
    for name in "12":
        mapped_array(tmp_path, name, SHAPE, np.float32, fill(1.0))
    assert "VSE_CACHE_GIB" not in caplog.text
    for name in "34":
        mapped_array(tmp_path, name, (100, 200), np.float32, fill(1.0))
    assert caplog.text.count("less than the 7.46e-05 GiB that are in use at the same time") == 1
