"""Levels of tests: `make test` leaves out those marked `process`, which may start processes, servers or Ray, and
those marked `seconds`, which take a second or more. `make test-process` runs these, but what is marked `slow`.

A test without a mark that starts something, or computes for many seconds, fails and says so. Of a test with many
parameters, a few that differ in kind are for every push, and the others `slow`.
"""

import sys
import time
from collections.abc import Generator, Iterable
from typing import Any

import pytest

LEVELS = ("process", "slow", "benchmark")
MOST_SECONDS = 15.0  # of computing: fifteen times what a test without a mark may take on a quiet machine
SERVERS = ("s3_server", "s3_proxy")  # fixtures; whoever uses one is marked
STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system")
# What provenance and the modules `platform` and `ctypes` of Python ask, and matplotlib when it first looks for fonts.
ALLOWED = ("git", "uname", "ldconfig", "fc-list")

BEGUN = pytest.StashKey[float]()
_started: list[str] = []


def slow(cases: Iterable[Any]) -> list[Any]:
    """Parameters of a test at level `slow`; a tuple has a value for each of several arguments."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow) for case in cases]


def slow_but(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """Parameters of a test, all of them at level `slow` but those that are kept for every push."""
    every = list(cases)
    unknown = [case for case in kept if case not in every]
    assert not unknown, f"no parameters: {unknown}"
    return [case if case in kept else slow([case])[0] for case in every]


def selected(request: pytest.FixtureRequest, argument: str) -> set[Any]:
    """The values that an argument takes in the tests of this call that use this fixture of their file: it makes what
    they need and no more."""
    found = set[Any]()
    for item in request.session.items:
        call = getattr(item, "callspec", None)
        if call is None or item.path != request.path or request.fixturename not in getattr(item, "fixturenames", ()):
            continue
        found |= {value for name, value in call.params.items() if name == argument}
    return found


def started(event: str, args: tuple[Any, ...]) -> str:
    """What an audit event says was started; empty if it is nothing that needs the mark."""
    if event in STARTS:
        command = str(args[0]) if args else ""
        return "" if command.rpartition("/")[2] in ALLOWED else f"{event} {command}".rstrip()
    if event == "socket.bind" and isinstance(args[1], tuple) and args[1][0] != "::1":  # urllib3 looks for IPv6 so
        return f"a server at {args[1][0]}"
    return ""


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if what := started(event, args):
        _started.append(what)


sys.addaudithook(_watch)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the fixture of a server, and put files that start processes first: one of their tests takes up to
    two minutes, and at the end of a run one worker would wait for the other."""
    for item in items:
        if set(SERVERS) & set(getattr(item, "fixturenames", ())):
            item.add_marker("process")
    starting = {item.path for item in items if item.get_closest_marker("process")}
    items.sort(key=lambda item: item.path not in starting)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Count from here, fixtures of the whole file included."""
    _started.clear()
    item.stash[BEGUN] = time.process_time()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that started something or took long and has no mark."""
    yield
    seconds = time.process_time() - item.stash[BEGUN]
    if seconds > MOST_SECONDS and not any(item.get_closest_marker(level) for level in ("seconds", *LEVELS)):
        pytest.fail(f"this test computes for {seconds:.0f} s: mark it `seconds`", pytrace=False)
    if _started and not any(item.get_closest_marker(level) for level in LEVELS):
        pytest.fail(f"this test starts {_started[0]}: mark it `process`", pytrace=False)
