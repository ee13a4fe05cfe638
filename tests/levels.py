"""Levels of tests: only those marked `process` may start processes, servers or Ray, which `make test` leaves out.

The mark is held by an audit hook: a test without it that starts something fails and says so.
"""

import sys
from collections.abc import Generator
from typing import Any

import pytest

LEVELS = ("process", "slow", "benchmark")
SERVERS = ("s3_server", "s3_proxy")  # fixtures; whoever uses one is marked
STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system")
# What provenance and the modules `platform` and `ctypes` of Python ask, and matplotlib when it first looks for fonts.
ALLOWED = ("git", "uname", "ldconfig", "fc-list")

_started: list[str] = []


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
    """Mark what uses the fixture of a server."""
    for item in items:
        if set(SERVERS) & set(getattr(item, "fixturenames", ())):
            item.add_marker("process")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Count from here, fixtures of the whole file included."""
    _started.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that started something and has no mark."""
    yield
    if _started and not any(item.get_closest_marker(level) for level in LEVELS):
        pytest.fail(f"this test starts {_started[0]}: mark it `process`", pytrace=False)
