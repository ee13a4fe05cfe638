"""Which errors are a disk's, wherever they come from; and what a job says of them."""

import errno
import os

import pytest

from vse.cli import command
from vse.errors import PlacementError, StorageError, by_reason, first_line, storage_failure


class WrappedError(Exception):
    """What Ray makes of an error of another process."""

    def __init__(self, cause: Exception) -> None:
        super().__init__("a page of text")
        self.cause = cause


def full(path: str = "/data/x") -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def chained(error: Exception, *, explicit: bool) -> Exception:
    try:
        try:
            raise error
        except Exception as first:
            if explicit:
                raise RuntimeError("later") from first
            raise KeyError("while handling it")  # noqa: B904  (the implicit chain is what is tested)
    except Exception as last:
        return last


@pytest.mark.parametrize(
    "error",
    [
        full(),
        WrappedError(full()),
        WrappedError(WrappedError(full())),
        chained(full(), explicit=True),
        chained(full(), explicit=False),
    ],
)
def test_a_full_disk_is_found_behind_what_wraps_it(error: Exception) -> None:
    assert storage_failure(error) == "/data/x: No space left on device"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError("\n  one  \ntwo"), "one  "),
        (RuntimeError(), "RuntimeError"),
        (KeyError("k"), "'k'"),
    ],
)
def test_the_first_line_of_an_error(error: Exception, line: str) -> None:
    assert first_line(error) == line


def test_its_own_line_is_kept() -> None:
    assert storage_failure(WrappedError(StorageError("/w/runs: cannot write a (x)"))) == "/w/runs: cannot write a (x)"


@pytest.mark.parametrize(
    "error", [None, ValueError("x"), FileNotFoundError(2, "no", "f"), WrappedError(ValueError("y"))]
)
def test_other_errors_are_no_disk(error: Exception | None) -> None:
    assert storage_failure(error) == ""


def test_an_error_that_comes_from_itself_ends() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert storage_failure(one) == ""


def test_a_job_says_one_line_and_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    def run(request: command.Request) -> str:
        raise WrappedError(StorageError("/w/runs/r: cannot write model.safetensors (No space left on device)"))

    assert command.main("train", run, description="", argv=[]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert line.startswith("train: /w/runs/r: cannot write model.safetensors (No space left on device); finished work")


def test_nodes_that_never_came_are_one_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    def run(request: command.Request) -> str:
        raise PlacementError("train.gpus_per_worker=1: no node started")

    assert command.main("train", run, description="", argv=[]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("train: train.gpus_per_worker=1: no node started; finished work")


def test_reasons_are_counted_by_kind() -> None:
    cut = [f"cannot be decoded: OSError: image file is truncated ({k} bytes not processed)" for k in range(3)]
    outside = [f"/photos/{k}: {k}.jpg: leaves its root data; image paths must stay below it" for k in "ab"]
    assert by_reason(["file is empty"]) == "1 x file is empty"
    assert by_reason(["file is empty", *cut]) == (
        "3 x cannot be decoded: OSError: image file is truncated (… bytes not processed), 1 x file is empty"
    )
    assert by_reason(outside) == "2 x leaves its root data; image paths must stay below it"
    assert by_reason(outside[:1] * 2) == f"2 x {outside[0]}"
    assert by_reason("abcdbe") == "2 x b, 1 x a, 1 x c, 1 x d, ..."
    assert by_reason([]) == ""
