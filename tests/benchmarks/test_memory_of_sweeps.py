"""Memory of Tune's driver, of a trial's process and of Ray's own while trivial trials come and go.

Run with `-s` to see it; VSE_BENCHMARK_TRIALS=200 runs as many as a large sweep has.
"""

import functools
import os
import resource
from pathlib import Path

import pytest

from tests.faults.processes import Family
from tests.unit.sweeps import trials
from vse.storage.folder import Folder
from vse.sweeps.ledger import Entry, Ledger

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]
TRIALS = int(os.environ.get("VSE_BENCHMARK_TRIALS", "40"))
PARTS, LARGE = 4, 200
KINDS: tuple[str, ...] = ("driver", "trial", "Ray")


def private_mib(family: Family) -> dict[str, float]:
    """Memory that processes share with no other: the driver's, the largest trial's, and that of Ray's own together."""
    found: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    for process in family.alive():
        try:
            resident, shared = map(int, Path(f"/proc/{process.pid}/statm").read_text().split()[1:3])
        except OSError:
            continue
        size = (resident - shared) * resource.getpagesize() / 2**20
        if process.pid == os.getpid():
            found["driver"] = size
        elif "ray::ImplicitFunc" in process.title:
            found["trial"] = max(found["trial"], size)
        elif not process.title.startswith("ray::"):  # a worker that waits for work is neither
            found["Ray"] += size
    return found


def test_memory_stays_flat_while_trials_come_and_go(tmp_path: Path) -> None:
    from tests.unit.sweeps.running import run_sweep
    from vse.cluster.runtime import Config, running_ray

    seen: list[dict[str, float]] = []
    family, ended = Family(os.getpid()), 0

    def look(entry: Entry) -> None:
        nonlocal ended
        ended += 1
        if ended % (TRIALS // PARTS) == 0:
            seen.append(private_mib(family))

    with running_ray(Config(address="local", cpus=2, store_mib=80)):
        entries = run_sweep(
            Ledger(Folder.open(tmp_path)),
            [{"x": x} for x in range(TRIALS)],
            functools.partial(trials.sleep, seconds=0.0),
            on_end=look,
        )
    assert [entry.state for entry in entries] == ["finished"] * TRIALS
    print(f"\nMiB after each {TRIALS // PARTS} of {TRIALS} trials: ", end="")
    print("; ".join(f"{kind} {', '.join(f'{each[kind]:.1f}' for each in seen)}" for kind in KINDS))
    each = {kind: (seen[-1][kind] - seen[0][kind]) / (TRIALS - TRIALS // PARTS) for kind in KINDS}
    print(f"so over {LARGE}: {', '.join(f'{kind} {LARGE * pace:+.0f}' for kind, pace in each.items())}")
    assert LARGE * (each["driver"] + each["trial"]) < 50  # Ray's own agents grow while they start, trials or not
