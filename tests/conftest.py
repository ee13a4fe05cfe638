"""Shape annotations of the package are checked while tests run; the hook must be there before `vse` is imported."""

import gc
import logging
import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's is 15: next to busy tests its workers hardly get a core
# A run that was started in the background ignores SIGINT, one under nohup SIGHUP, and so would the jobs that tests
# start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

from tests.levels import pytest_collection_modifyitems, pytest_runtest_setup, pytest_runtest_teardown

__all__ = ["pytest_collection_modifyitems", "pytest_runtest_setup", "pytest_runtest_teardown"]

SOURCES = Path(__file__).parents[1] / "platform"
# Modules that state shapes. In others the hook would find none, and checking every call of the language's small
# functions took a third of the time of all tests; their types are the type checker's.
SHAPED = [
    ".".join(path.relative_to(SOURCES).with_suffix("").parts)
    for path in sorted(SOURCES.rglob("*.py"))
    if "from jaxtyping import" in path.read_text(encoding="utf-8")
]
# an int is welcome where a float is asked for, as for type checkers (PEP 484)
install_import_hook(SHAPED, "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

# How long an example takes is the machine's business; the time limit of a whole test stays. The same commit meets the
# same examples every time; `VSE_EXAMPLES=search` looks for new ones.
settings.register_profile("project", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("VSE_EXAMPLES", "project"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without Python's garbage collector, and never look again at what was there before the first test.

    It took 11 of 38 s (in each of five processes of CI) to find nothing among the objects that modules define.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


if TYPE_CHECKING:
    from tests import s3
    from vse.workspace.layout import Workspace


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """What a job sets up for its log lines ends with the test, so that others hear of warnings as before."""
    own = logging.getLogger("vse")
    level, handlers, propagates = own.level, [*own.handlers], own.propagate
    yield
    own.setLevel(level)
    own.handlers[:], own.propagate = handlers, propagates


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    """host:port of a server with an empty bucket, for the tests of a file."""
    from tests import s3

    with s3.server() as place:
        yield place


@pytest.fixture
def s3_proxy(s3_server: str) -> Iterator["s3.Proxy"]:
    """The same behind a proxy whose answers go wrong as a test asks."""
    from tests import s3

    with s3.proxied(s3_server) as found:
        yield found


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], "Workspace"]:
    """Makes workspaces in which stages 1 to 3 of the tiny presets are done; they share these outputs."""
    from vse.presets import preset
    from vse.stages import pipeline
    from vse.workspace.layout import Workspace

    made = tmp_path_factory.mktemp("stages")
    for name in ("univse_tiny", "vsepp_tiny"):
        pipeline.prepare(preset(name), Workspace.open(str(made)), parsed=True)

    def at(folder: Path) -> Workspace:
        folder.mkdir(parents=True)
        for part in ("datasets", "features", "language"):
            (folder / part).symlink_to(made / part)
        return Workspace.open(str(folder))

    return at


@pytest.fixture
def workspace(stages: Callable[[Path], "Workspace"], tmp_path: Path) -> "Workspace":
    """A workspace of this test's own with the stages of the tiny presets done."""
    return stages(tmp_path / "workspace")
