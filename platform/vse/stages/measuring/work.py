"""Results of probes and shards next to the numbers of a run, and who computes them: this process, or tasks of Ray."""

import contextlib
import functools
import io
import zipfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch

from vse.cluster.placement import capacity, check_shared
from vse.cluster.runtime import Config, cluster_of
from vse.display.progress import Progress
from vse.evaluation.work import Arrays, Job, ResultStore, Runner, plain_map, run_jobs
from vse.stages.shards import ray_runs
from vse.storage.folder import Folder


@dataclass(frozen=True, slots=True)
class ResultFolder(ResultStore):
    """Results as .npz files, written atomically."""

    folder: Folder

    def read(self, name: str) -> Arrays | None:
        """The result of a name; None if it is absent or damaged."""
        try:
            with np.load(io.BytesIO(self.folder.read_bytes(f"{name}.npz")), allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError, zipfile.BadZipFile):
            return None

    def write(self, name: str, result: Arrays) -> None:
        """Keep a result."""
        sink = io.BytesIO()
        np.savez(sink, **result)  # pyrefly: ignore[bad-argument-type]  # no array has the name of an option
        self.folder.write_bytes(f"{name}.npz", sink.getvalue())


def joined_cluster() -> AbstractContextManager[bool]:
    """Whether Ray can be used in the body: it runs, or this process belongs to a cluster, which is joined.

    Joining takes seconds. In the body of an outer call it is joined already.
    """
    return ray_runs(cluster_of(Config()))


@contextlib.contextmanager
def work_runner(any_device: bool = False, workspace: str = "") -> Generator[Runner]:
    """Ray's tasks if Ray runs already or this job belongs to a cluster, else this process.

    Args:
        any_device: Whether tasks take GPUs if the cluster has any, whatever the device that is asked for.
        workspace: Address of the workspace if tasks open it.

    Raises:
        InputError: A node does not see the workspace.
    """
    with joined_cluster() as runs:
        if runs:
            if workspace:
                check_shared(workspace)
            from vse.stages.measuring.work_ray import run_with_ray  # Ray takes seconds to import

            yield functools.partial(run_with_ray, any_device=any_device)
        else:
            yield plain_map


def gpus_elsewhere(device: torch.device) -> bool:
    """Whether a cluster has GPUs for work of any device, and this process, which computes on `device`, has none."""
    if device.type != "cpu":
        return False
    with joined_cluster() as runs:
        return runs and capacity().total()["GPU"] > 0


def computed(
    jobs: Sequence[Job],
    device: torch.device,
    folder: Folder | None,
    title: str,
    *,
    any_device: bool = False,
    workspace: str = "",
) -> list[Arrays]:
    """Results in the order of the jobs, with progress.

    Args:
        jobs: What to compute.
        device: Where.
        folder: Where results are read and kept; None to keep none.
        title: What the progress bar says.
        any_device: As for `work_runner`.
        workspace: As for `work_runner`.
    """
    with work_runner(any_device, workspace) as run:

        def counted(missing: Sequence[Job], where: torch.device) -> Iterator[tuple[int, Arrays]]:
            with Progress(title, total=len(missing), unit=title.split()[-1]) as bar:
                for result in run(missing, where):
                    yield result
                    bar.advance()

        return run_jobs(jobs, device, counted, None if folder is None else ResultFolder(folder))


def computed_on_cluster(
    jobs: Sequence[Job], device: torch.device, title: str, *, any_device: bool, workspace: str
) -> list[Arrays] | None:
    """Results of tasks of a cluster with other nodes, or with GPUs if this process has none; None without such a one.

    Args:
        jobs: What to compute.
        device: Where this process computes.
        title: What the progress bar says.
        any_device: As for `work_runner`.
        workspace: As for `work_runner`.
    """
    with joined_cluster() as runs:
        if not runs or not (capacity().nodes > 1 or gpus_elsewhere(device)):
            return None
        return computed(jobs, device, None, title, any_device=any_device, workspace=workspace)
