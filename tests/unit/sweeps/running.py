"""Lists of trials on Tune, without a sweep around them."""

from collections.abc import Iterable, Mapping
from typing import Any

import ray

from vse.sweeps import experiment
from vse.sweeps.budget import Meter, Resources
from vse.sweeps.ledger import Entry, Ledger, trial_id
from vse.sweeps.proposals import TrialList
from vse.sweeps.recorder import Listener
from vse.sweeps.trial_process import Function


def run_sweep(
    ledger: Ledger,
    trials: Iterable[Mapping[str, Any]],
    function: Function,
    *,
    need: Resources | None = None,
    concurrency: int = 0,
    available: Mapping[str, float] | None = None,
    attempts: int = 2,
    meter: Meter | None = None,
    on_end: Listener | None = None,
) -> list[Entry]:
    """Run those of the given trials that have not finished; the ledger's entries of all of them, in the order given,
    except those that the meter held back. `available`: what the cluster can grow to, if that is more than it has."""
    asked = [dict(changes) for changes in trials]
    entries = {trial_id(changes): (changes, ledger.get(changes)) for changes in asked}
    pending = [changes for changes, entry in entries.values() if entry is None or not entry.complete]
    if pending:
        at_once = (need or Resources()).at_once(available or ray.cluster_resources(), concurrency)
        proposer = TrialList(pending, attempts)
        experiment.run_proposed(
            ledger,
            proposer,
            function,
            need=need,
            at_once=at_once,
            total=len(pending),
            meter=meter,
            on_end=on_end,
        )
    return [entry for changes in asked if (entry := ledger.get(changes)) is not None]
