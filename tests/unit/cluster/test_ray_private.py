"""The private names of Ray that the project uses: that they exist, and what the two that need a running Ray do.

If a test here fails after Ray was updated: read `platform/vse/cluster/ray_private.py` next to Ray's new source, correct
what has changed there and nowhere else, run the tests of `tests/unit/cluster`, `tests/unit/sweeps` and
`tests/cluster`, then set `CHECKED` to the new release.
"""

import importlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray

from vse.cluster import ray_private
from vse.errors import InputError

pytestmark = pytest.mark.timeout(120)
ADVICE = "see the first lines of tests/unit/cluster/test_ray_private.py"


def test_the_installed_release_is_the_checked_one(caplog: pytest.LogCaptureFixture) -> None:
    assert ray.__version__ == ray_private.CHECKED, ADVICE
    ray_private.warn_of_version.cache_clear()
    ray_private.warn_of_version()
    assert caplog.text == ""


@pytest.mark.parametrize("name", [*ray_private.NAMES, *ray_private.TRAIN_NAMES])
def test_a_private_name_exists(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute), ADVICE


def test_another_release_is_warned_of_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(ray_private, "CHECKED", "0.1")
    ray_private.warn_of_version.cache_clear()
    for _ in range(2):
        ray_private.warn_of_version()
    assert caplog.text.count("this project was checked with 0.1 (constraints.txt)") == 1
    ray_private.warn_of_version.cache_clear()


@pytest.mark.parametrize("late", [2, 10**9])
def test_a_raylet_has_longer_to_register(late: int, monkeypatch: pytest.MonkeyPatch) -> None:
    services = importlib.import_module("ray._private.services")
    tries = list[str]()

    def get_node(address: str, node: str) -> str:
        tries.append(node)
        if len(tries) <= late:
            raise RuntimeError("node not found")  # as Ray does
        return "its addresses"

    monkeypatch.setattr(services, "get_node", get_node)
    with ray_private.patient_start(0.3):
        if late == 2:
            assert services.get_node("127.0.0.1:1", node="abc") == "its addresses"
        else:
            with pytest.raises(RuntimeError, match="node not found"):
                services.get_node("127.0.0.1:1", node="abc")
    assert len(tries) > 2
    assert services.get_node is get_node


def test_a_name_that_is_gone_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("ray._private.services.canonicalize_bootstrap_address")
    message = r"^Ray [\d.]+: has no ray\._private\.services\.canonicalize_bootstrap_address.*install that release"
    with pytest.raises(InputError, match=message):
        ray_private.address_of_cluster()


@pytest.fixture(scope="module")
def two_cpus() -> Iterator[None]:
    from vse.cluster.runtime import Config, running_ray

    with running_ray(Config(address="local", cpus=2, store_mib=80)):
        yield


class _Maker:
    """As the process of Ray Train's that asks for the places of a training."""

    def make(self, cpus: float) -> str:
        from ray.util.placement_group import placement_group

        place = placement_group([{"CPU": cpus}] * 2)
        place.wait(1)
        return place.id.hex()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.usefixtures("two_cpus")
def test_places_whose_maker_was_killed_are_free_again() -> None:
    """Those that it had, and those that it waited for; others' stay."""
    import ray
    from ray.util.placement_group import placement_group, placement_group_table

    from vse.cluster.ray_private import remove_orphaned_placement_groups

    def states() -> dict[str, str]:
        return {name: group["state"] for name, group in placement_group_table().items()}

    remote: Any = ray.remote(num_cpus=0)(_Maker)
    killed, living = remote.remote(), remote.remote()
    asked: list[Any] = [killed.make.remote(0.5), killed.make.remote(8.0), living.make.remote(0.25)]
    has, waits, other = ray.get(asked)
    mine = placement_group([{"CPU": 0.25}])
    assert mine.wait(10)
    assert remove_orphaned_placement_groups() == 0
    ray.kill(killed)
    deadline = time.monotonic() + 20
    while remove_orphaned_placement_groups() < 2:
        assert time.monotonic() < deadline, states()
        time.sleep(0.1)
    assert [states()[name] for name in (has, waits)] == ["REMOVED", "REMOVED"]
    assert [states()[name] for name in (other, mine.id.hex())] == ["CREATED", "CREATED"]
    assert placement_group([{"CPU": 1.0}]).wait(10)  # of two, of which a quarter and two quarters are others'
