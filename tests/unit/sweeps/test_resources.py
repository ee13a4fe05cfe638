"""How many trials fit side by side."""

import pytest

from vse.cluster.capacity import Capacity, Kind
from vse.errors import InputError
from vse.sweeps.resources import Resources


def test_how_many_trials_fit() -> None:
    assert Resources().at_once({"CPU": 3.0}) == 3
    assert Resources().at_once({"CPU": 3.0}, wished=2) == 2
    assert Resources(cpus=2).at_once({"CPU": 3.0}) == 1
    assert Resources(cpus=1, gpus=0.5).at_once({"CPU": 16.0, "GPU": 2.0}) == 4
    # two workers of one CPU each and a driver: never so many drivers that no worker can start
    assert Resources(cpus=2, workers=2).at_once({"CPU": 4.3}) == 2
    assert Resources(cpus=2, workers=2).at_once({"CPU": 4.0}) == 1
    assert Resources(cpus=2, workers=2).of_trial() == {"CPU": 0.1}
    with pytest.raises(InputError, match="a trial needs 4 CPUs and 0 GPUs, the cluster has 2 and 0"):
        Resources(cpus=4).at_once({"CPU": 2.0})
    with pytest.raises(InputError, match="1 GPUs, the cluster has 8 and 0"):
        Resources(gpus=1).at_once({"CPU": 8.0})


def test_trials_of_several_workers_have_places_on_nodes_and_not_in_sums() -> None:
    hosts = Capacity((Kind(8.0, count=4),))

    def at_once(workers: int, threads: int) -> int:
        need = Resources(cpus=float(workers * threads), workers=workers)
        return need.at_once(need.most(hosts))

    assert at_once(2, 3) == 4  # two places on each host, though 32 CPUs are those of five trials
    assert at_once(2, 4) == 3  # the drivers of four would take the place of a worker
    assert at_once(8, 3) == 1
    with pytest.raises(InputError, match="needs 9 workers of 3 CPUs and 0 GPUs of one node, and the cluster has 32 "):
        at_once(9, 3)
    with pytest.raises(InputError, match="a trial needs 64 CPUs and 0 GPUs of one node, and the cluster has 3 and 0 "):
        Resources(cpus=64).most(Capacity((Kind(3.0),)))


def test_what_a_trial_has_while_it_waits_for_its_workers() -> None:
    assert Resources(cpus=4, gpus=2, workers=2).waiting == Resources(cpus=0.1)
    assert Resources(cpus=0.1).share_of(Resources(cpus=4, gpus=2, workers=2)) == 0
    assert Resources(cpus=0.1).share_of(Resources(cpus=4, workers=2)) == 0.025
    assert Resources(cpus=2).waiting == Resources(cpus=2)


@pytest.mark.parametrize(
    ("had", "alike"),
    [
        (Resources(cpus=4, gpus=2, workers=2), True),
        (Resources(cpus=3.025, gpus=1.5, workers=2), True),  # its workers waited for a quarter of its time
        (Resources(cpus=1.075, gpus=0.5, workers=2), True),  # for three quarters
        (Resources(cpus=4, gpus=1, workers=2), False),  # half the share of a GPU
        (Resources(cpus=3.025, gpus=0.75, workers=2), False),
        (Resources(cpus=4, workers=2), False),
        (Resources(cpus=2, gpus=1), False),  # one worker
        (Resources(cpus=4, gpus=2), False),
        (Resources(cpus=6, gpus=3, workers=3), False),
        (Resources(cpus=4, gpus=2, workers=4), False),
    ],
)
def test_trials_of_two_workers_are_told_from_others(had: Resources, alike: bool) -> None:
    assert Resources(cpus=4, gpus=2, workers=2).of_kind(had) == alike


def test_trials_of_one_worker_are_told_from_others() -> None:
    assert Resources(cpus=2, gpus=0.5).of_kind(Resources(cpus=2, gpus=0.5))
    assert not Resources(cpus=2, gpus=0.5).of_kind(Resources(cpus=2, gpus=1.0))
    assert not Resources(cpus=2).of_kind(Resources(cpus=4))
    assert not Resources(cpus=2).of_kind(Resources(cpus=2, workers=2))
    assert Resources().of_kind(Resources())
