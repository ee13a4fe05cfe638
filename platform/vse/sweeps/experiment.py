"""Trials as a Ray Tune experiment. Results are written to the ledger as trials end; no file of Tune is read back.

A trial with one worker computes in Tune's own actor, without Ray Train (a nested trainer takes some 17 s on two cores
before it trains). Actors are reused, so that a short trial starts no process.
"""

import functools
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import ConcurrencyLimiter

from vse.cluster import ray_private
from vse.cluster.capacity import Capacity, living
from vse.cluster.placement import capacity
from vse.cluster.runtime import LIFECYCLE, SPOT
from vse.display.progress import Progress
from vse.storage.files import scratch_folder
from vse.sweeps.budget import DRIVER_CPUS, Budget, Caps, Meter, Resources
from vse.sweeps.ledger import Ledger
from vse.sweeps.nodes import ResourceWatch, SickNodes
from vse.sweeps.proposals import AVOIDED, Proposer, TrialSearcher
from vse.sweeps.recorder import Listener, Recorder
from vse.sweeps.trial_process import Function, run_function

_ENVIRONMENT = {  # for Tune, in addition to what vse.cluster.runtime sets
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # of Tune's own state, which the ledger replaces
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output is written to stdout even at verbosity 0
}
_NODE_LABEL = "ray.io/node-id"


def run_proposed(
    ledger: Ledger,
    proposer: Proposer,
    function: Function,
    *,
    at_once: int,
    total: int | None = None,
    need: Resources | None = None,
    meter: Meter | None = None,
    scheduler: TrialScheduler | None = None,
    on_end: Listener | None = None,
) -> bool:
    """Run trials until the proposer has no more. The ledger and the proposer receive the end of each trial.

    If there are several nodes, a disk or GPU that fails on one of them does not end the sweep: the trial is retried,
    and later trials avoid that node.

    Args:
        ledger: Of the sweep.
        proposer: Proposes the next trial.
        function: changes -> result (plain data), importable from a module. It runs in another process. An exception is
            a failed trial.
        at_once: How many trials run side by side.
        total: How many there are, for the progress line.
        need: Resources of one trial.
        meter: What may be spent.
        scheduler: May end trials early by the epochs that they report.
        on_end: Called with every ended trial, in this process.

    Returns:
        Whether all proposed trials ran; False if the meter held some back.

    Raises:
        InputError: A trial was refused. It is raised after all other trials have ended.
        StorageError: Results cannot be written. It is raised after the running trials have ended.
        PlacementError: No node came for any trial.
    """
    assert ray.is_initialized(), "connect to Ray first (vse.cluster.runtime)"
    module = getattr(getattr(function, "func", function), "__module__", "")
    assert module != "__main__", "what Ray pickles must live in a module that workers can import"
    need = need or Resources()
    meter = meter or Meter(Budget(Caps(), need))
    sick = SickNodes(functools.partial(_one_node_alone, need))
    kept_to = _kept_to(need)

    def nodes() -> list[dict[str, Any]]:
        there = [node for node in ray.nodes() if not (kept_to and node["Labels"].get(LIFECYCLE) == SPOT)]
        return [node for node in there if node["NodeID"] not in sick.left_out()]

    waiting = ResourceWatch(need.of_trial(), nested=need.nested, nodes=nodes)
    with Progress("trials", total=total, unit="trials", every=20.0) as bar:
        searcher = TrialSearcher(proposer, meter, lambda: recorder.broken, sick, functools.partial(_elsewhere, need))
        # Tune would add the same wrapper; this one can be called for trials that Tune drops without a callback
        limited = ConcurrencyLimiter(searcher, max_concurrent=at_once)
        drop = functools.partial(limited.on_trial_complete, error=True)
        recorder = Recorder(ledger, bar, proposer, meter, waiting, sick, need, on_end, drop)
        settings = tune.TuneConfig(
            search_alg=limited,
            scheduler=scheduler,
            num_samples=-1,
            reuse_actors=True,
            trial_name_creator=_name,
            trial_dirname_creator=_name,
        )
        place = functools.partial(_place, resources=need.of_trial(), kept_to=kept_to)
        work = tune.with_resources(functools.partial(run_function, function=function), place)
        ray_private.keep_credentials_from_trials()
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # the ledger has the failures of trials
        try:
            with scratch_folder("tune") as scratch:
                run = tune.RunConfig(name="trials", storage_path=str(scratch), callbacks=[recorder], verbose=0)
                tune.Tuner(work, tune_config=settings, run_config=run).fit()
        finally:
            recorder.keep_running()
        recorder.conclude()
    return searcher.held_back is None


def _name(trial: Any) -> str:
    return f"trial-{trial.trial_id}"


def _place(config: dict[str, Any], resources: dict[str, float], kept_to: dict[str, str]) -> tune.PlacementGroupFactory:
    """The resources of a trial, on nodes that `kept_to` selects, except for the nodes that it avoids."""
    selector = dict(kept_to)
    if config.get(AVOIDED):
        selector[_NODE_LABEL] = f"!in({','.join(config[AVOIDED])})"
    if not selector:
        return tune.PlacementGroupFactory([resources])
    return tune.PlacementGroupFactory([resources], bundle_label_selector=[selector])


def _kept_to(need: Resources) -> dict[str, str]:
    """The selector of nodes for trials that start workers: no spot nodes, since the workers end with their trial.

    It is empty if no node is a spot node, or all are.
    """
    if not need.nested:
        return {}
    vanish = {kind.has({LIFECYCLE: SPOT}) for kind in capacity().kinds if kind.holds(DRIVER_CPUS, 0.0)}
    return {LIFECYCLE: f"!{SPOT}"} if len(vanish) == 2 else {}


def _one_node_alone(need: Resources) -> bool:
    """Whether trials have one node to run on, counting nodes that may still join."""
    return _holding(need, capacity()) < 2


def _elsewhere(need: Resources, left_out: Sequence[str]) -> bool:
    """Whether a trial could run on a node that is not `left_out`: one that is up, or one that may join."""
    up = living([node for node in ray.nodes() if node["NodeID"] in left_out])
    return _holding(need, capacity()) > _holding(need, up)


def _holding(need: Resources, could: Capacity) -> int:
    """The largest number of nodes that could each hold a trial."""
    resources = need.of_trial()
    cpus, gpus = resources.get("CPU", 0.0), resources.get("GPU", 0.0)
    return replace(could, kinds=tuple(kind for kind in could.kinds if kind.holds(cpus, gpus))).nodes
