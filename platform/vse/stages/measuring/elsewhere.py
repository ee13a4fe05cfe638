"""Which tasks of a measurement another node of a cluster can do."""

import os
from collections.abc import Container, Iterator

from vse import registry
from vse.cluster.placement import capacity, on_every_node
from vse.config import flatten
from vse.data.images import local_file
from vse.errors import InputError
from vse.stages.measuring.plan import MeasurePlan
from vse.stages.measuring.shards import is_sharded
from vse.stages.measuring.work import joined_cluster
from vse.storage.files import local_path


def portable_tasks(plan: MeasurePlan, kept: Container[str]) -> list[str]:
    """Names of the tasks that another node can measure: if a node lacks files of the runs, only tasks on the workspace.

    Scores that are counted in shards have tasks of their own, and so have probes: the job's process waits for these.

    Args:
        plan: The measurement.
        kept: Names of the tasks that were measured before.
    """
    sharded = any(is_sharded(plan, part) for part in plan.parts)
    names = [
        name
        for name, task in plan.tasks.items()
        if name not in kept and not task.trains_probes and not (sharded and task.sharded)
    ]
    anywhere = [name for name in names if plan.tasks[name].portable]
    if len(anywhere) == len(names) or every_node_sees(tuple(sorted(set(user_paths(plan))))):
        return names
    return anywhere


def user_paths(plan: MeasurePlan) -> Iterator[str]:
    """Paths of this machine that a task may read: those in the runs' configurations, and an image of each split."""
    for member in plan.members.each:
        for value in flatten(member.config).values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, str) and each and local_path(each).exists():
                    yield each
    try:
        root = registry.build("source", plan.members.each[0].config.data).image_root
    except InputError:  # this process does not see the images either
        return
    for part in plan.parts:
        if part.images and (path := local_file(part.images[0].uri, root)):
            yield path


def every_node_sees(paths: tuple[str, ...]) -> bool:
    """Whether every node of the cluster sees these paths; True without paths, or with fewer than two nodes."""
    if not paths:
        return True
    with joined_cluster() as runs:
        return not runs or capacity().nodes < 2 or all(on_every_node(all_exist, paths).values())


def all_exist(paths: tuple[str, ...]) -> bool:
    """Whether this node sees all paths."""
    return all(map(os.path.exists, paths))
