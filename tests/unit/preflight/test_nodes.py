"""What a node must have: each expectation met, and each shown to fail."""

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vse.preflight.nodes import _skew, check_nodes, check_this_machine, facts, judge
from vse.workspace.provenance import versions

GOOD: dict[str, Any] = {
    "versions": {"torch": "2.14.1", "ray": "2.60.0"},
    "gpus": ["A10G"],
    "cuda": "",
    "disk": {"/home": 100.0, "/tmp": 50.0},
    "shared": 8.0,
    "workspace": "",
}
EXPECTED = {"torch": "2.14.1", "ray": "2.60.0"}


def test_a_good_node_has_no_problem() -> None:
    found = list(judge("10.0.0.2", GOOD, EXPECTED, 1.0))
    assert {check.what for check in found} == {"versions", "GPUs", "disk", "shared memory", "workspace"}
    assert {(check.state, check.where) for check in found} == {("ok", "10.0.0.2")}


@pytest.mark.parametrize(
    ("changes", "ray_gpus", "words"),
    [
        ({"versions": {"torch": "2.13.0", "ray": "2.60.0"}}, 1, "versions: torch 2.13.0, not 2.14.1"),
        ({"versions": {"torch": "2.14.1"}}, 1, "versions: ray missing, not 2.60.0"),
        ({"gpus": []}, 1, "GPUs: Ray offers 1, the driver reports none"),
        ({"cuda": "CUDA driver version is insufficient"}, 1, "GPUs: A10G: CUDA driver version is insufficient"),
        ({"gpus": ["A10G", "A10G"]}, 1, "GPUs: A10G: Ray offers 1 of 2"),
        ({"disk": {"/home": 100.0, "/tmp": 3.0}}, 1, "disk: 3 GiB free in /tmp, at least 10"),
        ({"shared": 0.06}, 1, "shared memory: 0.1 GiB free in /dev/shm; give containers"),
        ({"workspace": "s3://b: cannot be written to (403)"}, 1, "workspace: s3://b: cannot be written to (403)"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], ray_gpus: float, words: str) -> None:
    wrong = [check for check in judge("n", {**GOOD, **changes}, EXPECTED, ray_gpus) if check.state == "problem"]
    assert len(wrong) == 1
    assert f"{wrong[0].what}: {wrong[0].detail}".startswith(words)


def test_a_system_without_shared_memory_is_not_judged() -> None:
    (check,) = [check for check in judge("n", {**GOOD, "shared": None}, EXPECTED, 1) if check.what == "shared memory"]
    assert check.state == "not checked"


def test_facts_of_this_machine(tmp_path: Path) -> None:
    found = facts(str(tmp_path / "w"))
    assert found["versions"] == versions()
    assert all(free > 0 for free in found["disk"].values())
    assert found["workspace"] == ""
    (tmp_path / "file").write_text("")
    assert re.search("file", facts(str(tmp_path / "file" / "w"))["workspace"])
    assert {check.where for check in check_this_machine(str(tmp_path / "w"))} == {"this machine"}


@pytest.mark.parametrize(
    ("disk", "state", "words"),
    [
        ({"/nonexistent": None, "/tmp": 50.0}, "ok", "50 GiB free in /tmp; /nonexistent does not exist or cannot be"),
        ({"/nonexistent": None, "/tmp": 3.0}, "problem", "3 GiB free in /tmp, at least 10 are needed; /nonexistent"),
        ({"/nonexistent": None, "/tmp": None}, "not checked", "/nonexistent does not exist or cannot be read; /tmp"),
    ],
)
def test_missing_folders_are_named(disk: dict[str, float | None], state: str, words: str) -> None:
    (check,) = [check for check in judge("n", {**GOOD, "disk": disk}, EXPECTED, 1) if check.what == "disk"]
    assert check.state == state
    assert check.detail.startswith(words)


def test_a_user_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    disk = facts(str(tmp_path / "w"))["disk"]
    assert disk["/nonexistent"] is None
    assert disk["/tmp"] > 0


@pytest.fixture
def two_nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ray with two nodes; the second one has `elsewhere` where the first has `head`, if that is in a path."""
    import ray

    nodes = [
        {"NodeID": 56 * digit, "NodeManagerAddress": f"10.0.0.{digit}", "Alive": True, "Resources": {}}
        for digit in "12"
    ]

    def probe(second: bool) -> SimpleNamespace:
        def there(path: str) -> str:
            return path.replace(f"{tmp_path}/head", f"{tmp_path}/elsewhere") if second else path

        of_node = SimpleNamespace(remote=lambda *paths: facts(*map(there, paths)))
        return SimpleNamespace(facts=of_node, clock=SimpleNamespace(remote=time.time))

    def options(scheduling_strategy: Any) -> SimpleNamespace:
        second = scheduling_strategy.node_id == nodes[1]["NodeID"]
        return SimpleNamespace(remote=lambda: probe(second))

    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    monkeypatch.setattr(ray, "get", lambda answer, timeout: answer)
    monkeypatch.setattr(ray, "remote", lambda **_: lambda _: SimpleNamespace(options=options))


@pytest.mark.usefixtures("two_nodes")
def test_a_workspace_that_nodes_do_not_share_is_a_problem(tmp_path: Path) -> None:
    def rows(workspace: Path) -> dict[str, tuple[str, str]]:
        checks = check_nodes(str(workspace))
        return {check.where: (check.state, check.detail) for check in checks if check.what == "workspace"}

    apart = rows(tmp_path / "head")
    assert apart["10.0.0.1"][0] == "ok"
    state, detail = apart["10.0.0.2"]
    assert state == "problem"
    assert "this node does not see this folder; name an s3:// address" in detail
    assert {state for state, _ in rows(tmp_path / "shared").values()} == {"ok"}
    assert [*(tmp_path / "head").iterdir()] == [*(tmp_path / "shared").iterdir()] == []
    (tmp_path / "file").write_text("")
    assert {state for state, _ in rows(tmp_path / "file" / "w").values()} == {"problem"}


def test_skew_is_found_within_its_uncertainty() -> None:
    def ahead() -> float:
        time.sleep(0.002)
        return time.time() + 3.5

    skew, sure = _skew(ahead)
    assert sure < 1
    assert abs(skew - 3.5) <= sure + 1e-3
