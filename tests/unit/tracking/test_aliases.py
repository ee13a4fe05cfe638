"""Whose an alias is: the latest offer's, in whatever order and however often journals come to a real registry."""

import json
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tracking.test_shipping import client
from vse.storage.folder import Folder
from vse.tracking import models
from vse.tracking.shipping import ship_all
from vse.workspace.journal import FILE_NAME, Journal

pytestmark = pytest.mark.seconds

MODEL, ALIAS = "univse-scenes", "selected"
ADDRESS = f"models:/{MODEL}@{ALIAS}"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of a file or two, without the package's code; offers a second apart."""
    monkeypatch.setattr(models, "save", lambda packed, target: shutil.copytree(packed, target))
    seconds = count(1_700_000_000)
    monkeypatch.setattr("vse.workspace.journal.time.time_ns", lambda: next(seconds) * 10**9)


def offer(workspace: Path, run: str, digest: str = "") -> str:
    """A run that offers a pack; returns its digest."""
    digest = digest or f"{run}{run}"
    packed = Folder.open(workspace).child("runs", run, "served", digest)
    packed.write_text("weights", digest)
    packed.commit_manifest(["weights"])
    book = Journal(workspace / "runs" / run / FILE_NAME)
    book.start(run)
    book.model(MODEL, alias=ALIAS, path=f"served/{digest}", digest=digest)
    book.end()
    return digest


def forget(workspace: Path) -> None:
    """As on a second machine: what was shipped is not known any more."""
    (workspace / "mlflow" / "shipped-embedded.json").unlink()


def held(workspace: Path) -> str:
    return client(workspace).get_model_version_by_alias(MODEL, ALIAS).tags["vse.digest"]


def versions(workspace: Path) -> dict[str, str]:
    return {v.tags["vse.digest"]: v.version for v in client(workspace).search_model_versions(f"name='{MODEL}'")}


@pytest.mark.slow
def test_journals_that_come_again_leave_the_alias_where_it_is(workspace: Path) -> None:
    offer(workspace, "s1")
    assert ship_all(str(workspace)).models == {ADDRESS: 1}
    offer(workspace, "s0")
    assert ship_all(str(workspace)).models == {ADDRESS: 2}
    forget(workspace)
    shipped = ship_all(str(workspace))
    assert (shipped.runs, shipped.models, shipped.trouble) == (2, {ADDRESS: 2}, "")
    assert held(workspace) == "s0s0"
    assert set(versions(workspace)) == {"s0s0", "s1s1"}


@pytest.mark.seconds
@pytest.mark.parametrize("last", ["s0", "s1"])
def test_a_lost_registry_gets_every_version_and_the_alias_of_the_latest_offer(workspace: Path, last: str) -> None:
    """And one whose offers were all made while its server was away."""
    for run in sorted(("s0", "s1"), key=lambda run: run == last):
        offer(workspace, run)
    shipped = ship_all(str(workspace))
    assert held(workspace) == last * 2
    assert set(versions(workspace)) == {"s0s0", "s1s1"}
    assert shipped.models == {ADDRESS: int(versions(workspace)[last * 2])}


def test_an_offer_made_before_the_one_that_has_the_alias_comes_too_late(workspace: Path) -> None:
    """Its journal is not read together with the other's, which has nothing to send."""
    offer(workspace, "s1")
    hidden = workspace / "hidden"
    (workspace / "runs" / "s1").rename(hidden)
    offer(workspace, "s0")
    assert ship_all(str(workspace)).models == {ADDRESS: 1}
    hidden.rename(workspace / "runs" / "s1")
    shipped = ship_all(str(workspace))
    assert (shipped.runs, shipped.models, shipped.trouble) == (1, {}, "")
    assert held(workspace) == "s0s0"
    assert set(versions(workspace)) == {"s0s0", "s1s1"}


def test_what_is_offered_again_gets_the_alias_again(workspace: Path) -> None:
    for run in ("s0", "s1", "s0"):
        offer(workspace, run)
        ship_all(str(workspace))
        assert held(workspace) == run * 2
    assert len(versions(workspace)) == 2


@pytest.mark.seconds
def test_an_alias_that_somebody_moved_waits_for_a_new_offer(workspace: Path) -> None:
    for run in ("s0", "s1"):
        offer(workspace, run)
    ship_all(str(workspace))
    client(workspace).set_registered_model_alias(MODEL, ALIAS, versions(workspace)["s0s0"])
    forget(workspace)
    ship_all(str(workspace))
    assert held(workspace) == "s0s0"
    offer(workspace, "s1")
    ship_all(str(workspace))
    assert held(workspace) == "s1s1"


@pytest.mark.seconds
@pytest.mark.parametrize("tag", [None, "yesterday"])
def test_an_alias_without_a_time_goes_to_the_latest_offer(workspace: Path, tag: str | None) -> None:
    """As registries have it that were filled before the time was kept."""
    for run in ("s1", "s0"):
        offer(workspace, run)
    ship_all(str(workspace))
    found: Any = client(workspace)
    found.delete_registered_model_tag(MODEL, f"vse.offered.{ALIAS}")
    if tag is not None:
        found.set_registered_model_tag(MODEL, f"vse.offered.{ALIAS}", tag)
    forget(workspace)
    ship_all(str(workspace))
    assert held(workspace) == "s0s0"


def test_an_alias_whose_version_was_deleted_comes_back(workspace: Path) -> None:
    offer(workspace, "s0")
    ship_all(str(workspace))
    client(workspace).delete_model_version(MODEL, "1")
    forget(workspace)
    assert ship_all(str(workspace)).models == {ADDRESS: 2}
    assert held(workspace) == "s0s0"
    assert json.loads((workspace / "mlflow" / "shipped-embedded.json").read_text()).keys() == {"runs/s0"}
