"""Trained probes next to the numbers of a run, and who trains them: this process, or the tasks of a Ray cluster."""

import contextlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from vse.cluster.runtime import Config, cluster_of
from vse.display.progress import Progress
from vse.evaluation.probes.runner import Arrays, Job, ResultStore, Runner, plain_map, run_probes
from vse.stages.shards import ray_runs
from vse.storage.folder import Folder


@dataclass(frozen=True, slots=True)
class ProbeFolder(ResultStore):
    """Trained probes as .npz files, written atomically."""

    folder: Folder

    def read(self, name: str) -> Arrays | None:
        """The probe of a name; None if it is absent or damaged."""
        try:
            with np.load(io.BytesIO(self.folder.read_bytes(f"{name}.npz")), allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError, zipfile.BadZipFile):
            return None

    def write(self, name: str, result: Arrays) -> None:
        """Keep a probe."""
        sink = io.BytesIO()
        np.savez(sink, **result)  # type: ignore[arg-type]
        self.folder.write_bytes(f"{name}.npz", sink.getvalue())


@contextlib.contextmanager
def probe_runner() -> Iterator[Runner]:
    """Ray's tasks if Ray runs already or this job belongs to a cluster, else this process."""
    with ray_runs(cluster_of(Config())) as runs:
        if runs:
            from vse.stages.measuring.probes_ray import run_with_ray  # Ray takes seconds to import

            yield run_with_ray
        else:
            yield plain_map


def trained_probes(jobs: Sequence[Job], device: torch.device, folder: Folder | None) -> list[Arrays]:
    """Results in the order of the jobs, with progress.

    Args:
        jobs: Probes with seeds.
        device: Where to train.
        folder: Where results are read and kept; None to keep none.
    """
    with probe_runner() as train:

        def counted(missing: Sequence[Job], where: torch.device) -> Iterator[tuple[int, Arrays]]:
            with Progress("train probes", total=len(missing), unit="probes") as bar:
                for result in train(missing, where):
                    yield result
                    bar.advance()

        return run_probes(jobs, device, counted, None if folder is None else ProbeFolder(folder))
