"""How many trials fit side by side."""

import pytest

from vse.errors import InputError
from vse.sweeps.need import Need


def test_how_many_trials_fit() -> None:
    assert Need().at_once({"CPU": 3.0}) == 3
    assert Need().at_once({"CPU": 3.0}, wished=2) == 2
    assert Need(cpus=2).at_once({"CPU": 3.0}) == 1
    assert Need(cpus=1, gpus=0.5).at_once({"CPU": 16.0, "GPU": 2.0}) == 4
    # two workers of one CPU each and a driver: never so many drivers that no worker can start
    assert Need(cpus=2, nested=True).at_once({"CPU": 4.3}) == 2
    assert Need(cpus=2, nested=True).at_once({"CPU": 4.0}) == 1
    assert Need(cpus=2, nested=True).of_trial() == {"CPU": 0.1}
    with pytest.raises(InputError, match="a trial needs 4 CPUs and 0 GPUs, the cluster has 2 and 0"):
        Need(cpus=4).at_once({"CPU": 2.0})
    with pytest.raises(InputError, match="1 GPUs, the cluster has 8 and 0"):
        Need(gpus=1).at_once({"CPU": 8.0})
