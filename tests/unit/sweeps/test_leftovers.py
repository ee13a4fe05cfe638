"""Places that a killed process held for others, on a Ray of two CPUs."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(120)


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


@pytest.mark.usefixtures("two_cpus")
def test_places_whose_maker_was_killed_are_free_again() -> None:
    """Those that it had, and those that it waited for; others' stay."""
    import ray
    from ray.util.placement_group import placement_group, placement_group_table

    from vse.sweeps.leftovers import give_back_places

    def states() -> dict[str, str]:
        return {name: group["state"] for name, group in placement_group_table().items()}

    remote: Any = ray.remote(num_cpus=0)(_Maker)
    killed, living = remote.remote(), remote.remote()
    asked: list[Any] = [killed.make.remote(0.5), killed.make.remote(8.0), living.make.remote(0.25)]
    has, waits, other = ray.get(asked)
    mine = placement_group([{"CPU": 0.25}])
    assert mine.wait(10)
    assert give_back_places() == 0
    ray.kill(killed)
    deadline = time.monotonic() + 20
    while give_back_places() < 2:
        assert time.monotonic() < deadline, states()
        time.sleep(0.1)
    assert [states()[name] for name in (has, waits)] == ["REMOVED", "REMOVED"]
    assert [states()[name] for name in (other, mine.id.hex())] == ["CREATED", "CREATED"]
    assert placement_group([{"CPU": 1.0}]).wait(10)  # of two, of which a quarter and two quarters are others'
