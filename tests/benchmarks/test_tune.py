"""What Tune costs a one-worker trial beyond its training. Run with `-s` to see the seconds."""

import functools
import time

import pytest

from tests.unit.sweeps import trials
from vse.storage.folder import Folder
from vse.sweeps.ledger import Ledger

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]
TRIALS, SECONDS = 20, 1.0


def test_a_trial_costs_little_beyond_its_training(tmp_path):
    from tests.unit.sweeps.running import run_sweep
    from vse.cluster.runtime import Config, running_ray

    work = functools.partial(trials.sleep, seconds=SECONDS)
    started = time.perf_counter()
    with running_ray(Config(address="local", cpus=2, store_mib=80)):
        ready = time.perf_counter()
        entries = run_sweep(Ledger(Folder.open(tmp_path)), [{"x": x} for x in range(TRIALS)], work)
        done = time.perf_counter()
    side_by_side = 2
    over = ((done - ready) * side_by_side - TRIALS * SECONDS) / TRIALS
    print(
        f"\n{TRIALS} trials of {SECONDS:g} s, two at a time: {done - ready:.1f} s, {over:.2f} s a trial beyond its work"
    )
    print(f"Ray started in {ready - started:.1f} s")
    assert len(entries) == TRIALS
    assert over < 2.0
