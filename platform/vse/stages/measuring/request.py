"""What a process on another node needs to open a measurement by itself, as a trial opens its run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from vse.config import fingerprint
from vse.evaluation.task import Task
from vse.stages.measuring.options import SharedOptions
from vse.stages.measuring.plan import MeasurePlan, plan_measure, shared_options
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace


@dataclass(frozen=True, eq=False)
class MeasureRequest:
    """The arguments of `plan_measure`, with what the driver read outside the workspace.

    Args:
        runs: Addresses of their folders.
        workspace: Its address.
        external: `external.answers` of the driver's workspace.
        tasks: By name, as the driver made them: they hold what their files say.
        options: How to measure.
        weights: Fingerprints of those of the runs.
    """

    runs: tuple[str, ...]
    workspace: str
    external: Mapping[str, str]
    tasks: Mapping[str, Task]
    options: SharedOptions
    weights: tuple[str, ...] = ()

    @cached_property
    def digits(self) -> str:
        """Identifies the request within the processes of a job."""
        tasks = [[name, task.config, task.content()] for name, task in self.tasks.items()]
        return fingerprint([self.runs, self.weights, self.workspace, tasks, shared_options(self.options)])

    def plan(self) -> MeasurePlan:
        """The measurement, on the CPU."""
        workspace = Workspace.open(self.workspace, self.external)
        runs = [Folder.open(run) for run in self.runs]
        return plan_measure(runs, workspace, self.tasks, replace(self.options, device="cpu"))


def request_of(plan: MeasurePlan, tasks: Sequence[str] = ()) -> MeasureRequest:
    """The request of a measurement.

    Args:
        plan: The measurement.
        tasks: Names; by default of the tasks with adversaries, because other tasks need not be checked again.
    """
    workspace = plan.members.workspace
    attacking = [name for name, task in plan.tasks.items() if task.adversaries]
    requested = {name: plan.tasks.get(name) or plan.options.task(name) for name in tasks or attacking or ["retrieval"]}
    weights = tuple(member.trained.weights for member in plan.members.each)
    return MeasureRequest(plan.runs, workspace.root.uri, workspace.external.answers, requested, plan.options, weights)
